//! Which build this is. `build.rs` finds out.

/// The number, and the commit with its day where they are known: `0.1.0 (abc1234, 2026-11-16)`.
pub(crate) const VERSION: &str = env!("INTERZONE_VERSION");
/// The number alone.
pub(crate) const NUMBER: &str = env!("CARGO_PKG_VERSION");
/// The commit, or `unknown`.
pub(crate) const COMMIT: &str = env!("INTERZONE_COMMIT");
