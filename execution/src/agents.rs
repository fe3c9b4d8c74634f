//! Agents: the built-in ones, and adapters for external programs and remote agents.
//!
//! An agent is given a turn and writes its output. It has no access to queues, leases or stores, and it never opens
//! a URL supplied by a user.

mod command;
mod demo;
mod llm;
mod remote;

#[cfg(target_os = "linux")]
pub use command::run_program;
pub use command::{CommandAgent, CommandError, CommandOptions, INHERITED_ENV_VARS, Supervisor};
pub use demo::DemoAgent;
#[cfg(feature = "aws")]
pub use llm::BedrockCredentials;
pub use llm::{LlmAgent, LlmError, LlmOptions, LlmProvider};
pub use remote::{MAX_HOPS, RemoteAgent, RemoteDialect, RemoteOptions};

use interzone_hub::{AgentError, HubError};

/// Converts a failed write to the run's output into an agent error.
pub(crate) fn output_error(error: HubError) -> AgentError {
    match error {
        HubError::Stopped => stopped_error(),
        error => AgentError {
            code: "agent_output",
            detail: format!("the output was rejected: {error}"),
        },
    }
}

/// Error of a run that was canceled. Only the canceling worker sees it.
pub(crate) fn stopped_error() -> AgentError {
    AgentError {
        code: "agent_stopped",
        detail: "the run was canceled".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
