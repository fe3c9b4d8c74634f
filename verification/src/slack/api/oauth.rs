//! Getting tokens: for the code that an installation brings, and for the refresh token of one that is
//! about to end. Where tokens are kept is not known here.

use super::answer::{lenient, text};
use super::{Args, Method, Slack, SlackError};
use crate::slack::ids::{AppId, TeamId, UserId};
use crate::slack::tokens::BotToken;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use interzone_edge::Secret;
use serde::Deserialize;

/// The app itself, as Slack knows it.
#[derive(Clone, Debug)]
pub struct OauthApp {
    /// Its client id.
    pub client_id: String,
    /// Its client secret.
    pub client_secret: Secret,
}

impl OauthApp {
    fn proof(&self) -> HeaderValue {
        let pair = format!("{}:{}", self.client_id, self.client_secret.expose());
        let basic = format!("Basic {}", STANDARD.encode(pair));
        // Base64 has nothing in it that a header could not hold.
        let mut proof =
            HeaderValue::from_str(&basic).unwrap_or_else(|_| HeaderValue::from_static("Basic"));
        proof.set_sensitive(true);
        proof
    }
}

/// A token, and for whom it is.
#[derive(Clone, Debug, Deserialize)]
pub struct Granted {
    /// The token.
    pub access_token: BotToken,
    /// With what a new one can be had, once, if it ends.
    #[serde(default, deserialize_with = "lenient")]
    pub refresh_token: Option<Secret>,
    /// After how many seconds it ends, if it does.
    #[serde(default, deserialize_with = "lenient")]
    pub expires_in: Option<u64>,
    /// `bot`, for a token of the kind that we use.
    #[serde(default, deserialize_with = "text")]
    pub token_type: String,
    /// What it may do, with commas between.
    #[serde(default, deserialize_with = "text")]
    pub scope: String,
    /// The bot.
    #[serde(default, deserialize_with = "lenient")]
    pub bot_user_id: Option<UserId>,
    /// The app.
    #[serde(default, deserialize_with = "lenient")]
    pub app_id: Option<AppId>,
    /// The workspace; none if it is for a whole organisation.
    #[serde(default, deserialize_with = "lenient")]
    pub team: Option<Named>,
    /// The organisation.
    #[serde(default, deserialize_with = "lenient")]
    pub enterprise: Option<Named>,
    /// Whether it is for all workspaces of the organisation.
    #[serde(default)]
    pub is_enterprise_install: bool,
}

/// A workspace or an organisation, with its name.
#[derive(Clone, Debug, Deserialize)]
pub struct Named {
    /// Which.
    pub id: TeamId,
    /// What it is called.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
}

impl Slack {
    /// A token for the code of an installation.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `invalid_code`, `code_already_used` and the like.
    pub async fn oauth_access(
        &self,
        app: &OauthApp,
        code: &str,
        redirect_uri: Option<&str>,
    ) -> Result<Granted, SlackError> {
        let args = Args::new()
            .with("code", code)
            .maybe("redirect_uri", redirect_uri);
        self.grant(app, &args).await
    }

    /// A new token for a refresh token, which is used up by it.
    ///
    /// # Errors
    /// As [`call`](Slack::call); `invalid_refresh_token` if it was used before.
    pub async fn oauth_refresh(
        &self,
        app: &OauthApp,
        refresh: &Secret,
    ) -> Result<Granted, SlackError> {
        let args = Args::new()
            .with("grant_type", "refresh_token")
            .with("refresh_token", refresh.expose());
        self.grant(app, &args).await
    }

    async fn grant(&self, app: &OauthApp, args: &Args<'_>) -> Result<Granted, SlackError> {
        let method = Method::OauthAccess;
        let answer = self.ask("", &app.proof(), method, args).await?;
        answer.read(method)
    }
}
