//! The states of tasks and streams, and their names in every dialect: one table, in one place.
//!
//! Which state may follow which is a rule, and rules live in the hub.

use serde::{Deserialize, Serialize};

/// Where a task stands.
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
    /// Accepted, and waiting for an agent.
    Submitted,
    /// An agent is at it.
    Working,
    /// The agent asked something and waits for the answer.
    InputRequired,
    /// The agent needs somebody to sign in, and waits for that.
    AuthRequired,
    /// Done.
    Completed,
    /// It could not be done.
    Failed,
    /// Somebody called it off.
    Canceled,
    /// The agent would not do it.
    Rejected,
}

/// A state's names: ours (kept in stores), ACP, A2A 1.0, A2A 0.3, zones.
struct Names {
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
    const fn names(self) -> Names {
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
        Names { own, acp, a2a_v1, a2a_v03, zone }
    }

    /// Our own name, which stores and command agents use.
    pub const fn name(self) -> &'static str {
        self.names().own
    }

    /// The name in ACP, which knows neither a needed sign-in nor a refusal.
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

    /// The status between zones. A question counts as an answer there: it is the text to show.
    pub const fn zone(self) -> &'static str {
        self.names().zone
    }

    /// The state with this name of ours.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The state with this name in ACP; where two share it, the one that ACP means.
    pub fn from_acp(name: &str) -> Option<Self> {
        // The states that ACP knows stand before those that borrow their names.
        Self::ALL.into_iter().find(|state| state.acp() == name)
    }

    /// The state with this name in A2A 1.0.
    pub fn from_a2a_v1(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.a2a_v1() == name)
    }

    /// The state with this name in A2A 0.3.
    pub fn from_a2a_v03(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.a2a_v03() == name)
    }

    /// Whether nothing can follow.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected
        )
    }

    /// Whether the task waits for somebody outside.
    pub const fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

/// Where a stream stands.
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
    /// Messages flow.
    Active,
    /// Nothing flows for now.
    Paused,
    /// Over.
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

    /// The state with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back() {
        for state in TaskState::ALL {
            assert_eq!(TaskState::from_name(state.name()), Some(state));
            assert_eq!(TaskState::from_a2a_v1(state.a2a_v1()), Some(state));
            assert_eq!(TaskState::from_a2a_v03(state.a2a_v03()), Some(state));
            assert_eq!(
                serde_json::to_string(&state).unwrap(),
                format!("{:?}", state.name())
            );
            let via_acp = match state {
                TaskState::AuthRequired => TaskState::InputRequired,
                TaskState::Rejected => TaskState::Failed,
                other => other,
            };
            assert_eq!(TaskState::from_acp(state.acp()), Some(via_acp));
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
    fn zones_see_four_words() {
        let zone = TaskState::ALL.map(TaskState::zone);
        assert_eq!(
            zone,
            [
                "accepted", "running", "success", "success", "success", "error", "error", "error"
            ]
        );
    }
}
