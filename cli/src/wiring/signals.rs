//! When to stop: SIGINT and SIGTERM.

use super::StartError;
use std::future::{Future, ready};
use std::io;
use std::pin::pin;
use std::time::Duration;

/// How long those who are being answered have when the store has failed.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// The signals that ask the process to end.
pub(crate) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Listens from now on; before, a signal ends the process at once.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Listens from now on.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for a signal, then lets `wind_up` stop everything in order; a second signal stops at once. When the store
    /// has failed, everything stops without a signal.
    ///
    /// # Errors
    /// It was stopped at once, or the store has failed.
    pub(crate) async fn then(
        &mut self,
        store_failed: impl Future<Output = String>,
        wind_up: impl Future<Output = ()>,
    ) -> Result<(), StartError> {
        self.then_within(LAST_ANSWERS, store_failed, wind_up).await
    }

    async fn then_within(
        &mut self,
        last_answers: Duration,
        store_failed: impl Future<Output = String>,
        wind_up: impl Future<Output = ()>,
    ) -> Result<(), StartError> {
        let mut store_failed = pin!(store_failed);
        let reason = tokio::select! {
            () = self.next() => None,
            reason = &mut store_failed => Some(reason),
        };
        let Some(reason) = reason else {
            tracing::info!("stopping; a second signal stops at once");
            tokio::select! {
                () = wind_up => {}
                () = self.next() => return Err(StartError::Cut),
            }
            // The disk may fail while the store is closed.
            return tokio::select! {
                biased;
                reason = store_failed => Err(StartError::StoreFailed(reason)),
                () = ready(()) => Ok(()),
            };
        };
        tracing::error!(reason, "the store failed; stopping, to be started again");
        tokio::select! {
            () = wind_up => {}
            () = self.next() => {}
            // Nothing that still runs can be written.
            () = tokio::time::sleep(last_answers) => {}
        }
        Err(StartError::StoreFailed(reason))
    }

    /// Waits for the next one.
    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Waits for the next one.
    #[cfg(not(unix))]
    async fn next(&mut self) {
        // Without a console there is none, and whoever ends the process does so at once.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn failed_store_stops_the_process_even_if_something_does_not_end() {
        let mut signals = Signals::listen().unwrap();
        let failed = || ready("fsync: input/output error".to_owned());
        for stopped in [
            signals.then(failed(), ready(())).await,
            signals
                .then_within(Duration::ZERO, failed(), pending())
                .await,
        ] {
            let Err(StartError::StoreFailed(reason)) = stopped else {
                panic!("{stopped:?}");
            };
            assert_eq!(reason, "fsync: input/output error");
        }
    }
}
