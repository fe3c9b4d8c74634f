//! Whose token it is, and what it may do.

use super::answer::lenient;
use super::{Args, Method, Slack, SlackError};
use crate::slack::ids::{BotId, TeamId, UserId};
use crate::slack::tokens::{BotToken, Installation};
use serde::Deserialize;

/// Whose token it is.
#[derive(Clone, Debug, Deserialize)]
pub struct AuthTest {
    /// The workspace.
    pub team_id: TeamId,
    /// What the workspace is called.
    #[serde(default, deserialize_with = "lenient")]
    pub team: Option<String>,
    /// The bot, as somebody who can be mentioned.
    pub user_id: UserId,
    /// What the bot is called.
    #[serde(default, deserialize_with = "lenient")]
    pub user: Option<String>,
    /// The bot, as somebody who posts.
    #[serde(default, deserialize_with = "lenient")]
    pub bot_id: Option<BotId>,
    /// The organisation, if the workspace is in one.
    #[serde(default, deserialize_with = "lenient")]
    pub enterprise_id: Option<TeamId>,
    /// Whether the token is for all workspaces of the organisation.
    #[serde(default, deserialize_with = "lenient")]
    pub is_enterprise_install: Option<bool>,
    /// What the token may do, if Slack said so.
    #[serde(skip)]
    pub scopes: Option<Vec<String>>,
    /// What time it was at Slack, as HTTP writes it.
    #[serde(skip)]
    pub date: Option<String>,
}

impl Slack {
    /// Whose token it is.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `invalid_auth`, `token_revoked` and the like if it is nobody's.
    pub async fn auth_test(&self, at: &Installation) -> Result<AuthTest, SlackError> {
        let method = Method::AuthTest;
        let answer = self.answer(at, method, &Args::new()).await?;
        let mut test: AuthTest = answer.read(method)?;
        let header = |name: &str| answer.headers.get(name)?.to_str().ok();
        test.scopes = header("x-oauth-scopes").map(|scopes| {
            let words = scopes.split(',').map(|scope| scope.trim().to_owned());
            words.filter(|scope| !scope.is_empty()).collect()
        });
        test.date = header("date").map(str::to_owned);
        Ok(test)
    }

    /// Takes a token back: nobody can use it after.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn auth_revoke(&self, at: &Installation) -> Result<(), SlackError> {
        self.answer(at, Method::AuthRevoke, &Args::new())
            .await
            .map(drop)
    }

    /// The address of a socket for events; it is good for one connection, and not for long.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn apps_connections_open(&self, app: &BotToken) -> Result<String, SlackError> {
        #[derive(Deserialize)]
        struct Opened {
            url: String,
        }
        let method = Method::AppsConnectionsOpen;
        let answer = self.ask("", &app.bearer(), method, &Args::new()).await?;
        answer.read::<Opened>(method).map(|opened| opened.url)
    }
}
