//! Which tasks were asked for in which thread, and what people think of them.

use super::SqliteStore;
use super::fault::Outcome;
use super::job::Session;
use super::rows::{all, first, text};
use crate::codec::{LOOKED_AT, column, count, moment, name, word};
use async_trait::async_trait;
use interzone_hub::ports::{Conversations, StoreError, TalkStore};
use interzone_hub::{Asking, Conversation, Feedback, Question, TalkQuery, Thread};
use interzone_protocol::vocab::{TaskId, TaskState, Timestamp};
use rusqlite::{Connection, Row, params};
use std::collections::HashSet;

/// The columns that [`question`] expects, in its order.
macro_rules! question_columns {
    () => {
        "q.number, q.task_id, q.team, q.channel, q.thread, q.asker, q.at, t.state, t.agent"
    };
}

/// The latest questions before a place, by anybody or by one.
const LATEST: &str = "SELECT number, team, channel, thread, task_id FROM questions \
    WHERE number < ?1 ORDER BY number DESC LIMIT ?2";
const LATEST_OF_ONE: &str = "SELECT number, team, channel, thread, task_id FROM questions \
    INDEXED BY questions_of_asker WHERE asker = ?3 AND number < ?1 ORDER BY number DESC LIMIT ?2";

/// Whether a thread was on an earlier page of the list.
const SEEN: &str = "SELECT 1 FROM questions INDEXED BY questions_of_thread WHERE team = ?1 \
    AND channel = ?2 AND thread = ?3 AND number >= ?4 AND (?5 IS NULL OR asker = ?5) LIMIT 1";

/// A conversation by its last question.
macro_rules! opinions {
    ($good:literal) => {
        concat!(
            ", (SELECT count(*) FROM feedback AS f WHERE f.good = ",
            $good,
            " AND f.task_id IN (SELECT c.task_id FROM questions AS c WHERE c.team = q.team \
               AND c.channel = q.channel AND c.thread = q.thread ORDER BY c.number DESC LIMIT ?2))"
        )
    };
}
const CONVERSATION: &str = concat!(
    "SELECT ",
    question_columns!(),
    ", (SELECT count(*) FROM (SELECT 1 FROM questions AS c WHERE c.team = q.team \
        AND c.channel = q.channel AND c.thread = q.thread LIMIT ?2))",
    opinions!(1),
    opinions!(0),
    " FROM questions AS q INDEXED BY sqlite_autoindex_questions_1 \
     CROSS JOIN tasks AS t INDEXED BY sqlite_autoindex_tasks_1 ON t.id = q.task_id WHERE q.task_id = ?1"
);

const OF_THREAD: &str = concat!(
    "SELECT ",
    question_columns!(),
    " FROM questions AS q INDEXED BY questions_of_thread \
     CROSS JOIN tasks AS t INDEXED BY sqlite_autoindex_tasks_1 ON t.id = q.task_id \
     WHERE q.team = ?1 AND q.channel = ?2 AND q.thread = ?3 AND q.number < ?4 \
     ORDER BY q.number DESC LIMIT ?5"
);

const OF_TASK: &str = concat!(
    "SELECT ",
    question_columns!(),
    " FROM questions AS q INDEXED BY sqlite_autoindex_questions_1 \
     CROSS JOIN tasks AS t INDEXED BY sqlite_autoindex_tasks_1 ON t.id = q.task_id WHERE q.task_id = ?1"
);

/// What is newer stays, and counts as kept.
const GIVE: &str = "INSERT INTO feedback (task_id, who, good, comment, at) \
    SELECT ?1, ?2, ?3, ?4, ?5 FROM tasks WHERE id = ?1 \
        AND (EXISTS (SELECT 1 FROM feedback WHERE task_id = ?1 AND who = ?2) \
             OR (SELECT count(*) FROM feedback WHERE task_id = ?1) < ?6) \
    ON CONFLICT (task_id, who) DO UPDATE SET \
        good = CASE WHEN excluded.at >= at THEN excluded.good ELSE good END, \
        comment = CASE WHEN excluded.at >= at THEN excluded.comment ELSE comment END, \
        at = max(excluded.at, at)";

#[async_trait]
impl TalkStore for SqliteStore {
    async fn conversations(&self, query: &TalkQuery) -> Result<Conversations, StoreError> {
        let query = query.clone();
        self.read(move |connection| conversations(connection, &query))
            .await
    }

    async fn questions(
        &self,
        thread: &Thread,
        query: &TalkQuery,
    ) -> Result<Vec<Question>, StoreError> {
        let (thread, before) = (thread.clone(), before(query));
        let limit = column(query.limit as u64);
        self.read(move |connection| {
            let values = params![thread.team, thread.channel, thread.thread, before, limit];
            all(connection, OF_THREAD, values, question)
        })
        .await
    }

    async fn question(&self, id: &TaskId) -> Result<Option<Question>, StoreError> {
        let id = id.clone();
        self.read(move |connection| first(connection, OF_TASK, [id.as_str()], question))
            .await
    }

    async fn give_feedback(&self, feedback: &Feedback) -> Result<bool, StoreError> {
        let given = feedback.clone();
        self.write(move |session| {
            let values = params![
                given.task_id.as_str(),
                given.who,
                given.good,
                given.comment,
                given.at.as_millis(),
                column(Feedback::MOST as u64)
            ];
            Ok(session.run(GIVE, values)? > 0)
        })
        .await
    }

    async fn feedback(&self, tasks: &[TaskId]) -> Result<Vec<Feedback>, StoreError> {
        let tasks = tasks.to_vec();
        self.read(move |connection| {
            let sql = "SELECT who, good, comment, at FROM feedback WHERE task_id = ?1 \
                ORDER BY at DESC, who";
            let mut found = Vec::new();
            for id in tasks {
                found.extend(all(connection, sql, [id.as_str()], |row| {
                    Ok(Feedback {
                        task_id: id.clone(),
                        who: row.get(0)?,
                        good: row.get(1)?,
                        comment: row.get(2)?,
                        at: moment(row.get(3)?),
                    })
                })?);
            }
            Ok(found)
        })
        .await
    }
}

fn before(query: &TalkQuery) -> i64 {
    query.before.map_or(i64::MAX, column)
}

/// Walks from question to question and keeps the threads that it meets for the first time, until there are
/// enough: a page costs what it shows, unless few threads have very many questions.
fn conversations(connection: &Connection, query: &TalkQuery) -> Outcome<Conversations> {
    // All of it must be of the same moment.
    let transaction = connection.unchecked_transaction()?;
    let (before, user) = (before(query), query.user.as_deref());
    let (mut met, mut last) = (HashSet::new(), Vec::new());
    let (mut looked, mut next) = (0, None);
    {
        let sql = if user.is_some() {
            LATEST_OF_ONE
        } else {
            LATEST
        };
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = match user {
            Some(user) => statement.query(params![before, LOOKED_AT, user])?,
            None => statement.query(params![before, LOOKED_AT])?,
        };
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            let thread: [String; 3] = [row.get(1)?, row.get(2)?, row.get(3)?];
            looked += 1;
            if last.len() >= query.limit {
                // The next page begins with this one.
                next = Some(number + 1);
                break;
            }
            if looked == LOOKED_AT {
                next = Some(number);
            }
            if !met.insert(thread.clone()) {
                continue;
            }
            let [team, channel, thread] = thread;
            let values = params![team, channel, thread, before, user];
            let is_seen =
                query.before.is_some() && first(connection, SEEN, values, |_| Ok(()))?.is_some();
            if !is_seen {
                last.push(row.get::<_, String>(4)?);
            }
        }
    }
    let counted = column(Conversation::COUNTED);
    let mut found = Vec::with_capacity(last.len());
    for task_id in last {
        found.extend(first(
            connection,
            CONVERSATION,
            params![task_id, counted],
            |row| {
                Ok(Conversation {
                    last: question(row)?,
                    questions: count("a talk", row.get(9)?)?,
                    good: count("a talk", row.get(10)?)?,
                    bad: count("a talk", row.get(11)?)?,
                })
            },
        )?);
    }
    transaction.finish()?;
    let next = next.map(|next| count("a talk", next)).transpose()?;
    Ok(Conversations { found, next })
}

fn question(row: &Row<'_>) -> Outcome<Question> {
    Ok(Question {
        number: count("a question", row.get(0)?)?,
        task_id: word("a question", text(row, 1)?)?,
        asking: Asking {
            thread: Thread {
                team: row.get(2)?,
                channel: row.get(3)?,
                thread: row.get(4)?,
            },
            user: row.get(5)?,
        },
        at: moment(row.get(6)?),
        state: name("a question", text(row, 7)?, TaskState::from_name)?,
        agent: word("a question", text(row, 8)?)?,
    })
}

/// Notes where a task was asked for.
pub(super) fn note(
    session: &Session<'_>,
    id: &TaskId,
    asking: &Asking,
    at: Timestamp,
) -> Outcome<()> {
    let sql = "INSERT INTO questions (task_id, team, channel, thread, asker, at) \
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
