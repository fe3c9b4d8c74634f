//! Version of this build, set by `build.rs`.

/// Version number, with commit and date if known: `0.1.0 (abc1234, 2026-11-16)`.
pub(crate) const VERSION: &str = env!("INTERZONE_VERSION");
/// Version number only.
pub(crate) const VERSION_NUMBER: &str = env!("CARGO_PKG_VERSION");
/// Commit, or `unknown`.
pub(crate) const COMMIT: &str = env!("INTERZONE_COMMIT");
