//! Supervisor process between a zone and a program (Linux): ends every process that the program started.
//!
//! Signals to a process group do not reach a process that leaves the group (`setsid`) or whose parent ends. This
//! process is the subreaper of all of them: a descendant that loses its parent becomes its child. It runs a single
//! program, so all its children belong to that program. It signals direct children only, and only it reaps them, so
//! a PID that it signals cannot have been reused.

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_current_process_group,
    kill_process, set_child_subreaper, wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::process::Command;
use std::time::Duration;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::Instant;

/// Interval of the check that the zone is running. The parent-death signal of Linux is sent when the *thread* that
/// started us ends, which may be long before the process does.
const PARENT_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time that the program has to exit by itself after the zone has ended.
const ORPHAN_GRACE: Duration = Duration::from_secs(3);
/// Time that killed processes have to disappear. A process of another user cannot be killed, and one blocked on a
/// broken disk does not end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Time until children are checked again if no signal arrives.
const CHILD_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs a program with our own standard input and output until it ends, we are interrupted, or the zone with the
/// process id `parent` has ended; then ends everything that the program has started. The program handles SIGTERM
/// itself, because it is in our process group. Returns the program's exit code, 128 plus the signal number if a signal
/// ended it, or 1 if it did not end by itself.
///
/// # Errors
/// The program cannot be started.
pub async fn run_program(parent: u32, command: &[OsString]) -> io::Result<u8> {
    let mut children = unix::signal(SignalKind::child())?;
    let mut interrupt = unix::signal(SignalKind::interrupt())?;
    // A handler is registered so that SIGTERM does not end this process.
    let _terminate = unix::signal(SignalKind::terminate())?;
    set_child_subreaper(Some(getpid()))?;
    let program = start(command)?;
    release_stdio()?;
    let mut parent_poll = tokio::time::interval(PARENT_POLL_INTERVAL);
    let mut orphan_until: Option<Instant> = None;
    let exit_status = loop {
        if let Reaped::Program(status) = reap(Some(program)) {
            break Some(status);
        }
        let now = Instant::now();
        tokio::select! {
            _ = children.recv() => {}
            _ = interrupt.recv() => break None,
            () = tokio::time::sleep_until(orphan_until.unwrap_or(now)), if orphan_until.is_some() => break None,
            _ = parent_poll.tick(), if orphan_until.is_none() => {
                if !is_parent(parent) {
                    // Fails only if there is no group, which we are in.
                    let _ = kill_current_process_group(Signal::TERM);
                    orphan_until = Some(now + ORPHAN_GRACE);
                }
            }
        }
    };
    // Nothing more can be done about processes that are left after this time.
    let _ = tokio::time::timeout(KILL_TIMEOUT, kill_children(&mut children)).await;
    Ok(exit_status.map_or(1, exit_code))
}

/// Starts the program. It is waited for together with all other children.
fn start(command: &[OsString]) -> io::Result<Pid> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no program is named"))?;
    let child = Command::new(program).args(arguments).spawn()?;
    Ok(Pid::from_child(&child))
}

/// Releases the program's pipes: the zone sees end-of-file only when no process has them open.
fn release_stdio() -> io::Result<()> {
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}

fn is_parent(parent: u32) -> bool {
    let now = getppid().map(|pid| pid.as_raw_nonzero().get());
    i32::try_from(parent).is_ok_and(|parent| now == Some(parent))
}

/// Result of reaping children.
enum Reaped {
    /// The program has ended.
    Program(WaitStatus),
    /// Some children are running.
    Running,
    /// No children are left.
    All,
}

/// Reaps every child that has ended, up to and including the program.
fn reap(program: Option<Pid>) -> Reaped {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if Some(pid) == program => return Reaped::Program(status),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Reaped::Running,
            Err(_) => return Reaped::All,
        }
    }
}

/// Kills all children and their descendants, which become our children when they lose their parents.
async fn kill_children(children: &mut unix::Signal) {
    loop {
        for child in direct_children() {
            // An error means that it has ended, or that it is not ours to kill.
            let _ = kill_process(child, Signal::KILL);
        }
        if matches!(reap(None), Reaped::All) {
            return;
        }
        tokio::select! {
            _ = children.recv() => {}
            () = tokio::time::sleep(CHILD_POLL_INTERVAL) => {}
        }
    }
}

fn direct_children() -> Vec<Pid> {
    let ours = getpid().as_raw_nonzero().get();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let child = |name: &str| {
        let number: i32 = name.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        (parse_parent_pid(&stat)? == ours).then(|| Pid::from_raw(number))?
    };
    entries
        .filter_map(|entry| child(entry.file_name().to_str()?))
        .collect()
}

/// Parses the parent PID from `/proc/PID/stat`. The process name before it may contain brackets and spaces, so the
/// last bracket counts.
fn parse_parent_pid(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn exit_code(status: WaitStatus) -> u8 {
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128_i32.saturating_add(signal),
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::parse_parent_pid;

    #[test]
    fn brackets_in_process_name_do_not_hide_its_parent() {
        assert_eq!(parse_parent_pid("12 (sleep) S 7 12 12 0 -1"), Some(7));
        assert_eq!(parse_parent_pid("12 (a) S 1 (b) S 7 12 12 0 -1"), Some(7));
        assert_eq!(parse_parent_pid("12 (a"), None);
        assert_eq!(parse_parent_pid(""), None);
    }
}
