//! The runtimes: one thread for a command, as many as there are processors for a server.

use crate::exit::Failure;
use std::future::Future;
use tokio::runtime::{Builder, Runtime};

/// Does what a client command does.
///
/// # Errors
/// As the command, or there is no runtime.
pub(crate) fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    interzone_edge::tls::install_provider();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::Runtime)?;
    let done = runtime.block_on(work);
    // A thread that waits for a line from the terminal must not hold up the end.
    runtime.shutdown_background();
    done
}

/// The runtime of a server.
///
/// # Errors
/// The system does not give the threads.
pub(crate) fn serving(threads: Option<usize>) -> Result<Runtime, Failure> {
    interzone_edge::tls::install_provider();
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    let built = builder.thread_name("interzone").enable_all().build();
    built.map_err(Failure::Runtime)
}
