//! Message roles.

use serde::{Deserialize, Serialize};

/// Author of a message.
///
/// ```
/// use interzone_protocol::vocab::Role;
///
/// assert_eq!(serde_json::to_string(&Role::Agent)?, r#""agent""#);
/// assert_eq!(Role::from_a2a_v1("ROLE_USER"), Some(Role::User));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The asking side: a human user, or an agent that calls another.
    User,
    /// The agent that answers.
    Agent,
    /// The system.
    System,
}

impl Role {
    /// The name in A2A 1.0, which has no system role: system messages are sent as the user's.
    pub const fn a2a_v1(self) -> &'static str {
        match self {
            Self::User | Self::System => "ROLE_USER",
            Self::Agent => "ROLE_AGENT",
        }
    }

    /// The role with this name in A2A 1.0.
    pub fn from_a2a_v1(name: &str) -> Option<Self> {
        match name {
            "ROLE_USER" => Some(Self::User),
            "ROLE_AGENT" => Some(Self::Agent),
            _ => None,
        }
    }

    /// The name in ACP.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::System => "system",
        }
    }

    /// The name in A2A 0.3, which has no system role either.
    pub const fn a2a_v03(self) -> &'static str {
        match self {
            Self::User | Self::System => "user",
            Self::Agent => "agent",
        }
    }

    /// The role with this name in A2A 0.3.
    pub fn from_a2a_v03(name: &str) -> Option<Self> {
        match name {
            "user" => Some(Self::User),
            "agent" => Some(Self::Agent),
            _ => None,
        }
    }
}
