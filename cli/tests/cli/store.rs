//! The store of a running zone: backups and disk failures.

#![expect(
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use crate::journey::{Program, UpZone};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const ANY_PORT: [&str; 2] = ["--listen", "127.0.0.1:0"];

fn count_tasks(zone: &UpZone) -> usize {
    let list = zone.json(&["task", "list"]);
    list["tasks"].as_array().unwrap().len()
}

#[test]
fn backup_of_running_zone_can_be_restored() {
    let zone = UpZone::up();
    zone.json(&["ask", "echo kept"]);
    let backup = zone.json(&["backup", "copy.db"]);
    assert_eq!(backup["file"], "copy.db");
    assert_eq!(backup["rows"]["tasks"], 1, "{backup}");
    zone.json(&["ask", "echo later"]);
    assert_eq!(count_tasks(&zone), 2);
    // An existing file is not overwritten.
    let run = zone.run(&["backup", "copy.db"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("already exists"), "{run:?}");
    let (run, folder) = zone.stop_and_keep();
    assert_eq!(run.code, Some(0), "{run:?}");
    let store = folder.path().join(".interzone/interzone.db");
    for suffix in ["-wal", "-shm"] {
        drop(fs::remove_file(
            store.with_file_name(format!("interzone.db{suffix}")),
        ));
    }
    fs::copy(folder.path().join("copy.db"), &store).unwrap();
    let zone = UpZone::up_in(folder, |command| command.args(ANY_PORT));
    assert_eq!(count_tasks(&zone), 1);
    assert_eq!(zone.stop().code, Some(0));
}

/// Makes every sync of a process fail from now on.
fn fail_syncs(process: u32) -> Program {
    let calls = ["-e", "inject=fsync,fdatasync:error=EIO"];
    inject(process, &["-e", "trace=fsync,fdatasync"], &calls)
}

/// Makes every write of a process to this file fail from now on.
fn fail_writes(process: u32, file: &Path) -> Program {
    let calls = ["-e", "inject=pwrite64,write:error=EIO"];
    let file = file.to_str().unwrap();
    inject(process, &["-P", file, "-e", "trace=pwrite64,write"], &calls)
}

/// Makes system calls of a process fail from now on.
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
fn failed_sync_exits_with_store_failure_code() {
    let zone = UpZone::up();
    zone.json(&["ask", "echo kept"]);
    let strace = fail_syncs(zone.process_id());
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
    // After a restart, all acknowledged data is there.
    let zone = UpZone::up_in(folder, |command| command.args(ANY_PORT));
    assert!(count_tasks(&zone) >= 1);
    zone.json(&["ask", "echo again"]);
    assert_eq!(zone.stop().code, Some(0));
}

#[test]
fn failed_wal_write_exits_with_store_failure_code() {
    let zone = UpZone::up();
    zone.json(&["ask", "echo kept"]);
    let log = zone.folder().join(".interzone/interzone.db-wal");
    let strace = fail_writes(zone.process_id(), &log);
    let run = zone.run(&["ask", "echo lost"]);
    assert_ne!(run.code, Some(0), "{run:?}");
    let (run, folder) = zone.wait_and_keep();
    drop(strace);
    assert_eq!(run.code, Some(6), "{run:?}");
    assert!(run.stderr.contains("the store failed"), "{run:?}");
    let zone = UpZone::up_in(folder, |command| command.args(ANY_PORT));
    assert_eq!(count_tasks(&zone), 1);
    assert_eq!(zone.stop().code, Some(0));
}

/// Runs a script with a small tmpfs at `small`, in its own mount namespace. `None` if the machine does not allow
/// that.
fn run_on_small_disk(folder: &Path, script: &str) -> Option<String> {
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
fn backup_to_full_disk_fails_and_leaves_nothing() {
    let zone = UpZone::up();
    for _ in 0..4 {
        zone.json(&["ask", &format!("echo {}", "x".repeat(50_000))]);
    }
    let script = r#""$INTERZONE" backup --folder .interzone small/copy.db 2>&1; echo "code $?"; ls -A small"#;
    let Some(output) = run_on_small_disk(zone.folder(), script) else {
        return;
    };
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(
        lines,
        [
            "error: backup failed: no space left for small/copy.db: free some space, or choose a path on \
             another disk",
            "code 1"
        ]
    );
    // The zone's own disk has space, and it keeps working.
    zone.json(&["ask", "echo on"]);
    assert_eq!(zone.stop().code, Some(0));
}

#[test]
fn failed_sync_at_shutdown_exits_with_store_failure() {
    let zone = UpZone::up();
    zone.json(&["ask", "echo kept"]);
    let strace = fail_syncs(zone.process_id());
    let (run, folder) = zone.stop_and_keep();
    drop(strace);
    assert_eq!(run.code, Some(6), "{run:?}");
    let zone = UpZone::up_in(folder, |command| command.args(ANY_PORT));
    assert_eq!(count_tasks(&zone), 1);
    assert_eq!(zone.stop().code, Some(0));
}
