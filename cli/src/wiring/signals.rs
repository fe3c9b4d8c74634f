//! When to stop: SIGINT and SIGTERM.

use super::StartError;
use std::future::Future;
use std::io;

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

    /// Waits for a signal, then lets `wind_up` stop everything in order; a second signal stops at once.
    ///
    /// # Errors
    /// It was stopped at once.
    pub(crate) async fn then(
        &mut self,
        wind_up: impl Future<Output = ()>,
    ) -> Result<(), StartError> {
        self.next().await;
        tracing::info!("stopping; a second signal stops at once");
        tokio::select! {
            () = wind_up => Ok(()),
            () = self.next() => Err(StartError::Cut),
        }
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
