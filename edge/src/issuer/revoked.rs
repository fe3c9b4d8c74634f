//! What was taken back before its time.
//!
//! Every request asks whether its token is here, so the answer comes from memory; the records are
//! read now and then for what other nodes have taken back.

use super::keep::{Keep, KeepError};
use crate::auth::Identity;
use arc_swap::ArcSwap;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const KIND: &str = "oauth.revoked";
/// How long the end of an account is remembered: longer than any token can live.
const REMEMBERED: u64 = super::LONGEST_TOKEN + 3600;

/// The records, as they were when last read.
#[derive(Default)]
pub(super) struct Revoked(ArcSwap<Table>);

#[derive(Clone, Default)]
struct Table {
    tokens: HashSet<String>,
    /// Consents whose tokens are all void, whenever they were made.
    families: HashSet<String>,
    /// Clients and subjects, and the moment from which on their older tokens are void.
    accounts: HashMap<String, u64>,
}

impl Table {
    async fn read(keep: &dyn Keep) -> Result<Self, KeepError> {
        let mut table = Self::default();
        for kept in keep.list(KIND).await? {
            match kept.key.split_once('/') {
                Some(("token", id)) => {
                    table.tokens.insert(id.to_owned());
                }
                Some(("family", id)) => {
                    table.families.insert(id.to_owned());
                }
                Some(("account", id)) => {
                    let at = kept.value.parse().unwrap_or(u64::MAX);
                    table.accounts.insert(id.to_owned(), at);
                }
                _ => {}
            }
        }
        Ok(table)
    }
}

impl Revoked {
    /// Reads the records.
    pub(super) async fn refresh(&self, keep: &dyn Keep) -> Result<(), KeepError> {
        let before = self.0.load_full();
        let read = Table::read(keep).await?;
        self.0.rcu(|current| {
            let mut table = read.clone();
            // What was taken back here while we read may be missing in what we read.
            if !Arc::ptr_eq(current, &before) {
                table.tokens.extend(current.tokens.iter().cloned());
                table.families.extend(current.families.iter().cloned());
            }
            table
        });
        Ok(())
    }

    /// Takes one token back: everywhere soon, here at once.
    pub(super) async fn token(
        &self,
        keep: &dyn Keep,
        id: &str,
        expires_at: u64,
    ) -> Result<(), KeepError> {
        // The record stays a little longer than the token, for clocks that are behind.
        let until = expires_at.saturating_add(300);
        // False means that it is there already.
        keep.put(KIND, &format!("token/{id}"), "", None, Some(until))
            .await?;
        self.0.rcu(|table| {
            let mut table = Table::clone(table);
            table.tokens.insert(id.to_owned());
            table
        });
        Ok(())
    }

    /// Revokes all tokens of a family, also those that are being made: by one record, so that there is
    /// no moment in which some of them are revoked and others are not.
    pub(super) async fn family(
        &self,
        keep: &dyn Keep,
        id: &str,
        until: u64,
    ) -> Result<(), KeepError> {
        // False means that it is there already.
        keep.put(KIND, &format!("family/{id}"), "", None, Some(until))
            .await?;
        self.0.rcu(|table| {
            let mut table = Table::clone(table);
            table.families.insert(id.to_owned());
            table
        });
        Ok(())
    }

    /// Whether a family was revoked, on whichever node: looks into the records.
    pub(super) async fn has_family(keep: &dyn Keep, id: &str) -> Result<bool, KeepError> {
        let found = keep.get(KIND, &format!("family/{id}")).await?;
        Ok(found.is_some())
    }

    pub(super) fn has(&self, identity: &Identity) -> bool {
        let table = self.0.load();
        if table.tokens.is_empty() && table.accounts.is_empty() && table.families.is_empty() {
            return false;
        }
        let ended = |account: &str| {
            let at = table.accounts.get(account);
            at.is_some_and(|at| identity.issued_at <= *at)
        };
        let token = identity.token_id.as_deref();
        let family = identity.family.as_deref();
        token.is_some_and(|id| table.tokens.contains(id))
            || family.is_some_and(|id| table.families.contains(id))
            || ended(&identity.client)
            || ended(&identity.principal)
    }
}

/// Takes back every token that a client holds, or that is on behalf of a subject, up to now.
pub(super) async fn account(keep: &dyn Keep, id: &str, now: u64) -> Result<(), KeepError> {
    let key = format!("account/{id}");
    let until = Some(now.saturating_add(REMEMBERED));
    // Somebody else may write the same at the same time; the later moment should win, and both are
    // now.
    for _ in 0..8 {
        let there = keep.get(KIND, &key).await?.map(|kept| kept.revision);
        if keep.put(KIND, &key, &now.to_string(), there, until).await? {
            break;
        }
    }
    Ok(())
}
