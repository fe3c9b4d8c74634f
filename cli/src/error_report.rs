//! Report of a failed call: message, exit code and remedy.
//!
//! The server's message is shown escaped.

use crate::connect_error::{ConnectFailure, root_cause};
use crate::exit::Exit;
use crate::printable;
use interzone_client::{ConfigError, Error, RpcError, TokenError, TransportError};
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp::codes;
use serde::Serialize;
use std::fmt;

/// Report of an error, as text or JSON.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorReport {
    error: ReportBody,
    #[serde(skip)]
    pub(crate) exit: Exit,
}

#[derive(Debug, Serialize)]
struct ReportBody {
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl ErrorReport {
    /// Creates a report without an error from the server.
    pub(crate) fn new(exit: Exit, message: String, advice: Option<String>) -> Self {
        Self {
            error: ReportBody {
                message,
                code: None,
                data: None,
                advice,
            },
            exit,
        }
    }

    /// Returns the message without the remedy.
    pub(crate) fn message(&self) -> &str {
        &self.error.message
    }

    pub(crate) fn from_client_error(error: &Error) -> Self {
        let (exit, message, advice) = match error {
            Error::Rpc(refusal) => rpc_error(refusal),
            Error::Config(error) => config_error(error),
            Error::Transport(error) => transport_error(error),
            Error::TimedOut { .. } => (
                Exit::TimedOut,
                error.to_string(),
                Some("try again; if it persists, look at the server's log".to_owned()),
            ),
            Error::CircuitOpen { .. } => (Exit::Unreachable, error.to_string(), None),
            Error::Token(error) => token_error(error),
            Error::Http { status, .. } if matches!(status.as_u16(), 401 | 403) => (
                Exit::Refused,
                error.to_string(),
                Some("check the credentials".to_owned()),
            ),
            Error::Http { .. } | Error::InvalidResponse(_) => (
                Exit::Failed,
                error.to_string(),
                Some(
                    "check that this is an ACP server: `interzone check URL` shows details"
                        .to_owned(),
                ),
            ),
            other => (Exit::Misuse, other.to_string(), None),
        };
        let refusal = error.rpc_error();
        let data = refusal.and_then(|refusal| refusal.data.as_ref());
        Self {
            error: ReportBody {
                message,
                code: refusal.map(|refusal| refusal.code.get()),
                data: data.and_then(|data| data.decode().ok()),
                advice,
            },
            exit,
        }
    }
}

impl fmt::Display for ErrorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", printable::text(&self.error.message))?;
        match &self.error.advice {
            Some(advice) => writeln!(f, "  next: {}", printable::text(advice)),
            None => Ok(()),
        }
    }
}

type ReportParts = (Exit, String, Option<String>);

fn rpc_error(error: &RpcError) -> ReportParts {
    let message = format!("{} ({})", error.message, error.code);
    let suggestion = || error.data_field::<String>("suggestion");
    match error.code {
        codes::INSUFFICIENT_SCOPE => {
            let required: Vec<String> = error.data_field("requiredScopes").unwrap_or_default();
            let provided: Vec<String> = error.data_field("providedScopes").unwrap_or_default();
            let missing: Vec<String> = required
                .into_iter()
                .filter(|scope| !provided.contains(scope))
                .collect();
            let advice = if missing.is_empty() {
                "use a client that has the scope".to_owned()
            } else {
                format!(
                    "the token is missing {}; use a client that has it, or create one: interzone client \
                     add --name NAME --scope {}",
                    missing.join(" and "),
                    missing.join(" --scope ")
                )
            };
            (Exit::Refused, message, Some(advice))
        }
        codes::AUTHENTICATION_FAILED => (
            Exit::Refused,
            message,
            Some(
                "pass --client-id with --client-secret-file, or --token-file; `interzone up` \
                 creates credentials that are found automatically"
                    .to_owned(),
            ),
        ),
        codes::TOKEN_EXPIRED => (
            Exit::Refused,
            message,
            Some("get a new token: interzone token".to_owned()),
        ),
        codes::PERMISSION_DENIED => (Exit::Refused, message, suggestion()),
        codes::RATE_LIMITED => {
            let advice = error
                .retry_after
                .map(|wait| format!("try again in {} s", wait.as_secs().max(1)));
            (Exit::Refused, message, advice)
        }
        codes::TASK_NOT_FOUND => (
            Exit::Failed,
            message,
            Some("`interzone task list` shows your tasks".to_owned()),
        ),
        codes::AGENT_NOT_AVAILABLE => (
            Exit::Failed,
            message,
            suggestion().or_else(|| Some("omit --agent to use the default agent".to_owned())),
        ),
        ErrorCode::INVALID_PARAMS => {
            let field = error.data_field::<String>("field");
            (
                Exit::Failed,
                message,
                field.map(|field| format!("check {field}")),
            )
        }
        _ => (Exit::Failed, message, suggestion()),
    }
}

fn config_error(error: &ConfigError) -> ReportParts {
    let advice = match error {
        ConfigError::PlainHttp { .. } => {
            Some("--insecure-http allows it, for development".to_owned())
        }
        ConfigError::File { .. } | ConfigError::Pem { .. } => {
            Some("pass a CA certificate (PEM) with --ca".to_owned())
        }
        _ => None,
    };
    (Exit::Misuse, error.to_string(), advice)
}

fn transport_error(error: &TransportError) -> ReportParts {
    let failure = ConnectFailure::from_error(error);
    let advice = match failure {
        ConnectFailure::ConnectionRefused | ConnectFailure::Other => {
            "check that the server is running and the URL is correct; `interzone up` starts a local one".to_owned()
        }
        _ => failure.hint("--ca", "--url"),
    };
    let reason = failure
        .message()
        .map_or_else(|| root_cause(error), str::to_owned);
    (
        Exit::Unreachable,
        format!("{error}: {reason}"),
        Some(advice),
    )
}

fn token_error(error: &TokenError) -> ReportParts {
    let advice = match error {
        TokenError::Unreachable(inner) => {
            let report = ErrorReport::from_client_error(inner);
            return (
                report.exit,
                format!("{error}: {}", report.error.message),
                report.error.advice,
            );
        }
        TokenError::Refused { error: code, .. } => match code.as_str() {
            "invalid_client" => "the client id or secret is wrong, or the client was removed",
            "invalid_scope" => {
                "the client may not request this scope; `interzone client list` shows its scopes"
            }
            "unauthorized_client" => "the client is not allowed to use this grant type",
            _ => "check the credentials",
        },
        TokenError::NoCredentials => {
            "pass --client-id with --client-secret-file, or --token-file; `interzone up` creates \
             credentials that are found automatically"
        }
        TokenError::NoEndpoint => "pass --token-file with a token from your issuer",
        TokenError::SessionExpired => "interzone token --login",
        _ => return (Exit::Refused, error.to_string(), None),
    };
    (Exit::Refused, error.to_string(), Some(advice.to_owned()))
}
