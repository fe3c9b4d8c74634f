//! The `acp` dialect: what its methods do with the hub, and how its objects are made of the hub's.

pub(crate) mod convert;
pub(crate) mod handlers;
mod members;
