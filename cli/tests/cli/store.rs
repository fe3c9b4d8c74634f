//! The store of a zone that runs: a backup of it, and a disk that fails under it.

#![expect(
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use crate::journey::{Program, Zone};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
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
    let calls = ["-e", "inject=fsync,fdatasync:error=EIO"];
    inject(process, &["-e", "trace=fsync,fdatasync"], &calls)
}

/// Has every write of a process to this file fail from now on.
fn fail_writes(process: u32, file: &Path) -> Program {
    let calls = ["-e", "inject=pwrite64,write:error=EIO"];
    let file = file.to_str().unwrap();
    inject(process, &["-P", file, "-e", "trace=pwrite64,write"], &calls)
}

/// Has system calls of a process fail from now on.
fn inject(process: u32, which: &[&str], calls: &[&str]) -> Program {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null"]);
    strace.args(which).args(calls);
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
fn failed_write_to_the_log_ends_the_process_when_the_rest_of_the_disk_is_fine() {
    let zone = Zone::up();
    zone.json(&["ask", "echo kept"]);
    let log = zone.folder().join(".interzone/interzone.db-wal");
    let strace = fail_writes(zone.process(), &log);
    let run = zone.run(&["ask", "echo lost"]);
    assert_ne!(run.code, Some(0), "{run:?}");
    let (run, folder) = zone.wait_and_keep();
    drop(strace);
    assert_eq!(run.code, Some(6), "{run:?}");
    assert!(run.stderr.contains("the store failed"), "{run:?}");
    let zone = Zone::up_in(folder, |command| command.args(ANY));
    assert_eq!(tasks(&zone), 1);
    assert_eq!(zone.stop().code, Some(0));
}

/// Runs the program under a small file system of memory, in a mount namespace that ends with it. Nothing if the
/// machine does not allow that.
fn on_a_small_disk(folder: &Path, script: &str) -> Option<String> {
    let ways: [&[&str]; 2] = [
        &["--mount", "sh"],
        &["--user", "--map-root-user", "--mount", "sh"],
    ];
    let small = folder.join("small");
    fs::create_dir(&small).unwrap();
    let script = format!("mount -t tmpfs -o size=$SIZE none small || exit 77\n{script}");
    for way in ways {
        let ran = Command::new("unshare")
            .args(way)
            .args(["-c", &script])
            .current_dir(folder)
            .env("SIZE", "128k")
            .env("INTERZONE", env!("CARGO_BIN_EXE_interzone"))
            .output()
            .unwrap();
        if ran.status.code() != Some(77) && !ran.stdout.is_empty() {
            return Some(String::from_utf8(ran.stdout).unwrap());
        }
    }
    None
}

#[test]
fn backup_to_a_full_disk_names_the_file_and_leaves_nothing() {
    let zone = Zone::up();
    for _ in 0..4 {
        zone.json(&["ask", &format!("echo {}", "x".repeat(50_000))]);
    }
    let script = r#""$INTERZONE" backup --folder .interzone small/copy.db 2>&1; echo "code $?"; ls -A small"#;
    let Some(said) = on_a_small_disk(zone.folder(), script) else {
        return;
    };
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "error: the backup was not made: there is no room for small/copy.db: free some space there, or name a \
             file on another disk",
            "code 1"
        ]
    );
    // The zone has room, and goes on.
    zone.json(&["ask", "echo on"]);
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
