//! The runtimes: one thread for a command, as many as there are processors for a server.

use crate::exit::Failure;
use std::future::Future;
use std::pin::Pin;
use tokio::runtime::{Builder, Runtime};

/// Does what a client command does.
///
/// # Errors
/// As the command, or there is no runtime.
pub(crate) fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    interzone_edge::tls::install_provider();
    let built = Builder::new_current_thread().enable_all().build();
    let runtime = built.map_err(Failure::Runtime)?;
    let done = finish(&runtime, work);
    // A thread that waits for a line from the terminal must not hold up the end.
    runtime.shutdown_background();
    done
}

/// Does what a server does.
///
/// # Errors
/// As the server, or the system does not give the threads.
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
    finish(&built.map_err(Failure::Runtime)?, work)
}

fn finish<T>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    // The runtime polls in several places, and would have a copy of the whole command in each.
    let work: Pin<Box<dyn Future<Output = Result<T, Failure>> + '_>> = Box::pin(work);
    runtime.block_on(work)
}
