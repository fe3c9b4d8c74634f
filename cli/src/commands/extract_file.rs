//! `interzone extract-file`: hidden command that the Execution Zone runs to read one untrusted file. See
//! docs/files.md for its limits.
//!
//! It applies its limits before it reads anything: no configuration, no log, no runtime.

use crate::exit::{Exit, Failure};
use clap::Args;
use interzone_execution::files::{ChildLimits, answer_request, confine};
use std::io;

/// Read one file from standard input, within limits
#[derive(Debug, Args)]
pub(crate) struct ExtractFile {
    /// Address space limit in bytes
    #[arg(long, value_name = "BYTES")]
    memory: u64,

    /// CPU time limit in seconds
    #[arg(long, value_name = "SECONDS")]
    cpu_seconds: u64,
}

impl ExtractFile {
    pub(crate) fn run(&self) -> Result<Exit, Failure> {
        let limits = ChildLimits {
            memory: self.memory,
            cpu_seconds: self.cpu_seconds,
        };
        let result =
            confine(&limits).and_then(|()| answer_request(io::stdin().lock(), io::stdout().lock()));
        result.map_err(Failure::ExtractFile)?;
        Ok(Exit::Done)
    }
}
