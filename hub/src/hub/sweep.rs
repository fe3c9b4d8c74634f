//! The sweep: ends what has run out, removes what need not be kept.

use super::Hub;
use crate::access::Caller;
use crate::error::HubError;
use crate::ports::SubscriptionQuery;
use crate::retention::{Purged, Retention};
use crate::stream::Stream;
use crate::topic::{Subscription, SubscriptionState};
use interzone_protocol::vocab::StreamState;

/// How many things are looked at in one step, so that nobody waits long behind it.
const STEP: usize = 500;

impl Hub {
    /// Does one step of the sweep: marks subscriptions whose time is over, closes streams that have
    /// been silent too long, gives up what nobody fetches, and removes what the policy no longer keeps. Call it again while it
    /// removes something; several nodes may do so at once.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn sweep(&self, caller: &Caller, retention: &Retention) -> Result<Purged, HubError> {
        caller.decide()?;
        self.expire_subscriptions(caller).await?;
        self.close_idle_streams(caller).await?;
        self.give_up_unfetched(retention).await?;
        Ok(self.store().purge(retention, self.now(), STEP).await?)
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
                    limit: STEP,
                };
                let (page, _) = self.store().subscriptions(&query).await?;
                let full = page.len() == STEP;
                offset += page.len();
                for subscription in page {
                    if subscription.expires_at.is_some_and(|end| end <= now) {
                        let id = &subscription.id;
                        let to = SubscriptionState::Expired;
                        // It may have been given more time meanwhile.
                        let still =
                            |known: &Subscription| known.expires_at.is_some_and(|end| end <= now);
                        settled(
                            self.move_subscription_if(caller, id, to, still, |_| {})
                                .await,
                        )?;
                        offset -= 1;
                    }
                }
                if !full {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Gives up signals that nobody has fetched for too long: a subscription that is forgotten must
    /// not grow for ever.
    async fn give_up_unfetched(&self, retention: &Retention) -> Result<(), HubError> {
        let now = self.now();
        let before = now.before(retention.unfetched);
        for id in self.store().subscriptions_due(now, STEP).await? {
            for delivery in self.store().unacked_signals(&id, 0, STEP).await? {
                if delivery.signal.at >= before {
                    break;
                }
                self.store().bury_signal(&id, delivery.seq, now).await?;
            }
        }
        Ok(())
    }

    async fn close_idle_streams(&self, caller: &Caller) -> Result<(), HubError> {
        let before = self.now().before(self.inner.limits.stream_idle);
        for stream in self.store().idle_streams(before, STEP).await? {
            // Somebody may have spoken meanwhile.
            let still = |known: &Stream| known.updated_at < before;
            let (id, to) = (&stream.id, StreamState::Closed);
            settled(
                self.move_stream_if(caller, id, to, Some("idle"), still)
                    .await,
            )?;
        }
        Ok(())
    }
}

/// Somebody else may have ended it meanwhile, which is as good.
fn settled<T>(outcome: Result<T, HubError>) -> Result<(), HubError> {
    match outcome {
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
