//! The end-to-end tests: one binary, real parts.

mod hub;
