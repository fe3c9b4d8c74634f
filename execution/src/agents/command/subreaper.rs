//! The process between a zone and a program, on Linux: it ends everything that the program started.
//!
//! A process that leaves its group (`setsid`) or whose parent ends is out of reach of signals to the
//! group. This process is the subreaper of all of them: whatever below it loses its parent becomes its
//! own child. It runs one program and nothing else, so every child that it has belongs to that program.
//! It kills direct children only, and only it reaps them, so a number that it signals cannot have been
//! given to another process meanwhile.

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

/// How often to look whether the zone still lives. The signal that Linux sends for it comes when the
/// thread ends that started us, which may be long before the process does.
const LOOK: Duration = Duration::from_millis(500);
/// How long the program may take to end by itself after the zone has died.
const GRACE: Duration = Duration::from_secs(3);
/// How long killed processes may take to be gone. One that runs as another user cannot be killed, and
/// one that waits for a broken disk does not end.
const KILLED: Duration = Duration::from_secs(5);
/// How long to wait for the next child if no signal tells of it.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs a program with our own standard input and output until it ends, we are interrupted, or the zone
/// with the process id `parent` has died; then ends everything that the program has started. SIGTERM is
/// left to the program, which is in our process group. Answers the program's exit code, 128 and the
/// number of the signal if one ended it, or 1 if it did not end by itself.
///
/// # Errors
/// The program cannot be started.
pub async fn run_program(parent: u32, command: &[OsString]) -> io::Result<u8> {
    let mut children = unix::signal(SignalKind::child())?;
    let mut interrupt = unix::signal(SignalKind::interrupt())?;
    // Listened to, so that it does not end us.
    let _terminate = unix::signal(SignalKind::terminate())?;
    set_child_subreaper(Some(getpid()))?;
    let program = start(command)?;
    release_stdio()?;
    let mut look = tokio::time::interval(LOOK);
    let mut orphan_until: Option<Instant> = None;
    let ended = loop {
        if let Reaped::Program(status) = reap(Some(program)) {
            break Some(status);
        }
        let now = Instant::now();
        tokio::select! {
            _ = children.recv() => {}
            _ = interrupt.recv() => break None,
            () = tokio::time::sleep_until(orphan_until.unwrap_or(now)), if orphan_until.is_some() => break None,
            _ = look.tick(), if orphan_until.is_none() => {
                if !is_parent(parent) {
                    // Fails only if there is no group, which we are in.
                    let _ = kill_current_process_group(Signal::TERM);
                    orphan_until = Some(now + GRACE);
                }
            }
        }
    };
    // However many are left after this time, nothing more can be done about them.
    let _ = tokio::time::timeout(KILLED, end_children(&mut children)).await;
    Ok(ended.map_or(1, exit_code))
}

/// It is waited for together with all other children.
fn start(command: &[OsString]) -> io::Result<Pid> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no program is named"))?;
    let child = Command::new(program).args(arguments).spawn()?;
    Ok(Pid::from_child(&child))
}

/// Lets go of the program's pipes: the zone sees the end of one only when no process has it open.
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

/// What waiting for children came to.
enum Reaped {
    /// The program has ended.
    Program(WaitStatus),
    /// There are children that run.
    Running,
    /// There are no children any more.
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

/// Kills all children, and theirs, which become ours when they lose their parents.
async fn end_children(children: &mut unix::Signal) {
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
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

fn direct_children() -> Vec<Pid> {
    let ours = getpid().as_raw_nonzero().get();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let child = |name: &str| {
        let number: i32 = name.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        (parent_of(&stat)? == ours).then(|| Pid::from_raw(number))?
    };
    entries
        .filter_map(|entry| child(entry.file_name().to_str()?))
        .collect()
}

/// The parent in `/proc/PID/stat`. The name before it is whatever the process calls itself, brackets and
/// spaces included, so the last bracket counts.
fn parent_of(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
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
    use super::parent_of;

    #[test]
    fn a_process_cannot_hide_its_parent_by_its_name() {
        assert_eq!(parent_of("12 (sleep) S 7 12 12 0 -1"), Some(7));
        assert_eq!(parent_of("12 (a) S 1 (b) S 7 12 12 0 -1"), Some(7));
        assert_eq!(parent_of("12 (a"), None);
        assert_eq!(parent_of(""), None);
    }
}
