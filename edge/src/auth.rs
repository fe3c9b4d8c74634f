//! Authentication of callers: the resource server of OAuth 2.0.
//!
//! A verified token is cached by its hash until it expires or its key is removed, so that a request with a cached
//! token costs a hash and a table lookup. The zone decides authorization and the body of a rejection.

mod bearer;
mod identity;
mod introspection;
mod issuer_request;
mod jwks;
mod jwt;
mod keys;
mod metadata;
#[cfg(test)]
mod tests;
mod token_cache;

pub use bearer::single_authorization;
pub use identity::Identity;
pub use introspection::Introspection;
pub use jwt::{ExpectedClaims, verify_jwt};
pub use keys::KeySet;
pub use metadata::{DiscoveryError, SignInEndpoints};

use crate::clock::Clock;
use crate::listener::Peer;
use crate::tls::TrustRoots;
use async_trait::async_trait;
use http::HeaderValue;
use introspection::Introspector;
use jwks::{Jwks, KeySource};
use jwt::UnverifiedJwt;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use token_cache::{TokenHash, VerifiedTokenCache};
use url::Url;

/// Reason why a caller is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthFailure {
    /// The request has no bearer token.
    #[error("a bearer token is required in the authorization header")]
    Missing,
    /// The header is not a valid bearer token.
    #[error("the authorization header does not hold one bearer token")]
    Malformed,
    /// The token is invalid, for a reason from [`reason`] that may be sent to the caller.
    #[error("the token is not valid: {0}")]
    Invalid(&'static str),
    /// The token has expired.
    #[error("the token has expired")]
    Expired,
    /// The token cannot be verified now, because the issuer cannot be reached.
    #[error("the token cannot be verified at the moment, try again later")]
    Unavailable,
}

impl AuthFailure {
    /// Returns the reason label for metrics and audit.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Invalid(_) => "invalid",
            Self::Expired => "expired",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Reasons for [`AuthFailure::Invalid`]: fixed codes that may be sent to the caller. They reveal no more than the
/// caller could find out by reading its own token.
pub mod reason {
    /// The token cannot be parsed.
    pub const MALFORMED: &str = "malformed_token";
    /// The algorithm is not one of RS256, ES256 and EdDSA.
    pub const ALGORITHM: &str = "algorithm_not_allowed";
    /// The token is not an access token.
    pub const TOKEN_TYPE: &str = "not_an_access_token";
    /// The issuer has no key with this id.
    pub const KEY: &str = "unknown_key";
    /// The signature is invalid.
    pub const SIGNATURE: &str = "bad_signature";
    /// The token is from another issuer.
    pub const ISSUER: &str = "wrong_issuer";
    /// The token is for another audience.
    pub const AUDIENCE: &str = "wrong_audience";
    /// The token is not valid yet.
    pub const NOT_YET: &str = "not_yet_valid";
    /// The token has no subject.
    pub const SUBJECT: &str = "no_subject";
    /// The token is bound to a client certificate that the connection does not have.
    pub const BINDING: &str = "wrong_certificate";
    /// The token was revoked.
    pub const REVOKED: &str = "revoked";
    /// The issuer reports the token as inactive.
    pub const INACTIVE: &str = "inactive";
    /// The token is opaque and introspection is not configured.
    pub const OPAQUE: &str = "opaque_tokens_not_accepted";
}

/// Keys of the built-in issuer, which need no fetching.
#[async_trait]
pub trait LocalKeys: Send + Sync {
    /// Returns the keys that may verify a token now.
    fn keys(&self) -> Arc<KeySet>;

    /// Loads keys that another node may have created. Returns soon in any case.
    async fn refresh(&self);

    /// Returns true if the token of this identity was revoked. Called for every request, so it must be cheap and never
    /// block.
    fn is_revoked(&self, identity: &Identity) -> bool;
}

/// Source of the keys that verify tokens.
#[derive(Clone)]
pub enum KeyConfig {
    /// A JWKS URL: https, or http on this machine.
    Jwks(String),
    /// The `jwks_uri` of the issuer's metadata (RFC 8414, or OpenID Connect Discovery).
    Discovered,
    /// The built-in issuer.
    Local(Arc<dyn LocalKeys>),
}

/// Configuration of an [`Authenticator`].
pub struct AuthOptions {
    /// Required `iss` of every token, compared exactly.
    pub issuer: String,
    /// Accepted audiences; a token must have one of them.
    pub audience: Vec<String>,
    /// Source of the verification keys.
    pub keys: KeyConfig,
    /// Introspection of opaque tokens. Without it they are rejected.
    pub introspection: Option<Introspection>,
    /// Tolerated clock difference to the issuer; 30 s by default.
    pub leeway: Duration,
    /// Trusted CAs for connections to the issuer.
    pub trust: TrustRoots,
    /// Source of time.
    pub clock: Clock,
}

impl AuthOptions {
    /// Default clock leeway.
    pub const DEFAULT_LEEWAY: Duration = Duration::from_secs(30);
}

/// Error in the configuration of an [`Authenticator`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthConfigError {
    /// The URL is not https, so an attacker on the network could choose which callers are accepted.
    #[error("{0} must be an https url, or an http url on this machine")]
    Url(&'static str),
    /// No audience is configured, so every token would be rejected.
    #[error("configure at least one audience that tokens are for")]
    Audience,
    /// The credentials are not valid in a header.
    #[error("the client id and the secret for introspection cannot be sent in a header")]
    Credentials,
    /// The HTTP client cannot be created.
    #[error("cannot create the HTTP client for the issuer")]
    Client(#[source] reqwest::Error),
}

/// Verifies tokens and returns identities. Cheap to share behind an `Arc`.
pub struct Authenticator {
    issuer: String,
    audience: Vec<String>,
    leeway: u64,
    key_source: KeyProvider,
    introspector: Option<Introspector>,
    token_cache: VerifiedTokenCache,
    clock: Clock,
}

enum KeyProvider {
    Remote(Arc<Jwks>),
    Local(Arc<dyn LocalKeys>),
}

impl Authenticator {
    /// Creates an authenticator with an empty cache. Nothing is fetched before the first token.
    ///
    /// # Errors
    ///
    /// The options are incomplete or unsafe.
    pub fn new(options: AuthOptions) -> Result<Self, AuthConfigError> {
        if options.audience.is_empty() {
            return Err(AuthConfigError::Audience);
        }
        // Lazy: creating a client reads the system's CAs from disk, and the built-in issuer needs none.
        let client = || {
            options
                .trust
                .client()
                .build()
                .map_err(AuthConfigError::Client)
        };
        let source = match options.keys {
            KeyConfig::Local(keys) => KeyProvider::Local(keys),
            KeyConfig::Jwks(url) => {
                let url = safe_url(&url)
                    .ok_or(AuthConfigError::Url("the address of the issuer's keys"))?;
                let jwks = Jwks::new(KeySource::JwksUrl(url), client()?, options.clock.clone());
                KeyProvider::Remote(Arc::new(jwks))
            }
            KeyConfig::Discovered => {
                let key_source = KeySource::metadata(&options.issuer);
                let key_source = key_source.ok_or(AuthConfigError::Url("the issuer"))?;
                let jwks = Jwks::new(key_source, client()?, options.clock.clone());
                KeyProvider::Remote(Arc::new(jwks))
            }
        };
        let introspector = match &options.introspection {
            None => None,
            Some(config) => {
                let url = safe_url(&config.url)
                    .ok_or(AuthConfigError::Url("the introspection endpoint"))?;
                let introspector = Introspector::new(url, config, client()?);
                Some(introspector.ok_or(AuthConfigError::Credentials)?)
            }
        };
        Ok(Self {
            issuer: options.issuer,
            audience: options.audience,
            leeway: options.leeway.as_secs(),
            key_source: source,
            introspector,
            token_cache: VerifiedTokenCache::new(),
            clock: options.clock,
        })
    }

    /// Returns the identity of the caller that sent this header over this connection.
    ///
    /// A cached token is checked without waiting.
    ///
    /// # Errors
    ///
    /// The caller is not authenticated.
    pub async fn authenticate(
        &self,
        authorization: Option<&HeaderValue>,
        peer: Option<&Peer>,
    ) -> Result<Arc<Identity>, AuthFailure> {
        let token = bearer::bearer_token(authorization)?;
        let hash = token_cache::token_hash(token);
        let now = self.clock.unix();
        let cached = match self.token_cache.get(&hash, now) {
            Some(result) => Some(result?),
            None => None,
        };
        let identity = match cached {
            Some(identity) if self.is_key_current(&identity).await => identity,
            // Boxed, to keep the future of the usual case small.
            _ => Box::pin(self.verify(bearer::token_text(token)?, hash, now)).await?,
        };
        self.check_validity(&identity, peer, now)?;
        if let Some(peer) = peer {
            peer.set_authenticated();
        }
        Ok(identity)
    }

    /// Checks that an identity is still valid, for watches and other work that outlasts a request.
    ///
    /// # Errors
    ///
    /// The identity is no longer valid.
    pub fn recheck(&self, identity: &Identity, peer: Option<&Peer>) -> Result<(), AuthFailure> {
        if let (KeyProvider::Remote(jwks), Some(key)) = (&self.key_source, &identity.key) {
            let keys = jwks.usable_now().ok_or(AuthFailure::Unavailable)?;
            if !keys.keys.contains(key) {
                return Err(AuthFailure::Invalid(reason::KEY));
            }
        }
        self.check_validity(identity, peer, self.clock.unix())
    }

    /// Returns true if the issuer still has the key that verified a token. Refetches stale keys, so that a removed
    /// key takes effect even if all tokens are cached.
    async fn is_key_current(&self, identity: &Identity) -> bool {
        let (KeyProvider::Remote(jwks), Some(key)) = (&self.key_source, &identity.key) else {
            return true;
        };
        if let Some(fresh) = jwks.fresh() {
            return fresh.keys.contains(key);
        }
        let current = Box::pin(jwks.current()).await;
        current.is_ok_and(|current| current.keys.contains(key))
    }

    /// Checks everything that may change while a token is cached.
    fn check_validity(
        &self,
        identity: &Identity,
        peer: Option<&Peer>,
        now: u64,
    ) -> Result<(), AuthFailure> {
        if identity.expires_at().saturating_add(self.leeway) <= now {
            return Err(AuthFailure::Expired);
        }
        if let Some(bound) = &identity.certificate {
            let presented = peer.and_then(|peer| peer.certificate.as_ref());
            if !presented.is_some_and(|shown| shown.ct_eq(bound).into()) {
                return Err(AuthFailure::Invalid(reason::BINDING));
            }
        }
        match &self.key_source {
            KeyProvider::Local(keys) if keys.is_revoked(identity) => {
                Err(AuthFailure::Invalid(reason::REVOKED))
            }
            _ => Ok(()),
        }
    }

    async fn verify(
        &self,
        token: &str,
        hash: TokenHash,
        now: u64,
    ) -> Result<Arc<Identity>, AuthFailure> {
        let expect = ExpectedClaims {
            issuer: &self.issuer,
            audience: &self.audience,
            leeway: self.leeway,
        };
        if jwt::is_jwt(token) {
            let unverified = UnverifiedJwt::parse(token)?;
            let identity = self.verify_jwt(&unverified, &expect, now).await?;
            return Ok(self.token_cache.insert_valid(hash, identity));
        }
        let Some(introspector) = &self.introspector else {
            return Err(AuthFailure::Invalid(reason::OPAQUE));
        };
        // Single-flight: of many requests with one token, one asks the issuer and the others use its result.
        let _turn = introspector.single_flight(&hash).await?;
        if let Some(cached) = self.token_cache.get(&hash, now) {
            return cached;
        }
        match introspector.introspect(token, &expect, now).await {
            Ok(identity) => Ok(self.token_cache.insert_valid(hash, identity)),
            Err(failure) => {
                self.token_cache.insert_rejected(hash, failure, now);
                Err(failure)
            }
        }
    }

    /// Verifies the signature with the current keys, and once more with newer ones if the key is unknown.
    async fn verify_jwt(
        &self,
        token: &UnverifiedJwt<'_>,
        expect: &ExpectedClaims<'_>,
        now: u64,
    ) -> Result<Identity, AuthFailure> {
        let unknown = Err(AuthFailure::Invalid(reason::KEY));
        match &self.key_source {
            KeyProvider::Local(local) => {
                if let Some(verified) = token.verify(&local.keys(), expect, now) {
                    return verified;
                }
                local.refresh().await;
                let verified = token.verify(&local.keys(), expect, now);
                verified.unwrap_or(unknown)
            }
            KeyProvider::Remote(jwks) => {
                let loaded = jwks.current().await?;
                if let Some(verified) = token.verify(&loaded.keys, expect, now) {
                    return verified;
                }
                let Some(newer) = jwks.refetch_for_unknown_kid(&loaded).await else {
                    return unknown;
                };
                token.verify(&newer.keys, expect, now).unwrap_or(unknown)
            }
        }
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator")
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}

/// Parses a URL whose responses cannot be changed on the network: https, or http to this machine.
fn safe_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_loopback = match url.host()? {
        url::Host::Domain(name) => name == "localhost",
        url::Host::Ipv4(address) => address.is_loopback(),
        url::Host::Ipv6(address) => address.is_loopback(),
    };
    let has_no_credentials = url.username().is_empty() && url.password().is_none();
    (has_no_credentials && (url.scheme() == "https" || (url.scheme() == "http" && is_loopback)))
        .then_some(url)
}
