//! The `acp` dialect: handlers, and conversion between its objects and the hub's.

pub(crate) mod convert;
pub(crate) mod handlers;
mod json_object;
