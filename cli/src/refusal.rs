//! A call that did not succeed: what to say of it, and what to do next.
//!
//! The server's words are shown, escaped; what they mean for the user is said in ours.

use crate::exit::Exit;
use crate::printable;
use crate::reach::{Away, root};
use interzone_client::{ConfigError, Error, Refusal, TokenError, TransportError};
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp::codes;
use serde::Serialize;
use std::fmt;

/// What is told of an error.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    error: Words,
    #[serde(skip)]
    pub(crate) exit: Exit,
}

#[derive(Debug, Serialize)]
struct Words {
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Told {
    /// Something that is told without an answer of the server.
    pub(crate) fn new(exit: Exit, message: String, advice: Option<String>) -> Self {
        Self {
            error: Words {
                message,
                code: None,
                data: None,
                advice,
            },
            exit,
        }
    }

    /// What is wrong, without what to do about it.
    pub(crate) fn message(&self) -> &str {
        &self.error.message
    }

    pub(crate) fn of(error: &Error) -> Self {
        let (exit, message, advice) = match error {
            Error::Refused(refusal) => refused(refusal),
            Error::Config(error) => config(error),
            Error::Transport(error) => transport(error),
            Error::TimedOut { .. } => (
                Exit::TimedOut,
                error.to_string(),
                Some("try again; if it stays so, look at the server's log".to_owned()),
            ),
            Error::CircuitOpen { .. } => (Exit::Unreachable, error.to_string(), None),
            Error::Token(error) => token(error),
            Error::Http { status, .. } if matches!(status.as_u16(), 401 | 403) => (
                Exit::Refused,
                error.to_string(),
                Some("check the credentials".to_owned()),
            ),
            Error::Http { .. } | Error::Answer(_) => (
                Exit::No,
                error.to_string(),
                Some("is this an ACP server? `interzone check URL` tells more".to_owned()),
            ),
            other => (Exit::Misuse, other.to_string(), None),
        };
        let refusal = error.refusal();
        let data = refusal.and_then(|refusal| refusal.data.as_ref());
        Self {
            error: Words {
                message,
                code: refusal.map(|refusal| refusal.code.get()),
                data: data.and_then(|data| data.decode().ok()),
                advice,
            },
            exit,
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", printable::text(&self.error.message))?;
        match &self.error.advice {
            Some(advice) => writeln!(f, "  next: {}", printable::text(advice)),
            None => Ok(()),
        }
    }
}

type Parts = (Exit, String, Option<String>);

fn refused(refusal: &Refusal) -> Parts {
    let message = format!("{} ({})", refusal.message, refusal.code);
    let suggestion = || refusal.detail::<String>("suggestion");
    match refusal.code {
        codes::INSUFFICIENT_SCOPE => {
            let required: Vec<String> = refusal.detail("requiredScopes").unwrap_or_default();
            let provided: Vec<String> = refusal.detail("providedScopes").unwrap_or_default();
            let missing: Vec<String> = required
                .into_iter()
                .filter(|scope| !provided.contains(scope))
                .collect();
            let advice = if missing.is_empty() {
                "use a client that has the scope".to_owned()
            } else {
                format!(
                    "the token lacks {}; use a client that has it, or make one: interzone client \
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
                "give --client-id with --client-secret-file, or --token-file; `interzone up` \
                 makes credentials that are found by themselves"
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
            let advice = refusal
                .retry_after
                .map(|wait| format!("try again in {} s", wait.as_secs().max(1)));
            (Exit::Refused, message, advice)
        }
        codes::TASK_NOT_FOUND => (
            Exit::No,
            message,
            Some("`interzone task list` shows your tasks".to_owned()),
        ),
        codes::AGENT_NOT_AVAILABLE => (
            Exit::No,
            message,
            suggestion().or_else(|| Some("leave --agent out to ask the default agent".to_owned())),
        ),
        ErrorCode::INVALID_PARAMS => {
            let field = refusal.detail::<String>("field");
            (
                Exit::No,
                message,
                field.map(|field| format!("look at {field}")),
            )
        }
        _ => (Exit::No, message, suggestion()),
    }
}

fn config(error: &ConfigError) -> Parts {
    let advice = match error {
        ConfigError::PlainHttp { .. } => {
            Some("--insecure-http allows it, for development".to_owned())
        }
        ConfigError::File { .. } | ConfigError::Pem { .. } => {
            Some("name a CA certificate in PEM with --ca".to_owned())
        }
        _ => None,
    };
    (Exit::Misuse, error.to_string(), advice)
}

fn transport(error: &TransportError) -> Parts {
    let away = Away::by(error);
    let advice = match away {
        Away::Refused | Away::Else => {
            "is it running, and is the address right? `interzone up` starts one here".to_owned()
        }
        _ => away.next("--ca", "--url"),
    };
    let why = away.said().map_or_else(|| root(error), str::to_owned);
    (Exit::Unreachable, format!("{error}: {why}"), Some(advice))
}

fn token(error: &TokenError) -> Parts {
    let advice = match error {
        TokenError::Unreachable(inner) => {
            let told = Told::of(inner);
            return (
                told.exit,
                format!("{error}: {}", told.error.message),
                told.error.advice,
            );
        }
        TokenError::Refused { error: word, .. } => match word.as_str() {
            "invalid_client" => "the client id or secret is wrong, or the client was removed",
            "invalid_scope" => {
                "the client may not have that scope: interzone client list shows what it has"
            }
            "unauthorized_client" => "the client may not get tokens in this way",
            _ => "check the credentials",
        },
        TokenError::NoCredentials => {
            "give --client-id with --client-secret-file, or --token-file; `interzone up` makes \
             credentials that are found by themselves"
        }
        TokenError::NoEndpoint => "give --token-file with a token from your issuer",
        TokenError::SessionOver => "interzone token --login",
        _ => return (Exit::Refused, error.to_string(), None),
    };
    (Exit::Refused, error.to_string(), Some(advice.to_owned()))
}
