//! Tokens that were judged already, by their hash.
//!
//! A token itself is never kept: whoever reads our memory must not find one to use.

use super::{Identity, Refusal};
use aws_lc_rs::digest::{SHA256, digest};
use quick_cache::sync::Cache;
use std::sync::Arc;

/// How many good tokens are known at once: some tens of MiB when full.
const GOOD: usize = 100_000;
/// How many bad ones. They cost an attacker nothing, so they must not cost us much.
const BAD: usize = 10_000;
/// How long a bad token stays bad without asking again. Short, for an issuer may be slow to know it.
const BAD_FOR: u64 = 10;

/// The SHA-256 of a token.
pub(super) type TokenHash = [u8; 32];

pub(super) fn hash(token: &[u8]) -> TokenHash {
    let mut hash = [0; 32];
    let made = digest(&SHA256, token);
    hash.iter_mut()
        .zip(made.as_ref())
        .for_each(|(place, byte)| *place = *byte);
    hash
}

pub(super) struct Known {
    good: Cache<TokenHash, Arc<Identity>>,
    /// Why, and until when.
    bad: Cache<TokenHash, (Refusal, u64)>,
}

impl Known {
    pub(super) fn new() -> Self {
        Self {
            good: Cache::new(GOOD),
            bad: Cache::new(BAD),
        }
    }

    /// What was found out about a token, if that still counts. Whether a good token has ended since
    /// is for the caller to see.
    pub(super) fn find(
        &self,
        hash: &TokenHash,
        now: u64,
    ) -> Option<Result<Arc<Identity>, Refusal>> {
        if let Some(identity) = self.good.get(hash) {
            return (now < identity.fresh_until).then_some(Ok(identity));
        }
        let (refusal, until) = self.bad.get(hash)?;
        (now < until).then_some(Err(refusal))
    }

    pub(super) fn good(&self, hash: TokenHash, identity: Identity) -> Arc<Identity> {
        let identity = Arc::new(identity);
        self.good.insert(hash, Arc::clone(&identity));
        identity
    }

    /// Remembers a refusal by the issuer. That it could not be reached is no refusal.
    pub(super) fn bad(&self, hash: TokenHash, refusal: Refusal, now: u64) {
        if refusal != Refusal::Unavailable {
            self.good.remove(&hash);
            self.bad
                .insert(hash, (refusal, now.saturating_add(BAD_FOR)));
        }
    }
}
