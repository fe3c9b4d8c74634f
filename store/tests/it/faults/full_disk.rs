//! Full disk: a clear error, no partial writes, and recovery without a restart when there is space again.

use super::facts::Fact;
use super::verify::{FactLog, UnreportedLimit};
use crate::engine::TempFolder;
use interzone_hub::ports::Store;
use interzone_store::sqlite::{IntegrityCheck, SqliteOptions, SqliteStore};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

const WRITER: &str = env!("CARGO_BIN_EXE_interzone-crash-writer");

fn shell(program: &str, arguments: &[&str], script: &str, folder: &TempFolder) -> Output {
    Command::new(program)
        .args(arguments)
        .args(["-c", script])
        .env("WRITER", WRITER)
        .env("FOLDER", folder.path())
        .output()
        .unwrap()
}

/// Reads the writer's facts, and checks the copy of its database.
async fn check(output: &Output, copy: &Path) -> FactLog {
    let errors = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {errors}", output.status);
    assert_eq!(printed.lines().last(), Some("done"), "{errors}");
    let mut facts = FactLog::default();
    for line in printed.lines() {
        facts.record(Fact::from_line(line).expect(line));
    }
    let options = SqliteOptions {
        integrity_check: IntegrityCheck::Always,
        ..SqliteOptions::default()
    };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(copy, options).await.unwrap());
    facts.check(&store, UnreportedLimit::NONE).await;
    facts
}

/// Small tmpfs, in a mount namespace that ends with the writer.
const SMALL_DISK: &str = r#"
    mkdir "$FOLDER/small" && mount -t tmpfs -o size=6m none "$FOLDER/small" || exit 77
    head -c 3000000 /dev/zero >"$FOLDER/small/ballast"
    exec "$WRITER" fill "$FOLDER/small/store.db" "$FOLDER/copy.db" "rm '$FOLDER/small/ballast'"
"#;

#[tokio::test]
async fn writes_resume_after_disk_was_full() {
    let folder = TempFolder::new("full");
    // As root a mount namespace is enough; other users need a user namespace first.
    let variants: [&[&str]; 2] = [
        &["--mount", "sh"],
        &["--user", "--map-root-user", "--mount", "sh"],
    ];
    let mut output = None;
    for variant in variants {
        let tried = shell("unshare", variant, SMALL_DISK, &folder);
        let is_silent = tried.stdout.is_empty();
        let errors = String::from_utf8_lossy(&tried.stderr).into_owned();
        if tried.status.success() || !is_silent {
            output = Some(tried);
            break;
        }
        println!(
            "no small disk by unshare {variant:?}: {}: {errors}",
            tried.status
        );
        drop(std::fs::remove_dir(folder.path().join("small")));
    }
    let Some(output) = output else {
        println!(
            "SKIPPED: this machine allows no tmpfs mount, neither as root nor in a user \
             namespace; the test with a file size limit stands in for the full disk"
        );
        return;
    };
    let facts = check(&output, &folder.path().join("copy.db")).await;
    let is_full_error = |reason: &&String| reason.contains("the store is full");
    let full = facts.refused.iter().filter(is_full_error).count();
    assert_eq!(full, facts.refused.len(), "{:?}", facts.refused);
}

/// File size limit of one megabyte, which every machine supports. The signal is ignored, so that writes fail
/// instead.
const SHORT_FILES: &str = r#"
    trap '' XFSZ
    ulimit -S -f 1024
    exec "$WRITER" fill "$FOLDER/store.db" "$FOLDER/copy.db" \
        'prlimit --pid $PPID --fsize=unlimited'
"#;

#[tokio::test]
async fn writes_resume_after_file_size_limit() {
    let folder = TempFolder::new("short");
    let output = shell("bash", &[], SHORT_FILES, &folder);
    let facts = check(&output, &folder.path().join("copy.db")).await;
    println!("refused: {:?}", facts.refused.first());
}
