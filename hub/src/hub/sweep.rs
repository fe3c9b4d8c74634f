//! Sweep: expires subscriptions, closes idle streams and purges old data.

use super::Hub;
use crate::access::Caller;
use crate::error::HubError;
use crate::ports::SubscriptionQuery;
use crate::retention::{Purged, Retention};
use crate::stream::Stream;
use crate::topic::{Subscription, SubscriptionState};
use interzone_protocol::vocab::StreamState;

/// Number of items per step, so that other writers do not wait long.
const SWEEP_BATCH_SIZE: usize = 500;

impl Hub {
    /// Performs one step of the sweep: expires subscriptions, closes idle streams, dead-letters unfetched signals, and
    /// removes data past its retention. Call it again while it removes something; several nodes may sweep concurrently.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn sweep(&self, caller: &Caller, retention: &Retention) -> Result<Purged, HubError> {
        caller.require_operator()?;
        self.expire_subscriptions(caller).await?;
        self.close_idle_streams(caller).await?;
        self.dead_letter_unfetched(retention).await?;
        Ok(self
            .store()
            .purge(retention, self.now(), SWEEP_BATCH_SIZE)
            .await?)
    }

    async fn expire_subscriptions(&self, caller: &Caller) -> Result<(), HubError> {
        let now = self.now();
        for state in [SubscriptionState::Active, SubscriptionState::Pending] {
            let mut offset = 0;
            loop {
                let query = SubscriptionQuery {
                    owner: None,
                    state: Some(state),
                    offset,
                    limit: SWEEP_BATCH_SIZE,
                };
                let (page, _) = self.store().subscriptions(&query).await?;
                let is_full_page = page.len() == SWEEP_BATCH_SIZE;
                offset += page.len();
                for subscription in page {
                    if subscription.expires_at.is_some_and(|end| end <= now) {
                        let id = &subscription.id;
                        let to = SubscriptionState::Expired;
                        // It may have been extended in the meantime.
                        let is_expired = |current: &Subscription| {
                            current.expires_at.is_some_and(|end| end <= now)
                        };
                        ignore_already_ended(
                            self.set_subscription_state_if(caller, id, to, is_expired, |_| {})
                                .await,
                        )?;
                        offset -= 1;
                    }
                }
                if !is_full_page {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Dead-letters signals that were not fetched for too long: an unused subscription must not grow without bound.
    async fn dead_letter_unfetched(&self, retention: &Retention) -> Result<(), HubError> {
        let now = self.now();
        let before = now.minus(retention.unfetched);
        for id in self
            .store()
            .subscriptions_due(now, SWEEP_BATCH_SIZE)
            .await?
        {
            for delivery in self
                .store()
                .unacked_signals(&id, 0, SWEEP_BATCH_SIZE)
                .await?
            {
                if delivery.signal.at >= before {
                    break;
                }
                self.store()
                    .dead_letter_signal(&id, delivery.seq, now)
                    .await?;
            }
        }
        Ok(())
    }

    async fn close_idle_streams(&self, caller: &Caller) -> Result<(), HubError> {
        let before = self.now().minus(self.inner.limits.stream_idle_timeout);
        for stream in self.store().idle_streams(before, SWEEP_BATCH_SIZE).await? {
            // There may have been activity in the meantime.
            let is_idle = |current: &Stream| current.updated_at < before;
            let (id, to) = (&stream.id, StreamState::Closed);
            ignore_already_ended(
                self.set_stream_state_if(caller, id, to, Some("idle"), is_idle)
                    .await,
            )?;
        }
        Ok(())
    }
}

/// Ignores errors that mean that it was ended concurrently.
fn ignore_already_ended<T>(result: Result<T, HubError>) -> Result<(), HubError> {
    match result {
        Ok(_)
        | Err(
            HubError::SubscriptionNotReady { .. }
            | HubError::SubscriptionNotFound(_)
            | HubError::StreamNotActive { .. }
            | HubError::StreamNotFound(_),
        ) => Ok(()),
        Err(error) => Err(error),
    }
}
