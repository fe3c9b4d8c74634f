//! A disk without room: a clear error, nothing by halves, and on it goes when there is room again,
//! without a restart.

use super::facts::Fact;
use super::verify::{Told, Untold};
use crate::engine::Folder;
use interzone_hub::ports::Store;
use interzone_store::sqlite::{Check, SqliteOptions, SqliteStore};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

const WRITER: &str = env!("CARGO_BIN_EXE_interzone-crash-writer");

fn shell(program: &str, arguments: &[&str], script: &str, folder: &Folder) -> Output {
    Command::new(program)
        .args(arguments)
        .args(["-c", script])
        .env("WRITER", WRITER)
        .env("FOLDER", folder.path())
        .output()
        .unwrap()
}

/// Reads what the writer said, and checks the copy of its database that it left.
async fn check(output: &Output, copy: &Path) -> Told {
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {errors}", output.status);
    assert_eq!(said.lines().last(), Some("done"), "{errors}");
    let mut told = Told::default();
    for line in said.lines() {
        told.note(Fact::from_line(line).expect(line));
    }
    let options = SqliteOptions {
        check: Check::Always,
        ..SqliteOptions::default()
    };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(copy, options).await.unwrap());
    told.check(&store, Untold::NOTHING).await;
    told
}

/// A small file system of memory, in a mount namespace that ends with the writer.
const SMALL_DISK: &str = r#"
    mkdir "$FOLDER/small" && mount -t tmpfs -o size=6m none "$FOLDER/small" || exit 77
    head -c 3000000 /dev/zero >"$FOLDER/small/ballast"
    exec "$WRITER" fill "$FOLDER/small/store.db" "$FOLDER/copy.db" "rm '$FOLDER/small/ballast'"
"#;

#[tokio::test]
async fn a_small_disk_fills_and_empties() {
    let folder = Folder::new("full");
    // As root a namespace of mounts is enough; anybody else becomes root in one of users first.
    let ways: [&[&str]; 2] = [
        &["--mount", "sh"],
        &["--user", "--map-root-user", "--mount", "sh"],
    ];
    let mut output = None;
    for way in ways {
        let tried = shell("unshare", way, SMALL_DISK, &folder);
        let said_nothing = tried.stdout.is_empty();
        let errors = String::from_utf8_lossy(&tried.stderr).into_owned();
        if tried.status.success() || !said_nothing {
            output = Some(tried);
            break;
        }
        println!(
            "no small disk by unshare {way:?}: {}: {errors}",
            tried.status
        );
        drop(std::fs::remove_dir(folder.path().join("small")));
    }
    let Some(output) = output else {
        println!(
            "SKIPPED: this machine lets nobody mount a tmpfs, neither as root nor in a user \
                  namespace; a file that may not grow stands in for the full disk"
        );
        return;
    };
    let told = check(&output, &folder.path().join("copy.db")).await;
    let clear = |why: &&String| why.contains("the store is full");
    let full = told.refused.iter().filter(clear).count();
    assert_eq!(full, told.refused.len(), "{:?}", told.refused);
}

/// Files that may not grow beyond a megabyte: every machine can do that. The signal is ignored, so
/// that writes fail instead.
const SHORT_FILES: &str = r#"
    trap '' XFSZ
    ulimit -S -f 1024
    exec "$WRITER" fill "$FOLDER/store.db" "$FOLDER/copy.db" \
        'prlimit --pid $PPID --fsize=unlimited'
"#;

#[tokio::test]
async fn a_file_that_may_not_grow_is_no_disaster() {
    let folder = Folder::new("short");
    let output = shell("bash", &[], SHORT_FILES, &folder);
    let told = check(&output, &folder.path().join("copy.db")).await;
    println!("refused: {:?}", told.refused.first());
}
