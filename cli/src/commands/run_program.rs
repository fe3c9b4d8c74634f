//! `interzone run-program`: hidden wrapper that the zone runs around the program of a `command` agent.

use crate::exit::{Exit, Failure};
use clap::Args;
use interzone_execution::agents::run_program;
use std::ffi::OsString;
use tokio::runtime::Builder;

/// Run a program and stop everything that it has started
#[derive(Debug, Args)]
pub(crate) struct RunProgram {
    /// Process id of the zone; the program stops when the zone does
    #[arg(long, value_name = "PID")]
    parent: u32,

    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl RunProgram {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::Runtime)?;
        let ended = runtime.block_on(run_program(self.parent, &self.command));
        ended.map(Exit::Program).map_err(Failure::Program)
    }
}
