//! Slack's own SDKs against the playground, as an independent check of its fidelity: the SDKs accept only what
//! Slack would have sent. Of the product only the playground may be named here.

mod javascript;
mod python;

use std::time::Duration;

/// Timeout of any single wait in these tests.
const WAIT_TIMEOUT: Duration = Duration::from_secs(40);
