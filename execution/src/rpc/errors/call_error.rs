//! Error of a handler, before it is mapped to a response.

use super::{WireError, ceil_seconds, to_wire, truncate_echo};
use interzone_hub::{HubError, Registry};
use interzone_protocol::Dialect;
use interzone_protocol::vocab::AgentId;

/// Error of a call: from the hub, or a ready error response.
#[derive(Debug)]
pub(crate) enum CallError {
    Hub(HubError),
    /// Boxed, since most calls do not fail.
    Wire(Box<WireError>),
}

impl CallError {
    /// Creates the error of a call that requested an agent by name, with the time at which the agent is available
    /// again, if known.
    pub(crate) fn for_agent(
        error: HubError,
        requested_agent: Option<String>,
        agents: &Registry,
    ) -> Self {
        let (HubError::AgentUnavailable, Some(name)) = (&error, requested_agent) else {
            return Self::Hub(error);
        };
        let wire = to_wire(&error, Dialect::Acp).with_field("agentId", truncate_echo(&name));
        let agent_id = AgentId::new(&*name).ok();
        let available_in = agent_id.and_then(|id| agents.get(&id)?.retry_after());
        match available_in {
            Some(wait) => wire
                .with_field("retryAfter", ceil_seconds(wait).max(1))
                .into(),
            None => wire.into(),
        }
    }
}

impl From<HubError> for CallError {
    fn from(error: HubError) -> Self {
        Self::Hub(error)
    }
}

impl From<WireError> for CallError {
    fn from(error: WireError) -> Self {
        Self::Wire(Box::new(error))
    }
}
