//! Slack Web API client: form-encoded requests, JSON responses. Applies rate limits, limits response sizes, and sends
//! tokens only to the configured API.

pub mod auth;
pub mod chat;
pub mod conversations;
mod error;
pub mod files;
mod hosts;
mod method;
pub mod oauth;
mod permanent_errors;
mod rate_limiter;
mod response;
mod response_url;
#[cfg(test)]
mod tests;
pub mod users;

pub use error::SlackError;
pub use method::{SlackArgs, SlackMethod};
pub use response_url::ResponseUrl;

use super::tokens::Installation;
use hosts::{TrustedHosts, is_loopback};
use http::HeaderValue;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use interzone_edge::tls::TrustRoots;
use rate_limiter::{RateLimitKey, SlackRateLimiter};
use response::SlackResponse;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

const FORM_CONTENT_TYPE: &str = "application/x-www-form-urlencoded";
/// Maximum time a call waits for the rate limiter before it fails with the remaining delay.
const MAX_RATE_LIMIT_WAIT: Duration = Duration::from_secs(3);
/// Idle connections are closed after this time, before Slack closes them.
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Error in the configuration of Slack's API.
#[derive(Debug, thiserror::Error)]
pub enum SlackSetupError {
    /// The URL is invalid.
    #[error("`{url}` is not a valid API URL: use one such as https://slack.com/api/")]
    Url {
        /// The configured value.
        url: String,
    },
    /// The URL would send tokens unencrypted.
    #[error(
        "`{url}` would send tokens unencrypted: use https:// (http:// is allowed on localhost only)"
    )]
    Insecure {
        /// The configured value.
        url: String,
    },
    /// The HTTP client cannot be created.
    #[error(
        "the slack http client cannot be created: check `[tls] trust` and the system's certificates"
    )]
    Client(#[source] reqwest::Error),
}

/// Web API client. Cheap to clone; clones share connections and the rate limiter.
#[derive(Clone)]
pub struct Slack {
    inner: Arc<SlackInner>,
    max_rate_limit_wait: Duration,
}

struct SlackInner {
    http: reqwest::Client,
    /// Ends with a slash, so that a method can be joined to it.
    api: Url,
    hosts: TrustedHosts,
    rate_limiter: SlackRateLimiter,
}

impl Slack {
    /// Creates the client without connecting.
    ///
    /// # Errors
    /// The URL is invalid, or the HTTP client cannot be created.
    pub fn new(api_url: &str, trust: &TrustRoots) -> Result<Self, SlackSetupError> {
        let api = parse_api_url(api_url)?;
        let http = trust
            .client()
            // Only the caller knows whether a failed post may be retried.
            .retry(reqwest::retry::never())
            .pool_idle_timeout(IDLE_CONNECTION_TIMEOUT)
            .tcp_nodelay(true)
            .build()
            .map_err(SlackSetupError::Client)?;
        let inner = SlackInner {
            http,
            hosts: TrustedHosts::new(&api),
            api,
            rate_limiter: SlackRateLimiter::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
            max_rate_limit_wait: MAX_RATE_LIMIT_WAIT,
        })
    }

    /// Returns a client that fails at once instead of waiting for the rate limiter.
    #[must_use]
    pub fn fail_fast(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            max_rate_limit_wait: Duration::ZERO,
        }
    }

    /// Base URL of the API.
    pub fn api_url(&self) -> &Url {
        &self.inner.api
    }

    /// Returns true if requests may be sent to a URL that Slack's API returned.
    pub(super) fn is_trusted_url(&self, url: &Url) -> bool {
        let SlackInner { api, hosts, .. } = &*self.inner;
        // A local fake Slack may use several ports.
        hosts.allows(url) || (is_loopback(url) && is_loopback(api))
    }

    /// Calls a method with a workspace's token.
    ///
    /// A rate-limited call is retried if the delay is at most a few seconds; other errors are not retried.
    ///
    /// # Errors
    /// Slack rejected the call, or there is no readable response.
    pub async fn call<R: DeserializeOwned>(
        &self,
        installation: &Installation,
        method: SlackMethod,
        args: &SlackArgs<'_>,
    ) -> Result<R, SlackError> {
        self.call_raw(installation, method, args)
            .await?
            .parse(method)
    }

    async fn call_raw(
        &self,
        installation: &Installation,
        method: SlackMethod,
        args: &SlackArgs<'_>,
    ) -> Result<SlackResponse, SlackError> {
        let team = installation.team.as_ref().map_or("", |team| team.as_str());
        self.call_with_auth(team, &installation.token.bearer(), method, args)
            .await
    }

    /// Calls a method with the given `Authorization` header; `team` is the rate limit key.
    async fn call_with_auth(
        &self,
        team: &str,
        authorization: &HeaderValue,
        method: SlackMethod,
        args: &SlackArgs<'_>,
    ) -> Result<SlackResponse, SlackError> {
        let key = RateLimitKey {
            team: team.into(),
            method,
            channel: args.channel().into(),
        };
        let rate_limiter = &self.inner.rate_limiter;
        let deadline = Instant::now() + self.max_rate_limit_wait;
        loop {
            let acquired = rate_limiter.acquire(&key, deadline).await;
            acquired.map_err(|after| SlackError::RateLimited { method, after })?;
            match self.send(authorization, method, args).await {
                Err(SlackError::RateLimited { method, after }) => {
                    rate_limiter.penalize(&key, after);
                    if Instant::now() + after > deadline {
                        return Err(SlackError::RateLimited { method, after });
                    }
                }
                result => return result,
            }
        }
    }

    async fn send(
        &self,
        authorization: &HeaderValue,
        method: SlackMethod,
        args: &SlackArgs<'_>,
    ) -> Result<SlackResponse, SlackError> {
        let operation = method.name();
        let url = self.inner.api.join(operation);
        let url = url.map_err(|_| SlackError::ForbiddenHost { operation })?;
        let sent = self
            .inner
            .http
            .post(url)
            .timeout(method.timeout())
            .header(AUTHORIZATION, authorization)
            .header(CONTENT_TYPE, FORM_CONTENT_TYPE)
            .body(args.encode())
            .send();
        let response = sent
            .await
            .map_err(|error| SlackError::from_reqwest(operation, error))?;
        SlackResponse::from_response(method, response).await
    }
}

impl fmt::Debug for Slack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slack")
            .field("api", &self.inner.api.as_str())
            .finish_non_exhaustive()
    }
}

fn parse_api_url(text: &str) -> Result<Url, SlackSetupError> {
    let invalid = || SlackSetupError::Url {
        url: text.to_owned(),
    };
    let mut api = Url::parse(text).map_err(|_| invalid())?;
    let has_no_extras = api.username().is_empty()
        && api.password().is_none()
        && api.query().is_none()
        && api.fragment().is_none();
    if !has_no_extras || api.host().is_none() {
        return Err(invalid());
    }
    match api.scheme() {
        "https" => {}
        "http" if is_loopback(&api) => {}
        "http" => {
            let url = text.to_owned();
            return Err(SlackSetupError::Insecure { url });
        }
        _ => return Err(invalid()),
    }
    if !api.path().ends_with('/') {
        let path = format!("{}/", api.path());
        api.set_path(&path);
    }
    Ok(api)
}
