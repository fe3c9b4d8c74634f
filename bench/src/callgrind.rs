//! Exact instruction counts: the program runs itself again under valgrind's callgrind. Counts, unlike
//! times, do not depend on the load of the machine.

use std::process::Command;
use std::{env, fmt, io};

/// Reason why there is no count.
#[derive(Debug)]
pub enum CallgrindError {
    /// The program could not be run under valgrind.
    Run(io::Error),
    /// Valgrind or the program under it failed, with its output.
    Failed(String),
    /// Valgrind's report has no instruction count.
    NoCount,
}

impl fmt::Display for CallgrindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(_) => f.write_str("valgrind could not be started"),
            Self::Failed(output) => write!(f, "the run under valgrind failed: {output}"),
            Self::NoCount => f.write_str("valgrind reported no instruction count"),
        }
    }
}

impl std::error::Error for CallgrindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Run(error) => Some(error),
            Self::Failed(_) | Self::NoCount => None,
        }
    }
}

/// Returns true if valgrind is installed.
pub fn is_available() -> bool {
    Command::new("valgrind")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Instructions of one round of this program, run with `args` and a number of rounds.
///
/// The program runs twice, for `rounds` and for twice as many: the difference excludes the start of the
/// process and its setup.
///
/// # Errors
/// Valgrind is missing, or the program failed under it.
pub fn instructions_per_round(args: &[&str], rounds: u32) -> Result<u64, CallgrindError> {
    let once = instructions(args, rounds)?;
    let twice = instructions(args, rounds * 2)?;
    Ok(twice.saturating_sub(once) / u64::from(rounds.max(1)))
}

fn instructions(args: &[&str], rounds: u32) -> Result<u64, CallgrindError> {
    let program = env::current_exe().map_err(CallgrindError::Run)?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(args)
        .arg(rounds.to_string())
        .output()
        .map_err(CallgrindError::Run)?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(CallgrindError::Failed(report.into_owned()));
    }
    parse_count(&report).ok_or(CallgrindError::NoCount)
}

/// Reads the line `==1234== Collected : 56789`.
fn parse_count(report: &str) -> Option<u64> {
    report
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_count_is_parsed_from_report() {
        let report = "==7== Events    : Ir\n==7== Collected : 2085312\n==7== \n";
        assert_eq!(parse_count(report), Some(2_085_312));
        assert_eq!(parse_count("==7== Events    : Ir\n"), None);
    }
}
