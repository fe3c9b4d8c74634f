//! Instructions, counted exactly: the program runs itself again under valgrind's callgrind.
//!
//! A count is the same on a busy machine as on an idle one, which a time is not.

use std::process::Command;
use std::{env, fmt, io};

/// Why there is no count.
#[derive(Debug)]
pub enum Error {
    /// The program could not be run under valgrind.
    Run(io::Error),
    /// Valgrind or the program under it failed; this is what it said.
    Failed(String),
    /// Valgrind's report has no count where one was looked for.
    NoCount,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(_) => f.write_str("valgrind could not be started"),
            Self::Failed(said) => write!(f, "the run under valgrind failed: {said}"),
            Self::NoCount => f.write_str("valgrind reported no instruction count"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Run(error) => Some(error),
            Self::Failed(_) | Self::NoCount => None,
        }
    }
}

/// Whether valgrind is installed.
pub fn is_available() -> bool {
    Command::new("valgrind")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// The instructions of one round of what this program does when it is given `args` and a number of
/// rounds.
///
/// The program runs twice, for `rounds` and for twice as many: the difference holds the rounds
/// alone, without the start of the process and what it prepares.
///
/// # Errors
/// Valgrind is missing, or the program failed under it.
pub fn instructions_per_round(args: &[&str], rounds: u32) -> Result<u64, Error> {
    let once = instructions(args, rounds)?;
    let twice = instructions(args, rounds * 2)?;
    Ok(twice.saturating_sub(once) / u64::from(rounds.max(1)))
}

fn instructions(args: &[&str], rounds: u32) -> Result<u64, Error> {
    let program = env::current_exe().map_err(Error::Run)?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(args)
        .arg(rounds.to_string())
        .output()
        .map_err(Error::Run)?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(Error::Failed(report.into_owned()));
    }
    collected(&report).ok_or(Error::NoCount)
}

/// Reads the line `==1234== Collected : 56789`.
fn collected(report: &str) -> Option<u64> {
    report
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_the_report() {
        let report = "==7== Events    : Ir\n==7== Collected : 2085312\n==7== \n";
        assert_eq!(collected(report), Some(2_085_312));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }
}
