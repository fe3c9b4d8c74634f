//! Credentials for AWS: given, or found by AWS's own chain and kept until shortly before they expire.
//! Many who need them at once wait for one look. No lock is held while anybody waits.

use super::network::Network;
use super::signer::SignError;
use aws_config::Region;
use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Credentials are looked for again so long before they expire.
const AHEAD: Duration = Duration::from_secs(300);
/// However many places there are to look at, it is over by then.
const LONGEST: Duration = Duration::from_secs(30);

type Flight = BoxFuture<'static, Result<Credentials, SignError>>;

/// Where credentials come from, and the last that came.
pub(super) struct Keys {
    source: Option<SharedCredentialsProvider>,
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    kept: Option<Credentials>,
    flight: Option<WeakShared<Flight>>,
}

enum Next {
    Use(Credentials),
    Wait(Shared<Flight>),
}

impl Keys {
    pub(super) fn fixed(known: Credentials) -> Self {
        Self {
            source: None,
            slot: Mutex::new(Slot {
                kept: Some(known),
                flight: None,
            }),
        }
    }

    pub(super) async fn default_chain(region: &str) -> Self {
        let region = Region::new(region.to_owned());
        let mut config = ProviderConfig::default().with_region(Some(region.clone()));
        match Network::new() {
            Ok(network) => config = config.with_http_client(network),
            // Environment and files are still there to look at.
            Err(error) => {
                tracing::warn!(%error, "credentials for AWS cannot be fetched over the network");
            }
        }
        let chain = DefaultCredentialsChain::builder();
        let chain = chain.configure(config).region(region).build().await;
        Self::from_source(SharedCredentialsProvider::new(chain))
    }

    fn from_source(source: SharedCredentialsProvider) -> Self {
        Self {
            source: Some(source),
            slot: Mutex::default(),
        }
    }

    /// Credentials that are good at `now`.
    pub(super) async fn get(&self, now: SystemTime) -> Result<Credentials, SignError> {
        let flight = match self.next(now) {
            Next::Use(known) => return Ok(known),
            Next::Wait(flight) => flight,
        };
        let found = flight.await;
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(found) => {
                slot.kept = Some(found.clone());
                Ok(found)
            }
            // Those that are about to expire are better than none.
            Err(error) => match slot.kept.clone().filter(|kept| is_good(kept, now)) {
                Some(kept) => Ok(kept),
                None => Err(error),
            },
        }
    }

    fn next(&self, now: SystemTime) -> Next {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &slot.kept
            && (self.source.is_none() || is_good(kept, now + AHEAD))
        {
            return Next::Use(kept.clone());
        }
        if let Some(flight) = slot.flight.as_ref().and_then(WeakShared::upgrade) {
            return Next::Wait(flight);
        }
        let source = self.source.clone();
        let flight = async move { look(source).await }.boxed().shared();
        slot.flight = flight.downgrade();
        Next::Wait(flight)
    }
}

fn is_good(known: &Credentials, at: SystemTime) -> bool {
    known.expiry().is_none_or(|end| at < end)
}

async fn look(source: Option<SharedCredentialsProvider>) -> Result<Credentials, SignError> {
    let refuse = |error: Arc<dyn std::error::Error + Send + Sync>| SignError::Credentials(error);
    let Some(source) = source else {
        return Err(refuse(Arc::new(std::io::Error::other(
            "there is no source",
        ))));
    };
    match tokio::time::timeout(LONGEST, source.provide_credentials()).await {
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
    use super::{Keys, SharedCredentialsProvider};
    use aws_credential_types::Credentials;
    use aws_credential_types::provider::error::CredentialsError;
    use aws_credential_types::provider::{ProvideCredentials, future};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, SystemTime};

    const HOUR: Duration = Duration::from_secs(3600);

    /// Gives keys for an hour, once.
    #[derive(Debug)]
    struct Once(Arc<AtomicU64>);

    impl ProvideCredentials for Once {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let look = self.0.fetch_add(1, Ordering::SeqCst);
            future::ProvideCredentials::new(async move {
                tokio::task::yield_now().await;
                if look > 0 {
                    return Err(CredentialsError::not_loaded("gone"));
                }
                let end = SystemTime::UNIX_EPOCH + HOUR;
                Ok(Credentials::new("id", "s3cret", None, Some(end), "test"))
            })
        }
    }

    #[tokio::test]
    async fn credentials_are_looked_for_once_and_again_before_they_expire() {
        let looks = Arc::new(AtomicU64::new(0));
        let keys = Keys::from_source(SharedCredentialsProvider::new(Once(looks.clone())));
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
}
