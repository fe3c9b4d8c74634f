//! `interzone extract-file`: reads one file of an untrusted sender. The Execution Zone starts it; people do
//! not. docs/files.md tells what it may do.
//!
//! Nothing but its limits comes before it reads: no configuration, no log, no runtime.

use crate::exit::{Exit, Failure};
use clap::Args;
use interzone_execution::files::{ChildLimits, answer_request, confine};
use std::io;

/// Read one file from the standard input, within limits
#[derive(Debug, Args)]
pub(crate) struct ExtractFile {
    /// Bytes of address space
    #[arg(long, value_name = "BYTES")]
    memory: u64,

    /// Seconds of processor time
    #[arg(long, value_name = "SECONDS")]
    cpu_seconds: u64,
}

impl ExtractFile {
    pub(crate) fn run(&self) -> Result<Exit, Failure> {
        let limits = ChildLimits {
            memory: self.memory,
            cpu_seconds: self.cpu_seconds,
        };
        let answered =
            confine(&limits).and_then(|()| answer_request(io::stdin().lock(), io::stdout().lock()));
        answered.map_err(Failure::ExtractFile)?;
        Ok(Exit::Done)
    }
}
