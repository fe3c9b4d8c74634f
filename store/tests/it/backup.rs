//! Backups of stores that are written without a break: whole, of one moment, private, and never in the place of another
//! file.

use crate::engine::{Folder, drop_schema, postgres_node, postgres_url};
use crate::make::{
    artifact, at, commit, create, event, message, of_task, queue, task, task_id, wish,
};
use interzone_hub::ports::{Store, StoreError};
use interzone_hub::{IdSource, RandomIds};
use interzone_store::postgres::{self, PostgresOptions, PostgresStore};
use interzone_store::sqlite::{self, SqliteOptions, SqliteStore};
use interzone_store::{Backup, BackupError};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Writes until it is told to end, and notes what was acknowledged.
struct Writers {
    is_over: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

fn name(writer: usize, number: usize) -> String {
    format!("w{writer}n{number}")
}

impl Writers {
    /// One writer, so that what it acknowledges is numbered without a gap.
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
                    let id = name(writer, number);
                    let ops = vec![
                        create(&task(&id)),
                        message(&id, 0, "a question\twith a tab,\na line and a \\"),
                        artifact(&id, "a", "an answer"),
                        event(of_task(&id), 1),
                        queue(&id),
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

/// Looks at a store that was restored: all that was acknowledged before is there as it was, and it works.
async fn look_at(store: &dyn Store, backup: &Backup, before: usize) {
    assert!(backup.tasks() >= u64::try_from(before).unwrap());
    for number in 0..before {
        let id = name(0, number);
        assert!(store.task(&task_id(&id)).await.unwrap().is_some(), "{id}");
        assert_eq!(store.messages(&task_id(&id), 0..9).await.unwrap().len(), 1);
        assert_eq!(store.artifacts(&task_id(&id)).await.unwrap().len(), 1);
        assert_eq!(store.events(&of_task(&id), 0, 9).await.unwrap().len(), 1);
    }
    store.check().await.unwrap();
    let new = vec![
        create(&task("new")),
        artifact("new", "a", "b"),
        queue("new"),
    ];
    store.commit(commit(new)).await.unwrap();
    let claimed = store.claim_work(&wish("n", 1, at(5))).await.unwrap();
    assert_eq!(claimed.len(), 1);
}

#[cfg(unix)]
#[track_caller]
fn is_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[track_caller]
fn is_refused(made: Result<Backup, BackupError>, words: &str) {
    match made {
        Err(BackupError::Store(StoreError::Unusable(why)) | BackupError::Destination(why)) => {
            assert!(why.contains(words), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_busy_file_ends_and_holds_all_that_was_acknowledged() {
    let folder = Folder::new("backup");
    let store = SqliteStore::open(folder.file(), SqliteOptions::default()).await;
    let store: Arc<dyn Store> = Arc::new(store.unwrap());
    let writers = Writers::start(&store);
    let before = writers.wait_for(50).await;
    let copy = folder.path().join("copy.db");
    let made = sqlite::backup(folder.file(), &copy);
    let made = tokio::time::timeout(Duration::from_secs(60), made).await;
    let made = made.expect("it ends while others write").unwrap();
    // They went on, and the copy is of one moment.
    writers.wait_for(before + 1).await;
    writers.end().await;
    is_private(&copy);
    let bytes = std::fs::read(&copy).unwrap();
    assert_eq!(made.bytes, u64::try_from(bytes.len()).unwrap());
    // A file that is there stays as it is, and nothing is left beside it.
    is_refused(sqlite::backup(folder.file(), &copy).await, "there already");
    assert_eq!(std::fs::read(&copy).unwrap(), bytes);
    assert!(!folder.path().join("copy.db.part").exists());
    // Without a server it works as well.
    drop(store);
    let second = folder.path().join("second.db");
    sqlite::backup(folder.file(), &second).await.unwrap();
    let restored = SqliteStore::open(&copy, SqliteOptions::default()).await;
    look_at(&restored.unwrap(), &made, before).await;
}

#[tokio::test]
async fn of_what_is_no_store_is_refused() {
    let folder = Folder::new("backup");
    let copy = folder.path().join("copy");
    is_refused(sqlite::backup(folder.file(), &copy).await, "there is no");
    std::fs::write(folder.file(), "a letter. ".repeat(100)).unwrap();
    is_refused(sqlite::backup(folder.file(), &copy).await, "not a database");
    let nowhere = folder.path().join("nowhere").join("copy");
    let good = folder.path().join("good.db");
    let store = SqliteStore::open(&good, SqliteOptions::default()).await;
    is_refused(sqlite::backup(&good, &nowhere).await, "cannot be made");
    drop(store);
    assert!(!copy.exists());
}

#[cfg(unix)]
#[tokio::test]
async fn is_refused_under_a_name_that_belongs_to_a_database() {
    let folder = Folder::new("backup");
    let store = SqliteStore::open(folder.file(), SqliteOptions::default()).await;
    drop(store.unwrap());
    let name = folder
        .file()
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
    std::fs::hard_link(folder.file(), folder.path().join("link.db")).unwrap();
    let before = listing();
    for (path, words) in [
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
        (folder.file(), "the store itself"),
        (spelled.join(&name), "the store itself"),
        (folder.path().join("symlink.db"), "the store itself"),
        (folder.path().join("link.db"), "the store itself"),
    ] {
        is_refused(sqlite::backup(folder.file(), &path).await, words);
        assert_eq!(listing(), before, "{}", path.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_busy_server_is_restored_by_psql() {
    let url = postgres_url();
    let schema = format!("test_{:016x}", RandomIds.random());
    let folder = Folder::new("backup");
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
    let made = made.expect("it ends while others write").unwrap();
    writers.wait_for(before + 1).await;
    writers.end().await;
    drop(store);
    is_private(&copy);
    is_refused(
        postgres::backup(&url, options(), &copy).await,
        "there already",
    );
    // Where the schema is, nothing is changed.
    assert!(!psql(&url, &copy), "a schema that is there was replaced");
    drop_schema(&url, &schema).await;
    assert!(psql(&url, &copy));
    let restored = PostgresStore::connect(&url, options()).await.unwrap();
    look_at(&restored, &made, before).await;
    drop(restored);
    drop_schema(&url, &schema).await;
    is_refused(
        postgres::backup(&url, options(), folder.path().join("none")).await,
        "there are no tables",
    );
}

fn psql(url: &str, file: &Path) -> bool {
    let ran = Command::new("psql")
        .args(["--no-psqlrc", "--quiet", "--output=/dev/null", "--file"])
        .args([file.as_os_str(), url.as_ref()])
        .output()
        .expect("psql comes with the server");
    println!("{}", String::from_utf8_lossy(&ran.stderr));
    ran.status.success()
}
