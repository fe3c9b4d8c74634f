//! Cached AWS credentials: fixed, or from the default chain and refreshed shortly before they expire. Refreshes are
//! single-flight; while cached credentials are valid only the refreshing caller waits, and failures are not retried
//! at once. No lock is held across an await.

use super::chain::Chain;
use super::credential_http::CredentialHttp;
use super::environment::{CredentialsEnv, CredentialsError, ExpiringKeys};
use super::signer::{AwsKeys, SignError};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Credentials are refreshed this long before they expire.
const REFRESH_AHEAD: Duration = Duration::from_secs(300);
/// Delay after a refresh without better credentials, while the cached ones are valid.
const RETRY_DELAY: Duration = Duration::from_secs(60);
/// Time limit of a refresh over all sources.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(30);

type CredentialsFuture = BoxFuture<'static, Result<ExpiringKeys, SignError>>;

/// Source of credentials.
#[async_trait::async_trait]
trait CredentialsSource: Send + Sync {
    async fn fetch(&self, now: SystemTime) -> Result<ExpiringKeys, CredentialsError>;
}

#[async_trait::async_trait]
impl CredentialsSource for Chain {
    async fn fetch(&self, now: SystemTime) -> Result<ExpiringKeys, CredentialsError> {
        Self::resolve(self, now).await
    }
}

/// Cache of credentials with their source.
pub(super) struct CredentialCache {
    source: Option<Arc<dyn CredentialsSource>>,
    entry: Mutex<CredentialEntry>,
}

#[derive(Default)]
struct CredentialEntry {
    cached: Option<ExpiringKeys>,
    /// Time of the last refresh that gave no credentials, or none that last.
    last_failure: Option<SystemTime>,
    in_flight: Option<WeakShared<CredentialsFuture>>,
}

enum CredentialLookup {
    Use(AwsKeys),
    Wait(Shared<CredentialsFuture>),
}

impl CredentialCache {
    pub(super) fn fixed(keys: AwsKeys) -> Self {
        Self {
            source: None,
            entry: Mutex::new(CredentialEntry {
                cached: Some(ExpiringKeys::without_expiry(keys)),
                ..CredentialEntry::default()
            }),
        }
    }

    pub(super) fn default_chain(region: &str) -> Self {
        let http = CredentialHttp::new().map_err(|error| {
            // Environment and files can still be used.
            tracing::warn!(%error, "no HTTP client for AWS credentials");
        });
        let chain = Chain::new(CredentialsEnv::system(http.ok()), region);
        Self::from_source(Arc::new(chain))
    }

    fn from_source(source: Arc<dyn CredentialsSource>) -> Self {
        Self {
            source: Some(source),
            entry: Mutex::default(),
        }
    }

    /// Returns credentials that are valid at `now`.
    pub(super) async fn get(&self, now: SystemTime) -> Result<AwsKeys, SignError> {
        let refresh = match self.lookup(now) {
            CredentialLookup::Use(keys) => return Ok(keys),
            CredentialLookup::Wait(refresh) => refresh,
        };
        let started_at = Instant::now();
        let result = refresh.await;
        let finished_at = now + started_at.elapsed();
        let mut entry = self.entry.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lasting = |fresh: &ExpiringKeys| is_valid(fresh, finished_at + REFRESH_AHEAD);
        entry.last_failure = (!result.as_ref().is_ok_and(is_lasting)).then_some(finished_at);
        match result {
            Ok(fresh) => {
                entry.cached = Some(fresh.clone());
                Ok(fresh.keys)
            }
            // Credentials that are about to expire are better than none.
            Err(error) => match entry.cached.clone().filter(|cached| is_valid(cached, now)) {
                Some(cached) => Ok(cached.keys),
                None => Err(error),
            },
        }
    }

    fn lookup(&self, now: SystemTime) -> CredentialLookup {
        let mut entry = self.entry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = &entry.cached
            && (self.source.is_none() || is_valid(cached, now + REFRESH_AHEAD))
        {
            return CredentialLookup::Use(cached.keys.clone());
        }
        let in_flight = entry.in_flight.as_ref().and_then(WeakShared::upgrade);
        let failed_recently = entry.last_failure.is_some_and(|at| is_recent(at, now));
        if let Some(cached) = &entry.cached
            && is_valid(cached, now)
            && (failed_recently || in_flight.is_some())
        {
            return CredentialLookup::Use(cached.keys.clone());
        }
        if let Some(refresh) = in_flight {
            return CredentialLookup::Wait(refresh);
        }
        let source = self.source.clone();
        let refresh = async move { fetch_with_timeout(source, now).await }
            .boxed()
            .shared();
        entry.in_flight = refresh.downgrade();
        CredentialLookup::Wait(refresh)
    }
}

fn is_valid(credentials: &ExpiringKeys, at: SystemTime) -> bool {
    credentials.expires_at.is_none_or(|end| at < end)
}

/// Returns true if `time` is within the retry delay of `now`, in either direction, because the clock may be set back.
fn is_recent(time: SystemTime, now: SystemTime) -> bool {
    let distance = now.duration_since(time);
    distance.unwrap_or_else(|error| error.duration()) < RETRY_DELAY
}

async fn fetch_with_timeout(
    source: Option<Arc<dyn CredentialsSource>>,
    now: SystemTime,
) -> Result<ExpiringKeys, SignError> {
    let credentials_error =
        |error: Arc<dyn std::error::Error + Send + Sync>| SignError::Credentials(error);
    let Some(source) = source else {
        return Err(credentials_error(Arc::new(std::io::Error::other(
            "no credentials source is configured",
        ))));
    };
    match tokio::time::timeout(REFRESH_TIMEOUT, source.fetch(now)).await {
        Ok(Ok(credentials)) => Ok(credentials),
        Ok(Err(error)) => Err(credentials_error(Arc::new(error))),
        Err(_) => Err(credentials_error(Arc::new(CredentialsError::new(format!(
            "the credential lookup was not finished within {REFRESH_TIMEOUT:?}"
        ))))),
    }
}

impl fmt::Debug for CredentialCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialCache")
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CredentialCache, CredentialsError, CredentialsSource, ExpiringKeys, REFRESH_TIMEOUT,
    };
    use crate::aws::AwsKeys;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, SystemTime};

    const HOUR: Duration = Duration::from_secs(3600);

    /// Returns keys for an hour, once.
    struct OneTimeSource(Arc<AtomicU64>);

    #[async_trait::async_trait]
    impl CredentialsSource for OneTimeSource {
        async fn fetch(&self, now: SystemTime) -> Result<ExpiringKeys, CredentialsError> {
            let previous = self.0.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            if previous > 0 {
                return Err(CredentialsError::new("gone"));
            }
            Ok(ExpiringKeys {
                keys: AwsKeys::new("id", "s3cret"),
                expires_at: Some(now + HOUR),
            })
        }
    }

    /// Never responds.
    struct HangingSource;

    #[async_trait::async_trait]
    impl CredentialsSource for HangingSource {
        async fn fetch(&self, _: SystemTime) -> Result<ExpiringKeys, CredentialsError> {
            std::future::pending().await
        }
    }

    /// Returns the same keys each time; after the first time it optionally hangs.
    struct RepeatingSource {
        fetches: Arc<AtomicU64>,
        hangs: bool,
    }

    #[async_trait::async_trait]
    impl CredentialsSource for RepeatingSource {
        async fn fetch(&self, _: SystemTime) -> Result<ExpiringKeys, CredentialsError> {
            if self.fetches.fetch_add(1, Ordering::SeqCst) > 0 && self.hangs {
                std::future::pending::<()>().await;
            }
            Ok(ExpiringKeys {
                keys: AwsKeys::new("id", "s3cret"),
                expires_at: Some(unix_time(3600)),
            })
        }
    }

    fn unix_time(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn credentials_are_fetched_once_and_before_expiry() {
        let fetches = Arc::new(AtomicU64::new(0));
        let keys = CredentialCache::from_source(Arc::new(OneTimeSource(fetches.clone())));
        let many = (0..20).map(|_| keys.get(unix_time(0)));
        let all = futures_util::future::join_all(many).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(
            fetches.load(Ordering::SeqCst),
            1,
            "one fetch for all waiters"
        );
        assert!(keys.get(unix_time(3299)).await.is_ok());
        assert_eq!(fetches.load(Ordering::SeqCst), 1);
        assert!(
            keys.get(unix_time(3301)).await.is_ok(),
            "the cached credentials are still valid"
        );
        assert_eq!(
            fetches.load(Ordering::SeqCst),
            2,
            "they are about to expire"
        );
        let error = keys.get(unix_time(3600)).await.unwrap_err();
        assert!(error.to_string().contains("no credentials"), "{error}");
        assert!(error.to_string().ends_with(": gone"), "{error}");
        assert!(!format!("{keys:?}").contains("s3cret"));
    }

    #[tokio::test(start_paused = true)]
    async fn valid_credentials_are_used_while_the_source_hangs() {
        let fetches = Arc::new(AtomicU64::new(0));
        let source = RepeatingSource {
            fetches: fetches.clone(),
            hangs: true,
        };
        let keys = CredentialCache::from_source(Arc::new(source));
        keys.get(unix_time(0)).await.unwrap();
        let start = tokio::time::Instant::now();
        let meanwhile = async {
            keys.get(unix_time(3302)).await.unwrap();
            start.elapsed()
        };
        let (first, waited) = tokio::join!(keys.get(unix_time(3301)), meanwhile);
        assert!(first.is_ok());
        assert_eq!((start.elapsed(), waited), (REFRESH_TIMEOUT, Duration::ZERO));
        for seconds in [3331, 3332, 3390] {
            keys.get(unix_time(seconds)).await.unwrap();
        }
        assert_eq!(start.elapsed(), REFRESH_TIMEOUT, "no further wait");
        assert_eq!(fetches.load(Ordering::SeqCst), 2);
        keys.get(unix_time(3391)).await.unwrap();
        assert_eq!(fetches.load(Ordering::SeqCst), 3, "retried after a minute");
        assert!(
            keys.get(unix_time(3600)).await.is_err(),
            "they have expired"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn source_without_newer_credentials_is_not_polled_each_time() {
        let fetches = Arc::new(AtomicU64::new(0));
        let source = RepeatingSource {
            fetches: fetches.clone(),
            hangs: false,
        };
        let keys = CredentialCache::from_source(Arc::new(source));
        for (seconds, expected) in [(0, 1), (3301, 2), (3302, 2), (3360, 2), (3361, 3), (0, 3)] {
            keys.get(unix_time(seconds)).await.unwrap();
            assert_eq!(fetches.load(Ordering::SeqCst), expected, "{seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_source_times_out() {
        let keys = CredentialCache::from_source(Arc::new(HangingSource));
        let start = tokio::time::Instant::now();
        let error = keys.get(SystemTime::UNIX_EPOCH).await.unwrap_err();
        assert_eq!(start.elapsed(), REFRESH_TIMEOUT);
        assert!(
            error.to_string().contains("not finished within 30s"),
            "{error}"
        );
    }
}
