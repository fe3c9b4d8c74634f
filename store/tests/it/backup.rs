//! Backups of stores under continuous writes: complete, consistent, private, and never over an existing file.

use crate::builders::{
    artifact, commit, create, enqueue_work, event, message, task, task_id, task_subject, time_at,
    work_claim,
};
use crate::engine::{TempFolder, drop_schema, postgres_node, postgres_url};
use interzone_hub::ports::{Store, StoreError};
use interzone_hub::{IdSource, RandomIds};
use interzone_store::postgres::{self, PostgresOptions, PostgresStore};
use interzone_store::sqlite::{self, SqliteOptions, SqliteStore};
use interzone_store::{BackupError, BackupSummary};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Writer that runs until it is stopped, and counts acknowledged writes.
struct Writers {
    is_over: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

fn task_name(writer: usize, number: usize) -> String {
    format!("w{writer}n{number}")
}

impl Writers {
    /// Starts one writer, so that acknowledged writes are numbered without a gap.
    fn start(store: &Arc<dyn Store>) -> Self {
        let mut writers = Self {
            is_over: Arc::default(),
            acknowledged: Arc::default(),
            tasks: JoinSet::new(),
        };
        for writer in 0..4 {
            let (store, is_over) = (store.clone(), writers.is_over.clone());
            let acknowledged = writers.acknowledged.clone();
            writers.tasks.spawn(async move {
                let mut number = 0;
                while !is_over.load(Ordering::SeqCst) {
                    let id = task_name(writer, number);
                    let ops = vec![
                        create(&task(&id)),
                        message(&id, 0, "a question\twith a tab,\na line and a \\"),
                        artifact(&id, "a", "an answer"),
                        event(task_subject(&id), 1),
                        enqueue_work(&id),
                    ];
                    store.commit(commit(ops)).await.unwrap();
                    number += 1;
                    if writer == 0 {
                        acknowledged.store(number, Ordering::SeqCst);
                    }
                }
            });
        }
        writers
    }

    async fn wait_for(&self, number: usize) -> usize {
        loop {
            let acknowledged = self.acknowledged.load(Ordering::SeqCst);
            if acknowledged >= number {
                return acknowledged;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn end(self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.tasks.join_all().await;
    }
}

/// Checks a restored store: all writes acknowledged before are present, and it works.
async fn check_restored(store: &dyn Store, backup: &BackupSummary, before: usize) {
    assert!(backup.tasks() >= u64::try_from(before).unwrap());
    for number in 0..before {
        let id = task_name(0, number);
        assert!(store.task(&task_id(&id)).await.unwrap().is_some(), "{id}");
        assert_eq!(store.messages(&task_id(&id), 0..9).await.unwrap().len(), 1);
        assert_eq!(store.artifacts(&task_id(&id)).await.unwrap().len(), 1);
        assert_eq!(
            store.events(&task_subject(&id), 0, 9).await.unwrap().len(),
            1
        );
    }
    store.check().await.unwrap();
    let new = vec![
        create(&task("new")),
        artifact("new", "a", "b"),
        enqueue_work("new"),
    ];
    store.commit(commit(new)).await.unwrap();
    let claimed = store
        .claim_work(&work_claim("n", 1, time_at(5)))
        .await
        .unwrap();
    assert_eq!(claimed.len(), 1);
}

#[cfg(unix)]
#[track_caller]
fn assert_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[track_caller]
fn assert_rejected(made: Result<BackupSummary, BackupError>, expected: &str) {
    match made {
        Err(BackupError::Store(StoreError::Unusable(why)) | BackupError::Destination(why)) => {
            assert!(why.contains(expected), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_backup_under_writes_has_all_acknowledged() {
    let folder = TempFolder::new("backup");
    let store = SqliteStore::open(folder.database_path(), SqliteOptions::default()).await;
    let store: Arc<dyn Store> = Arc::new(store.unwrap());
    let writers = Writers::start(&store);
    let before = writers.wait_for(50).await;
    let copy = folder.path().join("copy.db");
    let made = sqlite::backup(folder.database_path(), &copy);
    let made = tokio::time::timeout(Duration::from_secs(60), made).await;
    let made = made.expect("the backup ends during writes").unwrap();
    // The writes continued, and the copy is consistent.
    writers.wait_for(before + 1).await;
    writers.end().await;
    assert_private(&copy);
    let bytes = std::fs::read(&copy).unwrap();
    assert_eq!(made.bytes, u64::try_from(bytes.len()).unwrap());
    // An existing file is left unchanged, and no temporary file remains.
    assert_rejected(
        sqlite::backup(folder.database_path(), &copy).await,
        "already exists",
    );
    assert_eq!(std::fs::read(&copy).unwrap(), bytes);
    assert!(!folder.path().join("copy.db.part").exists());
    // It works without an open store as well.
    drop(store);
    let second = folder.path().join("second.db");
    sqlite::backup(folder.database_path(), &second)
        .await
        .unwrap();
    let restored = SqliteStore::open(&copy, SqliteOptions::default()).await;
    check_restored(&restored.unwrap(), &made, before).await;
}

#[tokio::test]
async fn backup_of_non_database_is_rejected() {
    let folder = TempFolder::new("backup");
    let copy = folder.path().join("copy");
    assert_rejected(
        sqlite::backup(folder.database_path(), &copy).await,
        "does not exist",
    );
    std::fs::write(folder.database_path(), "not a database. ".repeat(100)).unwrap();
    assert_rejected(
        sqlite::backup(folder.database_path(), &copy).await,
        "not a database",
    );
    let nowhere = folder.path().join("nowhere").join("copy");
    let good = folder.path().join("good.db");
    let store = SqliteStore::open(&good, SqliteOptions::default()).await;
    assert_rejected(sqlite::backup(&good, &nowhere).await, "cannot create");
    drop(store);
    assert!(!copy.exists());
}

#[cfg(unix)]
#[tokio::test]
async fn backup_to_database_files_is_rejected() {
    let folder = TempFolder::new("backup");
    let store = SqliteStore::open(folder.database_path(), SqliteOptions::default()).await;
    drop(store.unwrap());
    let name = folder
        .database_path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let spelled = folder
        .path()
        .join("..")
        .join(folder.path().file_name().unwrap());
    let listing = || {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    std::os::unix::fs::symlink(&name, folder.path().join("symlink.db")).unwrap();
    std::fs::hard_link(folder.database_path(), folder.path().join("link.db")).unwrap();
    let before = listing();
    for (path, expected) in [
        (
            folder.path().join(format!("{name}-journal")),
            "SQLite gives",
        ),
        (folder.path().join(format!("{name}-wal")), "SQLite gives"),
        (folder.path().join(format!("{name}-shm")), "SQLite gives"),
        (spelled.join("other.db-JOURNAL"), "SQLite gives"),
        (spelled.join(format!("{name}.lock")), "belongs to the store"),
        (
            spelled.join(format!("{name}.probe")),
            "belongs to the store",
        ),
        (folder.database_path(), "the store itself"),
        (spelled.join(&name), "the store itself"),
        (folder.path().join("symlink.db"), "the store itself"),
        (folder.path().join("link.db"), "the store itself"),
    ] {
        assert_rejected(
            sqlite::backup(folder.database_path(), &path).await,
            expected,
        );
        assert_eq!(listing(), before, "{}", path.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_backup_under_writes_is_restored_by_psql() {
    let url = postgres_url();
    let schema = format!("test_{:016x}", RandomIds.random());
    let folder = TempFolder::new("backup");
    let store: Arc<dyn Store> = Arc::new(postgres_node(&url, &schema).await);
    let writers = Writers::start(&store);
    let before = writers.wait_for(20).await;
    let options = || PostgresOptions {
        schema: schema.clone(),
        pool_size: 2,
        ..PostgresOptions::default()
    };
    let copy = folder.path().join("copy.sql");
    let made = postgres::backup(&url, options(), &copy);
    let made = tokio::time::timeout(Duration::from_secs(60), made).await;
    let made = made.expect("the backup ends during writes").unwrap();
    writers.wait_for(before + 1).await;
    writers.end().await;
    drop(store);
    assert_private(&copy);
    assert_rejected(
        postgres::backup(&url, options(), &copy).await,
        "already exists",
    );
    // An existing schema is left unchanged.
    assert!(!psql(&url, &copy), "a schema that is there was replaced");
    drop_schema(&url, &schema).await;
    assert!(psql(&url, &copy));
    let restored = PostgresStore::connect(&url, options()).await.unwrap();
    check_restored(&restored, &made, before).await;
    drop(restored);
    drop_schema(&url, &schema).await;
    assert_rejected(
        postgres::backup(&url, options(), folder.path().join("none")).await,
        "there are no tables",
    );
}

fn psql(url: &str, file: &Path) -> bool {
    let ran = Command::new("psql")
        .args(["--no-psqlrc", "--quiet", "--output=/dev/null", "--file"])
        .args([file.as_os_str(), url.as_ref()])
        .output()
        .expect("psql is installed with the server");
    println!("{}", String::from_utf8_lossy(&ran.stderr));
    ran.status.success()
}
