//! Tokio runtimes: one thread for client commands, one per processor for servers.

use crate::exit::Failure;
use std::future::Future;
use std::pin::Pin;
use tokio::runtime::{Builder, Runtime};

/// Runs a client command.
///
/// # Errors
/// As the command, or the runtime cannot be created.
pub(crate) fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    interzone_edge::tls::install_provider();
    let built = Builder::new_current_thread().enable_all().build();
    let runtime = built.map_err(Failure::Runtime)?;
    let result = block_on(&runtime, work);
    // A thread that reads a line from the terminal must not delay the exit.
    runtime.shutdown_background();
    result
}

/// Runs a server.
///
/// # Errors
/// As the server, or the threads cannot be created.
pub(crate) fn serve<T>(
    threads: Option<usize>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    interzone_edge::tls::install_provider();
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    let built = builder.thread_name("interzone").enable_all().build();
    block_on(&built.map_err(Failure::Runtime)?, work)
}

fn block_on<T>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    // Boxed: the runtime polls in several places, each of which would contain a copy of the future.
    let work: Pin<Box<dyn Future<Output = Result<T, Failure>> + '_>> = Box::pin(work);
    runtime.block_on(work)
}
