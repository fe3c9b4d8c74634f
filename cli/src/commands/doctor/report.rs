//! What was looked at, what was found, and what to do about it. Nothing is looked at here.

use crate::output;
use crate::printable;
use serde::Serialize;
use std::io::{self, Write};

/// How a look ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Pass,
    Warn,
    Fail,
    /// It could not be looked at.
    Skip,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
            Self::Skip => "skip",
        }
    }
}

/// One look. Found and next may quote others: they are made printable when they are told.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// All looks, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) checks: Vec<Check>,
}

/// The sum, as programs read it.
#[derive(Serialize)]
struct Sum<'a> {
    checks: &'a [Check],
    passed: usize,
    warned: usize,
    failed: usize,
    skipped: usize,
}

impl Report {
    pub(super) fn pass(&mut self, name: impl Into<String>, found: impl Into<String>) {
        self.add(name, Verdict::Pass, found, None);
    }

    pub(super) fn warn(
        &mut self,
        name: impl Into<String>,
        found: impl Into<String>,
        next: impl Into<String>,
    ) {
        self.add(name, Verdict::Warn, found, Some(next.into()));
    }

    pub(super) fn fail(
        &mut self,
        name: impl Into<String>,
        found: impl Into<String>,
        next: impl Into<String>,
    ) {
        self.add(name, Verdict::Fail, found, Some(next.into()));
    }

    pub(super) fn skip(
        &mut self,
        name: impl Into<String>,
        found: impl Into<String>,
        next: impl Into<String>,
    ) {
        self.add(name, Verdict::Skip, found, Some(next.into()));
    }

    fn add(
        &mut self,
        name: impl Into<String>,
        verdict: Verdict,
        found: impl Into<String>,
        next: Option<String>,
    ) {
        self.checks.push(Check {
            name: name.into(),
            verdict,
            found: found.into(),
            next,
        });
    }

    pub(super) fn count(&self, verdict: Verdict) -> usize {
        let of = |check: &&Check| check.verdict == verdict;
        self.checks.iter().filter(of).count()
    }

    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let sum = Sum {
            checks: &self.checks,
            passed: self.count(Verdict::Pass),
            warned: self.count(Verdict::Warn),
            failed: self.count(Verdict::Fail),
            skipped: self.count(Verdict::Skip),
        };
        output::write_json(out, &sum)
    }

    /// A line for each look, and one for all.
    pub(super) fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        for check in &self.checks {
            write!(
                out,
                "{}  {}: {}",
                check.verdict.word(),
                printable::text(&check.name),
                printable::text(&check.found)
            )?;
            match &check.next {
                Some(next) => writeln!(out, " → {}", printable::text(next))?,
                None => writeln!(out)?,
            }
        }
        writeln!(
            out,
            "\n{} passed, {} to look at, {} failed, {} that cannot be checked from here",
            self.count(Verdict::Pass),
            self.count(Verdict::Warn),
            self.count(Verdict::Fail),
            self.count(Verdict::Skip),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn a_line_each_and_what_to_do() {
        let mut report = Report::default();
        report.pass("store", "answers");
        report.fail("clock", "an \u{1b}hour off", "set it");
        let mut out = Vec::new();
        report.write_text(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains('\u{1b}'), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.first(), Some(&"pass  store: answers"));
        assert!(
            lines.get(1).unwrap().ends_with("hour off → set it"),
            "{text}"
        );
        assert!(text.contains("1 passed, 0 to look at, 1 failed"), "{text}");
        let mut out = Vec::new();
        report.write_json(&mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["failed"], 1);
        assert_eq!(json["checks"][1]["verdict"], "fail");
    }
}
