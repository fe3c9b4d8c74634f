//! `auth` methods and `apps.connections.open`.

use super::response::lenient;
use super::{Slack, SlackArgs, SlackError, SlackMethod};
use crate::slack::ids::{BotId, TeamId, UserId};
use crate::slack::tokens::{BotToken, Installation};
use serde::Deserialize;

/// Response of `auth.test`.
#[derive(Clone, Debug, Deserialize)]
pub struct AuthTest {
    /// The workspace.
    pub team_id: TeamId,
    /// Name of the workspace.
    #[serde(default, deserialize_with = "lenient")]
    pub team: Option<String>,
    /// User id of the bot, used in mentions.
    pub user_id: UserId,
    /// Name of the bot user.
    #[serde(default, deserialize_with = "lenient")]
    pub user: Option<String>,
    /// Bot id, used in posted messages.
    #[serde(default, deserialize_with = "lenient")]
    pub bot_id: Option<BotId>,
    /// The organisation, if the workspace is in one.
    #[serde(default, deserialize_with = "lenient")]
    pub enterprise_id: Option<TeamId>,
    /// True if the token is for all workspaces of the organisation.
    #[serde(default, deserialize_with = "lenient")]
    pub is_enterprise_install: Option<bool>,
    /// Scopes of the token, if Slack returned them.
    #[serde(skip)]
    pub scopes: Option<Vec<String>>,
    /// `Date` header of the response.
    #[serde(skip)]
    pub date: Option<String>,
}

impl Slack {
    /// Identifies the token (`auth.test`).
    ///
    /// # Errors
    /// As [`call`](Slack::call); `invalid_auth`, `token_revoked` and the like if the token is not valid.
    pub async fn auth_test(&self, installation: &Installation) -> Result<AuthTest, SlackError> {
        let method = SlackMethod::AuthTest;
        let response = self
            .call_raw(installation, method, &SlackArgs::new())
            .await?;
        let mut test: AuthTest = response.parse(method)?;
        let header = |name: &str| response.headers.get(name)?.to_str().ok();
        test.scopes = header("x-oauth-scopes").map(|scopes| {
            let scopes = scopes.split(',').map(|scope| scope.trim().to_owned());
            scopes.filter(|scope| !scope.is_empty()).collect()
        });
        test.date = header("date").map(str::to_owned);
        Ok(test)
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn auth_revoke(&self, installation: &Installation) -> Result<(), SlackError> {
        self.call_raw(installation, SlackMethod::AuthRevoke, &SlackArgs::new())
            .await
            .map(drop)
    }

    /// Returns a WebSocket URL for Socket Mode, valid for one connection and a short time.
    ///
    /// # Errors
    /// As [`call`](Slack::call).
    pub async fn apps_connections_open(&self, app: &BotToken) -> Result<String, SlackError> {
        #[derive(Deserialize)]
        struct OpenResponse {
            url: String,
        }
        let method = SlackMethod::AppsConnectionsOpen;
        let response = self
            .call_with_auth("", &app.bearer(), method, &SlackArgs::new())
            .await?;
        response
            .parse::<OpenResponse>(method)
            .map(|opened| opened.url)
    }
}
