//! Times on the command line, as the configuration writes them.

use crate::config::time_of;
use std::str::FromStr;
use std::time::Duration;

/// How long something may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit(pub(crate) Duration);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match time_of(text) {
            Some(time) if !time.is_zero() => Ok(Self(time)),
            _ => Err("write a time such as 30s, 10m or 2h".to_owned()),
        }
    }
}
