//! SQLite VFS shim that batches the WAL writes of one commit into a single write.
//!
//! SQLite writes each page of a commit with two calls, frame header and page, and syncs after the last. A group
//! commit of ten tasks is forty calls, which cost nearly as much as the sync. Here they are buffered and written at
//! once before the sync. The content of the WAL and the sync points are unchanged.
//!
//! This is the only crate with `unsafe`, which the VFS interface requires
//! (docs/adr/0009-a-commit-is-one-write.md). It contains nothing else.
//!
//! # Safety condition
//! No reader may need buffered bytes, and no byte of an aborted transaction may be written. Writes are therefore
//! buffered only inside a [commit], on the committing thread, until its first sync:
//! - SQLite holds the WAL write lock all the while, and changes the WAL index, through which readers learn of pages,
//!   only after a sync. A connection that uses this must sync every commit (`synchronous = FULL`).
//! - Writes before the commit (page cache spills) or after a sync go out directly, as do those of connections that
//!   commit without [commit].
//! - Bytes still buffered at the end of a commit belong to a failed one. They are dropped: SQLite has rolled back and
//!   released the lock, so another writer may have used their place in the file.

mod pending;
mod shim;

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;

thread_local! {
    /// True while this thread commits with buffered writes.
    static GATHERING: Cell<bool> = const { Cell::new(false) };

    /// Error of this thread's last write to a WAL file, if it failed.
    static WRITE_ERROR: Cell<Option<io::ErrorKind>> = const { Cell::new(None) };
}

/// Registers the VFS and returns its name. Connections opened with it buffer their WAL writes in a [commit].
///
/// # Errors
/// SQLite has no default VFS, or rejects the registration.
pub fn gathered() -> Result<&'static str, Unavailable> {
    shim::registered()
}

/// The VFS could not be registered.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("SQLite rejected the VFS registration (code {0})")]
pub struct Unavailable(pub(crate) i32);

/// Takes the OS error kind of this thread's last failed WAL write; `None` if it succeeded. SQLite itself
/// distinguishes only a full disk from other errors.
pub fn take_write_error() -> Option<io::ErrorKind> {
    WRITE_ERROR.try_with(Cell::take).ok().flatten()
}

fn note_write(error: Option<io::ErrorKind>) {
    let _ = WRITE_ERROR.try_with(|noted| noted.set(error));
}

/// Starts buffering WAL writes on this thread, until the returned guard is dropped. Only the statement `COMMIT` may be
/// executed in between.
#[must_use]
pub fn commit() -> Commit {
    GATHERING.set(true);
    Commit {
        _on_this_thread: PhantomData,
    }
}

/// Guard of a commit with buffered writes.
#[derive(Debug)]
pub struct Commit {
    _on_this_thread: PhantomData<*const ()>,
}

impl Drop for Commit {
    fn drop(&mut self) {
        stop_gathering();
    }
}

fn is_gathering() -> bool {
    // Thread-local storage is gone during thread exit; no commit is running then.
    GATHERING.try_with(Cell::get).unwrap_or(false)
}

fn stop_gathering() {
    let _ = GATHERING.try_with(|gathering| gathering.set(false));
}
