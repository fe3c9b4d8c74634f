//! Proves who calls: the resource server of OAuth 2.0.
//!
//! A token is verified once and then known by its hash until it ends or its key is gone, so that a
//! request with a known token costs a hash and a look into a table. What a caller may do is not decided
//! here, and what a refusal looks like on the wire is for the zone to say.

mod bearer;
mod identity;
mod introspection;
mod jwks;
pub(crate) mod jwt;
mod keys;
mod known;
mod metadata;
mod question;
#[cfg(test)]
mod tests;

pub use bearer::sole_authorization;
pub use identity::Identity;
pub use introspection::Introspection;
pub use keys::KeySet;
pub use metadata::{DiscoveryError, SignInEndpoints};

use crate::clock::Clock;
use crate::listener::Peer;
use crate::tls::Trust;
use async_trait::async_trait;
use http::HeaderValue;
use introspection::Introspector;
use jwks::{Jwks, Place};
use jwt::{Expect, Unproven};
use known::{Known, TokenHash};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use url::Url;

/// Why a caller is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no bearer token.
    #[error("a bearer token is required in the authorization header")]
    Missing,
    /// There is something that cannot be a bearer token.
    #[error("the authorization header does not hold one bearer token")]
    Malformed,
    /// The token is not good, for a reason from [`reason`] that may be told to the caller.
    #[error("the token is not valid: {0}")]
    Invalid(&'static str),
    /// The token was good and is over.
    #[error("the token has expired")]
    Expired,
    /// Whether it is good cannot be said now, because the issuer cannot be reached.
    #[error("the token cannot be verified at the moment, try again later")]
    Unavailable,
}

impl Refusal {
    /// One word for metrics and audit.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Invalid(_) => "invalid",
            Self::Expired => "expired",
            Self::Unavailable => "unavailable",
        }
    }
}

/// The reasons for [`Refusal::Invalid`]: fixed words that may be told to the caller. They say no more
/// than the caller could find out by reading its own token.
pub mod reason {
    /// Its parts cannot be read.
    pub const MALFORMED: &str = "malformed_token";
    /// Its algorithm is not one of RS256, ES256 and EdDSA.
    pub const ALGORITHM: &str = "algorithm_not_allowed";
    /// It is a token, but not one for access.
    pub const KIND: &str = "not_an_access_token";
    /// The issuer has no such key.
    pub const KEY: &str = "unknown_key";
    /// The signature does not hold.
    pub const SIGNATURE: &str = "bad_signature";
    /// It is from somebody else.
    pub const ISSUER: &str = "wrong_issuer";
    /// It is for somebody else.
    pub const AUDIENCE: &str = "wrong_audience";
    /// Its time has not come.
    pub const NOT_YET: &str = "not_yet_valid";
    /// It names nobody.
    pub const SUBJECT: &str = "no_subject";
    /// It is bound to a client certificate that did not come with it.
    pub const BINDING: &str = "wrong_certificate";
    /// It was taken back.
    pub const REVOKED: &str = "revoked";
    /// The issuer does not know it, or not any more.
    pub const INACTIVE: &str = "inactive";
    /// It is opaque and nobody is configured who could be asked about it.
    pub const OPAQUE: &str = "opaque_tokens_not_accepted";
}

/// Keys that need no fetching, because the issuer is this program.
#[async_trait]
pub trait LocalKeys: Send + Sync {
    /// The keys that may verify a token now.
    fn keys(&self) -> Arc<KeySet>;

    /// Looks for keys that another node may have made. Answers soon, whatever it finds.
    async fn look_again(&self);

    /// True if the token of this identity was taken back. Asked for every request, so it must be
    /// cheap and never wait.
    fn is_revoked(&self, identity: &Identity) -> bool;
}

/// Where the keys come from that verify tokens.
#[derive(Clone)]
pub enum Keys {
    /// From this URL: https, or http on this machine.
    Jwks(String),
    /// From where the issuer's metadata say (RFC 8414, or OpenID Connect Discovery).
    Discovered,
    /// From the built-in issuer.
    Local(Arc<dyn LocalKeys>),
}

/// What an [`Authenticator`] believes.
pub struct AuthOptions {
    /// The `iss` of every token, to the letter.
    pub issuer: String,
    /// A token must be for one of these.
    pub audience: Vec<String>,
    /// What verifies it.
    pub keys: Keys,
    /// Whom to ask about opaque tokens. Without it they are refused.
    pub introspection: Option<Introspection>,
    /// How far the issuer's clock may be from ours; 30 s by default.
    pub leeway: Duration,
    /// Which certificates of the issuer are trusted.
    pub trust: Trust,
    /// Tells the time.
    pub clock: Clock,
}

impl AuthOptions {
    /// How far clocks may be apart unless somebody says otherwise.
    pub const LEEWAY: Duration = Duration::from_secs(30);
}

/// Why an [`Authenticator`] cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The URL would let anybody on the way choose who is believed.
    #[error("{0} must be an https url, or an http url on this machine")]
    Url(&'static str),
    /// Nobody could ever be believed.
    #[error("name at least one audience that tokens are for")]
    Audience,
    /// The credentials cannot be sent.
    #[error("the client id and the secret for introspection cannot be sent in a header")]
    Credentials,
    /// TLS cannot be used.
    #[error("the client that reaches the issuer cannot be made")]
    Client(#[source] reqwest::Error),
}

/// Turns tokens into identities. Cheap to share behind an `Arc`.
pub struct Authenticator {
    issuer: String,
    audience: Vec<String>,
    leeway: u64,
    source: Source,
    introspector: Option<Introspector>,
    known: Known,
    clock: Clock,
}

enum Source {
    Remote(Arc<Jwks>),
    Local(Arc<dyn LocalKeys>),
}

impl Authenticator {
    /// An authenticator that knows no token yet. Nothing is fetched before the first one comes.
    ///
    /// # Errors
    ///
    /// If the options could not be used, or not safely.
    pub fn new(options: AuthOptions) -> Result<Self, AuthError> {
        if options.audience.is_empty() {
            return Err(AuthError::Audience);
        }
        // Making one reads the system's CAs from disk, and the built-in issuer needs none.
        let client = || options.trust.client().build().map_err(AuthError::Client);
        let source = match options.keys {
            Keys::Local(keys) => Source::Local(keys),
            Keys::Jwks(url) => {
                let url =
                    safe_url(&url).ok_or(AuthError::Url("the address of the issuer's keys"))?;
                let jwks = Jwks::new(Place::Keys(url), client()?, options.clock.clone());
                Source::Remote(Arc::new(jwks))
            }
            Keys::Discovered => {
                let place = Place::metadata_of(&options.issuer);
                let place = place.ok_or(AuthError::Url("the issuer"))?;
                let jwks = Jwks::new(place, client()?, options.clock.clone());
                Source::Remote(Arc::new(jwks))
            }
        };
        let introspector = match &options.introspection {
            None => None,
            Some(who) => {
                let url = safe_url(&who.url).ok_or(AuthError::Url("the introspection endpoint"))?;
                let made = Introspector::new(url, who, client()?);
                Some(made.ok_or(AuthError::Credentials)?)
            }
        };
        Ok(Self {
            issuer: options.issuer,
            audience: options.audience,
            leeway: options.leeway.as_secs(),
            source,
            introspector,
            known: Known::new(),
            clock: options.clock,
        })
    }

    /// Who sent this header over this connection.
    ///
    /// A token that is known answers without waiting.
    ///
    /// # Errors
    ///
    /// Why the caller is not believed.
    pub async fn authenticate(
        &self,
        authorization: Option<&HeaderValue>,
        peer: Option<&Peer>,
    ) -> Result<Arc<Identity>, Refusal> {
        let token = bearer::token(authorization)?;
        let hash = known::hash(token);
        let now = self.clock.unix();
        let known = match self.known.find(&hash, now) {
            Some(known) => Some(known?),
            None => None,
        };
        let identity = match known {
            Some(identity) if self.has_key_of(&identity).await => identity,
            // Boxed, to keep the future of the usual case small.
            _ => Box::pin(self.verify(bearer::text(token)?, hash, now)).await?,
        };
        self.still_good(&identity, peer, now)?;
        Ok(identity)
    }

    /// Whether somebody who proved themselves a while ago would still be believed: for what goes on
    /// for longer than a request.
    ///
    /// # Errors
    ///
    /// Why the caller is not believed any more.
    pub fn recheck(&self, identity: &Identity, peer: Option<&Peer>) -> Result<(), Refusal> {
        if let (Source::Remote(jwks), Some(key)) = (&self.source, &identity.key) {
            let keys = jwks.usable_now().ok_or(Refusal::Unavailable)?;
            if !keys.keys.has(key) {
                return Err(Refusal::Invalid(reason::KEY));
            }
        }
        self.still_good(identity, peer, self.clock.unix())
    }

    /// Whether the issuer still has the key that verified a token. Has the keys fetched again when it is
    /// time, so that a key which was removed ends also if all tokens are known.
    async fn has_key_of(&self, identity: &Identity) -> bool {
        let (Source::Remote(jwks), Some(key)) = (&self.source, &identity.key) else {
            return true;
        };
        if let Some(fresh) = jwks.fresh() {
            return fresh.keys.has(key);
        }
        let current = Box::pin(jwks.current()).await;
        current.is_ok_and(|current| current.keys.has(key))
    }

    /// What may change while a token is known.
    fn still_good(
        &self,
        identity: &Identity,
        peer: Option<&Peer>,
        now: u64,
    ) -> Result<(), Refusal> {
        if identity.expires_at().saturating_add(self.leeway) <= now {
            return Err(Refusal::Expired);
        }
        if let Some(bound) = &identity.certificate {
            let shown = peer.and_then(|peer| peer.certificate.as_ref());
            if !shown.is_some_and(|shown| shown.ct_eq(bound).into()) {
                return Err(Refusal::Invalid(reason::BINDING));
            }
        }
        match &self.source {
            Source::Local(keys) if keys.is_revoked(identity) => {
                Err(Refusal::Invalid(reason::REVOKED))
            }
            _ => Ok(()),
        }
    }

    async fn verify(
        &self,
        token: &str,
        hash: TokenHash,
        now: u64,
    ) -> Result<Arc<Identity>, Refusal> {
        let expect = Expect {
            issuer: &self.issuer,
            audience: &self.audience,
            leeway: self.leeway,
        };
        if jwt::has_shape(token) {
            let unproven = Unproven::read(token)?;
            let identity = self.prove(&unproven, &expect, now).await?;
            return Ok(self.known.good(hash, identity));
        }
        let Some(introspector) = &self.introspector else {
            return Err(Refusal::Invalid(reason::OPAQUE));
        };
        // Of many requests with one token, one asks and the others hear what it was told.
        let _turn = introspector.turn(&hash).await?;
        if let Some(known) = self.known.find(&hash, now) {
            return known;
        }
        match introspector.ask(token, &expect, now).await {
            Ok(identity) => Ok(self.known.good(hash, identity)),
            Err(refusal) => {
                self.known.bad(hash, refusal, now);
                Err(refusal)
            }
        }
    }

    /// Tries the keys at hand, and once more if there are newer ones.
    async fn prove(
        &self,
        token: &Unproven<'_>,
        expect: &Expect<'_>,
        now: u64,
    ) -> Result<Identity, Refusal> {
        let unknown = Err(Refusal::Invalid(reason::KEY));
        match &self.source {
            Source::Local(local) => {
                if let Some(judged) = token.prove(&local.keys(), expect, now) {
                    return judged;
                }
                local.look_again().await;
                let judged = token.prove(&local.keys(), expect, now);
                judged.unwrap_or(unknown)
            }
            Source::Remote(jwks) => {
                let loaded = jwks.current().await?;
                if let Some(judged) = token.prove(&loaded.keys, expect, now) {
                    return judged;
                }
                let Some(newer) = jwks.newer(&loaded).await else {
                    return unknown;
                };
                token.prove(&newer.keys, expect, now).unwrap_or(unknown)
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

/// A URL whose answers nobody on the way can change.
fn safe_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let here = match url.host()? {
        url::Host::Domain(name) => name == "localhost",
        url::Host::Ipv4(address) => address.is_loopback(),
        url::Host::Ipv6(address) => address.is_loopback(),
    };
    let bare = url.username().is_empty() && url.password().is_none();
    (bare && (url.scheme() == "https" || (url.scheme() == "http" && here))).then_some(url)
}
