//! States of tasks and streams, with their names in every dialect.
//!
//! The allowed transitions are defined in the hub.

use serde::{Deserialize, Serialize};

/// State of a task.
///
/// ```
/// use interzone_protocol::vocab::TaskState;
///
/// assert_eq!(TaskState::InputRequired.acp(), "INPUT_REQUIRED");
/// assert_eq!(TaskState::InputRequired.a2a_v1(), "TASK_STATE_INPUT_REQUIRED");
/// assert_eq!(TaskState::from_a2a_v03("input-required"), Some(TaskState::InputRequired));
/// assert!(TaskState::Rejected.is_terminal());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Accepted, waiting for an agent.
    Submitted,
    /// An agent is working on it.
    Working,
    /// The agent asked a question and waits for the answer.
    InputRequired,
    /// The agent waits for a user to sign in.
    AuthRequired,
    /// Finished successfully.
    Completed,
    /// Finished with an error.
    Failed,
    /// Canceled by a caller.
    Canceled,
    /// Refused by the agent.
    Rejected,
}

/// Names of a state: our own (used in stores), ACP, A2A 1.0, A2A 0.3, zones.
struct StateNames {
    own: &'static str,
    acp: &'static str,
    a2a_v1: &'static str,
    a2a_v03: &'static str,
    zone: &'static str,
}

impl TaskState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Submitted,
        Self::Working,
        Self::InputRequired,
        Self::AuthRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Rejected,
    ];

    #[rustfmt::skip] // one row a state
    const fn names(self) -> StateNames {
        let (own, acp, a2a_v1, a2a_v03, zone) = match self {
            Self::Submitted     => ("submitted", "SUBMITTED", "TASK_STATE_SUBMITTED", "submitted", "accepted"),
            Self::Working       => ("working", "WORKING", "TASK_STATE_WORKING", "working", "running"),
            Self::InputRequired => ("input_required", "INPUT_REQUIRED", "TASK_STATE_INPUT_REQUIRED", "input-required", "success"),
            Self::AuthRequired  => ("auth_required", "INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED", "auth-required", "success"),
            Self::Completed     => ("completed", "COMPLETED", "TASK_STATE_COMPLETED", "completed", "success"),
            Self::Failed        => ("failed", "FAILED", "TASK_STATE_FAILED", "failed", "error"),
            Self::Canceled      => ("canceled", "CANCELED", "TASK_STATE_CANCELED", "canceled", "error"),
            Self::Rejected      => ("rejected", "FAILED", "TASK_STATE_REJECTED", "rejected", "error"),
        };
        StateNames { own, acp, a2a_v1, a2a_v03, zone }
    }

    /// Our own name, used by stores and command agents.
    pub const fn name(self) -> &'static str {
        self.names().own
    }

    /// The name in ACP, which has no names for `auth_required` and `rejected`.
    pub const fn acp(self) -> &'static str {
        self.names().acp
    }

    /// The name in A2A 1.0.
    pub const fn a2a_v1(self) -> &'static str {
        self.names().a2a_v1
    }

    /// The name in A2A 0.3.
    pub const fn a2a_v03(self) -> &'static str {
        self.names().a2a_v03
    }

    /// The status between zones, where a question counts as success: its text is shown to the user.
    pub const fn zone(self) -> &'static str {
        self.names().zone
    }

    /// Finds a state by our own name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Finds a state by its ACP name; where two states share one, the state that ACP defines.
    pub fn from_acp(name: &str) -> Option<Self> {
        // `ALL` lists the states that ACP defines before those that share their names.
        Self::ALL.into_iter().find(|state| state.acp() == name)
    }

    /// Finds a state by its A2A 1.0 name.
    pub fn from_a2a_v1(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.a2a_v1() == name)
    }

    /// Finds a state by its A2A 0.3 name.
    pub fn from_a2a_v03(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.a2a_v03() == name)
    }

    /// Returns true if the state is final.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected
        )
    }

    /// Returns true if the task waits for input or sign-in.
    pub const fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

/// State of a stream.
///
/// ```
/// use interzone_protocol::vocab::StreamState;
///
/// assert_eq!(StreamState::Active.name(), "ACTIVE");
/// assert_eq!(StreamState::from_name("CLOSED"), Some(StreamState::Closed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StreamState {
    /// Accepts messages.
    Active,
    /// Temporarily accepts no messages.
    Paused,
    /// Ended.
    Closed,
}

impl StreamState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Active, Self::Paused, Self::Closed];

    /// The name on the wire and in stores.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Paused => "PAUSED",
            Self::Closed => "CLOSED",
        }
    }

    /// Finds a state by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_state_names_round_trip() {
        for state in TaskState::ALL {
            assert_eq!(TaskState::from_name(state.name()), Some(state));
            assert_eq!(TaskState::from_a2a_v1(state.a2a_v1()), Some(state));
            assert_eq!(TaskState::from_a2a_v03(state.a2a_v03()), Some(state));
            assert_eq!(
                serde_json::to_string(&state).unwrap(),
                format!("{:?}", state.name())
            );
            let state_in_acp = match state {
                TaskState::AuthRequired => TaskState::InputRequired,
                TaskState::Rejected => TaskState::Failed,
                other => other,
            };
            assert_eq!(TaskState::from_acp(state.acp()), Some(state_in_acp));
            assert!(!(state.is_terminal() && state.is_interrupted()));
        }
        for unknown in [
            "",
            "completed ",
            "UNKNOWN",
            "TASK_STATE_UNSPECIFIED",
            "unknown",
        ] {
            assert_eq!(TaskState::from_name(unknown), None);
            assert_eq!(TaskState::from_acp(unknown), None);
            assert_eq!(TaskState::from_a2a_v1(unknown), None);
            assert_eq!(TaskState::from_a2a_v03(unknown), None);
        }
    }

    #[test]
    fn task_states_map_to_four_zone_statuses() {
        let zone = TaskState::ALL.map(TaskState::zone);
        assert_eq!(
            zone,
            [
                "accepted", "running", "success", "success", "success", "error", "error", "error"
            ]
        );
    }
}
