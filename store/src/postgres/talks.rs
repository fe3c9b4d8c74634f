//! Which tasks were asked for in which thread, and what people think of them.

use super::PostgresStore;
use super::ops::{Checked, IfNone, params, step};
use super::pipeline::Param;
use super::text::{escaped, unescaped};
use super::work::limit;
use crate::codec::{LOOKED_AT, column, count, moment, name, word};
use async_trait::async_trait;
use interzone_hub::ports::{Conversations, StoreError, TalkStore};
use interzone_hub::{Asking, Conversation, Feedback, Question, TalkQuery, Thread};
use interzone_protocol::vocab::{TaskId, TaskState};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The columns that [`question`] expects, in its order.
macro_rules! question_columns {
    () => {
        "q.number, q.task_id, q.team, q.channel, q.thread, q.asker, q.at, t.state, t.agent"
    };
}

/// The threads of the latest questions before a place, each by its last one, but for those that were
/// seen on an earlier page; and, with every row, how many questions were looked at and which was the
/// last of them. A row without a task says only that.
macro_rules! conversations {
    ($by:literal, $seen:literal) => {
        concat!(
            "WITH looked AS (
                 SELECT number, team, channel, thread FROM questions WHERE number < $1 ",
            $by,
            " ORDER BY number DESC LIMIT $3),
             page AS (
                 SELECT number FROM (
                     SELECT max(number) AS number, team, channel, thread FROM looked
                     GROUP BY team, channel, thread) AS l
                 WHERE NOT (SELECT EXISTS (
                     SELECT FROM questions AS n WHERE n.team = l.team AND n.channel = l.channel
                         AND n.thread = l.thread AND n.number >= $1 ",
            $seen,
            ")) ORDER BY number DESC LIMIT $4)
             SELECT w.least, w.many, ",
            question_columns!(),
            ", (SELECT count(*) FROM (
                    SELECT FROM questions AS c WHERE c.team = q.team AND c.channel = q.channel
                        AND c.thread = q.thread LIMIT $5) AS c),
                (SELECT count(*) FROM feedback AS f WHERE f.good AND f.task_id = ANY (ARRAY(
                    SELECT c.task_id FROM questions AS c WHERE c.team = q.team
                        AND c.channel = q.channel AND c.thread = q.thread
                    ORDER BY c.number DESC LIMIT $5))),
                (SELECT count(*) FROM feedback AS f WHERE NOT f.good AND f.task_id = ANY (ARRAY(
                    SELECT c.task_id FROM questions AS c WHERE c.team = q.team
                        AND c.channel = q.channel AND c.thread = q.thread
                    ORDER BY c.number DESC LIMIT $5)))
             FROM (SELECT min(number) AS least, count(*) AS many FROM looked) AS w
             LEFT JOIN (page AS p
                 CROSS JOIN LATERAL (SELECT * FROM questions WHERE number = p.number OFFSET 0) AS q
                 CROSS JOIN LATERAL (SELECT * FROM tasks WHERE id = q.task_id OFFSET 0) AS t) ON true
             ORDER BY q.number DESC"
        )
    };
}

const BY_ANYBODY: &str = conversations!("AND $2::text IS NULL", "");
const BY_ONE: &str = conversations!("AND asker = $2::text", "AND n.asker = $2::text");

const OF_THREAD: &str = concat!(
    "SELECT ",
    question_columns!(),
    " FROM questions AS q
      CROSS JOIN LATERAL (SELECT * FROM tasks WHERE id = q.task_id OFFSET 0) AS t
      WHERE q.team = $1 AND q.channel = $2 AND q.thread = $3 AND q.number < $4
      ORDER BY q.number DESC LIMIT $5"
);

const OF_TASK: &str = concat!(
    "SELECT ",
    question_columns!(),
    " FROM questions AS q
      CROSS JOIN LATERAL (SELECT * FROM tasks WHERE id = q.task_id OFFSET 0) AS t WHERE q.task_id = $1"
);

/// What is newer stays, and counts as kept. The task is locked, so that it does not go meanwhile.
const GIVE: &str = "
    INSERT INTO feedback (task_id, who, good, comment, at)
    SELECT $1::text, $2::text, $3::boolean, $4::text, $5::bigint
    FROM (SELECT FROM tasks WHERE id = $1 FOR KEY SHARE) AS there
    WHERE EXISTS (SELECT FROM feedback WHERE task_id = $1 AND who = $2)
       OR (SELECT count(*) FROM feedback WHERE task_id = $1) < $6
    ON CONFLICT (task_id, who) DO UPDATE SET
        good = CASE WHEN excluded.at >= feedback.at THEN excluded.good ELSE feedback.good END,
        comment = CASE WHEN excluded.at >= feedback.at THEN excluded.comment
                       ELSE feedback.comment END,
        at = greatest(excluded.at, feedback.at)
    RETURNING true";

#[async_trait]
impl TalkStore for PostgresStore {
    async fn conversations(&self, query: &TalkQuery) -> Result<Conversations, StoreError> {
        let sql = if query.user.is_some() {
            BY_ONE
        } else {
            BY_ANYBODY
        };
        let user = query.user.as_deref().map(escaped);
        let (before, most) = (before(query), limit(query.limit));
        let counted = column(Conversation::COUNTED);
        let params: [&(dyn ToSql + Sync); 5] = [&before, &user, &LOOKED_AT, &most, &counted];
        let rows = self.session.rows(sql, &params).await?;
        let (least, many) = rows.first().map_or((None, 0), |row| {
            (row.get::<_, Option<i64>>(0), row.get::<_, i64>(1))
        });
        let shown = rows
            .iter()
            .filter(|row| row.get::<_, Option<i64>>(2).is_some());
        let found: Vec<Conversation> = shown.map(conversation).collect::<Result<_, _>>()?;
        let next = match least {
            _ if found.len() >= query.limit => found.last().map(|one| one.last.number),
            Some(least) if many >= LOOKED_AT => Some(count("a talk", least)?),
            _ => None,
        };
        Ok(Conversations { found, next })
    }

    async fn questions(
        &self,
        thread: &Thread,
        query: &TalkQuery,
    ) -> Result<Vec<Question>, StoreError> {
        let [team, channel, name] =
            [&thread.team, &thread.channel, &thread.thread].map(|name| escaped(name));
        let (before, most) = (before(query), limit(query.limit));
        let params: [&(dyn ToSql + Sync); 5] = [&team, &channel, &name, &before, &most];
        let rows = self.session.rows(OF_THREAD, &params).await?;
        rows.iter().map(|row| question(row, 0)).collect()
    }

    async fn question(&self, id: &TaskId) -> Result<Option<Question>, StoreError> {
        let rows = self.session.rows(OF_TASK, &[&id.as_str()]).await?;
        rows.first().map(|row| question(row, 0)).transpose()
    }

    async fn give_feedback(&self, given: &Feedback) -> Result<bool, StoreError> {
        let (id, who) = (given.task_id.as_str(), escaped(&given.who));
        let comment = given.comment.as_deref().map(escaped);
        let at = given.at.as_millis();
        let most = column(Feedback::MOST as u64);
        let params: [&(dyn ToSql + Sync); 6] = [&id, &who, &given.good, &comment, &at, &most];
        self.write_if_found("give_feedback", GIVE, &params).await
    }

    async fn feedback(&self, tasks: &[TaskId]) -> Result<Vec<Feedback>, StoreError> {
        let ids: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
        let sql = "SELECT task_id, who, good, comment, at FROM feedback WHERE task_id = ANY ($1)
                   ORDER BY array_position($1, task_id), at DESC, who";
        let rows = self.session.rows(sql, &[&ids]).await?;
        let read = |row: &Row| {
            Ok(Feedback {
                task_id: word("feedback", row.get(0))?,
                who: unescaped(row.get(1)),
                good: row.get(2),
                comment: row.get::<_, Option<&str>>(3).map(unescaped),
                at: moment(row.get(4)),
            })
        };
        rows.iter().map(read).collect()
    }
}

fn before(query: &TalkQuery) -> i64 {
    query.before.map_or(i64::MAX, column)
}

fn conversation(row: &Row) -> Result<Conversation, StoreError> {
    Ok(Conversation {
        last: question(row, 2)?,
        questions: count("a talk", row.get(11))?,
        good: count("a talk", row.get(12))?,
        bad: count("a talk", row.get(13))?,
    })
}

/// A question whose columns begin at this place.
fn question(row: &Row, first: usize) -> Result<Question, StoreError> {
    let text = |place: usize| unescaped(row.get(first + place));
    Ok(Question {
        number: count("a question", row.get(first))?,
        task_id: word("a question", row.get(first + 1))?,
        asking: Asking {
            thread: Thread {
                team: text(2),
                channel: text(3),
                thread: text(4),
            },
            user: text(5),
        },
        at: moment(row.get(first + 6)),
        state: name("a question", row.get(first + 7), TaskState::from_name)?,
        agent: word("a question", row.get(first + 8))?,
    })
}

/// Notes where a task was asked for.
pub(super) fn note<'a>(task_id: &'a TaskId, asking: &'a Asking, at: i64) -> Checked<'a> {
    let thread = &asking.thread;
    step(
        "INSERT INTO questions (task_id, team, channel, thread, asker, at)
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
        params![
            task_id.as_str(),
            escaped(&thread.team),
            escaped(&thread.channel),
            escaped(&thread.thread),
            escaped(&asking.user),
            at
        ],
        IfNone::Conflict,
    )
}
