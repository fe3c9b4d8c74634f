//! What is said.
//!
//! This crate holds the words of Interzone and nothing that acts on them: [`vocab`] has the
//! validated words that every dialect shares, and [`Dialect`] tells whose method a name is and how
//! strict its envelope is. Each dialect's wire types and error codes get a module of their own here.
//! No I/O, no async, no state and no decision about who may do what may enter.

pub mod acp;
mod dialect;
pub mod vocab;
pub mod zone;

pub use dialect::{CAUCE_DOOR, Dialect, JsonRpcDoor};
