//! Retries the start of a child process while the system is short of processes, descriptors or memory.
//!
//! Such a shortage does not depend on the file, and often ends within seconds. So the start is retried with
//! backoff for a bounded time.

use interzone_backoff::Backoff;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Maximum time for retrying a start. The task occupies one of the agent's runs meanwhile, so it is short compared with
/// the time limit of a run.
pub(super) const MAX_RETRY_TIME: Duration = Duration::from_secs(15);

/// Delays between attempts.
const START_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// Starts child processes, and remembers when a start failed.
#[derive(Debug, Default)]
pub(super) struct ChildStarter {
    failed_at: Mutex<Option<Instant>>,
}

impl ChildStarter {
    /// Calls `start` until it succeeds, fails permanently, or the retry time is over.
    ///
    /// For [`MAX_RETRY_TIME`] after a failure, each further start gets a single attempt: otherwise every file of a
    /// message would wait as long.
    pub(super) async fn start<T>(
        &self,
        mut start: impl FnMut() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let started_at = Instant::now();
        let failed_at = *self.lock();
        let is_still_short = failed_at.is_some_and(|at| started_at < at + MAX_RETRY_TIME);
        let deadline = match is_still_short {
            true => started_at,
            false => started_at + MAX_RETRY_TIME,
        };
        let mut retry = 0_u32;
        loop {
            let delay = START_BACKOFF.delay(retry);
            match start() {
                Ok(child) => {
                    *self.lock() = None;
                    return Ok(child);
                }
                Err(error) if !is_temporary(&error) => return Err(error),
                Err(error) if Instant::now() + delay > deadline => {
                    if !is_still_short {
                        *self.lock() = Some(Instant::now());
                    }
                    return Err(error);
                }
                Err(error) => {
                    tracing::debug!(attempt = retry.saturating_add(1), %error, "file reader not started, retrying")
                }
            }
            sleep(delay).await;
            retry = retry.saturating_add(1);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.failed_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if the same program may start successfully a little later.
#[cfg(unix)]
fn is_temporary(error: &io::Error) -> bool {
    use rustix::io::Errno;

    matches!(
        Errno::from_io_error(error),
        Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::TXTBSY)
    )
}

/// Returns true if the same program may start successfully a little later.
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

    /// Starts a child that fails this many times with this error. Returns the success and the number of attempts.
    async fn count_attempts(
        starter: &ChildStarter,
        failures: usize,
        errno: Errno,
    ) -> (bool, usize) {
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
            let starter = ChildStarter::default();
            assert_eq!(
                count_attempts(&starter, 5, errno).await,
                (true, 6),
                "{errno:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn start_is_not_retried_when_the_program_is_missing() {
        let starter = ChildStarter::default();
        assert_eq!(count_attempts(&starter, 5, Errno::NOENT).await, (false, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn failed_start_limits_later_starts_to_one_attempt() {
        let starter = ChildStarter::default();
        let started_at = Instant::now();
        let (is_started, attempt_count) = count_attempts(&starter, usize::MAX, Errno::AGAIN).await;
        assert!(!is_started && attempt_count > 3, "{attempt_count}");
        let elapsed = started_at.elapsed();
        assert!(elapsed <= MAX_RETRY_TIME && elapsed > MAX_RETRY_TIME / 2);
        assert_eq!(
            count_attempts(&starter, usize::MAX, Errno::AGAIN).await,
            (false, 1)
        );
        assert_eq!(started_at.elapsed(), elapsed);
        // A start that succeeds ends the shortage.
        assert_eq!(count_attempts(&starter, 0, Errno::AGAIN).await, (true, 1));
        assert_eq!(count_attempts(&starter, 1, Errno::AGAIN).await, (true, 2));
    }
}
