//! Maps client errors to the outcome of a turn: failures of the peer's task keep its message, all other errors get a
//! stable error code and details for the operator only.

use interzone_client::Error;
use interzone_hub::{AgentError, TurnOutcome, failure_message};
use interzone_protocol::zone::{ErrorReason, codes};

/// Returns the outcome of a turn that failed with this error.
pub(super) fn outcome_of_error(error: &Error) -> Result<TurnOutcome, AgentError> {
    let code = error.reason();
    // Messages of task failures are meant for the caller.
    let task_failure = error
        .rpc_error()
        .filter(|refusal| [codes::DOMAIN, codes::TIMEOUT].contains(&refusal.code));
    match (task_failure, code) {
        (Some(refusal), ErrorReason::AgentRejected) => Ok(TurnOutcome::Rejected(Some(
            failure_message(code.name(), &refusal.message),
        ))),
        (Some(refusal), _) => Ok(TurnOutcome::Failed(failure_message(
            code.name(),
            &refusal.message,
        ))),
        (None, _) => Err(agent_error(error)),
    }
}

/// Converts an error that is not a failure of the task.
pub(super) fn agent_error(error: &Error) -> AgentError {
    let code = match error.reason() {
        ErrorReason::Unavailable | ErrorReason::AgentUnavailable => ErrorReason::AgentUnavailable,
        // The peer rejected our request; the caller cannot fix that.
        ErrorReason::ParseError
        | ErrorReason::InvalidRequest
        | ErrorReason::InvalidParams
        | ErrorReason::MethodNotFound
        | ErrorReason::TaskNotFound
        | ErrorReason::TaskFinished => ErrorReason::AgentFailed,
        word => word,
    };
    AgentError {
        code: code.name(),
        detail: format!("the peer failed: {error}"),
    }
}
