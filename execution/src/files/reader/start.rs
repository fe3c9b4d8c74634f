//! Starting a child process while the system is short of processes, descriptors or memory.
//!
//! Such a shortage says nothing about the file, and often passes within seconds. So the start is retried with
//! backoff for a bounded time.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a start is retried. The task holds one of the agent's runs meanwhile, so it is short compared with the
/// time of a run.
pub(super) const RETRY_TIME: Duration = Duration::from_secs(15);

/// The first and the longest wait between two attempts; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Starts child processes, and remembers when a start was given up.
#[derive(Debug, Default)]
pub(super) struct Starter {
    given_up_at: Mutex<Option<Instant>>,
}

impl Starter {
    /// Calls `start` until it succeeds, fails for good, or the time is over.
    ///
    /// For as long as [`RETRY_TIME`] after a start was given up, the next ones get one attempt each: otherwise every
    /// file of a message would wait for as long.
    pub(super) async fn start<T>(
        &self,
        mut start: impl FnMut() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let begun = Instant::now();
        let given_up_at = *self.lock();
        let is_still_short = given_up_at.is_some_and(|at| begun < at + RETRY_TIME);
        let deadline = match is_still_short {
            true => begun,
            false => begun + RETRY_TIME,
        };
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1_u32;
        loop {
            match start() {
                Ok(child) => {
                    *self.lock() = None;
                    return Ok(child);
                }
                Err(error) if !is_temporary(&error) => return Err(error),
                Err(error) if Instant::now() + pause > deadline => {
                    if !is_still_short {
                        *self.lock() = Some(Instant::now());
                    }
                    return Err(error);
                }
                Err(error) => tracing::debug!(attempt, %error, "file reader not started; retrying"),
            }
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            attempt = attempt.saturating_add(1);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.given_up_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the system may start the same program a moment later.
#[cfg(unix)]
fn is_temporary(error: &io::Error) -> bool {
    use rustix::io::Errno;

    matches!(
        Errno::from_io_error(error),
        Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::TXTBSY)
    )
}

/// Whether the system may start the same program a moment later.
#[cfg(not(unix))]
fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory
    )
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use rustix::io::Errno;

    /// Starts a child that fails so many times with this error, and says how often it was tried.
    async fn attempts(starter: &Starter, failures: usize, errno: Errno) -> (bool, usize) {
        let mut attempts = 0;
        let started = starter
            .start(|| {
                attempts += 1;
                match attempts > failures {
                    true => Ok(()),
                    false => Err(errno.into()),
                }
            })
            .await;
        (started.is_ok(), attempts)
    }

    #[tokio::test(start_paused = true)]
    async fn start_is_retried_when_the_system_is_short_of_resources() {
        for errno in [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
            let starter = Starter::default();
            assert_eq!(attempts(&starter, 5, errno).await, (true, 6), "{errno:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn start_is_not_retried_when_the_program_is_missing() {
        let starter = Starter::default();
        assert_eq!(attempts(&starter, 5, Errno::NOENT).await, (false, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn start_is_given_up_after_a_bounded_time_and_then_tried_once_each() {
        let starter = Starter::default();
        let begun = Instant::now();
        let (is_started, tried) = attempts(&starter, usize::MAX, Errno::AGAIN).await;
        assert!(!is_started && tried > 3, "{tried}");
        let given_up = begun.elapsed();
        assert!(given_up <= RETRY_TIME && given_up > RETRY_TIME / 2);
        assert_eq!(
            attempts(&starter, usize::MAX, Errno::AGAIN).await,
            (false, 1)
        );
        assert_eq!(begun.elapsed(), given_up);
        // A start that succeeds ends the shortage.
        assert_eq!(attempts(&starter, 0, Errno::AGAIN).await, (true, 1));
        assert_eq!(attempts(&starter, 1, Errno::AGAIN).await, (true, 2));
    }
}
