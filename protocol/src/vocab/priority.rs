//! How soon work is taken up.

use serde::{Deserialize, Serialize};

/// Orders work that waits; it never interrupts work that runs.
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
    /// When nothing else waits.
    Low,
    /// In its turn.
    #[default]
    Normal,
    /// Before its turn.
    High,
    /// Next.
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

    /// The priority with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|priority| priority.name() == name)
    }
}
