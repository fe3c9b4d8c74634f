//! Why a handler did not do a call. The codes and the words are given in the map, not here.

use super::{WireError, echo, to_wire, whole_seconds};
use interzone_hub::{HubError, Registry};
use interzone_protocol::Dialect;
use interzone_protocol::vocab::AgentId;

/// Why a call was not done: by the hub's rules, or before it was asked.
#[derive(Debug)]
pub(crate) enum Fault {
    Hub(HubError),
    /// Boxed, for most calls do not fail.
    Wire(Box<WireError>),
}

impl Fault {
    /// The hub's refusal of a call that asked for an agent by name, with the moment at which that one
    /// is back, if it is known here.
    pub(crate) fn for_agent(error: HubError, asked_for: Option<String>, agents: &Registry) -> Self {
        let (HubError::AgentUnavailable, Some(name)) = (&error, asked_for) else {
            return Self::Hub(error);
        };
        let wire = to_wire(&error, Dialect::Acp).and("agentId", echo(&name));
        let known = AgentId::new(&*name).ok();
        let back = known.and_then(|id| agents.get(&id)?.back_in());
        match back {
            Some(wait) => wire.and("retryAfter", whole_seconds(wait).max(1)).into(),
            None => wire.into(),
        }
    }
}

impl From<HubError> for Fault {
    fn from(error: HubError) -> Self {
        Self::Hub(error)
    }
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Self {
        Self::Wire(Box::new(error))
    }
}
