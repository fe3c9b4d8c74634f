//! Agents: those that are built in, and those that stand for any program and for agents elsewhere.
//!
//! An agent gets a turn and puts out what it makes; it knows nothing of queues, leases or stores, and
//! no user's address is ever opened from here.

mod command;
mod demo;
mod llm;
mod remote;

#[cfg(target_os = "linux")]
pub use command::run_program;
pub use command::{CommandAgent, CommandError, CommandOptions, INHERITED, Supervisor};
pub use demo::DemoAgent;
#[cfg(feature = "aws")]
pub use llm::BedrockCredentials;
pub use llm::{LlmAgent, LlmError, LlmOptions, Provider};
pub use remote::{MOST_HOPS, RemoteAgent, RemoteDialect, RemoteOptions};

use interzone_hub::{AgentError, HubError};

/// Why an agent stopped that could not put out what it made.
pub(crate) fn refused(error: HubError) -> AgentError {
    match error {
        HubError::Stopped => stopped(),
        error => AgentError {
            code: "agent_output",
            detail: format!("what it put out was not taken: {error}"),
        },
    }
}

/// The end of an agent that was told to stop: nobody reads it but those who told it.
pub(crate) fn stopped() -> AgentError {
    AgentError {
        code: "agent_stopped",
        detail: "told to stop".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
