//! Cache of verified and rejected tokens, keyed by token hash.
//!
//! Tokens themselves are never stored, so that a memory dump contains none to use.

use super::{AuthFailure, Identity};
use aws_lc_rs::digest::{SHA256, digest};
use quick_cache::sync::Cache;
use std::sync::Arc;

/// Maximum number of cached valid tokens: some tens of MiB when full.
const MAX_VALID_TOKENS: usize = 100_000;
/// Maximum number of cached rejected tokens. They cost an attacker nothing, so they must not cost much memory.
const MAX_REJECTED_TOKENS: usize = 10_000;
/// Seconds for which a rejection is cached. Short, because an issuer may be slow to learn of a token.
const REJECTION_TTL_SECS: u64 = 10;

/// SHA-256 of a token.
pub(super) type TokenHash = [u8; 32];

pub(super) fn token_hash(token: &[u8]) -> TokenHash {
    let mut hash = [0; 32];
    let digest = digest(&SHA256, token);
    hash.iter_mut()
        .zip(digest.as_ref())
        .for_each(|(slot, byte)| *slot = *byte);
    hash
}

pub(super) struct VerifiedTokenCache {
    valid: Cache<TokenHash, Arc<Identity>>,
    /// The failure, and until when it is cached.
    rejected: Cache<TokenHash, (AuthFailure, u64)>,
}

impl VerifiedTokenCache {
    pub(super) fn new() -> Self {
        Self {
            valid: Cache::new(MAX_VALID_TOKENS),
            rejected: Cache::new(MAX_REJECTED_TOKENS),
        }
    }

    /// Returns the cached result of a token if it is still fresh. The caller checks whether a valid token has expired
    /// since.
    pub(super) fn get(
        &self,
        hash: &TokenHash,
        now: u64,
    ) -> Option<Result<Arc<Identity>, AuthFailure>> {
        if let Some(identity) = self.valid.get(hash) {
            return (now < identity.fresh_until).then_some(Ok(identity));
        }
        let (failure, until) = self.rejected.get(hash)?;
        (now < until).then_some(Err(failure))
    }

    pub(super) fn insert_valid(&self, hash: TokenHash, identity: Identity) -> Arc<Identity> {
        let identity = Arc::new(identity);
        self.valid.insert(hash, Arc::clone(&identity));
        identity
    }

    /// Caches a rejection by the issuer. An unreachable issuer is not a rejection.
    pub(super) fn insert_rejected(&self, hash: TokenHash, failure: AuthFailure, now: u64) {
        if failure != AuthFailure::Unavailable {
            self.valid.remove(&hash);
            self.rejected
                .insert(hash, (failure, now.saturating_add(REJECTION_TTL_SECS)));
        }
    }
}
