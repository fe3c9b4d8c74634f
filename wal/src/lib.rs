//! How SQLite's write-ahead log reaches its file: a commit in one write.
//!
//! SQLite writes each page of a commit by two calls, its frame's head and its body, and syncs after the last. A
//! group of ten tasks is forty calls, which take longer than the sync's own work. Here they are gathered and go out as
//! one, before the sync. What a log holds, and when it is synced, is SQLite's business and stays as it is.
//!
//! This is the only room with `unsafe`: SQLite is told by pointers where to write
//! (docs/adr/0009-a-commit-is-one-write.md). Nothing but that may enter it.
//!
//! # When it is right
//! Nobody may look for bytes in the file that are kept back here. The connection whose log it is asks this file, which
//! writes what is pending before it answers. All other connections learn of a commit through the log's index, which
//! SQLite changes after the sync. So a connection that uses this must sync every commit (`synchronous = FULL`): one
//! that does not would tell others of pages that are not there yet.

mod pending;
mod shim;

/// The name under which connections are opened that gather the writes to their log.
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
