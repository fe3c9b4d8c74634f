//! How SQLite's write-ahead log reaches its file: a commit in one write.
//!
//! SQLite writes each page of a commit by two calls, its frame's head and its body, and syncs after the last. A
//! group of ten tasks is forty calls, which cost nearly as much as the sync. Here they are gathered and go out as
//! one, before the sync. What a log holds, and when it is synced, is SQLite's business and stays as it is.
//!
//! This is the only room with `unsafe`: SQLite is told by pointers where to write
//! (docs/adr/0009-a-commit-is-one-write.md). Nothing but that may enter it.
//!
//! # When it is right
//! Nobody may look for bytes in the file that are kept back here, and none may reach it that belong to no commit. So
//! they are kept back in a [commit] alone, by the thread that makes it, and until its first sync:
//! - SQLite holds the lock of the log's only writer all the while, and changes the index, through which others learn of
//!   pages, after a sync. A connection that uses this must sync every commit (`synchronous = FULL`).
//! - What is written before the commit, because it does not fit into the page cache, or after a sync, goes out as it
//!   comes, as do the writes of everybody who commits without saying so here.
//! - What is kept back when a commit is over is of one that failed. It is dropped: SQLite has taken it back and let go of
//!   the lock, so its place may be another's by now.

mod pending;
mod shim;

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;

thread_local! {
    /// Whether this thread makes a commit whose writes are gathered.
    static GATHERING: Cell<bool> = const { Cell::new(false) };

    /// Why the last write of this thread to a log failed, if it did.
    static WRITE_ERROR: Cell<Option<io::ErrorKind>> = const { Cell::new(None) };
}

/// The name under which connections are opened that gather the writes to their log, in a [commit].
///
/// # Errors
/// The engine has no file system of its own, or takes no other one.
pub fn gathered() -> Result<&'static str, Unavailable> {
    shim::registered()
}

/// Why writes cannot be gathered.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the engine takes no file system beside its own (its code: {0})")]
pub struct Unavailable(pub(crate) i32);

/// Why the last write of this thread to a log failed, as the system said it; nothing if it succeeded. The engine tells a
/// lack of room alone from other reasons.
pub fn take_write_error() -> Option<io::ErrorKind> {
    WRITE_ERROR.try_with(Cell::take).ok().flatten()
}

fn note_write(error: Option<io::ErrorKind>) {
    let _ = WRITE_ERROR.try_with(|noted| noted.set(error));
}

/// Says that this thread commits a transaction, from now until what it is given is dropped. Nothing but the one
/// statement `COMMIT` belongs in between.
#[must_use]
pub fn commit() -> Commit {
    GATHERING.set(true);
    Commit {
        _on_this_thread: PhantomData,
    }
}

/// A commit that is being made.
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
    // A thread that is at its end makes no commit.
    GATHERING.try_with(Cell::get).unwrap_or(false)
}

fn stop_gathering() {
    let _ = GATHERING.try_with(|gathering| gathering.set(false));
}
