//! Identity of an authenticated caller.
//!
//! Scopes are only compared here; the zone decides which scope a method needs.

use super::keys::KeyFingerprint;
use std::fmt;
use std::sync::Arc;

/// An authenticated caller.
#[derive(Clone)]
pub struct Identity {
    /// Subject of the token.
    pub principal: Arc<str>,
    /// Client that holds the token; the subject itself when the token does not name one.
    pub client: Arc<str>,
    scopes: Box<[Box<str>]>,
    expires_at: u64,
    pub(crate) issued_at: u64,
    /// Time from which the token must be introspected again, because it may have been revoked. `u64::MAX` for a JWT.
    pub(crate) fresh_until: u64,
    pub(crate) token_id: Option<Box<str>>,
    /// Id of the consent that the token comes from, if the built-in issuer issued it to a user.
    pub(crate) family: Option<Box<str>>,
    /// Key that verified the token; none if the token was introspected.
    pub(crate) key: Option<KeyFingerprint>,
    /// SHA-256 of the client certificate that the token is bound to (RFC 8705, 3.1).
    pub(crate) certificate: Option<[u8; 32]>,
}

impl Identity {
    /// Creates an identity with these scopes, valid until `expires_at` (seconds since 1970).
    pub fn new<S: Into<Box<str>>>(
        principal: impl Into<Arc<str>>,
        client: impl Into<Arc<str>>,
        scopes: impl IntoIterator<Item = S>,
        expires_at: u64,
    ) -> Self {
        let mut scopes: Vec<Box<str>> = scopes.into_iter().map(Into::into).collect();
        scopes.sort_unstable();
        scopes.dedup();
        Self {
            principal: principal.into(),
            client: client.into(),
            scopes: scopes.into(),
            expires_at,
            issued_at: 0,
            fresh_until: u64::MAX,
            token_id: None,
            family: None,
            key: None,
            certificate: None,
        }
    }

    /// Returns true if exactly this scope was granted. There are no wildcards.
    pub fn has_scope(&self, scope: &str) -> bool {
        // There are few scopes: a scan is faster than any index.
        self.scopes.iter().any(|granted| **granted == *scope)
    }

    /// Returns the granted scopes in alphabetical order.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().map(AsRef::as_ref)
    }

    /// Returns the expiry of the token in seconds since 1970, without any leeway.
    pub const fn expires_at(&self) -> u64 {
        self.expires_at
    }

    /// Returns the time at which the token was issued, in seconds since 1970; 0 if it is unknown.
    pub const fn issued_at(&self) -> u64 {
        self.issued_at
    }

    /// Returns the id of the token (`jti`).
    pub fn token_id(&self) -> Option<&str> {
        self.token_id.as_deref()
    }

    /// Returns the id of the consent that the token comes from, if the built-in issuer issued it to a user.
    pub fn family(&self) -> Option<&str> {
        self.family.as_deref()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("principal", &self.principal)
            .field("client", &self.client)
            .field("scopes", &self.scopes)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}
