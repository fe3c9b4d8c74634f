//! `interzone run-program`: all processes of a program end with it, or with the zone.

use super::{interzone, run_with_stdin};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Starts processes that leave the process group, are orphaned, or start others; all hold the pipe `alive` open.
const SCATTER: &str = "exec 3>alive
setsid sleep 600 &
(setsid sleep 601 &)
setsid sh -c 'trap \"\" TERM HUP; sleep 602 & (sleep 603 &) ; sleep 604' &
echo ready
";

/// A folder with the pipe, and a receiver that is notified when its last writer has exited.
struct ProcessTracker {
    folder: tempfile::TempDir,
    gone: mpsc::Receiver<()>,
}

impl ProcessTracker {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alive");
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let (notify, gone) = mpsc::channel();
        std::thread::spawn(move || {
            // Blocks until the first writer opens it.
            let mut alive = File::open(path).unwrap();
            alive.read_to_end(&mut Vec::new()).unwrap();
            let _ = notify.send(());
        });
        Self { folder, gone }
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    #[track_caller]
    fn assert_gone(&self) {
        let gone = self.gone.recv_timeout(Duration::from_secs(30));
        assert!(gone.is_ok(), "a process is still running");
    }
}

#[track_caller]
fn assert_ready(child: &mut Child) {
    let mut line = String::new();
    let mut printed = BufReader::new(child.stdout.as_mut().unwrap());
    printed.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
}

fn run_program(alive: &ProcessTracker, script: &str) -> Command {
    let parent = std::process::id().to_string();
    let mut command = interzone();
    command
        .current_dir(alive.folder())
        .args(["run-program", "--parent", &parent, "--", "sh", "-c"])
        .arg(format!("{SCATTER}{script}"));
    command
}

#[test]
fn processes_in_other_sessions_are_stopped() {
    let alive = ProcessTracker::new();
    let run = run_with_stdin(&mut run_program(&alive, "exit 7"), io::empty());
    assert_eq!((run.code, run.stdout.as_str()), (Some(7), "ready\n"));
    alive.assert_gone();
}

#[test]
fn interrupt_stops_all_processes() {
    let alive = ProcessTracker::new();
    let mut command = run_program(&alive, "trap '' TERM INT; sleep 605; sleep 606");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    assert_ready(&mut child);
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    alive.assert_gone();
}

#[test]
fn killed_zone_stops_all_processes() {
    let alive = ProcessTracker::new();
    // A shell instead of the zone. The program ignores SIGTERM.
    let zone = "\"$0\" run-program --parent $$ -- sh -c \"$1\" & wait";
    let program = format!("{SCATTER}trap '' TERM; sleep 605; sleep 606");
    let mut child = Command::new("sh")
        .current_dir(alive.folder())
        .args(["-c", zone, env!("CARGO_BIN_EXE_interzone"), &program])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    assert_ready(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    alive.assert_gone();
}

#[test]
fn fatal_signal_sets_exit_code() {
    let alive = ProcessTracker::new();
    let run = run_with_stdin(&mut run_program(&alive, "kill -KILL $$"), io::empty());
    assert_eq!(run.code, Some(128 + 9));
    alive.assert_gone();
}

#[test]
fn missing_program_is_an_error() {
    let mut command = interzone();
    let command = command.args(["run-program", "--parent", "1", "--", "/no/such/program"]);
    let run = run_with_stdin(command, io::empty());
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("the program cannot be started"),
        "{}",
        run.stderr
    );
}
