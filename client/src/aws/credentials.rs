//! Cache of AWS credentials. AWS's SDKs keep theirs inside the service clients, which are not used here.

use super::signer::SignError;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use std::error::Error;
use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;

/// Credentials are renewed this long before they expire.
const RENEW_AHEAD: Duration = Duration::from_secs(300);
/// Lifetime of credentials that state none, as in AWS's SDKs. A profile may change in the meantime.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// Delay after a renewal without better credentials, while the cached ones are valid.
const RETRY_DELAY: Duration = Duration::from_secs(60);
/// Time limit of a lookup over all sources.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct CredentialCache {
    provider: Option<SharedCredentialsProvider>,
    /// Locked during a lookup, so that there is one at a time.
    entry: Mutex<Option<CachedCredentials>>,
}

#[derive(Clone)]
struct CachedCredentials {
    credentials: Credentials,
    expires_at: SystemTime,
    renew_at: SystemTime,
}

impl CredentialCache {
    pub(super) fn new(provider: Option<SharedCredentialsProvider>) -> Self {
        let entry = Mutex::default();
        Self { provider, entry }
    }

    /// Returns credentials that are valid at `now`.
    pub(super) async fn get(&self, now: SystemTime) -> Result<Credentials, SignError> {
        let mut entry = self.entry.lock().await;
        let valid = entry.as_mut().filter(|cached| now < cached.expires_at);
        if let Some(cached) = &valid
            && now < cached.renew_at
        {
            return Ok(cached.credentials.clone());
        }
        match (self.look_up().await, valid) {
            (Ok(credentials), _) => {
                let expiry = credentials.expiry();
                let expires_at = expiry.unwrap_or_else(|| now + DEFAULT_LIFETIME);
                let early = expires_at.checked_sub(RENEW_AHEAD).unwrap_or(expires_at);
                *entry = Some(CachedCredentials {
                    credentials: credentials.clone(),
                    expires_at,
                    renew_at: early.max(now + RETRY_DELAY),
                });
                Ok(credentials)
            }
            // Credentials that are about to expire are better than none.
            (Err(error), Some(cached)) => {
                tracing::warn!(%error, "failed to renew AWS credentials");
                cached.renew_at = now + RETRY_DELAY;
                Ok(cached.credentials.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn look_up(&self) -> Result<Credentials, SignError> {
        let Some(provider) = &self.provider else {
            return Err(credentials_error("no source is configured"));
        };
        match tokio::time::timeout(LOOKUP_TIMEOUT, provider.provide_credentials()).await {
            Ok(Ok(credentials)) => Ok(credentials),
            Ok(Err(error)) => Err(credentials_error(with_causes(&error))),
            Err(_) => Err(credentials_error(format!(
                "the lookup was not finished within {LOOKUP_TIMEOUT:?}"
            ))),
        }
    }
}

fn credentials_error(text: impl Into<String>) -> SignError {
    SignError::Credentials(Arc::new(io::Error::other(text.into())))
}

/// Returns an error with its causes; AWS's errors name the actual one last.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        // Writing to a string cannot fail.
        let _ = write!(text, ": {next}");
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{CredentialCache, LOOKUP_TIMEOUT};
    use aws_credential_types::Credentials;
    use aws_credential_types::provider::error::CredentialsError;
    use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, SystemTime};

    /// Returns the same keys each time, or only once.
    #[derive(Debug, Default)]
    struct TestProvider {
        lookups: Arc<AtomicU64>,
        expires_at: Option<SystemTime>,
        once: bool,
    }

    impl TestProvider {
        async fn fetch(&self) -> Result<Credentials, CredentialsError> {
            let previous = self.lookups.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            if self.once && previous > 0 {
                return Err(CredentialsError::provider_error("gone"));
            }
            Ok(Credentials::new(
                "id",
                "s3cret",
                None,
                self.expires_at,
                "test",
            ))
        }
    }

    impl ProvideCredentials for TestProvider {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            future::ProvideCredentials::new(self.fetch())
        }
    }

    #[derive(Debug)]
    struct HangingProvider;

    impl ProvideCredentials for HangingProvider {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            future::ProvideCredentials::new(std::future::pending())
        }
    }

    fn cache(provider: impl ProvideCredentials + 'static) -> CredentialCache {
        CredentialCache::new(Some(SharedCredentialsProvider::new(provider)))
    }

    fn unix_time(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn credentials_are_fetched_once_and_renewed_before_expiry() {
        let lookups = Arc::new(AtomicU64::new(0));
        let keys = cache(TestProvider {
            lookups: lookups.clone(),
            expires_at: Some(unix_time(3600)),
            once: true,
        });
        let count = || lookups.load(Ordering::SeqCst);
        let all = futures_util::future::join_all((0..20).map(|_| keys.get(unix_time(0)))).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(count(), 1, "one lookup for all waiters");
        keys.get(unix_time(3299)).await.unwrap();
        assert_eq!(count(), 1);
        keys.get(unix_time(3300)).await.unwrap();
        assert_eq!(count(), 2, "they are about to expire");
        keys.get(unix_time(3359)).await.unwrap();
        assert_eq!(count(), 2, "not tried again at once");
        keys.get(unix_time(3360)).await.unwrap();
        assert_eq!(count(), 3);
        let error = keys.get(unix_time(3600)).await.unwrap_err().to_string();
        assert!(error.contains("no credentials"), "{error}");
        assert!(error.ends_with(": gone"), "{error}");
    }

    #[tokio::test]
    async fn credentials_without_expiry_are_looked_up_every_15_minutes() {
        let lookups = Arc::new(AtomicU64::new(0));
        let keys = cache(TestProvider {
            lookups: lookups.clone(),
            ..TestProvider::default()
        });
        for (seconds, expected) in [(0, 1), (599, 1), (600, 2), (1199, 2), (9000, 3)] {
            keys.get(unix_time(seconds)).await.unwrap();
            assert_eq!(lookups.load(Ordering::SeqCst), expected, "{seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lookup_that_hangs_times_out() {
        let keys = cache(HangingProvider);
        let start = tokio::time::Instant::now();
        let error = keys.get(unix_time(0)).await.unwrap_err().to_string();
        assert_eq!(start.elapsed(), LOOKUP_TIMEOUT);
        assert!(error.contains("not finished within 30s"), "{error}");
    }

    #[tokio::test]
    async fn missing_provider_is_an_error() {
        let error = CredentialCache::new(None).get(unix_time(0)).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no source is configured"), "{error}");
    }
}
