//! Storage engines: SQLite and PostgreSQL implementations of the hub's store ports.
//!
//! [`sqlite`] keeps everything in one file on one machine; [`postgres`] serves any number of nodes.
//! Both give the same guarantees, and one contract test suite checks both. This is the only crate
//! with SQL. It has no business rules: a store writes what the hub decided, or returns why it could
//! not.

mod backup;
mod codec;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod statements;

pub use backup::{BackupError, BackupSummary};
