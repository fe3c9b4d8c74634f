//! A report in words, for people.
//!
//! Strings that come from the message pass through `printable` before they are written.

use super::report::{Finding, Outcome, Report, Trouble, answer};
use crate::excerpt::Excerpt;
use crate::printable::quoted;
use interzone_jsonrpc::{Problem, RequestId};
use std::io::{self, Write};

/// Writes a report on the message that stands in `bytes`.
pub(super) fn write(out: &mut dyn Write, report: &Report<'_>, bytes: &[u8]) -> io::Result<()> {
    let Finding::Batch { items } = &report.finding else {
        return write_one(out, report, bytes, "");
    };
    for (index, item) in items.iter().enumerate() {
        let mark = format!("[{index}] ");
        write!(out, "{mark}")?;
        write_one(out, item, bytes, &" ".repeat(mark.len()))?;
    }
    writeln!(out, "{}", summary(items))?;
    write_notes(out, report, "")
}

/// Writes a report on one message; every line but the first begins with `margin`.
fn write_one(
    out: &mut dyn Write,
    report: &Report<'_>,
    bytes: &[u8],
    margin: &str,
) -> io::Result<()> {
    match &report.finding {
        Finding::Request { method, id, params } => writeln!(
            out,
            "valid request: method {}, {}, {}",
            quoted(method),
            name_id(id.as_ref()),
            name_value("params", *params)
        ),
        Finding::Notification { method, params } => writeln!(
            out,
            "valid notification: method {}, {}",
            quoted(method),
            name_value("params", *params)
        ),
        Finding::Response { id, outcome } => writeln!(
            out,
            "valid response: {}, {}",
            name_id(id.as_ref()),
            name_outcome(outcome)
        ),
        Finding::Invalid { problem } => write_problem(out, problem, bytes, margin),
        // The parser makes no batches of batches.
        Finding::Batch { items } => writeln!(out, "{}", summary(items)),
    }?;
    write_notes(out, report, margin)
}

fn write_problem(
    out: &mut dyn Write,
    problem: &Trouble,
    bytes: &[u8],
    margin: &str,
) -> io::Result<()> {
    let Trouble {
        name,
        details,
        position,
        code,
        ..
    } = problem;
    writeln!(out, "not valid: {details} ({position})")?;
    // JSON-RPC 2.0 itself lets a request have a null id, so some servers do.
    let server = if *name == Problem::IdNull.name() {
        "a strict server"
    } else {
        "a server"
    };
    writeln!(out, "{margin}{server} answers {}", answer(*code))?;
    match Excerpt::around(bytes, *position) {
        Some(excerpt) => excerpt.write(out, margin),
        None => Ok(()),
    }
}

fn write_notes(out: &mut dyn Write, report: &Report<'_>, margin: &str) -> io::Result<()> {
    for note in &report.notes {
        write!(out, "{margin}note: {}", note.details)?;
        match note.position {
            Some(position) => writeln!(out, " ({position})"),
            None => writeln!(out),
        }?;
    }
    Ok(())
}

fn name_id(id: Option<&RequestId<'_>>) -> String {
    match id {
        Some(RequestId::String(text)) => format!("id {} (string)", quoted(text)),
        Some(RequestId::Number(number)) => format!("id {number} (number)"),
        None => "id null".to_owned(),
    }
}

fn name_value(member: &str, kind: Option<&str>) -> String {
    match kind {
        Some(kind) => format!("{member} {kind}"),
        None => format!("no {member}"),
    }
}

fn name_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Result(kind) => name_value("result", Some(kind)),
        Outcome::Error {
            code,
            message,
            data,
        } => format!(
            "error {code} {}, {}",
            quoted(message),
            name_value("data", *data)
        ),
    }
}

fn summary(items: &[Report<'_>]) -> String {
    let count = |wanted: fn(&Finding<'_>) -> bool| {
        items.iter().filter(|item| wanted(&item.finding)).count()
    };
    let total = counted(items.len(), "message");
    let bad = count(|finding| matches!(finding, Finding::Invalid { .. }));
    if bad > 0 {
        return format!("not valid: batch of {total}, {bad} of them not valid");
    }
    let kinds = [
        (
            count(|finding| matches!(finding, Finding::Request { .. })),
            "request",
        ),
        (
            count(|finding| matches!(finding, Finding::Notification { .. })),
            "notification",
        ),
        (
            count(|finding| matches!(finding, Finding::Response { .. })),
            "response",
        ),
    ];
    let kinds: Vec<_> = kinds
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, noun)| counted(count, noun))
        .collect();
    format!("valid batch of {total}: {}", kinds.join(", "))
}

fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
