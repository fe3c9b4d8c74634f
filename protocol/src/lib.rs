//! What is said.
//!
//! This crate holds the words of Interzone and nothing that acts on them: [`vocab`] has the
//! validated words that every dialect shares, and each dialect has a module of its own with its
//! wire types and its error codes. No I/O, no async, no state and no decision about who may do
//! what may enter here.

pub mod vocab;
