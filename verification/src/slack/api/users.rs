//! People and workspaces. Whether they may ask is decided elsewhere.

use super::answer::{lenient, text};
use super::{Args, Method, Slack, SlackError};
use crate::signs::is_blank;
use crate::slack::ids::{TeamId, UserId};
use crate::slack::tokens::Installation;
use serde::Deserialize;

/// Somebody.
#[derive(Clone, Debug, Deserialize)]
pub struct User {
    /// Who.
    pub id: UserId,
    /// Where they are at home.
    #[serde(default, deserialize_with = "lenient")]
    pub team_id: Option<TeamId>,
    /// Whether they are no longer there.
    #[serde(default)]
    pub deleted: bool,
    /// Whether it is a program.
    #[serde(default)]
    pub is_bot: bool,
    /// Whether they are from elsewhere and share no channel with us.
    #[serde(default)]
    pub is_stranger: bool,
    /// Whether they are a guest.
    #[serde(default)]
    pub is_restricted: bool,
    /// Whether they are a guest in one channel.
    #[serde(default)]
    pub is_ultra_restricted: bool,
    /// Their language and country, such as `ja-JP`.
    #[serde(default, deserialize_with = "lenient")]
    pub locale: Option<String>,
    #[serde(default, deserialize_with = "text")]
    name: String,
    #[serde(default, deserialize_with = "text")]
    real_name: String,
    #[serde(default)]
    profile: Profile,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Profile {
    #[serde(default, deserialize_with = "text")]
    display_name: String,
    #[serde(default, deserialize_with = "text")]
    real_name: String,
}

impl User {
    /// What others see them called.
    pub fn display_name(&self) -> &str {
        let names = [
            &self.profile.display_name,
            &self.profile.real_name,
            &self.real_name,
            &self.name,
        ];
        let mut names = names.into_iter().map(|name| name.trim());
        names
            .find(|name| !is_blank(name))
            .unwrap_or_else(|| self.id.as_str())
    }
}

/// A workspace.
#[derive(Clone, Debug, Deserialize)]
pub struct Team {
    /// Which.
    pub id: TeamId,
    /// What it is called.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
    /// The first word of its address.
    #[serde(default, deserialize_with = "text")]
    pub domain: String,
    /// The organisation that it is in.
    #[serde(default, deserialize_with = "lenient")]
    pub enterprise_id: Option<TeamId>,
}

impl Slack {
    /// Who somebody is, with their language.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `user_not_found` if nobody is.
    pub async fn users_info(&self, at: &Installation, user: &UserId) -> Result<User, SlackError> {
        #[derive(Deserialize)]
        struct Found {
            user: User,
        }
        let args = Args::new()
            .with("user", user.as_str())
            .with("include_locale", "true");
        let found: Found = self.call(at, Method::UsersInfo, &args).await?;
        Ok(found.user)
    }

    /// What a workspace is.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `team_not_found` if it is none that the token sees.
    pub async fn team_info(&self, at: &Installation, team: &TeamId) -> Result<Team, SlackError> {
        #[derive(Deserialize)]
        struct Found {
            team: Team,
        }
        let args = Args::new().with("team", team.as_str());
        let found: Found = self.call(at, Method::TeamInfo, &args).await?;
        Ok(found.team)
    }
}
