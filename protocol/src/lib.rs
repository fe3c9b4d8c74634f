//! Wire types of every protocol that Interzone speaks.
//!
//! [`vocab`] holds the validated types that all dialects share; [`Dialect`] maps a method name to its
//! dialect and to how strictly its envelope is checked. Each dialect has its own module with its wire
//! types and error codes. The crate has no I/O, no async, no state and no authorization.

pub mod a2a;
pub mod acp;
mod dialect;
mod scope;
pub mod vocab;
pub mod zone;

pub use dialect::{CAUCE_TRANSPORT_POLICY, Dialect, SharedEndpointPolicy};
pub use scope::Scope;
