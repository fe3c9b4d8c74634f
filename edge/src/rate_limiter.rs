//! Rate limiter per key (GCRA) with bounded memory. The caller chooses the keys and the response to a rejection.

use serde::Deserialize;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of locks, to reduce contention.
const SHARDS: usize = 16;
/// Maximum number of keys in one shard. Sixteen shards take about 8 MiB at worst.
const MAX_KEYS_PER_SHARD: usize = 4096;

/// Error of a key that exceeds its rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} requests a minute: wait {} s", retry_after.as_secs_f32().ceil())]
pub struct RateLimitExceeded {
    /// Time to wait before the next request.
    pub retry_after: Duration,
    /// Allowed requests a minute.
    pub limit: u32,
}

/// Returns the time since a fixed start. Tests inject their own.
pub type TimeSource = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Rate limiter: a number of requests a minute for each key, some of them in a burst.
///
/// Keeps, for each key, the time at which its full burst is available again (the generic cell rate algorithm). A key
/// whose time has passed is equal to a new one and may be evicted at any time, which bounds the memory.
pub struct RateLimiter {
    /// Nanoseconds that one request costs; 0 means no limit.
    cost: u64,
    /// Nanoseconds by which the time of a key may be in the future (the burst).
    burst_nanos: u64,
    limit: u32,
    now: TimeSource,
    hasher: RandomState,
    shards: Vec<Mutex<HashMap<Box<str>, u64>>>,
}

/// Limit of requests per client.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimits {
    /// Requests per minute of one client; 0 means no limit.
    pub requests_per_minute: u32,
    /// Requests of one client at once.
    #[serde(deserialize_with = "interzone_options::positive")]
    pub burst: u32,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            requests_per_minute: 0,
            burst: 60,
        }
    }
}

impl RateLimiter {
    /// Creates a limiter of `per_minute` requests for each key (0 = no limit), `burst` of them at once (at least 1).
    pub fn new(per_minute: u32, burst: u32) -> Self {
        let start = Instant::now();
        Self::with_time_source(per_minute, burst, Arc::new(move || start.elapsed()))
    }

    /// Creates a limiter with the caller's time source.
    pub fn with_time_source(per_minute: u32, burst: u32, now: TimeSource) -> Self {
        let cost = 60_000_000_000_u64
            .checked_div(u64::from(per_minute))
            .unwrap_or(0);
        let shards = if cost == 0 { 0 } else { SHARDS };
        Self {
            cost,
            burst_nanos: cost.saturating_mul(u64::from(burst.max(1))),
            limit: per_minute,
            now,
            hasher: RandomState::new(),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
        }
    }

    /// Returns the requests a minute and the burst of each key; `None` if there is no limit.
    pub fn quota(&self) -> Option<(u32, u32)> {
        let burst = self.burst_nanos.checked_div(self.cost)?;
        Some((self.limit, u32::try_from(burst).unwrap_or(u32::MAX)))
    }

    /// Returns the keys that have used most of their burst, each with the used part in percent, highest first.
    pub fn top_keys(&self, limit: usize) -> Vec<(String, u64)> {
        let now = u64::try_from((self.now)().as_nanos()).unwrap_or(u64::MAX);
        let mut all: Vec<(String, u64)> = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (key, full_at) in shard.iter() {
                let used = full_at.saturating_sub(now);
                // Rounded up, so that a key that has used any of its burst is listed.
                let percent = used.saturating_mul(100).div_ceil(self.burst_nanos.max(1));
                if percent > 0 {
                    all.push((key.to_string(), percent));
                }
            }
            drop(shard);
            // Truncated per shard: few keys are wanted, of however many there are.
            all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            all.truncate(limit);
        }
        all
    }

    /// Counts a request of `key`, or returns when to retry. A rejected request costs nothing.
    pub fn check(&self, key: &str) -> Result<(), RateLimitExceeded> {
        // Without a limit nothing is counted and the key is not hashed.
        if self.shards.is_empty() {
            return Ok(());
        }
        let shard = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64)
            .ok()
            .and_then(|at| self.shards.get(at));
        let Some(shard) = shard else { return Ok(()) };
        let now = u64::try_from((self.now)().as_nanos()).unwrap_or(u64::MAX);
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(full_at) = shard.get_mut(key) {
            let next = (*full_at).max(now).saturating_add(self.cost);
            let over = (next - now).saturating_sub(self.burst_nanos);
            if over > 0 {
                return Err(RateLimitExceeded {
                    retry_after: Duration::from_nanos(over),
                    limit: self.limit,
                });
            }
            *full_at = next;
            return Ok(());
        }
        if shard.len() >= MAX_KEYS_PER_SHARD {
            evict(&mut shard, now);
        }
        shard.insert(key.into(), now.saturating_add(self.cost));
        Ok(())
    }
}

/// Evicts every key whose burst is full again; if that is not enough, also the eighth that is nearest to it, so that
/// the next keys fit without another scan.
fn evict(shard: &mut HashMap<Box<str>, u64>, now: u64) {
    shard.retain(|_, full_at| *full_at > now);
    if shard.len() >= MAX_KEYS_PER_SHARD {
        let mut times: Vec<u64> = shard.values().copied().collect();
        let (_, nearest, _) = times.select_nth_unstable(MAX_KEYS_PER_SHARD / 8);
        let nearest = *nearest;
        let mut to_evict = MAX_KEYS_PER_SHARD / 8;
        shard.retain(|_, full_at| {
            let keep = *full_at > nearest || to_evict == 0;
            to_evict -= usize::from(!keep);
            keep
        });
    }
}

impl std::fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimiter")
            .field("per_minute", &self.limit)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn limiter(per_minute: u32, burst: u32) -> (RateLimiter, Arc<AtomicU64>) {
        let millis = Arc::new(AtomicU64::new(0));
        let now = Arc::clone(&millis);
        let time_source: TimeSource =
            Arc::new(move || Duration::from_millis(now.load(Ordering::Relaxed)));
        (
            RateLimiter::with_time_source(per_minute, burst, time_source),
            millis,
        )
    }

    #[test]
    fn top_keys_lists_used_burst_highest_first() {
        let (limiter, millis) = limiter(60, 4);
        assert_eq!(limiter.quota(), Some((60, 4)));
        for key in ["a", "b", "b", "c", "b", "b"] {
            assert_eq!(limiter.check(key), Ok(()));
        }
        let top_keys = |most| limiter.top_keys(most);
        let usage = |key: &str, percent| (key.to_owned(), percent);
        assert_eq!(
            top_keys(9),
            [usage("b", 100), usage("a", 25), usage("c", 25)]
        );
        assert_eq!(top_keys(2), [usage("b", 100), usage("a", 25)]);
        millis.store(1_500, Ordering::Relaxed);
        assert_eq!(top_keys(9), [usage("b", 63)]);
        let free = RateLimiter::new(0, 4);
        assert_eq!((free.quota(), free.top_keys(9)), (None, Vec::new()));
    }

    #[test]
    fn burst_is_allowed_then_one_request_per_interval() {
        let (limiter, millis) = limiter(60, 3);
        for _ in 0..3 {
            assert_eq!(limiter.check("a"), Ok(()));
        }
        let error = limiter.check("a").unwrap_err();
        assert_eq!(error.retry_after, Duration::from_secs(1));
        assert_eq!(error.limit, 60);
        assert_eq!(limiter.check("b"), Ok(()), "keys are limited separately");
        millis.store(999, Ordering::Relaxed);
        assert_eq!(
            limiter.check("a").unwrap_err().retry_after,
            Duration::from_millis(1)
        );
        millis.store(1000, Ordering::Relaxed);
        assert_eq!(limiter.check("a"), Ok(()));
        assert!(limiter.check("a").is_err());
        millis.store(60_000, Ordering::Relaxed);
        let through = (0..10).filter(|_| limiter.check("a").is_ok()).count();
        assert_eq!(through, 3, "an idle key gets its burst back, not more");
    }

    #[test]
    fn zero_means_no_limit() {
        let (limiter, _) = limiter(0, 1);
        assert!((0..10_000).all(|_| limiter.check("a").is_ok()));
    }

    #[test]
    fn idle_keys_are_evicted_first_and_memory_is_bounded() {
        let (limiter, millis) = limiter(60, 2);
        let capacity = SHARDS * MAX_KEYS_PER_SHARD;
        for key in 0..capacity * 2 {
            limiter.check(&format!("early {key}")).unwrap();
        }
        let len = || -> usize {
            let count = |shard: &Mutex<HashMap<_, _>>| shard.lock().unwrap().len();
            limiter.shards.iter().map(count).sum()
        };
        assert!(len() <= capacity);
        // The early keys are idle by now and must be evicted before a busy one.
        millis.store(10_000, Ordering::Relaxed);
        assert!(limiter.check("busy").is_ok() && limiter.check("busy").is_ok());
        for key in 0..capacity / 4 {
            limiter.check(&format!("late {key}")).unwrap();
        }
        assert!(limiter.check("busy").is_err(), "the busy key was evicted");
        assert!(len() < capacity / 2, "idle keys are still stored");
    }
}
