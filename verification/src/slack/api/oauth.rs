//! `oauth.v2.access`: exchanges an installation code or a refresh token for an access token.

use super::response::{lenient, text};
use super::{Slack, SlackArgs, SlackError, SlackMethod};
use crate::slack::ids::{AppId, TeamId, UserId};
use crate::slack::tokens::BotToken;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use interzone_edge::Secret;
use serde::Deserialize;

/// OAuth credentials of the app.
#[derive(Clone, Debug)]
pub struct OauthApp {
    /// Its client id.
    pub client_id: String,
    /// Its client secret.
    pub client_secret: Secret,
}

impl OauthApp {
    fn basic_auth(&self) -> HeaderValue {
        let pair = format!("{}:{}", self.client_id, self.client_secret.expose());
        let basic = format!("Basic {}", STANDARD.encode(pair));
        // Base64 is always a valid header value.
        let mut header =
            HeaderValue::from_str(&basic).unwrap_or_else(|_| HeaderValue::from_static("Basic"));
        header.set_sensitive(true);
        header
    }
}

/// Response of `oauth.v2.access`.
#[derive(Clone, Debug, Deserialize)]
pub struct OauthTokenResponse {
    /// The access token.
    pub access_token: BotToken,
    /// Single-use refresh token, if the access token expires.
    #[serde(default, deserialize_with = "lenient")]
    pub refresh_token: Option<Secret>,
    /// Lifetime in seconds, if it expires.
    #[serde(default, deserialize_with = "lenient")]
    pub expires_in: Option<u64>,
    /// `bot` for a bot token.
    #[serde(default, deserialize_with = "text")]
    pub token_type: String,
    /// Comma-separated scopes.
    #[serde(default, deserialize_with = "text")]
    pub scope: String,
    /// User id of the bot.
    #[serde(default, deserialize_with = "lenient")]
    pub bot_user_id: Option<UserId>,
    /// The app.
    #[serde(default, deserialize_with = "lenient")]
    pub app_id: Option<AppId>,
    /// The workspace; absent for an organisation-wide installation.
    #[serde(default, deserialize_with = "lenient")]
    pub team: Option<NamedTeam>,
    /// The organisation.
    #[serde(default, deserialize_with = "lenient")]
    pub enterprise: Option<NamedTeam>,
    /// True if the token is for all workspaces of the organisation.
    #[serde(default)]
    pub is_enterprise_install: bool,
}

/// A workspace or organisation with its name.
#[derive(Clone, Debug, Deserialize)]
pub struct NamedTeam {
    /// The id.
    pub id: TeamId,
    /// The name.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
}

impl Slack {
    /// Exchanges the code of an installation for a token.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `invalid_code`, `code_already_used` and the like.
    pub async fn oauth_access(
        &self,
        app: &OauthApp,
        code: &str,
        redirect_uri: Option<&str>,
    ) -> Result<OauthTokenResponse, SlackError> {
        let args = SlackArgs::new()
            .arg("code", code)
            .optional_arg("redirect_uri", redirect_uri);
        self.request_token(app, &args).await
    }

    /// Exchanges a refresh token for a new token; the refresh token becomes invalid.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `invalid_refresh_token` if it was used already.
    pub async fn oauth_refresh(
        &self,
        app: &OauthApp,
        refresh_token: &Secret,
    ) -> Result<OauthTokenResponse, SlackError> {
        let args = SlackArgs::new()
            .arg("grant_type", "refresh_token")
            .arg("refresh_token", refresh_token.expose());
        self.request_token(app, &args).await
    }

    async fn request_token(
        &self,
        app: &OauthApp,
        args: &SlackArgs<'_>,
    ) -> Result<OauthTokenResponse, SlackError> {
        let method = SlackMethod::OauthAccess;
        let response = self
            .call_with_auth("", &app.basic_auth(), method, args)
            .await?;
        response.parse(method)
    }
}
