//! The organization that runs a zone.

use serde::{Deserialize, Serialize};

/// The organization that runs a zone and its agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    /// Name of the organization.
    pub organization: String,
    /// Email address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// Website.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website: Option<String>,
}
