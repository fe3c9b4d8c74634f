//! Check results, with the rule that each check tests.

use serde::Serialize;

/// Result of a check: details, or the reason for a failure.
pub(super) type CheckOutcome = Result<String, CheckFailure>;

/// Reason why a check did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckFailure {
    /// A rule is violated.
    Violation(String),
    /// Allowed, but not recommended.
    Warning(String),
    /// The check could not be run.
    Skipped(String),
}

impl CheckFailure {
    pub(super) fn violation(why: impl Into<String>) -> Self {
        Self::Violation(why.into())
    }

    pub(super) fn warning(why: impl Into<String>) -> Self {
        Self::Warning(why.into())
    }

    pub(super) fn skipped(why: impl Into<String>) -> Self {
        Self::Skipped(why.into())
    }
}

/// Verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckVerdict {
    Pass,
    Fail,
    Warn,
    Skip,
}

impl CheckVerdict {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::Warn => "warn",
            Self::Skip => "skip",
        }
    }
}

/// Result of one check.
#[derive(Debug, Serialize)]
pub(super) struct ServerCheck {
    pub(super) group: &'static str,
    pub(super) name: String,
    pub(super) verdict: CheckVerdict,
    pub(super) reason: String,
    /// The rule, such as `JSON-RPC 2.0 §4.1`.
    pub(super) reference: &'static str,
}

/// Results of all checks, in order.
#[derive(Debug, Default)]
pub(super) struct Checks {
    group: &'static str,
    pub(super) all: Vec<ServerCheck>,
}

impl Checks {
    /// Starts a group.
    pub(super) fn group(&mut self, group: &'static str) {
        self.group = group;
    }

    /// Records the outcome of a check.
    pub(super) fn record(
        &mut self,
        name: impl Into<String>,
        reference: &'static str,
        found: CheckOutcome,
    ) {
        let (verdict, reason) = match found {
            Ok(details) => (CheckVerdict::Pass, details),
            Err(CheckFailure::Violation(why)) => (CheckVerdict::Fail, why),
            Err(CheckFailure::Warning(why)) => (CheckVerdict::Warn, why),
            Err(CheckFailure::Skipped(why)) => (CheckVerdict::Skip, why),
        };
        self.all.push(ServerCheck {
            group: self.group,
            name: name.into(),
            verdict,
            reason,
            reference,
        });
    }

    pub(super) fn count(&self, verdict: CheckVerdict) -> usize {
        let matches = |check: &&ServerCheck| check.verdict == verdict;
        self.all.iter().filter(matches).count()
    }
}
