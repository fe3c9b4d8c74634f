//! The store of a zone that runs: a backup of it, and a disk that fails under it.

#![expect(
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use crate::journey::{Program, Zone};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const ANY: [&str; 2] = ["--listen", "127.0.0.1:0"];

fn tasks(zone: &Zone) -> usize {
    let list = zone.json(&["task", "list"]);
    list["tasks"].as_array().unwrap().len()
}

#[test]
fn backup_of_a_running_zone_can_be_put_in_its_place() {
    let zone = Zone::up();
    zone.json(&["ask", "echo kept"]);
    let made = zone.json(&["backup", "copy.db"]);
    assert_eq!(made["file"], "copy.db");
    assert_eq!(made["rows"]["tasks"], 1, "{made}");
    zone.json(&["ask", "echo later"]);
    assert_eq!(tasks(&zone), 2);
    // Never in the place of another file.
    let run = zone.run(&["backup", "copy.db"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("there already"), "{run:?}");
    let (run, folder) = zone.stop_and_keep();
    assert_eq!(run.code, Some(0), "{run:?}");
    let store = folder.path().join(".interzone/interzone.db");
    for end in ["-wal", "-shm"] {
        drop(fs::remove_file(
            store.with_file_name(format!("interzone.db{end}")),
        ));
    }
    fs::copy(folder.path().join("copy.db"), &store).unwrap();
    let zone = Zone::up_in(folder, |command| command.args(ANY));
    assert_eq!(tasks(&zone), 1);
    assert_eq!(zone.stop().code, Some(0));
}

/// Has every sync of a process fail from now on.
fn fail_syncs(process: u32) -> Program {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]);
    strace.args(["-e", "inject=fsync,fdatasync:error=EIO"]);
    strace.args(["-p", &process.to_string()]);
    let strace = strace.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    assert!(strace.is_ok(), "strace is missing: ./test.sh installs it");
    let mut strace = Program(strace.unwrap());
    let mut lines = BufReader::new(strace.0.stderr.take().unwrap());
    let mut output = String::new();
    while !output.contains("attached") {
        let read = lines.read_line(&mut output).unwrap();
        assert_ne!(read, 0, "strace cannot attach to a process: {output}");
    }
    // Later output must not fill the pipe and block it.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    strace
}

#[test]
fn failed_sync_ends_the_process_with_its_own_exit_code() {
    let zone = Zone::up();
    zone.json(&["ask", "echo kept"]);
    let strace = fail_syncs(zone.process());
    let run = zone.run(&["ask", "echo lost"]);
    assert_ne!(run.code, Some(0), "{run:?}");
    assert!(
        run.stderr.contains("unavailable") || run.code == Some(3),
        "{run:?}"
    );
    let (run, folder) = zone.wait_and_keep();
    drop(strace);
    assert_eq!(run.code, Some(6), "{run:?}");
    assert!(run.stderr.contains("the store failed"), "{run:?}");
    // Whatever starts it again finds all that was acknowledged.
    let zone = Zone::up_in(folder, |command| command.args(ANY));
    assert!(tasks(&zone) >= 1);
    zone.json(&["ask", "echo again"]);
    assert_eq!(zone.stop().code, Some(0));
}

#[test]
fn stop_ends_with_the_exit_code_of_a_failed_store_when_the_last_sync_fails() {
    let zone = Zone::up();
    zone.json(&["ask", "echo kept"]);
    let strace = fail_syncs(zone.process());
    let (run, folder) = zone.stop_and_keep();
    drop(strace);
    assert_eq!(run.code, Some(6), "{run:?}");
    let zone = Zone::up_in(folder, |command| command.args(ANY));
    assert_eq!(tasks(&zone), 1);
    assert_eq!(zone.stop().code, Some(0));
}
