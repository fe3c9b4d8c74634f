//! Shutdown signals: SIGINT and SIGTERM.

use super::StartError;
use std::future::{Future, ready};
use std::io;
use std::pin::pin;
use std::time::Duration;

/// Time for running requests to finish after the store has failed.
const STORE_FAILURE_GRACE: Duration = Duration::from_secs(5);

/// Receiver of shutdown signals.
pub(crate) struct ShutdownSignals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl ShutdownSignals {
    /// Starts listening; before, a signal ends the process immediately.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Starts listening.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for a signal, then awaits `wind_up`, the orderly shutdown; a second signal stops immediately. If the
    /// store fails, shuts down without a signal.
    ///
    /// # Errors
    /// It was stopped immediately, or the store has failed.
    pub(crate) async fn shut_down_on_signal(
        &mut self,
        store_failed: impl Future<Output = String>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), StartError> {
        self.shut_down_with_grace(STORE_FAILURE_GRACE, store_failed, shutdown)
            .await
    }

    async fn shut_down_with_grace(
        &mut self,
        store_failure_grace: Duration,
        store_failed: impl Future<Output = String>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), StartError> {
        let mut store_failed = pin!(store_failed);
        let reason = tokio::select! {
            () = self.next() => None,
            reason = &mut store_failed => Some(reason),
        };
        let Some(reason) = reason else {
            tracing::info!("stopping; a second signal stops immediately");
            tokio::select! {
                () = shutdown => {}
                () = self.next() => return Err(StartError::Interrupted),
            }
            // The disk may fail while the store is closed.
            return tokio::select! {
                biased;
                reason = store_failed => Err(StartError::StoreFailed(reason)),
                () = ready(()) => Ok(()),
            };
        };
        tracing::error!(reason, "store failed, stopping for restart");
        tokio::select! {
            () = shutdown => {}
            () = self.next() => {}
            // Running work can no longer be stored.
            () = tokio::time::sleep(store_failure_grace) => {}
        }
        Err(StartError::StoreFailed(reason))
    }

    /// Waits for the next signal.
    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Waits for the next signal.
    #[cfg(not(unix))]
    async fn next(&mut self) {
        // Without a console there are no signals; the process is then ended immediately.
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
    async fn failed_store_stops_process_even_if_shutdown_hangs() {
        let mut signals = ShutdownSignals::listen().unwrap();
        let failed = || ready("fsync: input/output error".to_owned());
        for stopped in [
            signals.shut_down_on_signal(failed(), ready(())).await,
            signals
                .shut_down_with_grace(Duration::ZERO, failed(), pending())
                .await,
        ] {
            let Err(StartError::StoreFailed(reason)) = stopped else {
                panic!("{stopped:?}");
            };
            assert_eq!(reason, "fsync: input/output error");
        }
    }
}
