//! Users and the bot, and their JSON form in Slack's API.

use serde_json::{Value, json};

/// A user of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaygroundUser {
    /// User id.
    pub id: String,
    /// Handle.
    pub name: String,
    /// Display name.
    pub display_name: String,
    /// Full name.
    pub real_name: String,
    /// Locale, such as `ja-JP`.
    pub locale: String,
    /// True if deactivated.
    pub deleted: bool,
    /// True for the app's bot user.
    pub is_bot: bool,
    /// True for a guest.
    pub is_restricted: bool,
}

impl PlaygroundUser {
    pub(crate) fn to_json(&self, team: &str, with_locale: bool) -> Value {
        let mut user = json!({
            "id": self.id, "team_id": team, "name": self.name, "deleted": self.deleted,
            "real_name": self.real_name, "tz": "Asia/Tokyo", "tz_offset": 32_400,
            "profile": {
                "real_name": self.real_name, "display_name": self.display_name,
                "real_name_normalized": self.real_name,
                "display_name_normalized": self.display_name,
                "team": team,
            },
            "is_bot": self.is_bot, "is_app_user": false, "updated": 1_700_000_000,
        });
        if let Some(fields) = user.as_object_mut() {
            // Slack omits these fields for deactivated users.
            if !self.deleted {
                for flag in ["is_admin", "is_owner", "is_primary_owner"] {
                    fields.insert(flag.to_owned(), false.into());
                }
                fields.insert("is_restricted".to_owned(), self.is_restricted.into());
                fields.insert("is_ultra_restricted".to_owned(), false.into());
                if with_locale {
                    fields.insert("locale".to_owned(), self.locale.clone().into());
                }
            }
        }
        user
    }
}
