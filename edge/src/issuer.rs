//! The built-in issuer: an authorization server for those who have none.
//!
//! Programs get tokens by their secret, or by the consent of a person (authorization code with PKCE).
//! Everything it must remember is in a [`Keep`], so that all nodes of an installation are one issuer.
//! Which scopes exist is told from outside: no dialect may enter here.

mod answer;
mod authorize;
mod caller;
mod clients;
mod credential;
mod form;
mod grants;
mod keep;
mod metadata;
mod page;
mod people;
mod redirects;
mod revoked;
mod ring;
#[cfg(test)]
mod tests;
mod token;
mod tokens;

pub use clients::{AccountError, Client, Clients, Grant, NewClient, NewSecret};
pub use credential::NoRandom;
pub use keep::{Keep, KeepError, Kept, MemoryKeep};
pub use people::{People, Person};
pub use ring::RingError;

use crate::auth::{Identity, KeySet, LocalKeys};
use crate::clock::Clock;
use crate::rate::RateLimiter;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use revoked::Revoked;
use ring::{Ring, Rotation};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use url::Url;

/// The longest life of a token, in seconds. What was taken back is remembered longer than this.
const LONGEST_TOKEN: u64 = 24 * 3600;
/// How often the records are read for what other nodes did.
const REFRESH: Duration = Duration::from_secs(3);
/// Guesses of a passphrase for one name from one address, in a minute. There is no limit for a name from all addresses:
/// it would lock out the person, and a passphrase of 256 random bits cannot be guessed at any rate.
const LOGINS_PER_NAME_AND_ADDRESS: u32 = 10;
/// The same from one address over all names; it may stand for a whole office.
const LOGINS_PER_ADDRESS: u32 = 60;

/// Tokens that one client may take back in a minute. All of them are kept in memory for a while.
const REVOCATIONS: u32 = 60;

/// A scope that may be granted, and what it means to a person who is asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The word in tokens.
    pub name: String,
    /// What holding it allows, in plain words. May be empty; then the word stands for itself.
    pub meaning: String,
}

impl Scope {
    /// A scope with its meaning.
    pub fn new(name: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            meaning: meaning.into(),
        }
    }
}

/// How the issuer works.
#[derive(Clone, Debug)]
pub struct IssuerOptions {
    /// Where it is reached by everybody: scheme, host and port alone. It is the `iss` of its tokens.
    pub url: String,
    /// Whom its tokens are for.
    pub audience: Vec<String>,
    /// All that may be granted.
    pub scopes: Vec<Scope>,
    /// How long a token lives; 15 minutes by default, a day at most.
    pub token_ttl: Duration,
    /// How long the consent of a person lasts before it must be given again; 30 days by default.
    pub consent_ttl: Duration,
    /// How long a key signs before the next one does; 30 days by default, a day at least.
    pub key_rotation: Duration,
    /// Tells the time.
    pub clock: Clock,
}

impl IssuerOptions {
    /// An issuer at `url` whose tokens are for `audience`, with the usual times.
    pub fn new(url: impl Into<String>, audience: Vec<String>, scopes: Vec<Scope>) -> Self {
        Self {
            url: url.into(),
            audience,
            scopes,
            token_ttl: Duration::from_secs(900),
            consent_ttl: Duration::from_secs(30 * 24 * 3600),
            key_rotation: Duration::from_secs(30 * 24 * 3600),
            clock: Clock::machine(),
        }
    }
}

/// Why the issuer cannot work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssuerError {
    /// The URL cannot name an issuer.
    #[error("the issuer's url must be https (or http on this machine) and have no path")]
    Url,
    /// A time is out of range.
    #[error("tokens live between a minute and a day, and keys sign for a day at least")]
    Times,
    /// Nobody is named whom tokens are for.
    #[error("name at least one audience for the issuer's tokens")]
    Audience,
    /// A scope cannot be used.
    #[error("{0:?} cannot be a scope")]
    Scope(String),
    /// There are no keys to sign with.
    #[error("the issuer has no signing keys")]
    Keys(#[from] RingError),
    /// The records cannot be reached.
    #[error("the issuer cannot work without its records")]
    Keep(#[from] KeepError),
}

/// An authorization server. Cheap to clone.
#[derive(Clone)]
pub struct Issuer(Arc<Inner>);

struct Inner {
    /// Without a slash at its end.
    url: String,
    audience: Vec<String>,
    scopes: Vec<Scope>,
    token_ttl: u64,
    consent_ttl: u64,
    rotation: Rotation,
    keep: Arc<dyn Keep>,
    clients: Clients,
    people: People,
    ring: ArcSwap<Ring>,
    revoked: Revoked,
    clock: Clock,
    /// When somebody last looked for newer keys, in steady seconds.
    looked: AtomicU64,
    by_name_and_address: RateLimiter,
    by_address: RateLimiter,
    revocations: RateLimiter,
}

impl Issuer {
    /// Opens the issuer in these records. The first node to do so makes the first key; it does not
    /// matter how many try at once.
    ///
    /// # Errors
    ///
    /// If the options cannot be used or the records cannot be reached.
    pub async fn open(keep: Arc<dyn Keep>, options: IssuerOptions) -> Result<Self, IssuerError> {
        let clock = options.clock;
        let url = origin_of(&options.url).ok_or(IssuerError::Url)?;
        let (token_ttl, every) = (options.token_ttl.as_secs(), options.key_rotation.as_secs());
        if !(60..=LONGEST_TOKEN).contains(&token_ttl) || every < 24 * 3600 {
            return Err(IssuerError::Times);
        }
        if options.audience.is_empty() {
            return Err(IssuerError::Audience);
        }
        if let Some(bad) = options
            .scopes
            .iter()
            .find(|scope| !clients::is_scope(&scope.name))
        {
            return Err(IssuerError::Scope(bad.name.clone()));
        }
        let rotation = Rotation { every, token_ttl };
        let ring = Ring::current(keep.as_ref(), rotation, clock.unix()).await?;
        let revoked = Revoked::default();
        revoked.refresh(keep.as_ref()).await?;
        let limiter = |per_minute| {
            let clock = clock.clone();
            RateLimiter::with_ticks(per_minute, per_minute, Arc::new(move || clock.steady()))
        };
        Ok(Self(Arc::new(Inner {
            url,
            audience: options.audience,
            scopes: options.scopes,
            token_ttl,
            consent_ttl: options.consent_ttl.as_secs().max(token_ttl),
            rotation,
            clients: Clients::new(Arc::clone(&keep), clock.clone()),
            people: People::new(Arc::clone(&keep), clock.clone()),
            keep,
            ring: ArcSwap::from_pointee(ring),
            revoked,
            looked: AtomicU64::new(0),
            by_name_and_address: limiter(LOGINS_PER_NAME_AND_ADDRESS),
            by_address: limiter(LOGINS_PER_ADDRESS),
            revocations: limiter(REVOCATIONS),
            clock,
        })))
    }

    /// The `iss` of its tokens.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Its doors: `/oauth2/…` and `/.well-known/oauth-authorization-server`.
    pub fn router(&self) -> axum::Router {
        use axum::routing::{get, post};
        axum::Router::new()
            .route("/oauth2/token", post(token::token))
            .route("/oauth2/introspect", post(token::introspect))
            .route("/oauth2/revoke", post(token::revoke))
            .route(
                "/oauth2/authorize",
                get(authorize::ask).post(authorize::decide),
            )
            .route("/oauth2/jwks", get(metadata::jwks))
            .route(
                "/.well-known/oauth-authorization-server",
                get(metadata::metadata),
            )
            .with_state(self.clone())
    }

    /// Reads what other nodes did, and turns the keys if it is time.
    ///
    /// # Errors
    ///
    /// If the records cannot be reached. What was read before stays in force.
    pub async fn refresh(&self) -> Result<(), IssuerError> {
        let inner = &self.0;
        let keep = inner.keep.as_ref();
        inner.revoked.refresh(keep).await?;
        let ring = Ring::current(keep, inner.rotation, inner.clock.unix()).await?;
        inner.ring.store(Arc::new(ring));
        Ok(())
    }

    /// [Refreshes](Self::refresh) every few seconds until told to stop. Without it this node learns
    /// neither of revocations elsewhere nor of new keys in time.
    pub async fn keep_current(self, stop: CancellationToken) {
        while stop
            .run_until_cancelled(tokio::time::sleep(REFRESH))
            .await
            .is_some()
        {
            let refreshed = stop.run_until_cancelled(self.refresh()).await;
            if let Some(Err(error)) = refreshed {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "the issuer goes on with what it read before");
            }
        }
    }
}

#[async_trait]
impl LocalKeys for Issuer {
    fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.0.ring.load().keys)
    }

    async fn look_again(&self) {
        // Anybody can make up key ids; the records are read at most once a second for them.
        let now = self.0.clock.steady().as_secs().saturating_add(1);
        if self.0.looked.swap(now, Ordering::Relaxed) == now {
            return;
        }
        if let Err(error) = self.refresh().await {
            tracing::warn!(%error, "the issuer's newer keys cannot be read");
        }
    }

    fn is_revoked(&self, identity: &Identity) -> bool {
        self.0.revoked.has(identity)
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer")
            .field("url", &self.0.url)
            .finish_non_exhaustive()
    }
}

/// The URL as an issuer's identifier: no path, no slash at its end (RFC 8414, 2).
fn origin_of(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let here = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    let safe = url.scheme() == "https" || (url.scheme() == "http" && here);
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let bare = bare && url.username().is_empty() && url.password().is_none();
    (safe && bare).then(|| url.origin().ascii_serialization())
}
