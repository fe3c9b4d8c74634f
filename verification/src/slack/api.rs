//! Slack's Web API: one client, a form for each call, an answer in JSON. It keeps to Slack's pace, takes
//! no more than it asked for, and sends a token to nobody but the configured API. What a call is for, and
//! what follows from its answer, must not enter.

mod answer;
mod args;
pub mod assistant;
pub mod auth;
pub mod chat;
pub mod conversations;
mod error;
pub mod files;
mod hosts;
mod method;
pub mod oauth;
mod pace;
pub mod reactions;
mod respond;
#[cfg(test)]
mod tests;
pub mod users;
mod words;

pub use args::Args;
pub use error::SlackError;
pub use method::Method;
pub use respond::ResponseUrl;

use super::tokens::Installation;
use answer::Answer;
use hosts::{Hosts, is_loopback};
use http::HeaderValue;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use interzone_edge::tls::Trust;
use pace::{Key, Pace};
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

const FORM: &str = "application/x-www-form-urlencoded";
/// How long a call waits for its turn before it gives up and says when that would be.
const PATIENCE: Duration = Duration::from_secs(3);
/// A connection that nobody uses is closed after so long, before Slack would.
const IDLE: Duration = Duration::from_secs(30);

/// Why Slack's API cannot be used as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum SlackSetupError {
    /// The address is none.
    #[error("`{url}` is no address of an API: write one such as https://slack.com/api/")]
    Url {
        /// What was given.
        url: String,
    },
    /// The address is not safe to send a token to.
    #[error(
        "`{url}` would send tokens in the clear: write https://, http:// is for this machine alone"
    )]
    Insecure {
        /// What was given.
        url: String,
    },
    /// There is no HTTP client.
    #[error(
        "the client for slack cannot be made: check `[tls] trust` and the system's certificates"
    )]
    Client(#[source] reqwest::Error),
}

/// The way to Slack. Cheap to clone; clones share connections and pace.
#[derive(Clone)]
pub struct Slack {
    inner: Arc<Inner>,
    patience: Duration,
}

struct Inner {
    http: reqwest::Client,
    /// Ends with a slash, so that a method can be joined to it.
    api: Url,
    hosts: Hosts,
    pace: Pace,
}

impl Slack {
    /// Sets the client up. It connects to nobody yet.
    ///
    /// # Errors
    /// The address cannot be used, or no client can be made.
    pub fn new(api_url: &str, trust: &Trust) -> Result<Self, SlackSetupError> {
        let api = api_of(api_url)?;
        let http = trust
            .client()
            // A second try of a post is for those to decide who know whether the first one arrived.
            .retry(reqwest::retry::never())
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            .build()
            .map_err(SlackSetupError::Client)?;
        let inner = Inner {
            http,
            hosts: Hosts::new(&api),
            api,
            pace: Pace::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
            patience: PATIENCE,
        })
    }

    /// The same, for whoever would rather be told at once that it is not their turn.
    #[must_use]
    pub fn hasty(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            patience: Duration::ZERO,
        }
    }

    /// Where the API is.
    pub fn api_url(&self) -> &Url {
        &self.inner.api
    }

    /// Whether an address that Slack's API named may be spoken to.
    pub(super) fn is_ours(&self, url: &Url) -> bool {
        let Inner { api, hosts, .. } = &*self.inner;
        // On one machine the parts of a stand-in may be on several ports.
        hosts.allows(url) || (is_loopback(url) && is_loopback(api))
    }

    /// Calls a method with a workspace's token.
    ///
    /// A call that Slack turned away for its pace is made again as long as that takes no more than a few
    /// seconds; nothing else is.
    ///
    /// # Errors
    /// Slack refused, or there is no answer that can be read.
    pub async fn call<R: DeserializeOwned>(
        &self,
        at: &Installation,
        method: Method,
        args: &Args<'_>,
    ) -> Result<R, SlackError> {
        self.answer(at, method, args).await?.read(method)
    }

    async fn answer(
        &self,
        at: &Installation,
        method: Method,
        args: &Args<'_>,
    ) -> Result<Answer, SlackError> {
        let team = at.team.as_ref().map_or("", |team| team.as_str());
        self.ask(team, &at.token.bearer(), method, args).await
    }

    /// Calls a method with any proof of who we are; `who` is whose calls Slack counts together.
    async fn ask(
        &self,
        who: &str,
        proof: &HeaderValue,
        method: Method,
        args: &Args<'_>,
    ) -> Result<Answer, SlackError> {
        let key = Key {
            team: who.into(),
            method,
            channel: args.channel().into(),
        };
        let pace = &self.inner.pace;
        let give_up = Instant::now() + self.patience;
        loop {
            let turn = pace.turn(&key, give_up).await;
            turn.map_err(|after| SlackError::RateLimited { method, after })?;
            match self.send(proof, method, args).await {
                Err(SlackError::RateLimited { method, after }) => {
                    pace.hold(&key, after);
                    if Instant::now() + after > give_up {
                        return Err(SlackError::RateLimited { method, after });
                    }
                }
                done => return done,
            }
        }
    }

    async fn send(
        &self,
        proof: &HeaderValue,
        method: Method,
        args: &Args<'_>,
    ) -> Result<Answer, SlackError> {
        let what = method.name();
        let url = self.inner.api.join(what);
        let url = url.map_err(|_| SlackError::ForbiddenHost { what })?;
        let sent = self
            .inner
            .http
            .post(url)
            .timeout(method.patience())
            .header(AUTHORIZATION, proof)
            .header(CONTENT_TYPE, FORM)
            .body(args.form())
            .send();
        let response = sent.await.map_err(|error| SlackError::of(what, error))?;
        Answer::take(method, response).await
    }
}

impl fmt::Debug for Slack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slack")
            .field("api", &self.inner.api.as_str())
            .finish_non_exhaustive()
    }
}

fn api_of(text: &str) -> Result<Url, SlackSetupError> {
    let wrong = || SlackSetupError::Url {
        url: text.to_owned(),
    };
    let mut api = Url::parse(text).map_err(|_| wrong())?;
    let bare = api.username().is_empty()
        && api.password().is_none()
        && api.query().is_none()
        && api.fragment().is_none();
    if !bare || api.host().is_none() {
        return Err(wrong());
    }
    match api.scheme() {
        "https" => {}
        "http" if is_loopback(&api) => {}
        "http" => {
            let url = text.to_owned();
            return Err(SlackSetupError::Insecure { url });
        }
        _ => return Err(wrong()),
    }
    if !api.path().ends_with('/') {
        let path = format!("{}/", api.path());
        api.set_path(&path);
    }
    Ok(api)
}
