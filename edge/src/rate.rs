//! How often a client may ask. One limiter keeps one number for each key, in a bounded room; what a
//! key is, and what a refusal looks like, is not decided here.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Locks, so that many threads do not wait for one.
const SHARDS: usize = 16;
/// Keys in one shard. Sixteen of these take about 8 MiB at worst.
const KEYS: usize = 4096;

/// A key asks faster than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} requests a minute: wait {} s", retry_after.as_secs_f32().ceil())]
pub struct TooFast {
    /// When to ask again.
    pub retry_after: Duration,
    /// Requests a minute that are allowed.
    pub limit: u32,
}

/// Tells how much time has passed since some fixed moment. Tests bring their own.
pub type Ticks = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Lets each key through so many times a minute, with some in a burst.
///
/// It keeps, for each key, the moment at which its burst will be whole again (the generic cell rate
/// algorithm). A key whose moment has passed is as good as a new one, so it may be forgotten at any
/// time; that is what keeps the room bounded.
pub struct RateLimiter {
    /// Nanoseconds that one request costs; 0 lets everything through.
    cost: u64,
    /// Nanoseconds by which a key may be ahead of its time.
    ahead: u64,
    limit: u32,
    ticks: Ticks,
    hasher: RandomState,
    shards: Vec<Mutex<HashMap<Box<str>, u64>>>,
}

impl RateLimiter {
    /// `per_minute` requests for each key (0 = no limit), `burst` of them at once (at least 1).
    pub fn new(per_minute: u32, burst: u32) -> Self {
        let start = Instant::now();
        Self::with_ticks(per_minute, burst, Arc::new(move || start.elapsed()))
    }

    /// The same, by a clock of the caller's.
    pub fn with_ticks(per_minute: u32, burst: u32, ticks: Ticks) -> Self {
        let cost = 60_000_000_000_u64
            .checked_div(u64::from(per_minute))
            .unwrap_or(0);
        let shards = if cost == 0 { 0 } else { SHARDS };
        Self {
            cost,
            ahead: cost.saturating_mul(u64::from(burst.max(1))),
            limit: per_minute,
            ticks,
            hasher: RandomState::new(),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
        }
    }

    /// How many requests a minute each key may make, and how many of them at once; nothing if there is no
    /// limit.
    pub fn rule(&self) -> Option<(u32, u32)> {
        let burst = self.ahead.checked_div(self.cost)?;
        Some((self.limit, u32::try_from(burst).unwrap_or(u32::MAX)))
    }

    /// The keys that have most of their burst behind them at this moment, each with how much of it in
    /// percent, the fullest first.
    pub fn busiest(&self, most: usize) -> Vec<(String, u64)> {
        let now = u64::try_from((self.ticks)().as_nanos()).unwrap_or(u64::MAX);
        let mut all: Vec<(String, u64)> = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (key, whole) in shard.iter() {
                let used = whole.saturating_sub(now);
                // To the next whole percent, so that what is used at all is not nothing.
                let percent = used.saturating_mul(100).div_ceil(self.ahead.max(1));
                if percent > 0 {
                    all.push((key.to_string(), percent));
                }
            }
            drop(shard);
            // Few are asked for, of however many there are.
            all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            all.truncate(most);
        }
        all
    }

    /// Counts a request of `key`, or says when to come back. A refused request costs nothing.
    pub fn check(&self, key: &str) -> Result<(), TooFast> {
        // Without a limit nothing is counted, and the key need not be looked at.
        if self.shards.is_empty() {
            return Ok(());
        }
        let shard = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64)
            .ok()
            .and_then(|at| self.shards.get(at));
        let Some(shard) = shard else { return Ok(()) };
        let now = u64::try_from((self.ticks)().as_nanos()).unwrap_or(u64::MAX);
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(whole) = shard.get_mut(key) {
            let next = (*whole).max(now).saturating_add(self.cost);
            let over = (next - now).saturating_sub(self.ahead);
            if over > 0 {
                return Err(TooFast {
                    retry_after: Duration::from_nanos(over),
                    limit: self.limit,
                });
            }
            *whole = next;
            return Ok(());
        }
        if shard.len() >= KEYS {
            make_room(&mut shard, now);
        }
        shard.insert(key.into(), now.saturating_add(self.cost));
        Ok(())
    }
}

/// Forgets every key that is as good as new; if that is not enough, the eighth that is nearest to it,
/// so that the next keys find room without another search.
fn make_room(shard: &mut HashMap<Box<str>, u64>, now: u64) {
    shard.retain(|_, whole| *whole > now);
    if shard.len() >= KEYS {
        let mut moments: Vec<u64> = shard.values().copied().collect();
        let (_, nearest, _) = moments.select_nth_unstable(KEYS / 8);
        let nearest = *nearest;
        let mut forget = KEYS / 8;
        shard.retain(|_, whole| {
            let kept = *whole > nearest || forget == 0;
            forget -= usize::from(!kept);
            kept
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
        let hand = Arc::clone(&millis);
        let ticks: Ticks = Arc::new(move || Duration::from_millis(hand.load(Ordering::Relaxed)));
        (RateLimiter::with_ticks(per_minute, burst, ticks), millis)
    }

    #[test]
    fn tells_who_is_near_the_limit() {
        let (limiter, millis) = limiter(60, 4);
        assert_eq!(limiter.rule(), Some((60, 4)));
        for key in ["a", "b", "b", "c", "b", "b"] {
            assert_eq!(limiter.check(key), Ok(()));
        }
        let told = |most| limiter.busiest(most);
        let of = |key: &str, percent| (key.to_owned(), percent);
        assert_eq!(told(9), [of("b", 100), of("a", 25), of("c", 25)]);
        assert_eq!(told(2), [of("b", 100), of("a", 25)]);
        millis.store(1_500, Ordering::Relaxed);
        assert_eq!(told(9), [of("b", 63)]);
        let free = RateLimiter::new(0, 4);
        assert_eq!((free.rule(), free.busiest(9)), (None, Vec::new()));
    }

    #[test]
    fn lets_a_burst_through_and_then_a_steady_stream() {
        let (limiter, millis) = limiter(60, 3);
        for _ in 0..3 {
            assert_eq!(limiter.check("a"), Ok(()));
        }
        let refused = limiter.check("a").unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_secs(1));
        assert_eq!(refused.limit, 60);
        assert_eq!(limiter.check("b"), Ok(()), "another key has its own");
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
        assert_eq!(through, 3, "silence gives back the burst, not more");
    }

    #[test]
    fn zero_is_no_limit() {
        let (limiter, _) = limiter(0, 1);
        assert!((0..10_000).all(|_| limiter.check("a").is_ok()));
    }

    #[test]
    fn forgets_idle_keys_first_and_never_grows_beyond_its_room() {
        let (limiter, millis) = limiter(60, 2);
        let room = SHARDS * KEYS;
        for key in 0..room * 2 {
            limiter.check(&format!("early {key}")).unwrap();
        }
        let held = || -> usize {
            let count = |shard: &Mutex<HashMap<_, _>>| shard.lock().unwrap().len();
            limiter.shards.iter().map(count).sum()
        };
        assert!(held() <= room);
        // The early keys are idle by now. A busy one must outlive them.
        millis.store(10_000, Ordering::Relaxed);
        assert!(limiter.check("busy").is_ok() && limiter.check("busy").is_ok());
        for key in 0..room / 4 {
            limiter.check(&format!("late {key}")).unwrap();
        }
        assert!(limiter.check("busy").is_err(), "it was forgotten");
        assert!(held() < room / 2, "idle keys are still there");
    }
}
