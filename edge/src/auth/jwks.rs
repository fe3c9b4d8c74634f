//! The issuer's keys, fetched when they are needed and kept for a while.
//!
//! However many tokens with made-up key ids arrive, the issuer is asked once in a while and never
//! twice at the same time. While it is down, the keys we have go on for a day.

use super::Refusal;
use super::keys::KeySet;
use crate::capped;
use crate::clock::Clock;
use arc_swap::ArcSwapOption;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use url::Url;

/// How old keys may get before they are fetched again. The common value of issuers and clients.
const FRESH: Duration = Duration::from_secs(300);
/// Keys older than this are not used, down or not: a key that was taken back must end some day.
const OLDEST: Duration = Duration::from_secs(24 * 3600);
/// The least time between two fetches, so that made-up key ids cannot make us flood the issuer.
const PAUSE: Duration = Duration::from_secs(10);
/// The same while there are no keys at all and every caller waits for them.
const PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);
/// Sets of real issuers have a few KiB.
const LARGEST: usize = 512 << 10;

/// Keys behind a URL.
pub(super) struct Jwks {
    url: Url,
    http: reqwest::Client,
    clock: Clock,
    loaded: ArcSwapOption<Loaded>,
    /// When a fetch last began. Whoever holds it fetches.
    fetching: Mutex<Option<Duration>>,
}

pub(super) struct Loaded {
    pub(super) keys: KeySet,
    at: Duration,
}

impl Jwks {
    pub(super) fn new(url: Url, http: reqwest::Client, clock: Clock) -> Self {
        Self {
            url,
            http,
            clock,
            loaded: ArcSwapOption::empty(),
            fetching: Mutex::new(None),
        }
    }

    /// The keys to try first.
    pub(super) async fn current(self: &Arc<Self>) -> Result<Arc<Loaded>, Refusal> {
        let Some(loaded) = self.usable() else {
            return self
                .fetch_unless_tried(None)
                .await
                .ok_or(Refusal::Unavailable);
        };
        if self.age(&loaded) < FRESH {
            return Ok(loaded);
        }
        // One caller renews them; the others go on with what there is.
        match self.fetching.try_lock() {
            Ok(last) => Ok(self.fetch(last, PAUSE).await.unwrap_or(loaded)),
            Err(_) => Ok(loaded),
        }
    }

    /// Keys newer than `than`, which lack the one that a token names. `None` if there are none now.
    pub(super) async fn newer(self: &Arc<Self>, than: &Arc<Loaded>) -> Option<Arc<Loaded>> {
        self.fetch_unless_tried(Some(than)).await
    }

    async fn fetch_unless_tried(
        self: &Arc<Self>,
        than: Option<&Arc<Loaded>>,
    ) -> Option<Arc<Loaded>> {
        let last = self.fetching.lock().await;
        // Somebody may have fetched them while we waited for our turn.
        let loaded = self.usable();
        let newer = loaded.filter(|now| than.is_none_or(|than| !Arc::ptr_eq(now, than)));
        if newer.is_some() {
            return newer;
        }
        let pause = if than.is_some() {
            PAUSE
        } else {
            PAUSE_WITHOUT_KEYS
        };
        self.fetch(last, pause).await
    }

    async fn fetch(
        self: &Arc<Self>,
        mut last: tokio::sync::MutexGuard<'_, Option<Duration>>,
        pause: Duration,
    ) -> Option<Arc<Loaded>> {
        let now = self.clock.steady();
        if last.is_some_and(|last| now.saturating_sub(last) < pause) {
            return None;
        }
        *last = Some(now);
        // In a task of its own: a caller who hangs up must not cost the others their keys. It ends
        // by itself when our patience does.
        let jwks = Arc::clone(self);
        tokio::spawn(async move { jwks.ask().await }).await.ok()?
    }

    async fn ask(&self) -> Option<Arc<Loaded>> {
        let asked = tokio::time::timeout(PATIENCE, async {
            let answer = self.http.get(self.url.clone()).send().await?;
            let answer = answer.error_for_status()?;
            Ok::<_, reqwest::Error>(capped::whole(answer, LARGEST).await)
        });
        let body = match asked.await {
            Ok(Ok(Ok(body))) => body,
            Ok(Ok(Err(cut))) => return self.failed(&format_args!("{cut:?}")),
            Ok(Err(error)) => return self.failed(&error),
            Err(slow) => return self.failed(&slow),
        };
        match KeySet::parse(&body) {
            Ok(keys) if !keys.is_empty() => {
                let at = self.clock.steady();
                let loaded = Arc::new(Loaded { keys, at });
                self.loaded.store(Some(Arc::clone(&loaded)));
                Some(loaded)
            }
            Ok(_) => self.failed(&"no key in it can verify a token"),
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> Option<Arc<Loaded>> {
        tracing::warn!(url = %self.url, %why, "the issuer's keys cannot be fetched");
        None
    }

    fn usable(&self) -> Option<Arc<Loaded>> {
        let loaded = self.loaded.load_full()?;
        (self.age(&loaded) < OLDEST).then_some(loaded)
    }

    fn age(&self, loaded: &Loaded) -> Duration {
        self.clock.steady().saturating_sub(loaded.at)
    }
}
