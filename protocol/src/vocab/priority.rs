//! Task priorities.

use serde::{Deserialize, Serialize};

/// Order of queued work; running work is never preempted.
///
/// ```
/// use interzone_protocol::vocab::Priority;
///
/// assert!(Priority::Urgent > Priority::High);
/// assert_eq!(serde_json::to_string(&Priority::default())?, r#""NORMAL""#);
/// assert!(serde_json::from_str::<Priority>(r#""MEDIUM""#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Priority {
    /// Runs when nothing else is queued.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Before normal work.
    High,
    /// Before all other work.
    Urgent,
}

impl Priority {
    /// All priorities, lowest first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Normal, Self::High, Self::Urgent];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "LOW",
            Self::Normal => "NORMAL",
            Self::High => "HIGH",
            Self::Urgent => "URGENT",
        }
    }

    /// Finds a priority by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|priority| priority.name() == name)
    }
}
