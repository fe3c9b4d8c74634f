//! OAuth installation of the app in a workspace: redirects the browser to Slack with a CSRF-protected state, exchanges
//! the returned code for a token, and stores the token encrypted.

mod page;
mod state;
#[cfg(test)]
mod tests;

use super::SCOPES;
use super::api::oauth::OauthApp;
use super::api::{Slack, SlackError};
use super::tokens::{Installation, SlackTokenError, SlackTokens, WorkspaceToken};
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use interzone_hub::Clock;
use interzone_protocol::vocab::Timestamp;
use page::{InstallOutcome, PageLanguage};
use state::OauthState;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;
use url::{Url, form_urlencoded};

/// Path that starts an installation.
pub const INSTALL_PATH: &str = "/slack/install";
/// Redirect path of the OAuth flow.
pub const REDIRECT_PATH: &str = "/slack/oauth_redirect";

/// Maximum number of concurrent code exchanges.
const MAX_CONCURRENT_EXCHANGES: usize = 8;
/// Maximum length of the query string.
const MAX_QUERY_LEN: usize = 4096;

/// Error in the configuration of the installation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallSetupError {
    /// The app's credentials are missing.
    #[error("the app's client id or secret is empty: copy both from the app's page")]
    App,
    /// The redirect URI is invalid.
    #[error(
        "`{url}` cannot be a redirect uri: use https://<public name of this zone>{REDIRECT_PATH}"
    )]
    Redirect {
        /// The configured value.
        url: String,
    },
}

/// Installation options.
#[derive(Clone, Debug)]
pub struct InstallOptions {
    /// Credentials of the app.
    pub app: OauthApp,
    /// Redirect URI: the public URL of [`REDIRECT_PATH`]. If absent, Slack uses the first one configured for the
    /// app.
    pub redirect_uri: Option<String>,
}

/// HTTP routes for installing the app.
pub struct InstallRoutes {
    slack: Slack,
    tokens: SlackTokens,
    clock: Arc<dyn Clock>,
    app: OauthApp,
    redirect_uri: Option<String>,
    authorize_url: Url,
    exchange_permits: Semaphore,
}

impl InstallRoutes {
    /// Creates the routes.
    ///
    /// # Errors
    /// The credentials are missing, or the redirect URI is not safe.
    pub fn new(
        slack: Slack,
        tokens: SlackTokens,
        options: InstallOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, InstallSetupError> {
        let InstallOptions { app, redirect_uri } = options;
        if app.client_id.is_empty() || app.client_secret.is_empty() {
            return Err(InstallSetupError::App);
        }
        if let Some(url) = &redirect_uri {
            // Slack accepts only https, and a code sent unencrypted could be stolen.
            let is_safe = Url::parse(url).is_ok_and(|url| {
                url.scheme() == "https" && url.has_host() && url.fragment().is_none()
            });
            if !is_safe {
                return Err(InstallSetupError::Redirect { url: url.clone() });
            }
        }
        // On the same host as the API.
        let mut authorize = slack.api_url().clone();
        authorize.set_path("/oauth/v2/authorize");
        Ok(Self {
            slack,
            tokens,
            clock,
            app,
            redirect_uri,
            authorize_url: authorize,
            exchange_permits: Semaphore::new(MAX_CONCURRENT_EXCHANGES),
        })
    }

    /// Returns the router.
    pub fn routes(self) -> Router {
        Router::new()
            .route(INSTALL_PATH, get(slack_install))
            .route(REDIRECT_PATH, get(slack_oauth_redirect))
            .with_state(Arc::new(self))
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millis()
    }

    async fn exchange_code(&self, code: &str) -> Result<String, InstallOutcome> {
        let Ok(_permit) = self.exchange_permits.try_acquire() else {
            return Err(InstallOutcome::Busy);
        };
        let redirect = self.redirect_uri.as_deref();
        let response = self.slack.oauth_access(&self.app, code, redirect).await;
        let granted = response.map_err(|error| exchange_error(&error))?;
        let name = granted.team.as_ref().or(granted.enterprise.as_ref());
        let name = name.map(|named| named.name.clone()).unwrap_or_default();
        let mut installed =
            WorkspaceToken::from_response(granted, self.clock.now()).ok_or_else(|| {
                tracing::warn!("oauth response names no workspace");
                InstallOutcome::Refused
            })?;
        // Used to recognize our own posts; optional, since other ids work too.
        let installation = Installation::from_token(installed.token.clone());
        match self.slack.auth_test(&installation).await {
            Ok(test) => {
                installed.bot_id = test.bot_id;
                installed.bot_user = installed.bot_user.or(Some(test.user_id));
            }
            Err(error) => tracing::warn!(%error, "auth.test of new token failed"),
        }
        self.tokens.store(&installed).await.map_err(|error| {
            let team = &installed.team;
            tracing::error!(%team, %error, "could not store new token");
            match error {
                SlackTokenError::Store(_) => InstallOutcome::Busy,
                _ => InstallOutcome::NotStored,
            }
        })?;
        tracing::info!(team = %installed.team, "app installed");
        Ok(name)
    }
}

fn exchange_error(error: &SlackError) -> InstallOutcome {
    tracing::warn!(%error, "oauth code exchange failed");
    if error.is_retryable() {
        InstallOutcome::Busy
    } else {
        InstallOutcome::Refused
    }
}

/// `GET /slack/install`: redirects to Slack.
async fn slack_install(State(install): State<Arc<InstallRoutes>>, headers: HeaderMap) -> Response {
    let language = PageLanguage::from_headers(&headers);
    let Some(ticket) = OauthState::new(&install.app.client_secret, install.now()) else {
        return page::render_page(&InstallOutcome::Busy, language);
    };
    let mut url = install.authorize_url.clone();
    url.query_pairs_mut()
        .append_pair("client_id", &install.app.client_id)
        .append_pair("scope", &SCOPES.join(","))
        .append_pair("state", &ticket.state);
    if let Some(redirect) = &install.redirect_uri {
        url.query_pairs_mut().append_pair("redirect_uri", redirect);
    }
    let headers = [
        (LOCATION, url.to_string()),
        (SET_COOKIE, ticket.set_cookie()),
        (CACHE_CONTROL, "no-store".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    (StatusCode::FOUND, headers).into_response()
}

/// `GET /slack/oauth_redirect`: handles the redirect from Slack.
async fn slack_oauth_redirect(
    State(install): State<Arc<InstallRoutes>>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let outcome = complete_installation(&install, &uri, &headers).await;
    let outcome = outcome.map_or_else(|failure| failure, |team| InstallOutcome::Installed { team });
    let mut response = page::render_page(&outcome, PageLanguage::from_headers(&headers));
    // The state is single-use.
    if let Ok(cookie) = HeaderValue::from_str(&state::clear_cookie()) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

async fn complete_installation(
    install: &InstallRoutes,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<String, InstallOutcome> {
    let query = parse_query(uri.query().unwrap_or_default()).ok_or(InstallOutcome::InvalidState)?;
    let param = |name: &str| query.get(name).map(String::as_str);
    let state = param("state").ok_or(InstallOutcome::InvalidState)?;
    let secret = &install.app.client_secret;
    let expires_at = state::verify_state(secret, headers, state, install.now());
    let until = Timestamp::from_millis(expires_at.ok_or(InstallOutcome::InvalidState)?);
    let denied = param("error").is_some();
    let code = param("code").filter(|_| !denied);
    if code.is_none() && !denied {
        return Err(InstallOutcome::InvalidState);
    }
    match install.tokens.consume_nonce(state, until).await {
        Ok(true) => {}
        // The state was used already, on this or another node.
        Ok(false) => return Err(InstallOutcome::InvalidState),
        Err(error) => {
            tracing::error!(%error, "could not check oauth state reuse");
            return Err(InstallOutcome::Busy);
        }
    }
    let code = code.ok_or(InstallOutcome::Denied)?;
    install.exchange_code(code).await
}

/// Parses a query; returns `None` if a parameter is repeated, since it would be ambiguous.
fn parse_query(query: &str) -> Option<BTreeMap<String, String>> {
    let mut params = BTreeMap::new();
    if query.len() > MAX_QUERY_LEN {
        return None;
    }
    for (name, value) in form_urlencoded::parse(query.as_bytes()).into_owned() {
        if params.insert(name, value).is_some() {
            return None;
        }
    }
    params.retain(|_, value| !value.is_empty());
    Some(params)
}
