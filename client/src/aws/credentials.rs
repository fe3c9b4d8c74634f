//! Credentials for AWS: given, or found in AWS's usual places and kept until shortly before they expire.
//! Many who need them at once wait for one look; while those that are kept are still good, only the one
//! who looks waits, and not again soon after a look in vain. No lock is held while anybody waits.

use super::chain::Chain;
use super::network::Network;
use super::place::{Known, Place, Trouble};
use super::signer::{AwsKeys, SignError};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Credentials are looked for again so long before they expire.
const AHEAD: Duration = Duration::from_secs(300);
/// After a look that gave nothing better, those that are still good are used for so long before the next.
const PAUSE: Duration = Duration::from_secs(60);
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
    /// When a look gave none, or none that last.
    vain: Option<SystemTime>,
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
                ..Slot::default()
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
        let began = Instant::now();
        let found = flight.await;
        let ended = now + began.elapsed();
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let lasts = |found: &Known| is_good(found, ended + AHEAD);
        slot.vain = (!found.as_ref().is_ok_and(lasts)).then_some(ended);
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
        let flight = slot.flight.as_ref().and_then(WeakShared::upgrade);
        let is_vain = slot.vain.is_some_and(|vain| is_recent(vain, now));
        if let Some(kept) = &slot.kept
            && is_good(kept, now)
            && (is_vain || flight.is_some())
        {
            return Next::Use(kept.keys.clone());
        }
        if let Some(flight) = flight {
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

/// A moment that is to come far from now is not: somebody has put the clock back.
fn is_recent(moment: SystemTime, now: SystemTime) -> bool {
    let between = now.duration_since(moment);
    between.unwrap_or_else(|ahead| ahead.duration()) < PAUSE
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
        Err(_) => Err(refuse(Arc::new(Trouble::new(format!(
            "the look for them was not over within {LONGEST:?}"
        ))))),
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

    /// Gives keys for the first hour, at once the first time; later it does so or never answers.
    struct Same {
        looks: Arc<AtomicU64>,
        is_silent: bool,
    }

    #[async_trait::async_trait]
    impl Source for Same {
        async fn look(&self, _: SystemTime) -> Result<Known, Trouble> {
            if self.looks.fetch_add(1, Ordering::SeqCst) > 0 && self.is_silent {
                std::future::pending::<()>().await;
            }
            Ok(Known {
                keys: AwsKeys::new("id", "s3cret"),
                until: Some(at(3600)),
            })
        }
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn credentials_are_looked_for_once_and_again_before_they_expire() {
        let looks = Arc::new(AtomicU64::new(0));
        let keys = Keys::from_source(Arc::new(Once(looks.clone())));
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
        assert!(error.to_string().ends_with(": gone"), "{error}");
        assert!(!format!("{keys:?}").contains("s3cret"));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_good_ones_does_not_wait_for_a_source_that_hangs() {
        let looks = Arc::new(AtomicU64::new(0));
        let source = Same {
            looks: looks.clone(),
            is_silent: true,
        };
        let keys = Keys::from_source(Arc::new(source));
        keys.get(at(0)).await.unwrap();
        let began = tokio::time::Instant::now();
        let meanwhile = async {
            keys.get(at(3302)).await.unwrap();
            began.elapsed()
        };
        let (first, waited) = tokio::join!(keys.get(at(3301)), meanwhile);
        assert!(first.is_ok());
        assert_eq!((began.elapsed(), waited), (LONGEST, Duration::ZERO));
        for seconds in [3331, 3332, 3390] {
            keys.get(at(seconds)).await.unwrap();
        }
        assert_eq!(began.elapsed(), LONGEST, "nobody waits again");
        assert_eq!(looks.load(Ordering::SeqCst), 2);
        keys.get(at(3391)).await.unwrap();
        assert_eq!(looks.load(Ordering::SeqCst), 3, "a minute later");
        assert!(keys.get(at(3600)).await.is_err(), "they are over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_has_nothing_better_is_not_asked_each_time() {
        let looks = Arc::new(AtomicU64::new(0));
        let source = Same {
            looks: looks.clone(),
            is_silent: false,
        };
        let keys = Keys::from_source(Arc::new(source));
        for (seconds, expected) in [(0, 1), (3301, 2), (3302, 2), (3360, 2), (3361, 3), (0, 3)] {
            keys.get(at(seconds)).await.unwrap();
            assert_eq!(looks.load(Ordering::SeqCst), expected, "{seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_is_over_in_time() {
        let keys = Keys::from_source(Arc::new(Silent));
        let began = tokio::time::Instant::now();
        let error = keys.get(SystemTime::UNIX_EPOCH).await.unwrap_err();
        assert_eq!(began.elapsed(), LONGEST);
        assert!(error.to_string().contains("not over within 30s"), "{error}");
    }
}
