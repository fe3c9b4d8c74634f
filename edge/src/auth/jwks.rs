//! The issuer's keys, fetched when they are needed and kept for a while.
//!
//! However many tokens with made-up key ids arrive, the issuer is asked once in a while and never
//! twice at the same time. While it is down, the keys we have go on for a day. Tokens that were verified
//! before are checked against the keys of now, so they have them fetched like new tokens do.

use super::keys::KeySet;
use super::{Refusal, metadata, safe_url};
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
/// The least time between two fetches for the same reason: that keys are old, or that a token names one
/// we lack. So a new key is found at once, and made-up key ids cannot make us flood the issuer.
const PAUSE: Duration = Duration::from_secs(10);
/// The same while there are no keys at all and every caller waits for them.
const PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);

/// Where keys are.
pub(super) enum Place {
    /// Here.
    Keys(Url),
    /// Where the metadata at the first of these say that answers.
    Metadata { issuer: String, urls: [Url; 2] },
}

impl Place {
    /// Where the metadata of an issuer are.
    pub(super) fn metadata_of(issuer: &str) -> Option<Self> {
        let urls = metadata::places(issuer)?;
        Some(Self::Metadata {
            issuer: issuer.to_owned(),
            urls,
        })
    }
}

/// Keys that are elsewhere.
pub(super) struct Jwks {
    place: Place,
    http: reqwest::Client,
    clock: Clock,
    loaded: ArcSwapOption<Loaded>,
    /// When fetches last began. Whoever holds it fetches.
    fetching: Mutex<Begun>,
}

/// When a fetch last began.
#[derive(Default)]
struct Begun {
    /// Because there were no keys, or old ones.
    for_age: Option<Duration>,
    /// Because a token named a key that was not there.
    for_a_name: Option<Duration>,
}

/// Why keys are fetched.
#[derive(Clone, Copy)]
enum Why {
    None,
    Old,
    Name,
}

pub(super) struct Loaded {
    pub(super) keys: KeySet,
    at: Duration,
}

impl Jwks {
    pub(super) fn new(place: Place, http: reqwest::Client, clock: Clock) -> Self {
        Self {
            place,
            http,
            clock,
            loaded: ArcSwapOption::empty(),
            fetching: Mutex::default(),
        }
    }

    /// The keys, if they are so new that they need not be fetched again. Never waits.
    pub(super) fn fresh(&self) -> Option<Arc<Loaded>> {
        let loaded = self.loaded.load_full()?;
        (self.age(&loaded) < FRESH).then_some(loaded)
    }

    /// The keys that may be used, and none after a day without a new answer of the issuer. Never waits:
    /// keys that should be fetched again are fetched in the background.
    pub(super) fn usable_now(self: &Arc<Self>) -> Option<Arc<Loaded>> {
        let fresh = self.fresh();
        if fresh.is_none() && self.fetching.try_lock().is_ok() {
            // Without a runtime a later request will fetch them.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                let jwks = Arc::clone(self);
                runtime.spawn(async move { jwks.current().await.map(drop) });
            }
        }
        fresh.or_else(|| self.usable())
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
            Ok(begun) => Ok(self.fetch(begun, Why::Old).await.unwrap_or(loaded)),
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
        let begun = self.fetching.lock().await;
        // Somebody may have fetched them while we waited for our turn.
        let loaded = self.usable();
        let newer = loaded.filter(|now| than.is_none_or(|than| !Arc::ptr_eq(now, than)));
        if newer.is_some() {
            return newer;
        }
        let why = if than.is_some() { Why::Name } else { Why::None };
        self.fetch(begun, why).await
    }

    async fn fetch(
        self: &Arc<Self>,
        mut begun: tokio::sync::MutexGuard<'_, Begun>,
        why: Why,
    ) -> Option<Arc<Loaded>> {
        let now = self.clock.steady();
        let (last, pause) = match why {
            Why::None => (&mut begun.for_age, PAUSE_WITHOUT_KEYS),
            Why::Old => (&mut begun.for_age, PAUSE),
            Why::Name => (&mut begun.for_a_name, PAUSE),
        };
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
        let found = tokio::time::timeout(PATIENCE, async {
            match &self.place {
                Place::Keys(url) => self.keys_at(url).await,
                Place::Metadata { issuer, urls } => {
                    let url = self.discover(issuer, urls).await?;
                    self.keys_at(&url).await
                }
            }
        });
        let keys = match found.await {
            Ok(Ok(keys)) => keys,
            Ok(Err(why)) => return self.failed(&why),
            Err(_) => return self.failed("it took too long"),
        };
        let at = self.clock.steady();
        let loaded = Arc::new(Loaded { keys, at });
        self.loaded.store(Some(Arc::clone(&loaded)));
        Some(loaded)
    }

    async fn keys_at(&self, url: &Url) -> Result<KeySet, String> {
        let keys = KeySet::parse(&metadata::get(url, &self.http).await?)
            .map_err(|error| error.to_string())?;
        match keys.is_empty() {
            true => Err("no key in it can verify a token".to_owned()),
            false => Ok(keys),
        }
    }

    /// Where the issuer's metadata say that its keys are.
    async fn discover(&self, issuer: &str, urls: &[Url]) -> Result<Url, String> {
        let metadata = metadata::of(issuer, urls, &self.http).await?;
        let keys = metadata.jwks_uri.and_then(|url| safe_url(&url));
        keys.ok_or_else(|| "the metadata name no safe place for keys".to_owned())
    }

    fn failed(&self, why: &str) -> Option<Arc<Loaded>> {
        let place = match &self.place {
            Place::Keys(url) => url.as_str(),
            Place::Metadata { issuer, .. } => issuer,
        };
        tracing::warn!(place, why, "the issuer's keys cannot be fetched");
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
