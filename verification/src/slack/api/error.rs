//! Errors of Web API calls, and whether a failed call may have been executed.

use super::SlackMethod;
use super::permanent_errors::PERMANENT_ERRORS;
use std::sync::Arc;
use std::time::Duration;

/// Error of a Web API call.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlackError {
    /// Slack rejected the call.
    #[error("slack refused {} with `{code}`{}", method.name(), scope_hint(needed_scopes.as_deref()))]
    Rejected {
        /// The method.
        method: SlackMethod,
        /// Slack's error code: lower case letters, digits and underscores.
        code: String,
        /// The missing scopes, where Slack names them.
        needed_scopes: Option<String>,
    },
    /// The rate limit is exceeded; the call was not executed.
    #[error("slack rate limit for {} exceeded: try again in {} s", method.name(), after.as_secs_f32().ceil())]
    RateLimited {
        /// The method.
        method: SlackMethod,
        /// Delay before the next attempt.
        after: Duration,
    },
    /// The connection failed; the call was not executed.
    #[error("slack cannot be reached for {operation}: check the network, DNS and `api_url`")]
    Unreachable {
        /// The operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// The response timed out.
    #[error("slack did not answer {operation} in time: try again later")]
    TimedOut {
        /// The operation.
        operation: &'static str,
    },
    /// The connection broke before the response was complete.
    #[error("the connection to slack broke during {operation}: try again later")]
    ConnectionBroken {
        /// The operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// An HTTP error status without an error code of Slack.
    #[error("slack answered {operation} with http status {status}")]
    HttpStatus {
        /// The operation.
        operation: &'static str,
        /// The status.
        status: u16,
    },
    /// The response cannot be parsed.
    #[error("slack's answer to {operation} cannot be read: check that `api_url` is Slack's")]
    Unreadable {
        /// The operation.
        operation: &'static str,
    },
    /// The response exceeds the size limit.
    #[error("slack's answer to {operation} has more than {limit} bytes")]
    TooLarge {
        /// The operation.
        operation: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// The URL is not on a Slack host; the request was not sent.
    #[error("the url for {operation} is not on a slack host: the request was not sent")]
    ForbiddenHost {
        /// The operation.
        operation: &'static str,
    },
}

fn scope_hint(needed: Option<&str>) -> String {
    needed.map_or_else(String::new, |needed| {
        format!(": add the scope `{needed}` to the app and install it again")
    })
}

/// Error codes of calls that may have been partly executed, and of calls that can be retried later.
const AMBIGUOUS_ERRORS: &[&str] = &["internal_error", "fatal_error", "request_timeout"];
const RETRYABLE_ERRORS: &[&str] = &[
    "accesslimited",
    "message_limit_exceeded",
    "service_unavailable",
    // The message is still streaming. The stop is retried, and Slack ends streams after a while.
    "streaming_state_conflict",
    "team_added_to_org",
    "no_shadow_user",
];

impl SlackError {
    /// Creates a rejection with this error code.
    pub fn rejection(method: SlackMethod, code: impl Into<String>) -> Self {
        Self::Rejected {
            method,
            code: code.into(),
            needed_scopes: None,
        }
    }

    /// Returns the error code for logs, metrics and decisions: Slack's own, or ours if Slack sent none.
    pub fn code(&self) -> &str {
        match self {
            Self::Rejected { code: word, .. } => word,
            Self::RateLimited { .. } => "ratelimited",
            Self::Unreachable { .. } => "unreachable",
            Self::TimedOut { .. } => "timed_out",
            Self::ConnectionBroken { .. } => "broken",
            Self::HttpStatus { .. } => "http_status",
            Self::Unreadable { .. } => "unreadable",
            Self::TooLarge { .. } => "too_large",
            Self::ForbiddenHost { .. } => "forbidden_host",
        }
    }

    /// Returns true if Slack rejected the call with this error code.
    pub fn is_code(&self, code: &str) -> bool {
        matches!(self, Self::Rejected { code: own, .. } if own == code)
    }

    /// Returns true if Slack rejected the call with an unknown error code, or with an HTTP 4xx status without a code
    /// (which may be a proxy's). It may be permanent or temporary; callers retry a few times before treating it as
    /// permanent.
    pub fn is_unknown_code(&self) -> bool {
        match self {
            Self::Rejected { code: word, .. } => {
                let code = word.as_str();
                [AMBIGUOUS_ERRORS, RETRYABLE_ERRORS, PERMANENT_ERRORS]
                    .iter()
                    .all(|codes| !codes.contains(&code))
            }
            Self::HttpStatus { status, .. } => (400..500).contains(status) && !self.is_retryable(),
            _ => false,
        }
    }

    /// Returns true if Slack may have executed the call; check before sending it again.
    pub fn is_ambiguous(&self) -> bool {
        match self {
            Self::Rejected { code: word, .. } => {
                AMBIGUOUS_ERRORS.contains(&word.as_str()) || self.is_unknown_code()
            }
            Self::TimedOut { .. }
            | Self::ConnectionBroken { .. }
            | Self::Unreadable { .. }
            | Self::TooLarge { .. } => true,
            Self::HttpStatus { status, .. } => *status >= 500 || *status == 408,
            Self::RateLimited { .. } | Self::Unreachable { .. } | Self::ForbiddenHost { .. } => {
                false
            }
        }
    }

    /// Returns true if another attempt may succeed, including after an expired token is refreshed.
    pub fn is_retryable_after_refresh(&self) -> bool {
        self.is_retryable() || self.is_code("token_expired")
    }

    /// Returns true if the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Rejected { code: word, .. } => {
                let code = word.as_str();
                AMBIGUOUS_ERRORS.contains(&code) || RETRYABLE_ERRORS.contains(&code)
            }
            Self::RateLimited { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::ConnectionBroken { .. }
            | Self::Unreadable { .. } => true,
            Self::HttpStatus { status, .. } => *status >= 500 || matches!(status, 408 | 425 | 429),
            Self::TooLarge { .. } | Self::ForbiddenHost { .. } => false,
        }
    }

    /// Returns the delay that Slack requested.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { after, .. } => Some(*after),
            _ => None,
        }
    }

    /// Classifies a request without a response.
    pub(super) fn from_reqwest(operation: &'static str, error: reqwest::Error) -> Self {
        // The URL of a file contains a secret.
        let source = error.without_url();
        if source.is_connect() || source.is_builder() {
            let source = Arc::new(source);
            return Self::Unreachable { operation, source };
        }
        if source.is_timeout() {
            return Self::TimedOut { operation };
        }
        let source = Arc::new(source);
        Self::ConnectionBroken { operation, source }
    }
}

/// Returns the error code if it is safe to log, else `unknown_error`.
pub(super) fn sanitize_code(code: &str) -> String {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if (1..=64).contains(&code.len()) && code.bytes().all(is_allowed) {
        code.to_owned()
    } else {
        "unknown_error".to_owned()
    }
}

/// Returns the scopes if they are safe to log.
pub(super) fn sanitize_scopes(scopes: &str) -> Option<String> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || b":._-, ".contains(&byte);
    ((1..=256).contains(&scopes.len()) && scopes.bytes().all(is_allowed)).then(|| scopes.to_owned())
}
