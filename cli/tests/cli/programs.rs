//! `interzone run-program`: nothing that a program starts outlives it, or the zone.

use super::{finish, interzone};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Starts processes that leave the group, whose parents end, and that start others: all of them hold the
/// pipe `alive` open.
const SCATTER: &str = "exec 3>alive
setsid sleep 600 &
(setsid sleep 601 &)
setsid sh -c 'trap \"\" TERM HUP; sleep 602 & (sleep 603 &) ; sleep 604' &
echo ready
";

/// A folder with the pipe, and what tells when its last writer is gone.
struct Alive {
    folder: tempfile::TempDir,
    gone: mpsc::Receiver<()>,
}

impl Alive {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alive");
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let (tell, gone) = mpsc::channel();
        std::thread::spawn(move || {
            // Opening it waits for the first writer.
            let mut alive = File::open(path).unwrap();
            alive.read_to_end(&mut Vec::new()).unwrap();
            let _ = tell.send(());
        });
        Self { folder, gone }
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    #[track_caller]
    fn assert_gone(&self) {
        let gone = self.gone.recv_timeout(Duration::from_secs(30));
        assert!(gone.is_ok(), "a process lives on");
    }
}

#[track_caller]
fn assert_ready(child: &mut Child) {
    let mut line = String::new();
    let mut printed = BufReader::new(child.stdout.as_mut().unwrap());
    printed.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
}

fn run_program(alive: &Alive, script: &str) -> Command {
    let parent = std::process::id().to_string();
    let mut command = interzone();
    command
        .current_dir(alive.folder())
        .args(["run-program", "--parent", &parent, "--", "sh", "-c"])
        .arg(format!("{SCATTER}{script}"));
    command
}

#[test]
fn processes_in_other_sessions_end_with_their_program() {
    let alive = Alive::new();
    let run = finish(&mut run_program(&alive, "exit 7"), io::empty());
    assert_eq!((run.code, run.stdout.as_str()), (Some(7), "ready\n"));
    alive.assert_gone();
}

#[test]
fn everything_ends_at_once_when_it_is_interrupted() {
    let alive = Alive::new();
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
fn everything_ends_when_the_zone_is_killed() {
    let alive = Alive::new();
    // A shell in place of the zone. The program does not heed that it is asked to end.
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
fn a_signal_that_ends_the_program_shows_in_the_exit_code() {
    let alive = Alive::new();
    let run = finish(&mut run_program(&alive, "kill -KILL $$"), io::empty());
    assert_eq!(run.code, Some(128 + 9));
    alive.assert_gone();
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let mut command = interzone();
    let command = command.args(["run-program", "--parent", "1", "--", "/no/such/program"]);
    let run = finish(command, io::empty());
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("the program cannot be started"),
        "{}",
        run.stderr
    );
}
