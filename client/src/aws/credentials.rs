//! Credentials for AWS: given, or found in AWS's usual places and kept until shortly before they expire.
//! Many who need them at once wait for one look. No lock is held while anybody waits.

use super::chain::Chain;
use super::network::Network;
use super::place::{Known, Place, Trouble};
use super::signer::{AwsKeys, SignError};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Credentials are looked for again so long before they expire.
const AHEAD: Duration = Duration::from_secs(300);
/// However many places there are to look at, it is over by then.
const LONGEST: Duration = Duration::from_secs(30);

type Flight = BoxFuture<'static, Result<Known, SignError>>;

/// Whoever knows credentials.
#[async_trait::async_trait]
trait Source: Send + Sync {
    async fn look(&self, now: SystemTime) -> Result<Known, Trouble>;
}

#[async_trait::async_trait]
impl Source for Chain {
    async fn look(&self, now: SystemTime) -> Result<Known, Trouble> {
        Self::look(self, now).await
    }
}

/// Where credentials come from, and the last that came.
pub(super) struct Keys {
    source: Option<Arc<dyn Source>>,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    kept: Option<Known>,
    flight: Option<WeakShared<Flight>>,
}

enum Next {
    Use(AwsKeys),
    Wait(Shared<Flight>),
}

impl Keys {
    pub(super) fn fixed(keys: AwsKeys) -> Self {
        Self {
            source: None,
            slot: Mutex::new(Slot {
                kept: Some(Known::always(keys)),
                flight: None,
            }),
        }
    }

    pub(super) fn default_chain(region: &str) -> Self {
        let network = Network::new().map_err(|error| {
            // Environment and files are still there to look at.
            tracing::warn!(%error, "credentials for AWS cannot be fetched over the network");
        });
        let chain = Chain::new(Place::here(network.ok()), region);
        Self::from_source(Arc::new(chain))
    }

    fn from_source(source: Arc<dyn Source>) -> Self {
        Self {
            source: Some(source),
            slot: Mutex::default(),
        }
    }

    /// Credentials that are good at `now`.
    pub(super) async fn get(&self, now: SystemTime) -> Result<AwsKeys, SignError> {
        let flight = match self.next(now) {
            Next::Use(known) => return Ok(known),
            Next::Wait(flight) => flight,
        };
        let found = flight.await;
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(found) => {
                slot.kept = Some(found.clone());
                Ok(found.keys)
            }
            // Those that are about to expire are better than none.
            Err(error) => match slot.kept.clone().filter(|kept| is_good(kept, now)) {
                Some(kept) => Ok(kept.keys),
                None => Err(error),
            },
        }
    }

    fn next(&self, now: SystemTime) -> Next {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &slot.kept
            && (self.source.is_none() || is_good(kept, now + AHEAD))
        {
            return Next::Use(kept.keys.clone());
        }
        if let Some(flight) = slot.flight.as_ref().and_then(WeakShared::upgrade) {
            return Next::Wait(flight);
        }
        let source = self.source.clone();
        let flight = async move { look(source, now).await }.boxed().shared();
        slot.flight = flight.downgrade();
        Next::Wait(flight)
    }
}

fn is_good(known: &Known, at: SystemTime) -> bool {
    known.until.is_none_or(|end| at < end)
}

async fn look(source: Option<Arc<dyn Source>>, now: SystemTime) -> Result<Known, SignError> {
    let refuse = |error: Arc<dyn std::error::Error + Send + Sync>| SignError::Credentials(error);
    let Some(source) = source else {
        return Err(refuse(Arc::new(std::io::Error::other(
            "there is no source",
        ))));
    };
    match tokio::time::timeout(LONGEST, source.look(now)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(refuse(Arc::new(error))),
        Err(late) => Err(refuse(Arc::new(late))),
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

#[cfg(test)]
mod tests {
    use super::{Keys, Known, LONGEST, Source, Trouble};
    use crate::aws::AwsKeys;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, SystemTime};

    const HOUR: Duration = Duration::from_secs(3600);

    /// Gives keys for an hour, once.
    struct Once(Arc<AtomicU64>);

    #[async_trait::async_trait]
    impl Source for Once {
        async fn look(&self, now: SystemTime) -> Result<Known, Trouble> {
            let look = self.0.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            if look > 0 {
                return Err(Trouble::new("gone"));
            }
            Ok(Known {
                keys: AwsKeys::new("id", "s3cret"),
                until: Some(now + HOUR),
            })
        }
    }

    /// Never answers.
    struct Silent;

    #[async_trait::async_trait]
    impl Source for Silent {
        async fn look(&self, _: SystemTime) -> Result<Known, Trouble> {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn credentials_are_looked_for_once_and_again_before_they_expire() {
        let looks = Arc::new(AtomicU64::new(0));
        let keys = Keys::from_source(Arc::new(Once(looks.clone())));
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let many = (0..20).map(|_| keys.get(at(0)));
        let all = futures_util::future::join_all(many).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(looks.load(Ordering::SeqCst), 1, "one look for all who wait");
        assert!(keys.get(at(3299)).await.is_ok());
        assert_eq!(looks.load(Ordering::SeqCst), 1);
        assert!(keys.get(at(3301)).await.is_ok(), "still good");
        assert_eq!(looks.load(Ordering::SeqCst), 2, "but nearly over");
        let error = keys.get(at(3600)).await.unwrap_err();
        assert!(error.to_string().contains("no credentials"), "{error}");
        assert!(!format!("{keys:?}").contains("s3cret"));
    }
    #[tokio::test(start_paused = true)]
    async fn a_look_is_over_in_time() {
        let keys = Keys::from_source(Arc::new(Silent));
        let began = tokio::time::Instant::now();
        let error = keys.get(SystemTime::UNIX_EPOCH).await.unwrap_err();
        assert_eq!(began.elapsed(), LONGEST);
        assert!(error.to_string().contains("no credentials"), "{error}");
    }
}
