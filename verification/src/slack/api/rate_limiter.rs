//! Client-side rate limiter: about one post per second and channel (GCRA), and the delays that Slack requests.

use super::SlackMethod;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Interval per post, and burst size after idle time.
const POST_INTERVAL: Duration = Duration::from_secs(1);
const POST_BURST: u32 = 4;
/// Maximum number of tracked keys. An idle key needs no entry.
const MAX_KEYS: usize = 8192;
/// Upper limit of a delay requested by Slack.
const MAX_PENALTY: Duration = Duration::from_secs(3600);

/// Rate limit key: method, workspace and channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RateLimitKey {
    pub(super) team: Box<str>,
    pub(super) method: SlackMethod,
    pub(super) channel: Box<str>,
}

#[derive(Clone, Copy)]
struct RateLimitState {
    /// Calls are blocked until this time.
    blocked_until: Instant,
    /// Time when the full burst is available again (GCRA).
    full_burst_at: Instant,
}

impl RateLimitState {
    fn idle_at(&self) -> Instant {
        self.blocked_until.max(self.full_burst_at)
    }
}

/// Rate limiter per key.
#[derive(Default)]
pub(super) struct SlackRateLimiter(Mutex<HashMap<RateLimitKey, RateLimitState>>);

impl SlackRateLimiter {
    /// Waits until the call is allowed. Fails at once with the remaining delay if that is after `deadline`; a failed
    /// attempt consumes nothing.
    pub(super) async fn acquire(
        &self,
        key: &RateLimitKey,
        deadline: Instant,
    ) -> Result<(), Duration> {
        let mut allowed_at = self.reserve(key, deadline)?;
        loop {
            if allowed_at > Instant::now() {
                tokio::time::sleep_until(allowed_at).await;
            }
            // Slack may have requested a delay in the meantime.
            let now = Instant::now();
            allowed_at = self
                .lock()
                .get(key)
                .map_or(now, |state| state.blocked_until);
            if allowed_at <= now {
                return Ok(());
            }
            if allowed_at > deadline {
                return Err(allowed_at - now);
            }
        }
    }

    fn reserve(&self, key: &RateLimitKey, deadline: Instant) -> Result<Instant, Duration> {
        let now = Instant::now();
        let mut states = self.lock();
        let state = states.get(key).copied();
        let mut allowed_at = state.map_or(now, |state| state.blocked_until.max(now));
        if !key.method.is_limited_per_channel() {
            return check_deadline(now, allowed_at, deadline);
        }
        let next = state.map_or(now, |state| state.full_burst_at.max(now)) + POST_INTERVAL;
        allowed_at = allowed_at.max(next.checked_sub(POST_INTERVAL * POST_BURST).unwrap_or(now));
        check_deadline(now, allowed_at, deadline)?;
        let blocked_until = state.map_or(now, |state| state.blocked_until);
        evict(&mut states, now);
        states.insert(
            key.clone(),
            RateLimitState {
                blocked_until,
                full_burst_at: next,
            },
        );
        Ok(allowed_at)
    }

    /// Blocks a key for the delay that Slack requested.
    pub(super) fn penalize(&self, key: &RateLimitKey, wait: Duration) {
        let now = Instant::now();
        let blocked_until = now + wait.min(MAX_PENALTY);
        let mut states = self.lock();
        evict(&mut states, now);
        let state = states.entry(key.clone()).or_insert(RateLimitState {
            blocked_until,
            full_burst_at: now,
        });
        state.blocked_until = state.blocked_until.max(blocked_until);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RateLimitKey, RateLimitState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_deadline(
    now: Instant,
    allowed_at: Instant,
    deadline: Instant,
) -> Result<Instant, Duration> {
    if allowed_at > now && allowed_at > deadline {
        Err(allowed_at - now)
    } else {
        Ok(allowed_at)
    }
}

fn evict(states: &mut HashMap<RateLimitKey, RateLimitState>, now: Instant) {
    if states.len() < MAX_KEYS {
        return;
    }
    states.retain(|_, kept| kept.idle_at() > now);
    if states.len() >= MAX_KEYS {
        // All keys are blocked. Those with the shortest delay are dropped; Slack will limit them again.
        let mut idle_times: Vec<Instant> = states.values().map(RateLimitState::idle_at).collect();
        let (_, cutoff, _) = idle_times.select_nth_unstable(MAX_KEYS / 8);
        let cutoff = *cutoff;
        states.retain(|_, kept| kept.idle_at() > cutoff);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WAIT: Duration = Duration::ZERO;

    fn key(method: SlackMethod, channel: &str) -> RateLimitKey {
        RateLimitKey {
            team: "T1".into(),
            method,
            channel: channel.into(),
        }
    }

    async fn acquire(
        limiter: &SlackRateLimiter,
        key: &RateLimitKey,
        max_wait: Duration,
    ) -> Result<(), Duration> {
        limiter.acquire(key, Instant::now() + max_wait).await
    }

    #[tokio::test(start_paused = true)]
    async fn posts_are_limited_to_one_per_second_after_burst() {
        let limiter = SlackRateLimiter::default();
        let posts = key(SlackMethod::ChatPostMessage, "C1");
        for _ in 0..POST_BURST {
            assert_eq!(acquire(&limiter, &posts, NO_WAIT).await, Ok(()));
        }
        assert_eq!(acquire(&limiter, &posts, NO_WAIT).await, Err(POST_INTERVAL));
        let other = key(SlackMethod::ChatPostMessage, "C2");
        assert_eq!(
            acquire(&limiter, &other, NO_WAIT).await,
            Ok(()),
            "another channel"
        );
        let started = Instant::now();
        for _ in 0..3 {
            assert_eq!(acquire(&limiter, &posts, POST_INTERVAL).await, Ok(()));
        }
        assert_eq!(started.elapsed(), 3 * POST_INTERVAL);
        let edits = key(SlackMethod::ChatUpdate, "C1");
        for _ in 0..100 {
            assert_eq!(
                acquire(&limiter, &edits, NO_WAIT).await,
                Ok(()),
                "not limited"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn penalized_call_waits_or_fails_with_delay() {
        let limiter = SlackRateLimiter::default();
        let edits = key(SlackMethod::ChatUpdate, "C1");
        limiter.penalize(&edits, Duration::from_secs(7));
        limiter.penalize(&edits, Duration::from_secs(2));
        assert_eq!(
            acquire(&limiter, &edits, Duration::from_secs(6)).await,
            Err(Duration::from_secs(7)),
            "the longer delay wins"
        );
        assert_eq!(
            acquire(&limiter, &key(SlackMethod::ChatUpdate, "C2"), NO_WAIT).await,
            Ok(())
        );
        assert_eq!(
            acquire(&limiter, &key(SlackMethod::ChatPostMessage, "C1"), NO_WAIT).await,
            Ok(())
        );
        let started = Instant::now();
        assert_eq!(
            acquire(&limiter, &edits, Duration::from_secs(7)).await,
            Ok(())
        );
        assert_eq!(started.elapsed(), Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn penalty_during_wait_is_applied() {
        let limiter = SlackRateLimiter::default();
        let edits = key(SlackMethod::ChatUpdate, "C1");
        limiter.penalize(&edits, Duration::from_secs(1));
        let (result, ()) = tokio::join!(acquire(&limiter, &edits, Duration::from_secs(2)), async {
            limiter.penalize(&edits, Duration::from_secs(30));
        });
        assert_eq!(result, Err(Duration::from_secs(29)));
    }

    #[tokio::test(start_paused = true)]
    async fn eviction_bounds_keys_and_keeps_longest_delays() {
        let limiter = SlackRateLimiter::default();
        let long = key(SlackMethod::ChatUpdate, "LONG");
        limiter.penalize(&long, Duration::from_secs(1000));
        for index in 0..2 * MAX_KEYS {
            let key = key(SlackMethod::ChatUpdate, &format!("C{index}"));
            limiter.penalize(&key, Duration::from_secs(10));
        }
        assert!(limiter.lock().len() <= MAX_KEYS);
        assert!(acquire(&limiter, &long, NO_WAIT).await.is_err());
    }
}
