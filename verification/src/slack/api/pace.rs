//! When the next call may be made: Slack lets about one post a second into a channel, and says itself
//! when it has had enough of anything. Nothing is known here of what the calls are about.

use super::Method;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What one post costs, and how many may go at once after a silence.
const COST: Duration = Duration::from_secs(1);
const BURST: u32 = 4;
/// How many places are remembered. One that is over is as good as one that never was.
const KEYS: usize = 8192;
/// Nobody is held back for longer, whatever a header says.
const LONGEST_HOLD: Duration = Duration::from_secs(3600);

/// What Slack counts together: a method, in a workspace, in a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) team: Box<str>,
    pub(super) method: Method,
    pub(super) channel: Box<str>,
}

#[derive(Clone, Copy)]
struct Kept {
    /// Slack wants nothing before.
    held: Instant,
    /// When the whole burst is there again (the generic cell rate algorithm).
    whole: Instant,
}

impl Kept {
    fn over(&self) -> Instant {
        self.held.max(self.whole)
    }
}

/// Remembers who must wait.
#[derive(Default)]
pub(super) struct Pace(Mutex<HashMap<Key, Kept>>);

impl Pace {
    /// Waits for the turn of a call, or says at once how long that would take if it is not before
    /// `give_up`. A turn that is not taken costs nothing.
    pub(super) async fn turn(&self, key: &Key, give_up: Instant) -> Result<(), Duration> {
        let mut at = self.reserve(key, give_up)?;
        loop {
            if at > Instant::now() {
                tokio::time::sleep_until(at).await;
            }
            // Slack may have had enough while we waited.
            let now = Instant::now();
            at = self.lock().get(key).map_or(now, |kept| kept.held);
            if at <= now {
                return Ok(());
            }
            if at > give_up {
                return Err(at - now);
            }
        }
    }

    fn reserve(&self, key: &Key, give_up: Instant) -> Result<Instant, Duration> {
        let now = Instant::now();
        let mut all = self.lock();
        let kept = all.get(key).copied();
        let mut at = kept.map_or(now, |kept| kept.held.max(now));
        if !key.method.is_paced() {
            return in_time(now, at, give_up);
        }
        let next = kept.map_or(now, |kept| kept.whole.max(now)) + COST;
        at = at.max(next.checked_sub(COST * BURST).unwrap_or(now));
        in_time(now, at, give_up)?;
        let held = kept.map_or(now, |kept| kept.held);
        make_room(&mut all, now);
        all.insert(key.clone(), Kept { held, whole: next });
        Ok(at)
    }

    /// Slack has had enough of these for a while.
    pub(super) fn hold(&self, key: &Key, wait: Duration) {
        let now = Instant::now();
        let until = now + wait.min(LONGEST_HOLD);
        let mut all = self.lock();
        make_room(&mut all, now);
        let kept = all.entry(key.clone()).or_insert(Kept {
            held: until,
            whole: now,
        });
        kept.held = kept.held.max(until);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_time(now: Instant, at: Instant, give_up: Instant) -> Result<Instant, Duration> {
    if at > now && at > give_up {
        Err(at - now)
    } else {
        Ok(at)
    }
}

fn make_room(all: &mut HashMap<Key, Kept>, now: Instant) {
    if all.len() < KEYS {
        return;
    }
    all.retain(|_, kept| kept.over() > now);
    if all.len() >= KEYS {
        // Everybody waits. Those who wait least are forgotten, and find out from Slack.
        let mut moments: Vec<Instant> = all.values().map(Kept::over).collect();
        let (_, nearest, _) = moments.select_nth_unstable(KEYS / 8);
        let nearest = *nearest;
        all.retain(|_, kept| kept.over() > nearest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn key(method: Method, channel: &str) -> Key {
        Key {
            team: "T1".into(),
            method,
            channel: channel.into(),
        }
    }

    async fn turn(pace: &Pace, key: &Key, patience: Duration) -> Result<(), Duration> {
        pace.turn(key, Instant::now() + patience).await
    }

    #[tokio::test(start_paused = true)]
    async fn posts_go_at_once_in_a_burst_and_then_one_a_second() {
        let pace = Pace::default();
        let posts = key(Method::ChatPostMessage, "C1");
        for _ in 0..BURST {
            assert_eq!(turn(&pace, &posts, NOW).await, Ok(()));
        }
        assert_eq!(turn(&pace, &posts, NOW).await, Err(COST));
        let other = key(Method::ChatPostMessage, "C2");
        assert_eq!(turn(&pace, &other, NOW).await, Ok(()), "another channel");
        let began = Instant::now();
        for _ in 0..3 {
            assert_eq!(turn(&pace, &posts, COST).await, Ok(()));
        }
        assert_eq!(began.elapsed(), 3 * COST);
        let edits = key(Method::ChatUpdate, "C1");
        for _ in 0..100 {
            assert_eq!(turn(&pace, &edits, NOW).await, Ok(()), "not paced");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_slack_holds_back_waits_or_is_told_how_long() {
        let pace = Pace::default();
        let edits = key(Method::ChatUpdate, "C1");
        pace.hold(&edits, Duration::from_secs(7));
        pace.hold(&edits, Duration::from_secs(2));
        assert_eq!(
            turn(&pace, &edits, Duration::from_secs(6)).await,
            Err(Duration::from_secs(7)),
            "the longer hold counts"
        );
        assert_eq!(
            turn(&pace, &key(Method::ChatUpdate, "C2"), NOW).await,
            Ok(())
        );
        assert_eq!(
            turn(&pace, &key(Method::ChatPostMessage, "C1"), NOW).await,
            Ok(())
        );
        let began = Instant::now();
        assert_eq!(turn(&pace, &edits, Duration::from_secs(7)).await, Ok(()));
        assert_eq!(began.elapsed(), Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_that_comes_while_one_waits_counts() {
        let pace = Pace::default();
        let edits = key(Method::ChatUpdate, "C1");
        pace.hold(&edits, Duration::from_secs(1));
        let (waited, ()) = tokio::join!(turn(&pace, &edits, Duration::from_secs(2)), async {
            pace.hold(&edits, Duration::from_secs(30));
        });
        assert_eq!(waited, Err(Duration::from_secs(29)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_is_bounded_and_keeps_those_who_wait_longest() {
        let pace = Pace::default();
        let long = key(Method::ChatUpdate, "LONG");
        pace.hold(&long, Duration::from_secs(1000));
        for number in 0..2 * KEYS {
            let key = key(Method::ChatUpdate, &format!("C{number}"));
            pace.hold(&key, Duration::from_secs(10));
        }
        assert!(pace.lock().len() <= KEYS);
        assert!(turn(&pace, &long, NOW).await.is_err());
    }
}
