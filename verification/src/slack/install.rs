//! Installing the app in a workspace: a person is sent to Slack with proof that it was this browser that
//! asked, comes back with a code, and the code becomes a token, which is sealed and stored. Who may ask
//! the app anything after that is not decided here.

mod page;
mod state;
#[cfg(test)]
mod tests;

use super::SCOPES;
use super::api::oauth::OauthApp;
use super::api::{Slack, SlackError};
use super::tokens::{Installation, Installed, Tokens, TokensError};
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use interzone_hub::Clock;
use interzone_protocol::vocab::Timestamp;
use page::{Language, Outcome};
use state::Ticket;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;
use url::{Url, form_urlencoded};

/// Where it begins.
pub const INSTALL_PATH: &str = "/slack/install";
/// Where Slack sends people back to.
pub const REDIRECT_PATH: &str = "/slack/oauth_redirect";

/// How many codes may be on their way to Slack at once.
const AT_ONCE: usize = 8;
/// The longest query that is looked at.
const LONGEST_QUERY: usize = 4096;

/// Why the app cannot be installed from here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallSetupError {
    /// The app is not known.
    #[error("the app's client id or secret is empty: copy both from the app's page")]
    App,
    /// The address that Slack sends people back to is none.
    #[error(
        "`{url}` cannot be a redirect address: write https://<this zone's public name>{REDIRECT_PATH}"
    )]
    Redirect {
        /// What was given.
        url: String,
    },
}

/// How the app is installed.
#[derive(Clone, Debug)]
pub struct InstallOptions {
    /// The app.
    pub app: OauthApp,
    /// Where Slack sends people back to: the public address of [`REDIRECT_PATH`]. Without one Slack takes
    /// the first that the app's page names.
    pub redirect_uri: Option<String>,
}

/// The doors through which workspaces install the app.
pub struct Install {
    slack: Slack,
    tokens: Tokens,
    clock: Arc<dyn Clock>,
    app: OauthApp,
    redirect_uri: Option<String>,
    authorize: Url,
    room: Semaphore,
}

impl Install {
    /// Sets the doors up.
    ///
    /// # Errors
    /// The app is not known, or people would be sent to a place that is not safe.
    pub fn new(
        slack: Slack,
        tokens: Tokens,
        options: InstallOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, InstallSetupError> {
        let InstallOptions { app, redirect_uri } = options;
        if app.client_id.is_empty() || app.client_secret.is_empty() {
            return Err(InstallSetupError::App);
        }
        if let Some(url) = &redirect_uri {
            // Slack takes no other, and a code that is sent in the clear is anybody's.
            let safe = Url::parse(url).is_ok_and(|url| {
                url.scheme() == "https" && url.has_host() && url.fragment().is_none()
            });
            if !safe {
                return Err(InstallSetupError::Redirect { url: url.clone() });
            }
        }
        // Beside the API, wherever that is.
        let mut authorize = slack.api_url().clone();
        authorize.set_path("/oauth/v2/authorize");
        Ok(Self {
            slack,
            tokens,
            clock,
            app,
            redirect_uri,
            authorize,
            room: Semaphore::new(AT_ONCE),
        })
    }

    /// The routes.
    pub fn routes(self) -> Router {
        Router::new()
            .route(INSTALL_PATH, get(begin))
            .route(REDIRECT_PATH, get(come_back))
            .with_state(Arc::new(self))
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millis()
    }

    async fn exchange(&self, code: &str) -> Result<String, Outcome> {
        let Ok(_room) = self.room.try_acquire() else {
            return Err(Outcome::Busy);
        };
        let redirect = self.redirect_uri.as_deref();
        let granted = self.slack.oauth_access(&self.app, code, redirect).await;
        let granted = granted.map_err(|error| refused(&error))?;
        let name = granted.team.as_ref().or(granted.enterprise.as_ref());
        let name = name.map(|named| named.name.clone()).unwrap_or_default();
        let mut installed = Installed::of(granted, self.clock.now()).ok_or_else(|| {
            tracing::warn!("slack granted a token and did not say for which workspace");
            Outcome::Refused
        })?;
        // Only to know our own posts by; without it they are known by other signs.
        let at = Installation::unknown(installed.token.clone());
        match self.slack.auth_test(&at).await {
            Ok(test) => {
                installed.bot_id = test.bot_id;
                installed.bot_user = installed.bot_user.or(Some(test.user_id));
            }
            Err(error) => tracing::warn!(%error, "a new token could not be tested"),
        }
        self.tokens.store(&installed).await.map_err(|error| {
            let team = &installed.team;
            tracing::error!(%team, %error, "a new token could not be stored");
            match error {
                TokensError::Store(_) => Outcome::Busy,
                _ => Outcome::NotStored,
            }
        })?;
        tracing::info!(team = %installed.team, "the app was installed");
        Ok(name)
    }
}

fn refused(error: &SlackError) -> Outcome {
    tracing::warn!(%error, "slack gave no token for a code");
    if error.may_pass() {
        Outcome::Busy
    } else {
        Outcome::Refused
    }
}

/// Sends a person to Slack.
async fn begin(State(install): State<Arc<Install>>, headers: HeaderMap) -> Response {
    let language = Language::of(&headers);
    let Some(ticket) = Ticket::new(&install.app.client_secret, install.now()) else {
        return page::page(&Outcome::Busy, language);
    };
    let mut url = install.authorize.clone();
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

/// Takes a person in who comes back from Slack.
async fn come_back(State(install): State<Arc<Install>>, uri: Uri, headers: HeaderMap) -> Response {
    let outcome = come_back_with(&install, &uri, &headers).await;
    let outcome = outcome.map_or_else(|problem| problem, |team| Outcome::Installed { team });
    let mut answer = page::page(&outcome, Language::of(&headers));
    // The ticket was good for this once.
    if let Ok(gone) = HeaderValue::from_str(&state::no_cookie()) {
        answer.headers_mut().insert(SET_COOKIE, gone);
    }
    answer
}

async fn come_back_with(
    install: &Install,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<String, Outcome> {
    let query = parameters(uri.query().unwrap_or_default()).ok_or(Outcome::Strange)?;
    let told = |name: &str| query.get(name).map(String::as_str);
    let state = told("state").ok_or(Outcome::Strange)?;
    let secret = &install.app.client_secret;
    let until = state::good_until(secret, headers, state, install.now());
    let until = Timestamp::from_millis(until.ok_or(Outcome::Strange)?);
    let denied = told("error").is_some();
    let code = told("code").filter(|_| !denied);
    if code.is_none() && !denied {
        return Err(Outcome::Strange);
    }
    match install.tokens.use_up(state, until).await {
        Ok(true) => {}
        // Somebody came back with it before, here or at another node.
        Ok(false) => return Err(Outcome::Strange),
        Err(error) => {
            tracing::error!(%error, "whether somebody came back before cannot be told");
            return Err(Outcome::Busy);
        }
    }
    let code = code.ok_or(Outcome::Denied)?;
    install.exchange(code).await
}

/// The parameters of a query; none if one is there twice, for then it is not clear which one counts.
fn parameters(query: &str) -> Option<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    if query.len() > LONGEST_QUERY {
        return None;
    }
    for (name, value) in form_urlencoded::parse(query.as_bytes()).into_owned() {
        if all.insert(name, value).is_some() {
            return None;
        }
    }
    all.retain(|_, value| !value.is_empty());
    Some(all)
}
