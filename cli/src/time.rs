//! Durations on the command line, in the notation of the configuration.

use crate::config::parse_duration;
use std::str::FromStr;
use std::time::Duration;

/// A duration argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurationArg(pub(crate) Duration);

impl FromStr for DurationArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match parse_duration(text) {
            Some(time) if !time.is_zero() => Ok(Self(time)),
            _ => Err("write a duration such as 30s, 10m or 2h".to_owned()),
        }
    }
}
