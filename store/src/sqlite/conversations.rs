//! Conversations: the tasks of each thread, and user feedback on them.

use super::SqliteStore;
use super::error::SqliteResult;
use super::rows::{all, first, text};
use super::write_job::WriteSession;
use crate::codec::{
    CONVERSATION_SCAN_LIMIT, int_from_column, int_to_column, parse_enum, parse_id,
    timestamp_from_column,
};
use async_trait::async_trait;
use interzone_hub::ports::{ConversationPage, ConversationStore, StoreError};
use interzone_hub::{
    Conversation, ConversationQuery, Feedback, ThreadKey, ThreadOrigin, ThreadTask,
};
use interzone_protocol::vocab::{TaskId, TaskState, Timestamp};
use rusqlite::{Connection, Row, params};
use std::collections::HashSet;

/// Columns that [`read_thread_task`] reads, in its order.
macro_rules! thread_task_columns {
    () => {
        "q.number, q.task_id, q.team, q.channel, q.thread, q.user_id, q.created_at, t.state, t.agent"
    };
}

/// Latest thread_tasks below a number, of all users or of one.
const LATEST_OF_ALL_USERS: &str = "SELECT number, team, channel, thread, task_id FROM thread_tasks \
    WHERE number < ?1 ORDER BY number DESC LIMIT ?2";
const LATEST_OF_USER: &str = "SELECT number, team, channel, thread, task_id FROM thread_tasks \
    INDEXED BY thread_tasks_by_user WHERE user_id = ?3 AND number < ?1 ORDER BY number DESC LIMIT ?2";

/// Finds out whether a thread was on an earlier page of the list.
const SHOWN_EARLIER: &str = "SELECT 1 FROM thread_tasks INDEXED BY thread_tasks_by_thread WHERE team = ?1 \
    AND channel = ?2 AND thread = ?3 AND number >= ?4 AND (?5 IS NULL OR user_id = ?5) LIMIT 1";

/// Counts the good or bad feedback of a thread.
macro_rules! feedback_count {
    ($good:literal) => {
        concat!(
            ", (SELECT count(*) FROM feedback AS f WHERE f.is_positive = ",
            $good,
            " AND f.task_id IN (SELECT c.task_id FROM thread_tasks AS c WHERE c.team = q.team \
               AND c.channel = q.channel AND c.thread = q.thread ORDER BY c.number DESC LIMIT ?2))"
        )
    };
}
const SELECT_CONVERSATION: &str = concat!(
    "SELECT ",
    thread_task_columns!(),
    ", (SELECT count(*) FROM (SELECT 1 FROM thread_tasks AS c WHERE c.team = q.team \
        AND c.channel = q.channel AND c.thread = q.thread LIMIT ?2))",
    feedback_count!(1),
    feedback_count!(0),
    " FROM thread_tasks AS q INDEXED BY sqlite_autoindex_thread_tasks_1 \
     CROSS JOIN tasks AS t INDEXED BY sqlite_autoindex_tasks_1 ON t.id = q.task_id WHERE q.task_id = ?1"
);

const TASKS_OF_THREAD: &str = concat!(
    "SELECT ",
    thread_task_columns!(),
    " FROM thread_tasks AS q INDEXED BY thread_tasks_by_thread \
     CROSS JOIN tasks AS t INDEXED BY sqlite_autoindex_tasks_1 ON t.id = q.task_id \
     WHERE q.team = ?1 AND q.channel = ?2 AND q.thread = ?3 AND q.number < ?4 \
     ORDER BY q.number DESC LIMIT ?5"
);

const THREAD_OF_TASK: &str = concat!(
    "SELECT ",
    thread_task_columns!(),
    " FROM thread_tasks AS q INDEXED BY sqlite_autoindex_thread_tasks_1 \
     CROSS JOIN tasks AS t INDEXED BY sqlite_autoindex_tasks_1 ON t.id = q.task_id WHERE q.task_id = ?1"
);

/// Upserts feedback; newer feedback wins, and counts as stored.
const UPSERT_FEEDBACK: &str = "INSERT INTO feedback (task_id, author, is_positive, comment, given_at) \
    SELECT ?1, ?2, ?3, ?4, ?5 FROM tasks WHERE id = ?1 \
        AND (EXISTS (SELECT 1 FROM feedback WHERE task_id = ?1 AND author = ?2) \
             OR (SELECT count(*) FROM feedback WHERE task_id = ?1) < ?6) \
    ON CONFLICT (task_id, author) DO UPDATE SET \
        is_positive = CASE WHEN excluded.given_at >= given_at THEN excluded.is_positive ELSE is_positive END, \
        comment = CASE WHEN excluded.given_at >= given_at THEN excluded.comment ELSE comment END, \
        given_at = max(excluded.given_at, given_at)";

#[async_trait]
impl ConversationStore for SqliteStore {
    async fn conversations(
        &self,
        query: &ConversationQuery,
    ) -> Result<ConversationPage, StoreError> {
        let query = query.clone();
        self.read(move |connection| list_conversations(connection, &query))
            .await
    }

    async fn thread_tasks(
        &self,
        thread: &ThreadKey,
        query: &ConversationQuery,
    ) -> Result<Vec<ThreadTask>, StoreError> {
        let (thread, before) = (thread.clone(), before_param(query));
        let limit = int_to_column(query.limit as u64);
        self.read(move |connection| {
            let values = params![thread.team, thread.channel, thread.thread, before, limit];
            all(connection, TASKS_OF_THREAD, values, read_thread_task)
        })
        .await
    }

    async fn thread_task(&self, id: &TaskId) -> Result<Option<ThreadTask>, StoreError> {
        let id = id.clone();
        self.read(move |connection| {
            first(connection, THREAD_OF_TASK, [id.as_str()], read_thread_task)
        })
        .await
    }

    async fn put_feedback(&self, feedback: &Feedback) -> Result<bool, StoreError> {
        let feedback = feedback.clone();
        self.write(move |session| {
            let values = params![
                feedback.task_id.as_str(),
                feedback.author,
                feedback.is_positive,
                feedback.comment,
                feedback.given_at.as_millis(),
                int_to_column(Feedback::MAX_PER_TASK as u64)
            ];
            Ok(session.run(UPSERT_FEEDBACK, values)? > 0)
        })
        .await
    }

    async fn feedback(&self, tasks: &[TaskId]) -> Result<Vec<Feedback>, StoreError> {
        let tasks = tasks.to_vec();
        self.read(move |connection| {
            let sql = "SELECT author, is_positive, comment, given_at FROM feedback WHERE task_id = ?1 \
                ORDER BY given_at DESC, author";
            let mut found = Vec::new();
            for id in tasks {
                found.extend(all(connection, sql, [id.as_str()], |row| {
                    Ok(Feedback {
                        task_id: id.clone(),
                        author: row.get(0)?,
                        is_positive: row.get(1)?,
                        comment: row.get(2)?,
                        given_at: timestamp_from_column(row.get(3)?),
                    })
                })?);
            }
            Ok(found)
        })
        .await
    }
}

fn before_param(query: &ConversationQuery) -> i64 {
    query.before.map_or(i64::MAX, int_to_column)
}

/// Lists the threads of the newest questions: reads one question after the other and collects new threads until the
/// page is full. The cost is proportional to the page, unless a few threads have very many questions.
fn list_conversations(
    connection: &Connection,
    query: &ConversationQuery,
) -> SqliteResult<ConversationPage> {
    // All queries must read one snapshot.
    let transaction = connection.unchecked_transaction()?;
    let (before, user) = (before_param(query), query.user.as_deref());
    let (mut visited, mut last_tasks) = (HashSet::new(), Vec::new());
    let (mut scanned, mut next) = (0, None);
    {
        let sql = if user.is_some() {
            LATEST_OF_USER
        } else {
            LATEST_OF_ALL_USERS
        };
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = match user {
            Some(user) => statement.query(params![before, CONVERSATION_SCAN_LIMIT, user])?,
            None => statement.query(params![before, CONVERSATION_SCAN_LIMIT])?,
        };
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            let thread: [String; 3] = [row.get(1)?, row.get(2)?, row.get(3)?];
            scanned += 1;
            if last_tasks.len() >= query.limit {
                // The next page begins with this one.
                next = Some(number + 1);
                break;
            }
            if scanned == CONVERSATION_SCAN_LIMIT {
                next = Some(number);
            }
            if !visited.insert(thread.clone()) {
                continue;
            }
            let [team, channel, thread] = thread;
            let values = params![team, channel, thread, before, user];
            let was_shown = query.before.is_some()
                && first(connection, SHOWN_EARLIER, values, |_| Ok(()))?.is_some();
            if !was_shown {
                last_tasks.push(row.get::<_, String>(4)?);
            }
        }
    }
    let counted = int_to_column(Conversation::MAX_COUNTED_TASKS);
    let mut found = Vec::with_capacity(last_tasks.len());
    for task_id in last_tasks {
        found.extend(first(
            connection,
            SELECT_CONVERSATION,
            params![task_id, counted],
            |row| {
                Ok(Conversation {
                    last_task: read_thread_task(row)?,
                    task_count: int_from_column("a talk", row.get(9)?)?,
                    positive_feedback: int_from_column("a talk", row.get(10)?)?,
                    negative_feedback: int_from_column("a talk", row.get(11)?)?,
                })
            },
        )?);
    }
    transaction.finish()?;
    let next = next
        .map(|next| int_from_column("a talk", next))
        .transpose()?;
    Ok(ConversationPage {
        conversations: found,
        next,
    })
}

fn read_thread_task(row: &Row<'_>) -> SqliteResult<ThreadTask> {
    Ok(ThreadTask {
        number: int_from_column("a question", row.get(0)?)?,
        task_id: parse_id("a question", text(row, 1)?)?,
        origin: ThreadOrigin {
            thread: ThreadKey {
                team: row.get(2)?,
                channel: row.get(3)?,
                thread: row.get(4)?,
            },
            user: row.get(5)?,
        },
        created_at: timestamp_from_column(row.get(6)?),
        state: parse_enum("a question", text(row, 7)?, TaskState::from_name)?,
        agent: parse_id("a question", text(row, 8)?)?,
    })
}

/// Records the thread in which a task was created.
pub(super) fn record_thread(
    session: &WriteSession<'_>,
    id: &TaskId,
    asking: &ThreadOrigin,
    at: Timestamp,
) -> SqliteResult<()> {
    let sql = "INSERT INTO thread_tasks (task_id, team, channel, thread, user_id, created_at) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let thread = &asking.thread;
    let values = params![
        id.as_str(),
        thread.team,
        thread.channel,
        thread.thread,
        asking.user,
        at.as_millis()
    ];
    session.run(sql, values).map(|_| ())
}
