//! Conversations: the tasks of each thread, and user feedback on them.

use super::PostgresStore;
use super::ops::{CheckedStep, OnZeroRows, checked_step, params};
use super::pipeline::Param;
use super::text_encoding::{escape_nul, unescape_nul};
use super::work_queue::limit_param;
use crate::codec::{
    CONVERSATION_SCAN_LIMIT, int_from_column, int_to_column, parse_enum, parse_id,
    timestamp_from_column,
};
use async_trait::async_trait;
use interzone_hub::ports::{ConversationPage, ConversationStore, StoreError};
use interzone_hub::{
    Conversation, ConversationQuery, Feedback, ThreadKey, ThreadOrigin, ThreadTask,
};
use interzone_protocol::vocab::{TaskId, TaskState};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// Columns that [`read_thread_task`] reads, in its order.
macro_rules! thread_task_columns {
    () => {
        "q.number, q.task_id, q.team, q.channel, q.thread, q.user_id, q.created_at, t.state, t.agent"
    };
}

/// Selects the threads of the latest thread_tasks below a number, each by its last question, without those
/// shown on an earlier page. Every row also has the number of thread_tasks scanned and the last one scanned;
/// a row without a task has only these.
macro_rules! conversation_query {
    ($by:literal, $seen:literal) => {
        concat!(
            "WITH looked AS (
                 SELECT number, team, channel, thread FROM thread_tasks WHERE number < $1 ",
            $by,
            " ORDER BY number DESC LIMIT $3),
             page AS (
                 SELECT number FROM (
                     SELECT max(number) AS number, team, channel, thread FROM looked
                     GROUP BY team, channel, thread) AS l
                 WHERE NOT (SELECT EXISTS (
                     SELECT FROM thread_tasks AS n WHERE n.team = l.team AND n.channel = l.channel
                         AND n.thread = l.thread AND n.number >= $1 ",
            $seen,
            ")) ORDER BY number DESC LIMIT $4)
             SELECT w.least, w.many, ",
            thread_task_columns!(),
            ", (SELECT count(*) FROM (
                    SELECT FROM thread_tasks AS c WHERE c.team = q.team AND c.channel = q.channel
                        AND c.thread = q.thread LIMIT $5) AS c),
                (SELECT count(*) FROM feedback AS f WHERE f.is_positive AND f.task_id = ANY (ARRAY(
                    SELECT c.task_id FROM thread_tasks AS c WHERE c.team = q.team
                        AND c.channel = q.channel AND c.thread = q.thread
                    ORDER BY c.number DESC LIMIT $5))),
                (SELECT count(*) FROM feedback AS f WHERE NOT f.is_positive AND f.task_id = ANY (ARRAY(
                    SELECT c.task_id FROM thread_tasks AS c WHERE c.team = q.team
                        AND c.channel = q.channel AND c.thread = q.thread
                    ORDER BY c.number DESC LIMIT $5)))
             FROM (SELECT min(number) AS least, count(*) AS many FROM looked) AS w
             LEFT JOIN (page AS p
                 CROSS JOIN LATERAL (SELECT * FROM thread_tasks WHERE number = p.number OFFSET 0) AS q
                 CROSS JOIN LATERAL (SELECT * FROM tasks WHERE id = q.task_id OFFSET 0) AS t) ON true
             ORDER BY q.number DESC"
        )
    };
}

const CONVERSATIONS_OF_ALL_USERS: &str = conversation_query!("AND $2::text IS NULL", "");
const CONVERSATIONS_OF_USER: &str =
    conversation_query!("AND user_id = $2::text", "AND n.user_id = $2::text");

const TASKS_OF_THREAD: &str = concat!(
    "SELECT ",
    thread_task_columns!(),
    " FROM thread_tasks AS q
      CROSS JOIN LATERAL (SELECT * FROM tasks WHERE id = q.task_id OFFSET 0) AS t
      WHERE q.team = $1 AND q.channel = $2 AND q.thread = $3 AND q.number < $4
      ORDER BY q.number DESC LIMIT $5"
);

const THREAD_OF_TASK: &str = concat!(
    "SELECT ",
    thread_task_columns!(),
    " FROM thread_tasks AS q
      CROSS JOIN LATERAL (SELECT * FROM tasks WHERE id = q.task_id OFFSET 0) AS t WHERE q.task_id = $1"
);

/// Upserts feedback; newer feedback wins, and counts as stored. The task is locked so that it is not purged meanwhile.
const UPSERT_FEEDBACK: &str = "
    INSERT INTO feedback (task_id, author, is_positive, comment, given_at)
    SELECT $1::text, $2::text, $3::boolean, $4::text, $5::bigint
    FROM (SELECT FROM tasks WHERE id = $1 FOR KEY SHARE) AS there
    WHERE EXISTS (SELECT FROM feedback WHERE task_id = $1 AND author = $2)
       OR (SELECT count(*) FROM feedback WHERE task_id = $1) < $6
    ON CONFLICT (task_id, author) DO UPDATE SET
        is_positive = CASE WHEN excluded.given_at >= feedback.given_at THEN excluded.is_positive
                           ELSE feedback.is_positive END,
        comment = CASE WHEN excluded.given_at >= feedback.given_at THEN excluded.comment
                       ELSE feedback.comment END,
        given_at = greatest(excluded.given_at, feedback.given_at)
    RETURNING true";

#[async_trait]
impl ConversationStore for PostgresStore {
    async fn conversations(
        &self,
        query: &ConversationQuery,
    ) -> Result<ConversationPage, StoreError> {
        let sql = if query.user.is_some() {
            CONVERSATIONS_OF_USER
        } else {
            CONVERSATIONS_OF_ALL_USERS
        };
        let user = query.user.as_deref().map(escape_nul);
        let (before, limit_param) = (before_param(query), limit_param(query.limit));
        let counted = int_to_column(Conversation::MAX_COUNTED_TASKS);
        let params: [&(dyn ToSql + Sync); 5] = [
            &before,
            &user,
            &CONVERSATION_SCAN_LIMIT,
            &limit_param,
            &counted,
        ];
        let rows = self.tx_runner.query(sql, &params).await?;
        let (last_scanned, scanned) = rows.first().map_or((None, 0), |row| {
            (row.get::<_, Option<i64>>(0), row.get::<_, i64>(1))
        });
        let matching = rows
            .iter()
            .filter(|row| row.get::<_, Option<i64>>(2).is_some());
        let found: Vec<Conversation> = matching.map(read_conversation).collect::<Result<_, _>>()?;
        let next = match last_scanned {
            _ if found.len() >= query.limit => found.last().map(|one| one.last_task.number),
            Some(least) if scanned >= CONVERSATION_SCAN_LIMIT => {
                Some(int_from_column("a talk", least)?)
            }
            _ => None,
        };
        Ok(ConversationPage {
            conversations: found,
            next,
        })
    }

    async fn thread_tasks(
        &self,
        thread: &ThreadKey,
        query: &ConversationQuery,
    ) -> Result<Vec<ThreadTask>, StoreError> {
        let [team, channel, name] =
            [&thread.team, &thread.channel, &thread.thread].map(|name| escape_nul(name));
        let (before, limit_param) = (before_param(query), limit_param(query.limit));
        let params: [&(dyn ToSql + Sync); 5] = [&team, &channel, &name, &before, &limit_param];
        let rows = self.tx_runner.query(TASKS_OF_THREAD, &params).await?;
        rows.iter().map(|row| read_thread_task(row, 0)).collect()
    }

    async fn thread_task(&self, id: &TaskId) -> Result<Option<ThreadTask>, StoreError> {
        let rows = self
            .tx_runner
            .query(THREAD_OF_TASK, &[&id.as_str()])
            .await?;
        rows.first().map(|row| read_thread_task(row, 0)).transpose()
    }

    async fn put_feedback(&self, feedback: &Feedback) -> Result<bool, StoreError> {
        let (id, who) = (feedback.task_id.as_str(), escape_nul(&feedback.author));
        let comment = feedback.comment.as_deref().map(escape_nul);
        let at = feedback.given_at.as_millis();
        let max_per_task = int_to_column(Feedback::MAX_PER_TASK as u64);
        let params: [&(dyn ToSql + Sync); 6] = [
            &id,
            &who,
            &feedback.is_positive,
            &comment,
            &at,
            &max_per_task,
        ];
        self.write_if_found("give_feedback", UPSERT_FEEDBACK, &params)
            .await
    }

    async fn feedback(&self, tasks: &[TaskId]) -> Result<Vec<Feedback>, StoreError> {
        let ids: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
        let sql = "SELECT task_id, author, is_positive, comment, given_at FROM feedback
                   WHERE task_id = ANY ($1)
                   ORDER BY array_position($1, task_id), given_at DESC, author";
        let rows = self.tx_runner.query(sql, &[&ids]).await?;
        let read = |row: &Row| {
            Ok(Feedback {
                task_id: parse_id("feedback", row.get(0))?,
                author: unescape_nul(row.get(1)),
                is_positive: row.get(2),
                comment: row.get::<_, Option<&str>>(3).map(unescape_nul),
                given_at: timestamp_from_column(row.get(4)),
            })
        };
        rows.iter().map(read).collect()
    }
}

fn before_param(query: &ConversationQuery) -> i64 {
    query.before.map_or(i64::MAX, int_to_column)
}

fn read_conversation(row: &Row) -> Result<Conversation, StoreError> {
    Ok(Conversation {
        last_task: read_thread_task(row, 2)?,
        task_count: int_from_column("a talk", row.get(11))?,
        positive_feedback: int_from_column("a talk", row.get(12))?,
        negative_feedback: int_from_column("a talk", row.get(13))?,
    })
}

/// Reads a thread task whose columns begin at `first`.
fn read_thread_task(row: &Row, first: usize) -> Result<ThreadTask, StoreError> {
    let text = |offset: usize| unescape_nul(row.get(first + offset));
    Ok(ThreadTask {
        number: int_from_column("a question", row.get(first))?,
        task_id: parse_id("a question", row.get(first + 1))?,
        origin: ThreadOrigin {
            thread: ThreadKey {
                team: text(2),
                channel: text(3),
                thread: text(4),
            },
            user: text(5),
        },
        created_at: timestamp_from_column(row.get(first + 6)),
        state: parse_enum("a question", row.get(first + 7), TaskState::from_name)?,
        agent: parse_id("a question", row.get(first + 8))?,
    })
}

/// Records the thread in which a task was created.
pub(super) fn record_thread<'a>(
    task_id: &'a TaskId,
    asking: &'a ThreadOrigin,
    at: i64,
) -> CheckedStep<'a> {
    let thread = &asking.thread;
    checked_step(
        "INSERT INTO thread_tasks (task_id, team, channel, thread, user_id, created_at)
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
        params![
            task_id.as_str(),
            escape_nul(&thread.team),
            escape_nul(&thread.channel),
            escape_nul(&thread.thread),
            escape_nul(&asking.user),
            at
        ],
        OnZeroRows::Conflict,
    )
}
