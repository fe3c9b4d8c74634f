//! What the measurements share: instructions counted, time taken, tables drawn,
//! servers started and asked, bars judged.
//!
//! A measurement is a program of its own under `benches/` that puts contenders side by side in one
//! run. Nothing here knows what is measured, and nothing of the product may depend on it.

pub mod bars;
pub mod callgrind;
pub mod clock;
pub mod connection;
pub mod server;
pub mod table;
pub mod tls;
