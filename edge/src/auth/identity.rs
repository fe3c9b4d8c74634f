//! Who calls, once that is proven.
//!
//! Nothing here decides what somebody may do: scopes are words to compare, and the zone knows which
//! one a method needs.

use super::keys::Fingerprint;
use std::fmt;
use std::sync::Arc;

/// Somebody whose token was good.
#[derive(Clone)]
pub struct Identity {
    /// The subject of the token: on whose behalf.
    pub principal: Arc<str>,
    /// The program that holds the token; the subject itself when the token does not say.
    pub client: Arc<str>,
    scopes: Box<[Box<str>]>,
    expires_at: u64,
    pub(crate) issued_at: u64,
    /// From when on the issuer must be asked again, for what it may have taken back since. Never,
    /// for a token that carries its own proof.
    pub(crate) fresh_until: u64,
    pub(crate) token_id: Option<Box<str>>,
    /// The consent that the token comes from, if the built-in issuer made it for a person.
    pub(crate) family: Option<Box<str>>,
    /// The key that verified the token; none if the issuer was asked.
    pub(crate) key: Option<Fingerprint>,
    /// The SHA-256 of the client certificate that must come with the token (RFC 8705, 3.1).
    pub(crate) certificate: Option<[u8; 32]>,
}

impl Identity {
    /// Somebody with these scopes, until `expires_at` (seconds since 1970).
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

    /// True if exactly this scope was granted. There are no wildcards.
    pub fn has_scope(&self, scope: &str) -> bool {
        // A handful of words: walking them is faster than any index.
        self.scopes.iter().any(|held| **held == *scope)
    }

    /// What was granted, in alphabetical order.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().map(AsRef::as_ref)
    }

    /// When the token ends, in seconds since 1970, without any leeway.
    pub const fn expires_at(&self) -> u64 {
        self.expires_at
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
