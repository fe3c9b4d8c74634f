//! `users.info` and `team.info`.

use super::response::{lenient, text};
use super::{Slack, SlackArgs, SlackError, SlackMethod};
use crate::slack::ids::{TeamId, UserId};
use crate::slack::tokens::Installation;
use crate::unicode_hygiene::is_invisible;
use serde::Deserialize;

/// A Slack user.
#[derive(Clone, Debug, Deserialize)]
pub struct SlackUser {
    /// The id.
    pub id: UserId,
    /// Home workspace.
    #[serde(default, deserialize_with = "lenient")]
    pub team_id: Option<TeamId>,
    /// True if the account is deactivated.
    #[serde(default)]
    pub deleted: bool,
    /// True for a bot.
    #[serde(default)]
    pub is_bot: bool,
    /// True for an external user who shares no channel with the bot.
    #[serde(default)]
    pub is_stranger: bool,
    /// True for a guest.
    #[serde(default)]
    pub is_restricted: bool,
    /// True for a single-channel guest.
    #[serde(default)]
    pub is_ultra_restricted: bool,
    /// Locale, such as `ja-JP`.
    #[serde(default, deserialize_with = "lenient")]
    pub locale: Option<String>,
    #[serde(default, deserialize_with = "text")]
    name: String,
    #[serde(default, deserialize_with = "text")]
    real_name: String,
    #[serde(default)]
    profile: UserProfile,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct UserProfile {
    #[serde(default, deserialize_with = "text")]
    display_name: String,
    #[serde(default, deserialize_with = "text")]
    real_name: String,
}

impl SlackUser {
    /// Returns the displayed name.
    pub fn display_name(&self) -> &str {
        let names = [
            &self.profile.display_name,
            &self.profile.real_name,
            &self.real_name,
            &self.name,
        ];
        let mut names = names.into_iter().map(|name| name.trim());
        names
            .find(|name| !is_invisible(name))
            .unwrap_or_else(|| self.id.as_str())
    }
}

/// A workspace.
#[derive(Clone, Debug, Deserialize)]
pub struct SlackTeam {
    /// The id.
    pub id: TeamId,
    /// The name.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
    /// Subdomain of its URL.
    #[serde(default, deserialize_with = "text")]
    pub domain: String,
    /// Its organisation.
    #[serde(default, deserialize_with = "lenient")]
    pub enterprise_id: Option<TeamId>,
}

impl Slack {
    /// Returns a user with their locale.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `user_not_found` if the user does not exist.
    pub async fn users_info(
        &self,
        installation: &Installation,
        user: &UserId,
    ) -> Result<SlackUser, SlackError> {
        #[derive(Deserialize)]
        struct UserResponse {
            user: SlackUser,
        }
        let args = SlackArgs::new()
            .arg("user", user.as_str())
            .arg("include_locale", "true");
        let response: UserResponse = self
            .call(installation, SlackMethod::UsersInfo, &args)
            .await?;
        Ok(response.user)
    }

    /// Returns a workspace.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `team_not_found` if the token does not see it.
    pub async fn team_info(
        &self,
        installation: &Installation,
        team: &TeamId,
    ) -> Result<SlackTeam, SlackError> {
        #[derive(Deserialize)]
        struct TeamResponse {
            team: SlackTeam,
        }
        let args = SlackArgs::new().arg("team", team.as_str());
        let response: TeamResponse = self
            .call(installation, SlackMethod::TeamInfo, &args)
            .await?;
        Ok(response.team)
    }
}
