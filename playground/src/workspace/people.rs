//! People and the bot, and how Slack tells about them.

use serde_json::{Value, json};

/// Somebody in the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The id.
    pub id: String,
    /// The handle.
    pub name: String,
    /// What others see.
    pub display_name: String,
    /// The whole name.
    pub real_name: String,
    /// The language and country, as `ja-JP`.
    pub locale: String,
    /// Somebody who has left.
    pub deleted: bool,
    /// The app's own user.
    pub is_bot: bool,
    /// A guest.
    pub is_restricted: bool,
}

impl User {
    pub(crate) fn json(&self, team: &str, with_locale: bool) -> Value {
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
            // Of somebody who has left Slack tells little more than the name.
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
