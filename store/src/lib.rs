//! Where it is kept.
//!
//! Two engines fill the hub's ports: [`sqlite`] in one file on one machine, and [`postgres`] for any
//! number of nodes. Both promise the same, and one contract suite holds both to it. This is the only
//! room with SQL. No rule about what may happen enters here: a store writes what the hub decided, or
//! says why it could not.

mod backup;
mod codec;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod statements;

pub use backup::{Backup, BackupError};
