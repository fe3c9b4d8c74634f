//! Report of checks, with results and suggested fixes.

use crate::output;
use crate::printable;
use serde::Serialize;
use std::io::{self, Write};

/// Verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DoctorVerdict {
    Pass,
    Warn,
    Fail,
    /// The check could not be run.
    Skip,
}

impl DoctorVerdict {
    fn label(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
            Self::Skip => "skip",
        }
    }
}

/// Result of one check. `found` and `next` may contain untrusted text, which is escaped on output.
#[derive(Debug, Serialize)]
pub(super) struct DoctorCheck {
    pub(super) name: String,
    pub(super) verdict: DoctorVerdict,
    pub(super) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// Results of all checks, in order.
#[derive(Debug, Default)]
pub(super) struct DoctorReport {
    pub(super) checks: Vec<DoctorCheck>,
}

/// JSON output of the report.
#[derive(Serialize)]
struct ReportJson<'a> {
    checks: &'a [DoctorCheck],
    passed: usize,
    warned: usize,
    failed: usize,
    skipped: usize,
}

impl DoctorReport {
    pub(super) fn pass(&mut self, name: impl Into<String>, found: impl Into<String>) {
        self.add(name, DoctorVerdict::Pass, found, None);
    }

    pub(super) fn warn(
        &mut self,
        name: impl Into<String>,
        found: impl Into<String>,
        next: impl Into<String>,
    ) {
        self.add(name, DoctorVerdict::Warn, found, Some(next.into()));
    }

    pub(super) fn fail(
        &mut self,
        name: impl Into<String>,
        found: impl Into<String>,
        next: impl Into<String>,
    ) {
        self.add(name, DoctorVerdict::Fail, found, Some(next.into()));
    }

    pub(super) fn skip(
        &mut self,
        name: impl Into<String>,
        found: impl Into<String>,
        next: impl Into<String>,
    ) {
        self.add(name, DoctorVerdict::Skip, found, Some(next.into()));
    }

    fn add(
        &mut self,
        name: impl Into<String>,
        verdict: DoctorVerdict,
        found: impl Into<String>,
        next: Option<String>,
    ) {
        self.checks.push(DoctorCheck {
            name: name.into(),
            verdict,
            found: found.into(),
            next,
        });
    }

    pub(super) fn count(&self, verdict: DoctorVerdict) -> usize {
        let matches = |check: &&DoctorCheck| check.verdict == verdict;
        self.checks.iter().filter(matches).count()
    }

    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let json = ReportJson {
            checks: &self.checks,
            passed: self.count(DoctorVerdict::Pass),
            warned: self.count(DoctorVerdict::Warn),
            failed: self.count(DoctorVerdict::Fail),
            skipped: self.count(DoctorVerdict::Skip),
        };
        output::write_json(out, &json)
    }

    /// Writes a line per check and a summary.
    pub(super) fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        for check in &self.checks {
            write!(
                out,
                "{}  {}: {}",
                check.verdict.label(),
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
            "\n{} passed, {} warnings, {} failed, {} skipped",
            self.count(DoctorVerdict::Pass),
            self.count(DoctorVerdict::Warn),
            self.count(DoctorVerdict::Fail),
            self.count(DoctorVerdict::Skip),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::DoctorReport;

    #[test]
    fn report_has_line_per_check_with_advice() {
        let mut report = DoctorReport::default();
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
        assert!(text.contains("1 passed, 0 warnings, 1 failed"), "{text}");
        let mut out = Vec::new();
        report.write_json(&mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["failed"], 1);
        assert_eq!(json["checks"][1]["verdict"], "fail");
    }
}
