//! Slack's own SDKs against the playground, so that it is not its own only judge: what they accept, Slack
//! would have said. Of the product only the playground may be named here.

mod javascript;
mod python;

use std::time::Duration;

/// How long anything may take before the test says that it never comes.
const PATIENCE: Duration = Duration::from_secs(40);
