//! Cache of the issuer's keys (JWKS), fetched on demand.
//!
//! However many tokens with unknown key ids arrive, the issuer is asked rarely and never concurrently. While it is
//! down, the cached keys stay valid for a day. Cached tokens are checked against the current keys, so they cause
//! refetches like new tokens do.

use super::keys::KeySet;
use super::{AuthFailure, metadata, safe_url};
use crate::clock::Clock;
use arc_swap::ArcSwapOption;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use url::Url;

/// Age at which keys are fetched again. The common value of issuers and clients.
const REFRESH_AFTER: Duration = Duration::from_secs(300);
/// Maximum age of keys, even if the issuer is down: a removed key must stop being valid eventually.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// Minimum time between two fetches for the same reason: stale keys, or a token with an unknown key id. So a new key is
/// found at once, and forged key ids cannot flood the issuer.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(10);
/// The same while there are no keys at all and every caller waits for them.
const MIN_FETCH_INTERVAL_WITHOUT_KEYS: Duration = Duration::from_secs(1);
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Location of the keys.
pub(super) enum KeySource {
    /// The JWKS URL.
    JwksUrl(Url),
    /// The `jwks_uri` of the metadata at the first of these URLs that responds.
    Metadata { issuer: String, urls: [Url; 2] },
}

impl KeySource {
    /// Returns the metadata of an issuer as the key source.
    pub(super) fn metadata(issuer: &str) -> Option<Self> {
        let urls = metadata::discovery_urls(issuer)?;
        Some(Self::Metadata {
            issuer: issuer.to_owned(),
            urls,
        })
    }
}

/// Keys of a remote issuer.
pub(super) struct Jwks {
    source: KeySource,
    http: reqwest::Client,
    clock: Clock,
    snapshot: ArcSwapOption<KeySetSnapshot>,
    /// Times of the last fetches. The holder of the lock fetches.
    last_fetch: Mutex<LastFetch>,
}

/// Start of the last fetch, by reason.
#[derive(Default)]
struct LastFetch {
    /// Because there were no keys, or stale ones.
    stale: Option<Duration>,
    /// Because a token named an unknown key.
    unknown_kid: Option<Duration>,
}

/// Reason of a fetch.
#[derive(Clone, Copy)]
enum FetchReason {
    NoKeys,
    Stale,
    UnknownKid,
}

pub(super) struct KeySetSnapshot {
    pub(super) keys: KeySet,
    fetched_at: Duration,
}

impl Jwks {
    pub(super) fn new(source: KeySource, http: reqwest::Client, clock: Clock) -> Self {
        Self {
            source,
            http,
            clock,
            snapshot: ArcSwapOption::empty(),
            last_fetch: Mutex::default(),
        }
    }

    /// Returns the keys if they are fresh. Never waits.
    pub(super) fn fresh(&self) -> Option<Arc<KeySetSnapshot>> {
        let loaded = self.snapshot.load_full()?;
        (self.age(&loaded) < REFRESH_AFTER).then_some(loaded)
    }

    /// Returns the keys that may be used; `None` after a day without a response of the issuer. Never waits: stale keys
    /// are refetched in the background.
    pub(super) fn usable_now(self: &Arc<Self>) -> Option<Arc<KeySetSnapshot>> {
        let fresh = self.fresh();
        if fresh.is_none() && self.last_fetch.try_lock().is_ok() {
            // Without a runtime, a later request fetches them.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                let jwks = Arc::clone(self);
                runtime.spawn(async move { jwks.current().await.map(drop) });
            }
        }
        fresh.or_else(|| self.usable())
    }

    /// Returns the keys to try first, fetching them if needed.
    pub(super) async fn current(self: &Arc<Self>) -> Result<Arc<KeySetSnapshot>, AuthFailure> {
        let Some(loaded) = self.usable() else {
            return self
                .fetch_if_not_newer(None)
                .await
                .ok_or(AuthFailure::Unavailable);
        };
        if self.age(&loaded) < REFRESH_AFTER {
            return Ok(loaded);
        }
        // One caller refreshes them; the others use the stale ones.
        match self.last_fetch.try_lock() {
            Ok(last_fetch) => Ok(self
                .fetch(last_fetch, FetchReason::Stale)
                .await
                .unwrap_or(loaded)),
            Err(_) => Ok(loaded),
        }
    }

    /// Fetches keys newer than `stale`, which lack the key that a token names. `None` if there are none now.
    pub(super) async fn refetch_for_unknown_kid(
        self: &Arc<Self>,
        stale: &Arc<KeySetSnapshot>,
    ) -> Option<Arc<KeySetSnapshot>> {
        self.fetch_if_not_newer(Some(stale)).await
    }

    async fn fetch_if_not_newer(
        self: &Arc<Self>,
        stale: Option<&Arc<KeySetSnapshot>>,
    ) -> Option<Arc<KeySetSnapshot>> {
        let last_fetch = self.last_fetch.lock().await;
        // Another caller may have fetched them in the meantime.
        let loaded = self.usable();
        let newer = loaded.filter(|now| stale.is_none_or(|than| !Arc::ptr_eq(now, than)));
        if newer.is_some() {
            return newer;
        }
        let reason = if stale.is_some() {
            FetchReason::UnknownKid
        } else {
            FetchReason::NoKeys
        };
        self.fetch(last_fetch, reason).await
    }

    async fn fetch(
        self: &Arc<Self>,
        mut last_fetch: tokio::sync::MutexGuard<'_, LastFetch>,
        reason: FetchReason,
    ) -> Option<Arc<KeySetSnapshot>> {
        let now = self.clock.monotonic();
        let (last, interval) = match reason {
            FetchReason::NoKeys => (&mut last_fetch.stale, MIN_FETCH_INTERVAL_WITHOUT_KEYS),
            FetchReason::Stale => (&mut last_fetch.stale, MIN_FETCH_INTERVAL),
            FetchReason::UnknownKid => (&mut last_fetch.unknown_kid, MIN_FETCH_INTERVAL),
        };
        if last.is_some_and(|last| now.saturating_sub(last) < interval) {
            return None;
        }
        *last = Some(now);
        // In its own task: a caller who disconnects must not cancel the fetch for the others. It ends by its timeout.
        let jwks = Arc::clone(self);
        tokio::spawn(async move { jwks.fetch_and_store().await })
            .await
            .ok()?
    }

    async fn fetch_and_store(&self) -> Option<Arc<KeySetSnapshot>> {
        let fetch = tokio::time::timeout(FETCH_TIMEOUT, async {
            match &self.source {
                KeySource::JwksUrl(url) => self.fetch_keys(url).await,
                KeySource::Metadata { issuer, urls } => {
                    let url = self.discover_jwks_url(issuer, urls).await?;
                    self.fetch_keys(&url).await
                }
            }
        });
        let keys = match fetch.await {
            Ok(Ok(keys)) => keys,
            Ok(Err(why)) => return self.log_failure(&why),
            Err(_) => return self.log_failure("timed out"),
        };
        let fetched_at = self.clock.monotonic();
        let loaded = Arc::new(KeySetSnapshot { keys, fetched_at });
        self.snapshot.store(Some(Arc::clone(&loaded)));
        Some(loaded)
    }

    async fn fetch_keys(&self, url: &Url) -> Result<KeySet, String> {
        let keys = KeySet::parse(&metadata::fetch_bytes(url, &self.http).await?)
            .map_err(|error| error.to_string())?;
        match keys.is_empty() {
            true => Err("no key can verify a token".to_owned()),
            false => Ok(keys),
        }
    }

    /// Returns the JWKS URL of the issuer's metadata.
    async fn discover_jwks_url(&self, issuer: &str, urls: &[Url]) -> Result<Url, String> {
        let metadata = metadata::fetch_metadata(issuer, urls, &self.http).await?;
        let keys = metadata.jwks_uri.and_then(|url| safe_url(&url));
        keys.ok_or_else(|| "the metadata have no safe jwks_uri".to_owned())
    }

    fn log_failure(&self, error: &str) -> Option<Arc<KeySetSnapshot>> {
        let source = match &self.source {
            KeySource::JwksUrl(url) => url.as_str(),
            KeySource::Metadata { issuer, .. } => issuer,
        };
        tracing::warn!(source, error, "fetching the issuer's keys failed");
        None
    }

    fn usable(&self) -> Option<Arc<KeySetSnapshot>> {
        let loaded = self.snapshot.load_full()?;
        (self.age(&loaded) < MAX_AGE).then_some(loaded)
    }

    fn age(&self, loaded: &KeySetSnapshot) -> Duration {
        self.clock.monotonic().saturating_sub(loaded.fetched_at)
    }
}
