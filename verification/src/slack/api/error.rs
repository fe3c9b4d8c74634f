//! Why a call of Slack came to nothing, and whether it may have come to something all the same. What
//! a user is told of it is not written here.

use super::Method;
use super::words::FINAL;
use std::sync::Arc;
use std::time::Duration;

/// Why a call came to nothing.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlackError {
    /// Slack did not want to.
    #[error("slack refused {} with `{word}`{}", method.name(), asks(needed.as_deref()))]
    Said {
        /// What was called.
        method: Method,
        /// Slack's word for it: lower case letters, digits and underscores.
        word: String,
        /// The scopes that would help, where Slack names them.
        needed: Option<String>,
    },
    /// Too many calls. Nothing happened, and nothing will before this time is over.
    #[error("slack wants no {} for another {} s: try again then", method.name(), after.as_secs_f32().ceil())]
    RateLimited {
        /// What was called.
        method: Method,
        /// How long to wait.
        after: Duration,
    },
    /// There was no connection. Nothing happened.
    #[error("slack cannot be reached for {what}: check the network, DNS and `api_url`")]
    Unreachable {
        /// What was called.
        what: &'static str,
        /// Why not.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// The answer did not come in time.
    #[error("slack did not answer {what} in time: try again later")]
    TimedOut {
        /// What was called.
        what: &'static str,
    },
    /// The connection broke before the answer was there.
    #[error("the connection to slack broke during {what}: try again later")]
    Broken {
        /// What was called.
        what: &'static str,
        /// How.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// An answer of HTTP alone.
    #[error("slack answered {what} with http status {status}")]
    Status {
        /// What was called.
        what: &'static str,
        /// The status.
        status: u16,
    },
    /// An answer that makes no sense.
    #[error("slack's answer to {what} cannot be read: check that `api_url` is Slack's")]
    Unreadable {
        /// What was called.
        what: &'static str,
    },
    /// More bytes than we take.
    #[error("slack's answer to {what} has more than {limit} bytes")]
    TooLarge {
        /// What was called.
        what: &'static str,
        /// How many bytes were allowed.
        limit: usize,
    },
    /// An address that is not Slack's. Nothing was sent there.
    #[error("the address for {what} is not one of slack's own: nothing was sent to it")]
    ForbiddenHost {
        /// What was called.
        what: &'static str,
    },
}

fn asks(needed: Option<&str>) -> String {
    needed.map_or_else(String::new, |needed| {
        format!(": add the scope `{needed}` to the app and install it again")
    })
}

/// Refusals in which Slack says that it may have done a part, or that it will do it another time.
const UNCERTAIN: &[&str] = &["internal_error", "fatal_error", "request_timeout"];
const PASSING: &[&str] = &[
    "accesslimited",
    "message_limit_exceeded",
    "service_unavailable",
    // It still grows. It is ended again then, and Slack ends it by itself after a while.
    "streaming_state_conflict",
    "team_added_to_org",
    "no_shadow_user",
];

impl SlackError {
    /// What Slack said, for those who know what to do about it.
    pub fn said(method: Method, word: impl Into<String>) -> Self {
        Self::Said {
            method,
            word: word.into(),
            needed: None,
        }
    }

    /// One word for it, for logs, metrics and decisions: Slack's own, or ours where Slack said none.
    pub fn word(&self) -> &str {
        match self {
            Self::Said { word, .. } => word,
            Self::RateLimited { .. } => "ratelimited",
            Self::Unreachable { .. } => "unreachable",
            Self::TimedOut { .. } => "timed_out",
            Self::Broken { .. } => "broken",
            Self::Status { .. } => "http_status",
            Self::Unreadable { .. } => "unreadable",
            Self::TooLarge { .. } => "too_large",
            Self::ForbiddenHost { .. } => "forbidden_host",
        }
    }

    /// Whether Slack said this very word.
    pub fn is(&self, word: &str) -> bool {
        matches!(self, Self::Said { word: said, .. } if said == word)
    }

    /// Whether Slack said no with a word that we have never heard of: it may be for good or for now, and
    /// who can afford it tries a few times before it counts as for good.
    /// So is a refusal without any word of Slack's, which may be a proxy's on the way.
    pub fn is_puzzling(&self) -> bool {
        match self {
            Self::Said { word, .. } => {
                let word = word.as_str();
                [UNCERTAIN, PASSING, FINAL]
                    .iter()
                    .all(|words| !words.contains(&word))
            }
            Self::Status { status, .. } => (400..500).contains(status) && !self.may_pass(),
            _ => false,
        }
    }

    /// Whether Slack may have done what it was asked. Look before you ask again.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Said { word, .. } => UNCERTAIN.contains(&word.as_str()) || self.is_puzzling(),
            Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::Unreadable { .. }
            | Self::TooLarge { .. } => true,
            Self::Status { status, .. } => *status >= 500 || *status == 408,
            Self::RateLimited { .. } | Self::Unreachable { .. } | Self::ForbiddenHost { .. } => {
                false
            }
        }
    }

    /// Whether another attempt may succeed: a token that has run out is renewed before it.
    pub fn may_pass_next_time(&self) -> bool {
        self.may_pass() || self.is("token_expired")
    }

    /// Whether the same call may work later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Said { word, .. } => {
                let word = word.as_str();
                UNCERTAIN.contains(&word) || PASSING.contains(&word)
            }
            Self::RateLimited { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::Unreadable { .. } => true,
            Self::Status { status, .. } => *status >= 500 || matches!(status, 408 | 425 | 429),
            Self::TooLarge { .. } | Self::ForbiddenHost { .. } => false,
        }
    }

    /// How long Slack wants us to wait, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { after, .. } => Some(*after),
            _ => None,
        }
    }

    /// What became of a request that has no answer.
    pub(super) fn of(what: &'static str, error: reqwest::Error) -> Self {
        // The address of a file holds a secret of its own.
        let source = error.without_url();
        if source.is_connect() || source.is_builder() {
            let source = Arc::new(source);
            return Self::Unreachable { what, source };
        }
        if source.is_timeout() {
            return Self::TimedOut { what };
        }
        let source = Arc::new(source);
        Self::Broken { what, source }
    }
}

/// Slack's word as it may stand in a log line; what does not look like one is not passed on.
pub(super) fn clean_word(word: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if (1..=64).contains(&word.len()) && word.bytes().all(fits) {
        word.to_owned()
    } else {
        "unknown_error".to_owned()
    }
}

/// A list of scopes as it may stand in a log line.
pub(super) fn clean_scopes(scopes: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || b":._-, ".contains(&byte);
    ((1..=256).contains(&scopes.len()) && scopes.bytes().all(fits)).then(|| scopes.to_owned())
}
