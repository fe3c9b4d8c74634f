//! Text output of a message report.
//!
//! Strings from the message pass through `printable` before they are written.

use super::report::{Finding, MessageProblem, MessageReport, ResponseOutcome, describe_code};
use crate::excerpt::Excerpt;
use crate::printable::quoted;
use interzone_jsonrpc::{InvalidMessageKind, RequestId};
use std::io::{self, Write};

/// Writes the report on the message in `bytes`.
pub(super) fn write(
    out: &mut dyn Write,
    report: &MessageReport<'_>,
    bytes: &[u8],
) -> io::Result<()> {
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

/// Writes the report on one message; every line but the first starts with `margin`.
fn write_one(
    out: &mut dyn Write,
    report: &MessageReport<'_>,
    bytes: &[u8],
    margin: &str,
) -> io::Result<()> {
    match &report.finding {
        Finding::Request { method, id, params } => writeln!(
            out,
            "valid request: method {}, {}, {}",
            quoted(method),
            describe_id(id.as_ref()),
            describe_value("params", *params)
        ),
        Finding::Notification { method, params } => writeln!(
            out,
            "valid notification: method {}, {}",
            quoted(method),
            describe_value("params", *params)
        ),
        Finding::Response { id, outcome } => writeln!(
            out,
            "valid response: {}, {}",
            describe_id(id.as_ref()),
            describe_outcome(outcome)
        ),
        Finding::Invalid { problem } => write_problem(out, problem, bytes, margin),
        // The parser does not nest batches.
        Finding::Batch { items } => writeln!(out, "{}", summary(items)),
    }?;
    write_notes(out, report, margin)
}

fn write_problem(
    out: &mut dyn Write,
    problem: &MessageProblem,
    bytes: &[u8],
    margin: &str,
) -> io::Result<()> {
    let MessageProblem {
        name,
        details,
        position,
        code,
        ..
    } = problem;
    writeln!(out, "not valid: {details} ({position})")?;
    // JSON-RPC 2.0 allows a null id in a request, so some servers accept it.
    let server = if *name == InvalidMessageKind::IdNull.name() {
        "a strict server"
    } else {
        "a server"
    };
    writeln!(out, "{margin}{server} answers {}", describe_code(*code))?;
    match Excerpt::at_position(bytes, *position) {
        Some(excerpt) => excerpt.write(out, margin),
        None => Ok(()),
    }
}

fn write_notes(out: &mut dyn Write, report: &MessageReport<'_>, margin: &str) -> io::Result<()> {
    for note in &report.notes {
        write!(out, "{margin}note: {}", note.details)?;
        match note.position {
            Some(position) => writeln!(out, " ({position})"),
            None => writeln!(out),
        }?;
    }
    Ok(())
}

fn describe_id(id: Option<&RequestId<'_>>) -> String {
    match id {
        Some(RequestId::String(text)) => format!("id {} (string)", quoted(text)),
        Some(RequestId::Number(number)) => format!("id {number} (number)"),
        None => "id null".to_owned(),
    }
}

fn describe_value(member: &str, kind: Option<&str>) -> String {
    match kind {
        Some(kind) => format!("{member} {kind}"),
        None => format!("no {member}"),
    }
}

fn describe_outcome(outcome: &ResponseOutcome) -> String {
    match outcome {
        ResponseOutcome::Result(kind) => describe_value("result", Some(kind)),
        ResponseOutcome::Error {
            code,
            message,
            data,
        } => format!(
            "error {code} {}, {}",
            quoted(message),
            describe_value("data", *data)
        ),
    }
}

fn summary(items: &[MessageReport<'_>]) -> String {
    let count = |wanted: fn(&Finding<'_>) -> bool| {
        items.iter().filter(|item| wanted(&item.finding)).count()
    };
    let total = pluralize(items.len(), "message");
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
        .map(|(count, noun)| pluralize(count, noun))
        .collect();
    format!("valid batch of {total}: {}", kinds.join(", "))
}

fn pluralize(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
