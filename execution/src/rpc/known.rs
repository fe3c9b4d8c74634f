//! Whoever proved who they are, and what their token lets them do. How it is proved is the edge's.

use super::errors::{self, WireError};
use crate::zone::Zone;
use axum::http::HeaderMap;
use futures_util::poll;
use interzone_edge::auth::{Identity, Refusal, sole_authorization};
use interzone_edge::budget::ShareKey;
use interzone_edge::in_flight::InFlightRequest;
use interzone_edge::listener::Peer;
use interzone_hub::Caller;
use interzone_protocol::acp::Scope;
use interzone_protocol::vocab::PrincipalId;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// Whoever proved who they are.
pub(crate) struct Known {
    pub(crate) identity: Arc<Identity>,
    pub(crate) caller: Caller,
}

impl Known {
    /// Who sent these headers, unless that has been proved on the way here.
    pub(crate) async fn identity(
        zone: &Zone,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Arc<Identity>, Refusal> {
        match peer.and_then(|peer| peer.vouched.clone()) {
            Some(identity) => Ok(identity),
            None => {
                let header = sole_authorization(headers)?;
                let mut authentication = pin!(zone.auth.authenticate(header, peer));
                if let Poll::Ready(identity) = poll!(authentication.as_mut()) {
                    return identity;
                }
                // It waits for the issuer. One address must not fill the zone with requests that do.
                let key = peer.map_or(ShareKey::Unattributed, Peer::share_key);
                let Some(_request) = zone.in_flight.begin(key) else {
                    zone.metrics.turned_away("address_share");
                    return Err(Refusal::Unavailable);
                };
                authentication.await
            }
        }
    }

    /// Counts a request of this caller until what is returned is dropped. One that has its share of
    /// `limits.requests` in flight is refused, alone.
    pub(crate) fn begin_request(&self, zone: &Zone) -> Result<InFlightRequest, Box<WireError>> {
        zone.in_flight.begin(self.share()).ok_or_else(|| {
            zone.metrics.turned_away("principal_share");
            Box::new(errors::unavailable("principal_share"))
        })
    }

    /// The same, as a caller of the hub or as the error that a refused caller is told.
    pub(crate) async fn by(
        zone: &Zone,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Self, Box<WireError>> {
        let proved = Self::identity(zone, headers, peer).await;
        let known = proved.and_then(|identity| {
            let principal = PrincipalId::shared(&identity.principal)
                .map_err(|_| Refusal::Invalid("unusable_subject"))?;
            Ok(Self {
                identity,
                caller: Caller::new(principal),
            })
        });
        known.map_err(|refusal| {
            zone.metrics.auth_refused(refusal.word());
            Box::new(errors::refused(
                &refusal,
                &zone.token_url,
                &zone.metadata_url,
            ))
        })
    }

    /// To whose share of the memory counts what is sent to this caller, and what it sends.
    pub(crate) fn share(&self) -> ShareKey {
        ShareKey::Principal(Arc::clone(&self.identity.principal))
    }

    /// Whether the token would be believed again: it may have been taken back meanwhile.
    pub(crate) fn is_still(&self, zone: &Zone, peer: Option<&Peer>) -> bool {
        let still = zone.auth.recheck(&self.identity, peer);
        still
            .inspect_err(|refusal| zone.metrics.auth_refused(refusal.word()))
            .is_ok()
    }

    /// Whether the token has all of these scopes.
    pub(crate) fn needs(&self, zone: &Zone, scopes: &[Scope]) -> Result<(), Box<WireError>> {
        if scopes
            .iter()
            .all(|scope| self.identity.has_scope(scope.name()))
        {
            return Ok(());
        }
        let provided = self.identity.scopes();
        Err(Box::new(errors::lacks_scope(
            scopes,
            provided,
            &zone.metadata_url,
        )))
    }
}
