//! Opening a database: rejected files, error messages, locks and the state of the file afterwards.

use super::super::{SqliteRecords, schema};
use super::{
    IntegrityCheck, SqliteOptions, SqliteStore, TempFolder, new_task_commit, sample_task, timestamp,
};
use interzone_hub::ports::{RecordStore, StoreError, TaskStore};
use rusqlite::Connection;
use std::time::Duration;

fn query_number(folder: &TempFolder, sql: &str) -> i64 {
    let connection = Connection::open(folder.database_path()).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[track_caller]
fn assert_rejected(result: Result<SqliteStore, StoreError>, expected: &str) {
    match result {
        Err(StoreError::Unusable(why)) => assert!(why.contains(expected), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn new_database_is_marked_and_reopens() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    store.commit(new_task_commit("t")).await.unwrap();
    assert_eq!(
        query_number(&folder, "SELECT value FROM meta WHERE name = 'clean'"),
        0
    );
    store.close().await;
    assert_eq!(
        query_number(&folder, "PRAGMA application_id"),
        schema::APPLICATION_ID
    );
    let newest = i64::try_from(schema::newest_version()).unwrap();
    assert_eq!(query_number(&folder, "PRAGMA user_version"), newest);
    assert_eq!(query_number(&folder, "PRAGMA auto_vacuum"), 2);
    assert_eq!(
        query_number(&folder, "SELECT value FROM meta WHERE name = 'clean'"),
        1
    );
    let store = folder.open().await;
    assert_eq!(
        store.task(&sample_task("t").id).await.unwrap(),
        Some(sample_task("t"))
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn database_in_use_is_rejected_through_a_hard_link() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let link = folder.database_path().with_file_name("link.db");
    std::fs::hard_link(folder.database_path(), &link).unwrap();
    let second = SqliteStore::open(&link, SqliteOptions::default()).await;
    assert_rejected(second, "in use by another process");
    store.commit(new_task_commit("t")).await.unwrap();
    store.close().await;
    let store = SqliteStore::open(&link, SqliteOptions::default()).await;
    let store = store.unwrap();
    assert!(store.task(&sample_task("t").id).await.unwrap().is_some());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn database_in_use_is_rejected_without_its_lock_file() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    std::fs::remove_file(folder.database_path().with_file_name("store.db.lock")).unwrap();
    assert_rejected(folder.try_open().await, "in use by another process");
    store.commit(new_task_commit("t")).await.unwrap();
    store.close().await;
    folder
        .open()
        .await
        .commit(new_task_commit("u"))
        .await
        .unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn new_database_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempFolder::new();
    let store = folder.open().await;
    store.commit(new_task_commit("t")).await.unwrap();
    let mode = |end: &str| {
        let mut path = folder.database_path().as_os_str().to_owned();
        path.push(end);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!([mode(""), mode("-wal"), mode("-shm")], [0o600; 3]);
    // Existing permissions are kept.
    store.close().await;
    let shared = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(folder.database_path(), shared).unwrap();
    let _store = folder.open().await;
    assert_eq!(mode(""), 0o640);
}

#[tokio::test]
async fn foreign_file_is_rejected_unchanged() {
    let folder = TempFolder::new();
    let connection = Connection::open(folder.database_path()).unwrap();
    connection
        .execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
        .unwrap();
    drop(connection);
    let before = std::fs::read(folder.database_path()).unwrap();
    assert_rejected(folder.try_open().await, "another program");
    assert_eq!(std::fs::read(folder.database_path()).unwrap(), before);

    let folder = TempFolder::new();
    let text = "a letter, not a database. ".repeat(100);
    std::fs::write(folder.database_path(), &text).unwrap();
    assert_rejected(folder.try_open().await, "not a database");
    assert_eq!(
        std::fs::read_to_string(folder.database_path()).unwrap(),
        text
    );
}

#[tokio::test]
async fn newer_schema_is_rejected_unchanged() {
    let folder = TempFolder::new();
    folder.open().await.close().await;
    let connection = Connection::open(folder.database_path()).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    assert_rejected(
        folder.try_open().await,
        "newer version (schema 99, this one supports",
    );
    assert_eq!(query_number(&folder, "PRAGMA user_version"), 99);
}

#[tokio::test]
async fn development_schema_is_rejected_unchanged() {
    let folder = TempFolder::new();
    folder.open().await.close().await;
    let connection = Connection::open(folder.database_path()).unwrap();
    let id = schema::DEVELOPMENT_APPLICATION_ID;
    connection
        .pragma_update(None, "application_id", id)
        .unwrap();
    connection.pragma_update(None, "user_version", 10).unwrap();
    drop(connection);
    let before = std::fs::read(folder.database_path()).unwrap();
    assert_rejected(folder.try_open().await, "delete the file to start empty");
    assert!(
        SqliteRecords::is_current(folder.database_path())
            .await
            .is_err()
    );
    assert_eq!(std::fs::read(folder.database_path()).unwrap(), before);
}

#[tokio::test]
async fn database_opens_in_one_store_at_a_time() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    assert_rejected(folder.try_open().await, "in use by another process");
    let other_way = folder.0.join(".").join("store.db");
    let options = SqliteOptions::default();
    assert_rejected(SqliteStore::open(other_way, options).await, "in use");
    store.commit(new_task_commit("t")).await.unwrap();
    drop(store);
    let store = folder.open().await;
    assert!(store.task(&sample_task("t").id).await.unwrap().is_some());
    store.close().await;
    folder.open().await.close().await;
}

/// Takes the lock of a process that has the store open, or is creating it.
fn take_lock(folder: &TempFolder) -> std::fs::File {
    let path = folder.0.join("store.db.lock");
    let lock = std::fs::File::create(path).unwrap();
    lock.try_lock().unwrap();
    lock
}

#[tokio::test(start_paused = true)]
async fn records_wait_for_a_server_creating_the_tables() {
    let folder = TempFolder::new();
    let _lock = take_lock(&folder);
    let mut opening = tokio::spawn(SqliteRecords::open(folder.database_path()));
    // The paused clock advances only when all attempts so far have returned.
    let waited = tokio::time::timeout(Duration::from_secs(1), &mut opening).await;
    assert!(waited.is_err(), "open returned while locked");
    let mut connection = Connection::open(folder.database_path()).unwrap();
    schema::migrate(&mut connection, 0).unwrap();
    let records = opening.await.unwrap().unwrap();
    let put = records.put_record("kind", "key", "value", Some(0), None, timestamp(0));
    assert!(put.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn records_open_times_out_while_locked() {
    let folder = TempFolder::new();
    let _lock = take_lock(&folder);
    let opened = SqliteRecords::open(folder.database_path()).await;
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("in use by another process"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn store_open_waits_for_lock_up_to_lock_wait() {
    let folder = TempFolder::new();
    let lock = take_lock(&folder);
    let options = SqliteOptions {
        lock_wait: Duration::from_secs(3),
        ..SqliteOptions::default()
    };
    let mut opening = tokio::spawn(SqliteStore::open(folder.database_path(), options.clone()));
    let waited = tokio::time::timeout(Duration::from_secs(1), &mut opening).await;
    assert!(waited.is_err(), "open returned while locked");
    drop(lock);
    let store = opening.await.unwrap().unwrap();
    let began = tokio::time::Instant::now();
    assert_rejected(
        SqliteStore::open(folder.database_path(), options).await,
        "in use by another process",
    );
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    store.close().await;
}

#[tokio::test]
async fn unwritable_path_is_named_in_the_error() {
    let folder = TempFolder::new();
    let nowhere = folder.0.join("nowhere").join("store.db");
    let open = |path| SqliteStore::open(path, SqliteOptions::default());
    assert_rejected(open(nowhere).await, "create it first");
    std::fs::create_dir(folder.0.join("folder")).unwrap();
    assert_rejected(open(folder.0.join("folder")).await, "cannot be opened");

    folder.open().await.close().await;
    let mut rights = std::fs::metadata(folder.database_path())
        .unwrap()
        .permissions();
    rights.set_readonly(true);
    std::fs::set_permissions(folder.database_path(), rights).unwrap();
    let is_enforced = std::fs::OpenOptions::new()
        .write(true)
        .open(folder.database_path())
        .is_err();
    if is_enforced {
        assert_rejected(folder.try_open().await, "read-only");
    }
}

#[tokio::test]
async fn file_copy_of_running_store_is_complete() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    for id in ["a", "b", "c"] {
        store.commit(new_task_commit(id)).await.unwrap();
    }
    // The file and its WAL as a killed process leaves them.
    let copy = TempFolder::new();
    for name in ["store.db", "store.db-wal"] {
        std::fs::copy(folder.0.join(name), copy.0.join(name)).unwrap();
    }
    let copied = copy.open().await;
    for id in ["a", "b", "c"] {
        assert_eq!(
            copied.task(&sample_task(id).id).await.unwrap(),
            Some(sample_task(id))
        );
    }
}

#[tokio::test]
async fn integrity_check_finds_damage() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    for number in 0..200 {
        store
            .commit(new_task_commit(&format!("t{number}")))
            .await
            .unwrap();
    }
    store.close().await;
    let mut bytes = std::fs::read(folder.database_path()).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0x5a);
    std::fs::write(folder.database_path(), bytes).unwrap();
    let checked = SqliteOptions {
        integrity_check: IntegrityCheck::Always,
        ..SqliteOptions::default()
    };
    assert_rejected(
        SqliteStore::open(folder.database_path(), checked).await,
        "damaged",
    );
}

#[test]
fn migration_starts_at_current_version() {
    let mut connection = Connection::open_in_memory().unwrap();
    assert_eq!(schema::read_version(&connection, "it").unwrap(), 0);
    schema::migrate(&mut connection, 0).unwrap();
    assert_eq!(
        schema::read_version(&connection, "it").unwrap(),
        schema::newest_version()
    );
    // A second migration does nothing.
    schema::migrate(&mut connection, schema::newest_version()).unwrap();
}

/// Number of statistics tables in a database.
fn statistics_table_count(folder: &TempFolder) -> i64 {
    query_number(
        folder,
        "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'",
    )
}

#[tokio::test]
async fn open_removes_statistics_of_earlier_versions() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    store.commit(new_task_commit("t")).await.unwrap();
    store.close().await;
    // As the maintenance of earlier versions left them, with one task stored.
    let connection = Connection::open(folder.database_path()).unwrap();
    connection.execute_batch("ANALYZE").unwrap();
    drop(connection);
    assert!(statistics_table_count(&folder) > 0);
    let store = folder.open().await;
    assert_eq!(statistics_table_count(&folder), 0);
    store.commit(new_task_commit("u")).await.unwrap();
    assert!(store.task(&sample_task("t").id).await.unwrap().is_some());
}

#[tokio::test]
async fn maintenance_gathers_no_statistics() {
    use interzone_hub::ports::Maintenance;
    let folder = TempFolder::new();
    let store = folder.open().await;
    store.commit(new_task_commit("t")).await.unwrap();
    store.optimize().await.unwrap();
    assert_eq!(statistics_table_count(&folder), 0);
}
