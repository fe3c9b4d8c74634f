//! SQLite VFS shim that batches the WAL writes of one commit into a single write.
//!
//! SQLite writes each page of a commit with two calls, frame header and page, and syncs after the last. A group
//! commit of ten tasks is forty calls, which cost nearly as much as the sync. This VFS buffers the writes and makes one
//! call before the sync. The content of the WAL and the sync points are unchanged.
//!
//! This is the only crate with `unsafe`, which the VFS interface requires
//! (docs/adr/0009-a-commit-is-one-write.md).
//!
//! # Safety condition
//! No reader may need buffered bytes, and no byte of an aborted transaction may be written. Writes are therefore
//! buffered only inside a [batch](begin_batch), on the committing thread, until its first sync:
//! - SQLite holds the WAL write lock during the batch, and updates the WAL index, in which readers find pages, only
//!   after a sync. A connection that uses this VFS must sync every commit (`synchronous = FULL`).
//! - Writes before the commit (page cache spills) or after a sync are not buffered, nor are those of connections that
//!   commit without a batch.
//! - Bytes still buffered at the end of a batch belong to a failed commit. They are dropped: SQLite has rolled back and
//!   released the lock, so another writer may have written at their offset.

mod shim;
mod write_buffer;

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;

thread_local! {
    /// True while this thread buffers WAL writes.
    static BATCHING: Cell<bool> = const { Cell::new(false) };

    /// Error of this thread's last write to a WAL file, if it failed.
    static WRITE_ERROR: Cell<Option<io::ErrorKind>> = const { Cell::new(None) };
}

/// Registers the VFS and returns its name. Connections opened with it buffer their WAL writes in a
/// [batch](begin_batch).
///
/// # Errors
/// SQLite has no default VFS, or rejects the registration.
pub fn register_vfs() -> Result<&'static str, RegisterError> {
    shim::register_once()
}

/// The VFS could not be registered.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("SQLite rejected the VFS registration (code {0})")]
pub struct RegisterError(pub(crate) i32);

/// Takes the OS error kind of this thread's last failed WAL write; `None` if it succeeded. SQLite itself
/// distinguishes only a full disk from other errors.
pub fn take_write_error() -> Option<io::ErrorKind> {
    WRITE_ERROR.try_with(Cell::take).ok().flatten()
}

fn record_write(error: Option<io::ErrorKind>) {
    let _ = WRITE_ERROR.try_with(|last_error| last_error.set(error));
}

/// Starts buffering WAL writes on this thread, until the returned guard is dropped. Only the statement `COMMIT` may be
/// executed in between.
#[must_use]
pub fn begin_batch() -> BatchGuard {
    BATCHING.set(true);
    BatchGuard {
        _on_this_thread: PhantomData,
    }
}

/// Guard of a batch of buffered writes.
#[derive(Debug)]
pub struct BatchGuard {
    _on_this_thread: PhantomData<*const ()>,
}

impl Drop for BatchGuard {
    fn drop(&mut self) {
        stop_batching();
    }
}

fn is_batching() -> bool {
    // Thread-local storage is gone during thread exit; no commit is running then.
    BATCHING.try_with(Cell::get).unwrap_or(false)
}

fn stop_batching() {
    let _ = BATCHING.try_with(|batching| batching.set(false));
}
