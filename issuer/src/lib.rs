//! Built-in OAuth 2.0 authorization server, for installations without one of their own.
//!
//! Clients get tokens with their secret, or with a user's consent (authorization code with PKCE).
//! All state is in an [`RecordStore`], so that all nodes of an installation act as one issuer.
//! The supported scopes come from [`IssuerOptions`]; this crate has no knowledge of any dialect.
//!
//! It is for development and small installations, and its scope is frozen: larger ones configure another issuer.

mod access_token;
mod authorize;
mod client_auth;
mod clients;
mod credential;
mod endpoints;
mod form;
mod grants;
mod key_ring;
mod oauth_error;
mod page;
mod record_store;
mod redirect_uri;
mod revocation_list;
#[cfg(test)]
mod tests;
mod users;

pub use clients::{
    AccountError, GrantType, NewClientCredentials, NewOAuthClient, OAuthClient, OAuthClients,
};
pub use credential::RandomError;
pub use key_ring::KeyRingError;
pub use record_store::IssuerStoreError;
pub use users::{OAuthUser, OAuthUsers};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use interzone_edge::auth::{Identity, KeySet, LocalKeys};
use interzone_edge::clock::Clock;
use interzone_edge::rate_limiter::RateLimiter;
use interzone_hub::ports::RecordStore;
use key_ring::{KeyRing, KeyRotation};
use record_store::IssuerRecords;
use revocation_list::RevocationList;
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Maximum lifetime of an access token, in seconds. Revocations are remembered for longer than this.
const MAX_TOKEN_TTL: u64 = 24 * 3600;
/// Interval at which revocations and keys of other nodes are read.
const RELOAD_INTERVAL: Duration = Duration::from_secs(3);
/// Sign-in attempts per minute for one name from one address. There is no limit per name over all addresses:
/// it would lock out the user, and a passphrase of 256 random bits cannot be guessed at any rate.
const LOGINS_PER_NAME_AND_ADDRESS: u32 = 10;
/// Sign-in attempts per minute from one address over all names; one address may be a shared office NAT.
const LOGINS_PER_ADDRESS: u32 = 60;

/// Revocations per minute and client. All of them are held in memory for a while.
const REVOCATIONS_PER_CLIENT: u32 = 60;

/// A scope that can be granted, with its description for the consent page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeDefinition {
    /// Scope name as it appears in tokens.
    pub name: String,
    /// Plain-language description of the access; may be empty, then the name is shown.
    pub description: String,
}

impl ScopeDefinition {
    /// Creates a scope with its description.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
        }
    }
}

/// Configuration of an [`Issuer`].
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IssuerOptions {
    /// Public URL: scheme, host and port only. It is the `iss` of the tokens.
    #[serde(skip)]
    pub url: String,
    /// Audiences (`aud`) of the tokens.
    #[serde(skip)]
    pub audience: Vec<String>,
    /// All scopes that can be granted.
    #[serde(skip)]
    pub scopes: Vec<ScopeDefinition>,
    /// Token lifetime; 15 minutes by default, a day at most.
    #[serde(rename = "token_lifetime")]
    pub token_ttl: Duration,
    /// Lifetime of a user's consent; 30 days by default.
    #[serde(skip)]
    pub consent_ttl: Duration,
    /// Time for which a key signs before the next one takes over; 30 days by default, a day at least.
    pub key_rotation: Duration,
    /// Source of the current time.
    #[serde(skip)]
    pub clock: Clock,
}

impl Default for IssuerOptions {
    /// Default lifetimes, without the URL, audience and scopes that an issuer needs.
    fn default() -> Self {
        Self::new("", Vec::new(), Vec::new())
    }
}

impl IssuerOptions {
    /// Returns options for an issuer at `url` with default lifetimes.
    pub fn new(
        url: impl Into<String>,
        audience: Vec<String>,
        scopes: Vec<ScopeDefinition>,
    ) -> Self {
        Self {
            url: url.into(),
            audience,
            scopes,
            token_ttl: Duration::from_secs(900),
            consent_ttl: Duration::from_secs(30 * 24 * 3600),
            key_rotation: Duration::from_secs(30 * 24 * 3600),
            clock: Clock::system(),
        }
    }
}

/// Error while opening or refreshing the issuer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssuerError {
    /// The URL is not a valid issuer identifier.
    #[error("the issuer's url must be https (or http on this machine) and have no path")]
    Url,
    /// A lifetime is out of range.
    #[error(
        "the token lifetime must be between a minute and a day, and the key rotation at least a day"
    )]
    Lifetime,
    /// No audience is configured.
    #[error("name at least one audience for the issuer's tokens")]
    Audience,
    /// A scope name is invalid.
    #[error("{0:?} is not a valid scope name")]
    Scope(String),
    /// The signing keys could not be loaded.
    #[error("the issuer's signing keys cannot be loaded")]
    Keys(#[from] KeyRingError),
    /// The record store failed.
    #[error("the issuer's record store failed")]
    RecordStore(#[from] IssuerStoreError),
}

/// OAuth 2.0 authorization server. Cheap to clone.
#[derive(Clone)]
pub struct Issuer(Arc<IssuerState>);

struct IssuerState {
    /// Without a trailing slash.
    url: String,
    audience: Vec<String>,
    scopes: Vec<ScopeDefinition>,
    token_ttl: u64,
    consent_ttl: u64,
    rotation: KeyRotation,
    store: IssuerRecords,
    clients: OAuthClients,
    users: OAuthUsers,
    keys: ArcSwap<KeyRing>,
    revocations: RevocationList,
    clock: Clock,
    /// Time of the last reload that an unknown key id caused, in monotonic seconds.
    last_key_lookup: AtomicU64,
    logins_by_name_and_address: RateLimiter,
    logins_by_address: RateLimiter,
    revocation_limit: RateLimiter,
}

impl Issuer {
    /// Opens the issuer on a record store. The first node creates the first signing key; any number of
    /// nodes may start at once.
    ///
    /// # Errors
    ///
    /// If the options are invalid or the record store fails.
    pub async fn open(
        store: Arc<dyn RecordStore>,
        options: IssuerOptions,
    ) -> Result<Self, IssuerError> {
        let clock = options.clock;
        let url = parse_issuer_url(&options.url).ok_or(IssuerError::Url)?;
        let (token_ttl, period) = (options.token_ttl.as_secs(), options.key_rotation.as_secs());
        if !(60..=MAX_TOKEN_TTL).contains(&token_ttl) || period < 24 * 3600 {
            return Err(IssuerError::Lifetime);
        }
        if options.audience.is_empty() {
            return Err(IssuerError::Audience);
        }
        if let Some(invalid) = options
            .scopes
            .iter()
            .find(|scope| !clients::is_scope_token(&scope.name))
        {
            return Err(IssuerError::Scope(invalid.name.clone()));
        }
        let rotation = KeyRotation { period, token_ttl };
        let records = IssuerRecords::new(Arc::clone(&store), clock.clone());
        let keys = KeyRing::load(&records, rotation, clock.unix()).await?;
        let revocations = RevocationList::default();
        revocations.refresh(&records).await?;
        let limiter = |per_minute| {
            let clock = clock.clone();
            RateLimiter::with_time_source(
                per_minute,
                per_minute,
                Arc::new(move || clock.monotonic()),
            )
        };
        Ok(Self(Arc::new(IssuerState {
            url,
            audience: options.audience,
            scopes: options.scopes,
            token_ttl,
            consent_ttl: options.consent_ttl.as_secs().max(token_ttl),
            rotation,
            clients: OAuthClients::new(Arc::clone(&store), clock.clone()),
            users: OAuthUsers::new(store, clock.clone()),
            store: records,
            keys: ArcSwap::from_pointee(keys),
            revocations,
            last_key_lookup: AtomicU64::new(0),
            logins_by_name_and_address: limiter(LOGINS_PER_NAME_AND_ADDRESS),
            logins_by_address: limiter(LOGINS_PER_ADDRESS),
            revocation_limit: limiter(REVOCATIONS_PER_CLIENT),
            clock,
        })))
    }

    /// Returns the `iss` of the tokens.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Returns the HTTP routes: `/oauth2/…` and `/.well-known/oauth-authorization-server`.
    pub fn router(&self) -> axum::Router {
        use axum::routing::{get, post};
        axum::Router::new()
            .route("/oauth2/token", post(endpoints::token))
            .route("/oauth2/introspect", post(endpoints::introspect))
            .route("/oauth2/revoke", post(endpoints::revoke))
            .route(
                "/oauth2/authorize",
                get(authorize::show_consent).post(authorize::submit_consent),
            )
            .route("/oauth2/jwks", get(endpoints::jwks))
            .route(
                "/.well-known/oauth-authorization-server",
                get(endpoints::metadata),
            )
            .with_state(self.clone())
    }

    /// Reads the revocations of other nodes and rotates the keys if they are due.
    ///
    /// # Errors
    ///
    /// If the record store fails. The state read before stays in force.
    pub async fn reload(&self) -> Result<(), IssuerError> {
        let inner = &self.0;
        let store = &inner.store;
        inner.revocations.refresh(store).await?;
        let keys = KeyRing::load(store, inner.rotation, inner.clock.unix()).await?;
        inner.keys.store(Arc::new(keys));
        Ok(())
    }

    /// Calls [`Self::reload`] every few seconds until `stop` is cancelled. Without it this node does not learn
    /// of revocations on other nodes, nor of new keys in time.
    pub async fn run_reload_loop(self, stop: CancellationToken) {
        while stop
            .run_until_cancelled(tokio::time::sleep(RELOAD_INTERVAL))
            .await
            .is_some()
        {
            let reloaded = stop.run_until_cancelled(self.reload()).await;
            if let Some(Err(error)) = reloaded {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "issuer reload failed, using previous state");
            }
        }
    }
}

#[async_trait]
impl LocalKeys for Issuer {
    fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.0.keys.load().keys)
    }

    async fn refresh(&self) {
        // Callers can invent key ids, so the record store is read at most once a second for them.
        let now = self.0.clock.monotonic().as_secs().saturating_add(1);
        if self.0.last_key_lookup.swap(now, Ordering::Relaxed) == now {
            return;
        }
        if let Err(error) = self.reload().await {
            tracing::warn!(%error, "issuer key reload failed");
        }
    }

    fn is_revoked(&self, identity: &Identity) -> bool {
        self.0.revocations.contains(identity)
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer")
            .field("url", &self.0.url)
            .finish_non_exhaustive()
    }
}

/// Normalizes the URL to an issuer identifier: no path, no trailing slash (RFC 8414, 2).
fn parse_issuer_url(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let is_loopback = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    let is_secure = url.scheme() == "https" || (url.scheme() == "http" && is_loopback);
    let has_origin_only = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let has_origin_only = has_origin_only && url.username().is_empty() && url.password().is_none();
    (is_secure && has_origin_only).then(|| url.origin().ascii_serialization())
}
