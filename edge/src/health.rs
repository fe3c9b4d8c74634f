//! How the workers of a node are: each has a heart that beats, and tells of trouble once, not every second.
//! What they work at is not known here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a worker may be in trouble before the node is not well.
const PATIENCE: Duration = Duration::from_secs(5);

/// The waits after failures: the first, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Why a node is not well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwell {
    /// A worker is no more.
    #[error("the worker for {0} has ended; start the node again")]
    Ended(&'static str),
    /// A worker has not been heard of for long.
    #[error("the worker for {0} is stuck")]
    Stuck(&'static str),
    /// A worker does not get on.
    #[error("the worker for {0} does not get on; see the log, it goes on by itself")]
    Failing(&'static str),
}

/// What is known of a worker.
pub struct Pulse {
    name: &'static str,
    silence: Duration,
    state: Mutex<State>,
}

struct State {
    beat: Instant,
    failing: Option<(Instant, u32)>,
    ended: bool,
}

impl Pulse {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is alive and gets on.
    ///
    /// # Errors
    /// It is not or does not.
    pub fn feel(&self) -> Result<(), Unwell> {
        let state = self.state();
        if state.ended {
            return Err(Unwell::Ended(self.name));
        }
        if state.beat.elapsed() > self.silence {
            return Err(Unwell::Stuck(self.name));
        }
        match state.failing {
            Some((since, _)) if since.elapsed() >= PATIENCE => Err(Unwell::Failing(self.name)),
            _ => Ok(()),
        }
    }
}

/// A worker's own end of it. When it is dropped, the worker is no more.
pub struct Heart {
    pulse: Arc<Pulse>,
}

impl Heart {
    /// A heart, and what others see of it. Silence for longer than this is a bad sign.
    pub fn new(name: &'static str, silence: Duration) -> (Self, Arc<Pulse>) {
        let pulse = Arc::new(Pulse {
            name,
            silence,
            state: Mutex::new(State {
                beat: Instant::now(),
                failing: None,
                ended: false,
            }),
        });
        let seen = pulse.clone();
        (Self { pulse }, seen)
    }

    /// A sign of life.
    pub fn beat(&self) {
        self.pulse.state().beat = Instant::now();
    }

    /// What was tried has worked.
    pub fn well(&self) {
        self.beat();
        if self.pulse.state().failing.take().is_some() {
            tracing::info!(worker = self.pulse.name, "it works again");
        }
    }

    /// What was tried has not worked. Answers how long to wait before the next time.
    pub fn failed(&self, error: &dyn std::error::Error) -> Duration {
        self.beat();
        let mut state = self.pulse.state();
        let (since, times) = state.failing.unwrap_or((Instant::now(), 0));
        state.failing = Some((since, times.saturating_add(1)));
        drop(state);
        let worker = self.pulse.name;
        if times == 0 {
            tracing::warn!(worker, %error, "it does not get on; trying again");
        } else {
            tracing::debug!(worker, %error, times, "it still does not get on");
        }
        FIRST_WAIT
            .saturating_mul(1_u32 << times.min(10))
            .min(LONGEST_WAIT)
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.pulse.state().ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::{Heart, Unwell};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn trouble_shows_when_it_lasts_and_goes_when_it_is_over() {
        let (heart, pulse) = Heart::new("x", Duration::from_secs(60));
        let trouble = std::io::Error::other("no");
        assert_eq!(heart.failed(&trouble), Duration::from_millis(100));
        assert_eq!(heart.failed(&trouble), Duration::from_millis(200));
        assert_eq!(pulse.feel(), Ok(()), "once is no illness");
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(pulse.feel(), Err(Unwell::Failing("x")));
        for _ in 0..40 {
            assert!(heart.failed(&trouble) <= Duration::from_secs(5));
        }
        heart.well();
        assert_eq!(pulse.feel(), Ok(()));
        assert_eq!(heart.failed(&trouble), Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_and_death_are_noticed() {
        let (heart, pulse) = Heart::new("x", Duration::from_secs(60));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(pulse.feel(), Err(Unwell::Stuck("x")));
        heart.beat();
        assert_eq!(pulse.feel(), Ok(()));
        drop(heart);
        assert_eq!(pulse.feel(), Err(Unwell::Ended("x")));
    }
}
