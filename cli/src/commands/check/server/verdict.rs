//! Verdicts: what was looked at, what was found, and which rule says so.

use serde::Serialize;

/// What one look came to, in words for people; or why it is not good.
pub(super) type Finding = Result<String, Flaw>;

/// What is not good, or not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// A rule is broken.
    Broken(String),
    /// It works, and would better be otherwise.
    Poor(String),
    /// It could not be looked at.
    Unseen(String),
}

impl Flaw {
    pub(super) fn broken(why: impl Into<String>) -> Self {
        Self::Broken(why.into())
    }

    pub(super) fn poor(why: impl Into<String>) -> Self {
        Self::Poor(why.into())
    }

    pub(super) fn unseen(why: impl Into<String>) -> Self {
        Self::Unseen(why.into())
    }
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Pass,
    Fail,
    Warn,
    Skip,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::Warn => "warn",
            Self::Skip => "skip",
        }
    }
}

/// One check.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) group: &'static str,
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pub(super) reason: String,
    /// The rule, such as `JSON-RPC 2.0 §4.1`.
    pub(super) reference: &'static str,
}

/// All checks, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Checks {
    group: &'static str,
    pub(super) all: Vec<Check>,
}

impl Checks {
    /// Begins a group.
    pub(super) fn group(&mut self, group: &'static str) {
        self.group = group;
    }

    /// Notes what a check found.
    pub(super) fn note(
        &mut self,
        name: impl Into<String>,
        reference: &'static str,
        found: Finding,
    ) {
        let (verdict, reason) = match found {
            Ok(words) => (Verdict::Pass, words),
            Err(Flaw::Broken(why)) => (Verdict::Fail, why),
            Err(Flaw::Poor(why)) => (Verdict::Warn, why),
            Err(Flaw::Unseen(why)) => (Verdict::Skip, why),
        };
        self.all.push(Check {
            group: self.group,
            name: name.into(),
            verdict,
            reason,
            reference,
        });
    }

    pub(super) fn count(&self, verdict: Verdict) -> usize {
        let of = |check: &&Check| check.verdict == verdict;
        self.all.iter().filter(of).count()
    }
}
