//! `interzone requests`: lists recorded requests and their outcomes, from the request log.

use super::DurationArg;
use crate::connect::ConnectOptions;
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::printable;
use clap::Args;
use interzone_client::{Client, Error};
use interzone_hub::{Clock, SystemClock};
use interzone_jsonrpc::RequestId;
use interzone_protocol::acp::{Method, RequestList, RequestRecord, RequestsFindParams, TaskTrace};
use interzone_protocol::vocab::Timestamp;
use std::io::{self, Write};
use std::time::Duration;

/// List recorded requests and their outcomes
///
/// Finds requests by request id, correlation id or task, and shows when each was answered, its caller,
/// outcome and duration, and the state of its task. Message contents are not shown.
/// Requires the scope interzone:operate.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
[request_log] in the server's configuration sets which requests are recorded, and for how long.

Exit codes:
  0  found
  1  not found
  2  invalid usage
  3  the server cannot be reached
  4  the server refused the request

Examples:
  interzone requests                       (the latest)
  interzone requests 7d8ff2c0-…            (by request id, correlation id or task id)
  interzone requests --correlation 1f03-…
  interzone requests --task 0199… --since 1h"
)]
pub(crate) struct Requests {
    /// Request id, or else correlation id or task id
    #[arg(value_name = "ID")]
    id: Option<String>,

    /// Correlation id
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,

    /// Task id
    #[arg(long, value_name = "ID")]
    task: Option<String>,

    /// Show only requests answered within this period, such as 30m or 7d
    #[arg(long, value_name = "TIME")]
    since: Option<DurationArg>,

    /// Maximum number to show
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Requests {
    pub(crate) async fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let connection = self.connect.resolve()?;
        let client = connection.client()?;
        let found = self.find(&client).await;
        let found = connection
            .explain_scope_error(found, &[Method::RequestsFind])
            .await?;
        output::write(|out| match format {
            OutputFormat::Json => output::write_json(out, &found),
            OutputFormat::Text => found
                .requests
                .iter()
                .try_for_each(|request| write_request(out, request)),
        })?;
        if !found.requests.is_empty() {
            return Ok(Exit::Done);
        }
        if format == OutputFormat::Text {
            let _ = writeln!(
                io::stderr(),
                "no requests found; [request_log] in the server's configuration sets which requests are recorded, \
                 and for how long"
            );
        }
        Ok(Exit::Failed)
    }

    async fn find(&self, client: &Client) -> Result<RequestList, Failure> {
        let now = SystemClock.now();
        let filter = RequestsFindParams {
            id: None,
            correlation_id: self.correlation.clone(),
            task_id: self.task.clone(),
            since: self.since.map(|DurationArg(time)| now.minus(time)),
            limit: Some(self.limit),
        };
        let Some(id) = &self.id else {
            return Ok(client.requests_find(&filter).await?);
        };
        let mut found = RequestList::default();
        // The command line does not distinguish the ids 7 and "7", so both are tried.
        let number = id.parse().ok().map(RequestId::Number);
        for id in [Some(RequestId::from(id.clone())), number] {
            let Some(id) = id else { continue };
            let params = RequestsFindParams {
                id: Some(id),
                ..filter.clone()
            };
            let response = client.requests_find(&params).await?;
            found.requests.extend(response.requests);
        }
        found
            .requests
            .sort_by_key(|request| std::cmp::Reverse(request.at));
        found
            .requests
            .truncate(usize::try_from(self.limit).unwrap_or(usize::MAX));
        if found.requests.is_empty() && self.correlation.is_none() {
            let params = RequestsFindParams {
                correlation_id: Some(id.clone()),
                ..filter.clone()
            };
            found = client.requests_find(&params).await?;
        }
        if found.requests.is_empty() && self.task.is_none() {
            let params = RequestsFindParams {
                task_id: Some(id.clone()),
                ..filter
            };
            found = match client.requests_find(&params).await {
                // The text may not be a valid task id.
                Err(Error::Rpc(_)) => RequestList::default(),
                found => found?,
            };
        }
        Ok(found)
    }
}

fn write_request(out: &mut dyn Write, request: &RequestRecord) -> io::Result<()> {
    let code = request.code.map(|code| format!(" ({code})"));
    writeln!(
        out,
        "{}  {}  {}{}  {}",
        request.at,
        printable::text(&request.method),
        printable::text(&request.outcome),
        code.unwrap_or_default(),
        format_duration(Duration::from_secs_f64(
            request.took_ms.clamp(0.0, 1e12) / 1000.0
        )),
    )?;
    if let Some(id) = &request.id {
        let id = match id {
            RequestId::Number(number) => number.to_string(),
            RequestId::String(text) => format!("\"{}\"", printable::text(text)),
        };
        writeln!(out, "  id           {id}")?;
    }
    let correlation = printable::text(&request.correlation_id);
    writeln!(out, "  correlation  {correlation}")?;
    write!(out, "  caller       {}", printable::text(&request.who))?;
    // A client that calls for itself is both.
    if request.client != request.who {
        write!(out, " by {}", printable::text(&request.client))?;
    }
    if let Some(address) = &request.address {
        write!(out, " from {}", printable::text(address))?;
    }
    writeln!(out)?;
    match (&request.task_id, &request.task) {
        (Some(id), Some(task)) => write_task(out, id, task)?,
        (Some(id), None) => {
            let id = printable::text(id);
            writeln!(out, "  task         {id} (deleted)")?;
        }
        (None, _) => {}
    }
    writeln!(out)
}

fn write_task(out: &mut dyn Write, id: &str, task: &TaskTrace) -> io::Result<()> {
    let error = task.error_code.as_deref().map(printable::text);
    writeln!(
        out,
        "  task         {} of {}: {}{}",
        printable::text(id),
        printable::text(&task.agent),
        printable::text(&task.state),
        error.map(|error| format!(" ({error})")).unwrap_or_default()
    )?;
    let artifacts = match task.artifacts {
        0 => String::new(),
        1 => ", 1 artifact".to_owned(),
        many => format!(", {many} artifacts"),
    };
    let ended = task.finished_at.map_or_else(
        || "not finished".to_owned(),
        |end| {
            format!(
                "finished after {}",
                format_duration(between(task.created_at, end))
            )
        },
    );
    writeln!(
        out,
        "               created {}, {ended}{artifacts}",
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
        let since = format_duration(between(task.created_at, event.at));
        writeln!(out, "    +{since:<10} {what}{times}")?;
    }
    Ok(())
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    let millis = to.as_millis().saturating_sub(from.as_millis());
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

fn format_duration(time: Duration) -> String {
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
    fn request_output_includes_task_trace() {
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
        let request = RequestRecord {
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
        write_request(&mut out, &request).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains('\u{1b}'), "{text}");
        for line in [
            "1970-01-01T00:00:03.501Z  execute_task  agent_failed (-1)  2.5 s",
            "  correlation  c-1",
            "  caller       anna by laptop from 127.0.0.1",
            "  task         t-1 of demo: failed (agent_failed)",
            "               created 1970-01-01T00:00:01.000Z, finished after 2.5 s, 1 artifact",
            "    +0 ms       created",
            "    +5 ms       submitted → working",
            "    +100 ms     text ×7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
