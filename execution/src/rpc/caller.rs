//! Authenticated callers and their scopes. Tokens are verified by the edge crate.

use super::errors::CallError;
use crate::state::ExecutionState;
use axum::http::HeaderMap;
use futures_util::poll;
use interzone_edge::auth::{AuthFailure, Identity, single_authorization};
use interzone_edge::budget::ShareKey;
use interzone_edge::in_flight::InFlightRequest;
use interzone_edge::listener::Peer;
use interzone_hub::Caller;
use interzone_protocol::Scope;
use interzone_protocol::vocab::PrincipalId;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// An authenticated caller.
#[derive(Clone)]
pub(crate) struct AuthenticatedCaller {
    pub(crate) identity: Arc<Identity>,
    pub(crate) hub_caller: Caller,
}

impl AuthenticatedCaller {
    /// Returns the identity that the peer already has, or authenticates the headers.
    pub(crate) async fn identify(
        zone: &ExecutionState,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Arc<Identity>, AuthFailure> {
        match peer.and_then(|peer| peer.platform_identity.clone()) {
            Some(identity) => Ok(identity),
            None => {
                let header = single_authorization(headers)?;
                let mut authentication = pin!(zone.auth.authenticate(header, peer));
                if let Poll::Ready(identity) = poll!(authentication.as_mut()) {
                    return identity;
                }
                // The issuer must verify the token. Limits how many such requests one address can have in flight.
                let key = peer.map_or(ShareKey::Unattributed, Peer::share_key);
                let Some(_request) = zone.in_flight.begin(key) else {
                    zone.metrics.record_rejected("address_share");
                    return Err(AuthFailure::Unavailable);
                };
                authentication.await
            }
        }
    }

    /// Counts an in-flight request of this caller until the guard is dropped. Fails if the caller already has its
    /// share of `limits.requests`.
    pub(crate) fn begin_request(
        &self,
        zone: &ExecutionState,
    ) -> Result<InFlightRequest, CallError> {
        zone.in_flight.begin(self.share()).ok_or_else(|| {
            zone.metrics.record_rejected("principal_share");
            CallError::Busy("principal_share")
        })
    }

    /// Authenticates the headers, or returns the error of all calls.
    pub(crate) async fn authenticate(
        zone: &ExecutionState,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Self, CallError> {
        let identity = Self::identify(zone, headers, peer).await;
        let caller = identity.and_then(|identity| {
            let principal = PrincipalId::from_arc(&identity.principal)
                .map_err(|_| AuthFailure::Invalid("unusable_subject"))?;
            Ok(Self {
                identity,
                hub_caller: Caller::new(principal),
            })
        });
        caller.map_err(|refusal| {
            zone.metrics.record_auth_failure(refusal.code());
            CallError::Authentication(refusal)
        })
    }

    /// Returns the key of the caller's memory share.
    pub(crate) fn share(&self) -> ShareKey {
        ShareKey::Principal(Arc::clone(&self.identity.principal))
    }

    /// True if the token is still valid: it may have been revoked in the meantime.
    pub(crate) fn is_still_valid(&self, zone: &ExecutionState, peer: Option<&Peer>) -> bool {
        let checked = zone.auth.recheck(&self.identity, peer);
        checked
            .inspect_err(|refusal| zone.metrics.record_auth_failure(refusal.code()))
            .is_ok()
    }

    /// Checks that the client is within its rate limit.
    pub(crate) fn check_rate(&self, zone: &ExecutionState) -> Result<(), CallError> {
        let checked = zone.rate.check(&self.identity.client);
        checked.map_err(|exceeded| {
            zone.metrics.record_rate_limited();
            CallError::RateLimited {
                retry_after: exceeded.retry_after,
                limit: exceeded.limit,
            }
        })
    }

    /// Checks that the token has all of these scopes.
    pub(crate) fn require_scopes(&self, scopes: &'static [Scope]) -> Result<(), CallError> {
        if scopes
            .iter()
            .all(|scope| self.identity.has_scope(scope.name()))
        {
            return Ok(());
        }
        Err(CallError::MissingScope {
            required: scopes,
            provided: self.identity.scopes().map(str::to_owned).collect(),
        })
    }
}
