//! What goes wrong between the zones: each reason has a word of the contract, and the word has its code
//! and its sentence. What a user is shown is decided by whoever talks to users.

use super::{WireError, echo, store_word};
use axum::http::StatusCode;
use interzone_hub::HubError;
use interzone_hub::ports::StoreError;
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp;
use interzone_protocol::zone::{ErrorWord, codes};
use serde_json::{Value, json};
use std::time::Duration;

/// The member of `data` that every error has.
pub(super) const ERROR_CODE: &str = "error_code";

/// The most characters of an agent's own words that are told on.
const LONGEST_DETAIL: usize = 2_000;

/// The error that a word stands for.
pub(crate) fn of_word(word: ErrorWord) -> WireError {
    let http = match word {
        ErrorWord::ParseError | ErrorWord::InvalidRequest => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    WireError::new(word.code(), http, sentence(word), word.name())
        .with(json!({ERROR_CODE: word.name()}))
}

/// The hub's refusal.
pub(super) fn of(error: &HubError) -> WireError {
    match error {
        HubError::TaskNotFound(id) => unknown_task(id.as_str()),
        HubError::TaskFinished { id, state } => of_word(ErrorWord::TaskFinished)
            .and("task_id", id.as_str())
            .and("state", state.name()),
        HubError::IllegalMove { from, .. } => {
            of_word(ErrorWord::TaskNotWaiting).and("state", from.name())
        }
        HubError::AgentUnavailable => of_word(ErrorWord::AgentUnavailable),
        HubError::NotAllowed => of_word(ErrorWord::AccessDenied),
        HubError::TooLarge { what, limit } => {
            field(*what, format!("at most {limit} bytes"), "more than that")
        }
        HubError::TooMany { what, limit } => {
            field(*what, format!("at most {limit}"), "more than that")
        }
        HubError::Invalid {
            field: name,
            reason,
        } => field(*name, *reason, "something else"),
        HubError::Contended => unavailable("contended"),
        HubError::NoMemory => unavailable("no_room"),
        HubError::Stopped => internal("stopped"),
        HubError::Store(error) => match store_word(error) {
            (word, true) => unavailable(word),
            // Whether it was written is not known, but a repetition finds the same task.
            (word, false) if matches!(error, StoreError::InDoubt(_)) => unavailable(word),
            (word, false) => internal(word),
        },
        // Streams and subscriptions have no method between the zones.
        HubError::StreamNotFound(_)
        | HubError::StreamNotActive { .. }
        | HubError::SubscriptionNotFound(_)
        | HubError::SubscriptionNotReady { .. } => internal("not_a_task"),
    }
}

/// There is no such task, as far as the caller may know.
pub(crate) fn unknown_task(id: &str) -> WireError {
    of_word(ErrorWord::TaskNotFound).and("task_id", echo(id))
}

/// Params that must be there and are absent or blank. A question that is empty is the user's mistake and
/// has a word of its own; anything else is the caller's.
pub(crate) fn missing(names: &[&str], nothing_asked: bool) -> WireError {
    let word = if nothing_asked {
        ErrorWord::MissingText
    } else {
        ErrorWord::InvalidParams
    };
    of_word(word).and("missing", names.to_vec())
}

/// A member of the params that does not fit.
pub(crate) fn field(
    path: impl Into<String>,
    expected: impl Into<String>,
    received: impl Into<String>,
) -> WireError {
    of_word(ErrorWord::InvalidParams)
        .and("field", path.into())
        .and("expected", expected.into())
        .and("received", received.into())
}

/// Why a task failed: by the word that its agent left, if that is one which an agent can mean. What the
/// agent says to the caller is told on, cut to a bearable length.
pub(crate) fn of_failure(left: Option<&str>, said: Option<&str>) -> WireError {
    let word = match left {
        Some("agent_timeout") => ErrorWord::AsyncTimeout,
        Some(name) => ErrorWord::from_name(name)
            .filter(|word| is_an_agents(*word))
            .unwrap_or(ErrorWord::AgentFailed),
        None => ErrorWord::AgentFailed,
    };
    detailed(of_word(word), said)
}

/// The error with what the agent says to the caller.
pub(crate) fn detailed(error: WireError, said: Option<&str>) -> WireError {
    let said = said.map(str::trim).filter(|said| !said.is_empty());
    match said {
        Some(said) => error.and(
            "detail",
            said.chars().take(LONGEST_DETAIL).collect::<String>(),
        ),
        None => error,
    }
}

/// Whether an agent can mean a word: those of the envelope and of the tasks themselves are ours to say.
fn is_an_agents(word: ErrorWord) -> bool {
    let domain = [codes::DOMAIN, codes::TIMEOUT].contains(&word.code());
    let ours = [
        ErrorWord::TaskFinished,
        ErrorWord::TaskNotFound,
        ErrorWord::Canceled,
    ];
    domain && !ours.contains(&word)
}

/// Whoever asks too often.
pub(crate) fn too_fast(wait: Duration, limit: u32) -> WireError {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let mut error = of_word(ErrorWord::RateLimited)
        .and("retry_after", seconds)
        .and("limit", limit);
    error.retry_after = Some(seconds);
    error
}

fn internal(word: &'static str) -> WireError {
    WireError {
        word,
        ..of_word(ErrorWord::InternalError)
    }
}

fn unavailable(word: &'static str) -> WireError {
    let mut error = of_word(ErrorWord::Unavailable).and("retry_after", 1);
    error.word = word;
    error.retry_after = Some(1);
    error
}

/// An error that was not made for this dialect, as it is told in it. Who may not is told as ACP tells it.
pub(crate) fn dressed(error: WireError) -> WireError {
    let has_word = |data: &Value| data.get(ERROR_CODE).is_some();
    let of_here = error.data.as_ref().is_some_and(has_word);
    match error.code {
        _ if of_here && error.http == StatusCode::OK => error,
        ErrorCode::INTERNAL_ERROR if error.retry_after.is_some() => unavailable(error.word),
        ErrorCode::INTERNAL_ERROR => internal(error.word),
        ErrorCode::INVALID_PARAMS => error.and(ERROR_CODE, ErrorWord::InvalidParams.name()),
        ErrorCode::METHOD_NOT_FOUND => error.and(ERROR_CODE, ErrorWord::MethodNotFound.name()),
        ErrorCode::PARSE_ERROR => error.and(ERROR_CODE, ErrorWord::ParseError.name()),
        ErrorCode::INVALID_REQUEST => error.and(ERROR_CODE, ErrorWord::InvalidRequest.name()),
        acp::codes::RATE_LIMITED => WireError {
            http: StatusCode::OK,
            code: ErrorWord::RateLimited.code(),
            ..error.and(ERROR_CODE, ErrorWord::RateLimited.name())
        },
        _ => {
            let word = error.word;
            error.and(ERROR_CODE, word)
        }
    }
}

/// What a word says, shortly and to programmers.
const fn sentence(word: ErrorWord) -> &'static str {
    match word {
        ErrorWord::ParseError => "Parse error",
        ErrorWord::InvalidRequest => "Invalid Request",
        ErrorWord::MethodNotFound => "Method not found",
        ErrorWord::InvalidParams => "Invalid params",
        ErrorWord::InternalError => "Internal error",
        ErrorWord::Unavailable => "Service unavailable; try again",
        ErrorWord::ModelTimeout => "The model took too long",
        ErrorWord::AsyncTimeout => "The task took too long",
        ErrorWord::ModelThrottling => "The model has too much to do; try later",
        ErrorWord::Throttling => "The platform has too much to do; try later",
        ErrorWord::RateLimited => "Rate limit exceeded",
        ErrorWord::ModelAccessDenied => "The model does not let us in",
        ErrorWord::AccessDenied => "Access denied",
        ErrorWord::InvalidResponse => "What the model said cannot be used",
        ErrorWord::ResponseReadError => "The answer broke off on its way",
        ErrorWord::AttachmentDownloadFailed => "An attachment could not be fetched",
        ErrorWord::DownloadFailed => "A file could not be fetched",
        ErrorWord::UrlNotAvailable => {
            "An attachment has neither content nor an address that may be asked"
        }
        ErrorWord::FileTooLarge => "A file is too large",
        ErrorWord::FileBomb => "A file unpacks to too much",
        ErrorWord::UnsupportedFileType => "A file is of a type that is not supported",
        ErrorWord::UnsupportedImageType => "A picture is of a type that is not supported",
        ErrorWord::UnsupportedType => "A type is not supported",
        ErrorWord::ExtractionFailed => "A file could not be read",
        ErrorWord::FileEncrypted => "A file is locked with a password",
        ErrorWord::FileReaderUnavailable => "File reading is temporarily unavailable; try again",
        ErrorWord::ToolFailure => "A file could not be made",
        ErrorWord::AsyncTaskFailed => "The task failed",
        ErrorWord::PollError => "What came of the task could not be asked",
        ErrorWord::MissingText => "There is neither text nor attachment",
        ErrorWord::Canceled => "The task was canceled",
        ErrorWord::AgentFailed => "The agent could not do it",
        ErrorWord::AgentRejected => "The agent will not do it",
        ErrorWord::AgentUnavailable => "No agent is available for this",
        ErrorWord::TaskFinished => "The task is finished",
        ErrorWord::TaskNotWaiting => "The task waits for no answer",
        ErrorWord::TaskNotFound => "Task not found",
    }
}
