//! `interzone pairs`: what happened to a request, for whoever looks after a zone.

use crate::connect::ConnectOptions;
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::printable;
use crate::time::Limit;
use clap::Args;
use interzone_client::{Client, Error};
use interzone_hub::{Clock, SystemClock};
use interzone_jsonrpc::RequestId;
use interzone_protocol::acp::{Method, PairList, PairObject, PairsFindParams, TaskTrace};
use interzone_protocol::vocab::Timestamp;
use std::io::{self, Write};
use std::time::Duration;

/// Find out what happened to a request
///
/// By the id of the request, its correlation id or its task: when it was answered, to whom, how it
/// went and how long it took, and what became of its task. What was said is not shown.
/// It needs the scope interzone:operate.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
What is noted, and for how long, is decided by [pairs] in the configuration.

Exit codes:
  0  found
  1  nothing was found
  2  the command was not understood
  3  the server cannot be reached
  4  the server refuses

Examples:
  interzone pairs                       the latest
  interzone pairs 7d8ff2c0-…            by its id, or else by correlation id or task
  interzone pairs --correlation 1f03-…
  interzone pairs --task 0199… --since 1h"
)]
pub(crate) struct Pairs {
    /// The id of a request; if there is none, a correlation id or a task
    #[arg(value_name = "ID")]
    id: Option<String>,

    /// The correlation id
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,

    /// The task
    #[arg(long, value_name = "ID")]
    task: Option<String>,

    /// Only what was answered within this time, such as 30m or 7d
    #[arg(long, value_name = "TIME")]
    since: Option<Limit>,

    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Pairs {
    pub(crate) async fn run(&self, format: Format) -> Result<Exit, Failure> {
        let connection = self.connect.find()?;
        let client = connection.client()?;
        let found = self.find(&client).await;
        let found = connection.explain(found, &[Method::PairsFind]).await?;
        output::write(|out| match format {
            Format::Json => output::write_json(out, &found),
            Format::Text => found
                .pairs
                .iter()
                .try_for_each(|pair| write_pair(out, pair)),
        })?;
        if !found.pairs.is_empty() {
            return Ok(Exit::Done);
        }
        if format == Format::Text {
            let _ = writeln!(
                io::stderr(),
                "nothing was found; which requests are noted, and for how long, is decided by [pairs] in \
                 the server's configuration"
            );
        }
        Ok(Exit::No)
    }

    async fn find(&self, client: &Client) -> Result<PairList, Failure> {
        let now = SystemClock.now();
        let plain = PairsFindParams {
            id: None,
            correlation_id: self.correlation.clone(),
            task_id: self.task.clone(),
            since: self.since.map(|Limit(time)| now.before(time)),
            limit: Some(self.limit),
        };
        let Some(id) = &self.id else {
            return Ok(client.pairs_find(&plain).await?);
        };
        let mut found = PairList::default();
        // On a command line 7 and "7" look the same.
        let number = id.parse().ok().map(RequestId::Number);
        for id in [Some(RequestId::from(id.clone())), number] {
            let Some(id) = id else { continue };
            let params = PairsFindParams {
                id: Some(id),
                ..plain.clone()
            };
            found.pairs.extend(client.pairs_find(&params).await?.pairs);
        }
        found.pairs.sort_by_key(|pair| std::cmp::Reverse(pair.at));
        found
            .pairs
            .truncate(usize::try_from(self.limit).unwrap_or(usize::MAX));
        if found.pairs.is_empty() && self.correlation.is_none() {
            let params = PairsFindParams {
                correlation_id: Some(id.clone()),
                ..plain.clone()
            };
            found = client.pairs_find(&params).await?;
        }
        if found.pairs.is_empty() && self.task.is_none() {
            let params = PairsFindParams {
                task_id: Some(id.clone()),
                ..plain
            };
            found = match client.pairs_find(&params).await {
                // Not everything is the name of a task.
                Err(Error::Refused(_)) => PairList::default(),
                found => found?,
            };
        }
        Ok(found)
    }
}

fn write_pair(out: &mut dyn Write, pair: &PairObject) -> io::Result<()> {
    let code = pair.code.map(|code| format!(" ({code})"));
    writeln!(
        out,
        "{}  {}  {}{}  {}",
        pair.at,
        printable::text(&pair.method),
        printable::text(&pair.outcome),
        code.unwrap_or_default(),
        took(Duration::from_secs_f64(
            pair.took_ms.clamp(0.0, 1e12) / 1000.0
        )),
    )?;
    if let Some(id) = &pair.id {
        let id = match id {
            RequestId::Number(number) => number.to_string(),
            RequestId::String(text) => format!("\"{}\"", printable::text(text)),
        };
        writeln!(out, "  id           {id}")?;
    }
    let correlation = printable::text(&pair.correlation_id);
    writeln!(out, "  correlation  {correlation}")?;
    let from = pair.address.as_deref().map(printable::text);
    writeln!(
        out,
        "  who          {} by {}{}",
        printable::text(&pair.who),
        printable::text(&pair.client),
        from.map(|from| format!(" from {from}")).unwrap_or_default()
    )?;
    match (&pair.task_id, &pair.task) {
        (Some(id), Some(task)) => write_task(out, id, task)?,
        (Some(id), None) => {
            let id = printable::text(id);
            writeln!(out, "  task         {id}, which is not kept any more")?;
        }
        (None, _) => {}
    }
    writeln!(out)
}

fn write_task(out: &mut dyn Write, id: &str, task: &TaskTrace) -> io::Result<()> {
    let why = task.error_code.as_deref().map(printable::text);
    writeln!(
        out,
        "  task         {} of {}: {}{}",
        printable::text(id),
        printable::text(&task.agent),
        printable::text(&task.state),
        why.map(|why| format!(" ({why})")).unwrap_or_default()
    )?;
    let made = match task.artifacts {
        0 => String::new(),
        1 => ", 1 artifact".to_owned(),
        many => format!(", {many} artifacts"),
    };
    let ended = task.finished_at.map_or_else(
        || "not finished".to_owned(),
        |end| format!("finished after {}", took(between(task.created_at, end))),
    );
    writeln!(
        out,
        "               begun {}, {ended}{made}",
        task.created_at
    )?;
    for event in &task.events {
        let what = match (&event.from, &event.to) {
            (Some(from), Some(to)) => {
                format!("{} → {}", printable::text(from), printable::text(to))
            }
            _ => printable::text(&event.event),
        };
        let times = match event.count {
            0 | 1 => String::new(),
            many => format!(" ×{many}"),
        };
        let since = took(between(task.created_at, event.at));
        writeln!(out, "    +{since:<10} {what}{times}")?;
    }
    Ok(())
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    let millis = to.as_millis().saturating_sub(from.as_millis());
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

fn took(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        let millis = format!("{:.1}", time.as_secs_f64() * 1000.0);
        format!("{} ms", millis.trim_end_matches(".0"))
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_protocol::acp::TraceEvent;

    #[test]
    fn a_pair_is_told_with_what_became_of_its_task() {
        let at = Timestamp::from_millis;
        let event = |millis, event: &str, count| TraceEvent {
            at: at(millis),
            event: event.to_owned(),
            from: None,
            to: None,
            count,
        };
        let task = TaskTrace {
            state: "failed".to_owned(),
            error_code: Some("agent_failed".to_owned()),
            agent: "demo".to_owned(),
            owner: "anna".to_owned(),
            created_at: at(1_000),
            updated_at: at(3_500),
            finished_at: Some(at(3_500)),
            messages: 2,
            artifacts: 1,
            subscriptions: 0,
            events: vec![
                event(1_000, "created", 1),
                TraceEvent {
                    from: Some("submitted".to_owned()),
                    to: Some("working".to_owned()),
                    ..event(1_005, "state", 1)
                },
                event(1_100, "text", 7),
            ],
        };
        let pair = PairObject {
            at: at(3_501),
            took_ms: 2_501.25,
            id: Some(RequestId::from("a\u{1b}b")),
            method: "execute_task".to_owned(),
            who: "anna".to_owned(),
            client: "laptop".to_owned(),
            correlation_id: "c-1".to_owned(),
            outcome: "agent_failed".to_owned(),
            code: Some(-1),
            address: Some("127.0.0.1".to_owned()),
            task_id: Some("t-1".to_owned()),
            task: Some(task),
        };
        let mut out = Vec::new();
        write_pair(&mut out, &pair).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains('\u{1b}'), "{text}");
        for line in [
            "1970-01-01T00:00:03.501Z  execute_task  agent_failed (-1)  2.5 s",
            "  correlation  c-1",
            "  who          anna by laptop from 127.0.0.1",
            "  task         t-1 of demo: failed (agent_failed)",
            "               begun 1970-01-01T00:00:01.000Z, finished after 2.5 s, 1 artifact",
            "    +0 ms       created",
            "    +5 ms       submitted → working",
            "    +100 ms     text ×7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
