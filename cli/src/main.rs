//! The `interzone` binary.
fn main() {}
