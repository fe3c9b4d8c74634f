//! Shared code of the benchmarks: instruction counts, timing, tables, servers, clients, thresholds.
//!
//! Each benchmark is a program under `benches/` that compares contenders in one run. No product crate may
//! depend on this one.

pub mod callgrind;
pub mod clock;
pub mod connection;
pub mod server;
pub mod table;
pub mod thresholds;
pub mod tls;
