//! What went wrong between us and the peer, as an end of the turn: the peer's own failures in its
//! words, everything else by a stable word and for the operator only.

use interzone_client::Error;
use interzone_hub::{AgentError, Outcome, failure};
use interzone_protocol::zone::{ErrorWord, codes};

/// How the turn ends after this error.
pub(super) fn ended(error: &Error) -> Result<Outcome, AgentError> {
    let word = error.error_word();
    // Failures of a task are told in words that are meant for whoever asked.
    let told = error
        .refusal()
        .filter(|refusal| [codes::DOMAIN, codes::TIMEOUT].contains(&refusal.code));
    match (told, word) {
        (Some(refusal), ErrorWord::AgentRejected) => Ok(Outcome::Rejected(Some(failure(
            word.name(),
            &refusal.message,
        )))),
        (Some(refusal), _) => Ok(Outcome::Failed(failure(word.name(), &refusal.message))),
        (None, _) => Err(broke(error)),
    }
}

/// The same for what is not a failure of the task.
pub(super) fn broke(error: &Error) -> AgentError {
    let word = match error.error_word() {
        ErrorWord::Unavailable | ErrorWord::AgentUnavailable => ErrorWord::AgentUnavailable,
        // What we said was not to the peer's liking; whoever asked cannot help that.
        ErrorWord::ParseError
        | ErrorWord::InvalidRequest
        | ErrorWord::InvalidParams
        | ErrorWord::MethodNotFound
        | ErrorWord::TaskNotFound
        | ErrorWord::TaskFinished => ErrorWord::AgentFailed,
        word => word,
    };
    AgentError {
        code: word.name(),
        detail: format!("the peer did not do it: {error}"),
    }
}
