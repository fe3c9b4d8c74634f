//! Opening: what is refused, in which words, and what a file looks like afterwards.

use super::super::{SqliteRecords, schema};
use super::{Check, Folder, SqliteOptions, SqliteStore, at, task, whole};
use interzone_hub::ports::{RecordStore, StoreError, TaskStore};
use rusqlite::Connection;
use std::time::Duration;

fn number(folder: &Folder, sql: &str) -> i64 {
    let connection = Connection::open(folder.file()).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[track_caller]
fn refused(result: Result<SqliteStore, StoreError>, words: &str) {
    match result {
        Err(StoreError::Unusable(why)) => assert!(why.contains(words), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_new_file_is_marked_and_opens_again() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.commit(whole("t")).await.unwrap();
    assert_eq!(
        number(&folder, "SELECT value FROM meta WHERE name = 'clean'"),
        0
    );
    store.close().await;
    assert_eq!(
        number(&folder, "PRAGMA application_id"),
        schema::APPLICATION_ID
    );
    let newest = i64::try_from(schema::newest()).unwrap();
    assert_eq!(number(&folder, "PRAGMA user_version"), newest);
    assert_eq!(number(&folder, "PRAGMA auto_vacuum"), 2);
    assert_eq!(
        number(&folder, "SELECT value FROM meta WHERE name = 'clean'"),
        1
    );
    let store = folder.open().await;
    assert_eq!(store.task(&task("t").id).await.unwrap(), Some(task("t")));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn file_in_use_is_refused_under_the_name_of_a_hard_link() {
    let folder = Folder::new();
    let store = folder.open().await;
    let link = folder.file().with_file_name("link.db");
    std::fs::hard_link(folder.file(), &link).unwrap();
    let second = SqliteStore::open(&link, SqliteOptions::default()).await;
    refused(second, "in use by another process");
    store.commit(whole("t")).await.unwrap();
    store.close().await;
    let store = SqliteStore::open(&link, SqliteOptions::default()).await;
    let store = store.unwrap();
    assert!(store.task(&task("t").id).await.unwrap().is_some());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn file_in_use_is_refused_after_its_lock_file_was_removed() {
    let folder = Folder::new();
    let store = folder.open().await;
    std::fs::remove_file(folder.file().with_file_name("store.db.lock")).unwrap();
    refused(folder.try_open().await, "in use by another process");
    store.commit(whole("t")).await.unwrap();
    store.close().await;
    folder.open().await.commit(whole("u")).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let store = folder.open().await;
    store.commit(whole("t")).await.unwrap();
    let mode = |end: &str| {
        let mut path = folder.file().as_os_str().to_owned();
        path.push(end);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!([mode(""), mode("-wal"), mode("-shm")], [0o600; 3]);
    // What somebody decided about a file that is there stays.
    store.close().await;
    let shared = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(folder.file(), shared).unwrap();
    let _store = folder.open().await;
    assert_eq!(mode(""), 0o640);
}

#[tokio::test]
async fn what_is_not_ours_is_left_alone() {
    let folder = Folder::new();
    let connection = Connection::open(folder.file()).unwrap();
    connection
        .execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
        .unwrap();
    drop(connection);
    let before = std::fs::read(folder.file()).unwrap();
    refused(folder.try_open().await, "another program");
    assert_eq!(std::fs::read(folder.file()).unwrap(), before);

    let folder = Folder::new();
    let text = "a letter, not a database. ".repeat(100);
    std::fs::write(folder.file(), &text).unwrap();
    refused(folder.try_open().await, "not a database");
    assert_eq!(std::fs::read_to_string(folder.file()).unwrap(), text);
}

#[tokio::test]
async fn what_is_newer_is_left_alone() {
    let folder = Folder::new();
    folder.open().await.close().await;
    let connection = Connection::open(folder.file()).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    refused(
        folder.try_open().await,
        "newer version (schema 99, this one knows",
    );
    assert_eq!(number(&folder, "PRAGMA user_version"), 99);
}

#[tokio::test]
async fn one_file_has_one_store() {
    let folder = Folder::new();
    let store = folder.open().await;
    refused(folder.try_open().await, "in use by another process");
    let other_way = folder.0.join(".").join("store.db");
    let options = SqliteOptions::default();
    refused(SqliteStore::open(other_way, options).await, "in use");
    store.commit(whole("t")).await.unwrap();
    drop(store);
    let store = folder.open().await;
    assert!(store.task(&task("t").id).await.unwrap().is_some());
    store.close().await;
    folder.open().await.close().await;
}

/// The lock of a process that has the store open, or is making it.
fn hold_lock(folder: &Folder) -> std::fs::File {
    let path = folder.0.join("store.db.lock");
    let lock = std::fs::File::create(path).unwrap();
    lock.try_lock().unwrap();
    lock
}

#[tokio::test(start_paused = true)]
async fn records_wait_for_a_server_that_is_making_the_tables() {
    let folder = Folder::new();
    let _lock = hold_lock(&folder);
    let mut opening = tokio::spawn(SqliteRecords::open(folder.file()));
    // The clock advances only when all tries so far have been answered.
    let waited = tokio::time::timeout(Duration::from_secs(1), &mut opening).await;
    assert!(waited.is_err(), "it does not wait");
    let mut connection = Connection::open(folder.file()).unwrap();
    schema::migrate(&mut connection, 0).unwrap();
    let records = opening.await.unwrap().unwrap();
    let put = records.put_record("kind", "key", "value", Some(0), None, at(0));
    assert!(put.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn records_do_not_wait_for_ever() {
    let folder = Folder::new();
    let _lock = hold_lock(&folder);
    let opened = SqliteRecords::open(folder.file()).await;
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("in use by another process"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_store_waits_for_its_lock_as_long_as_it_may() {
    let folder = Folder::new();
    let lock = hold_lock(&folder);
    let options = SqliteOptions {
        lock_wait: Duration::from_secs(3),
        ..SqliteOptions::default()
    };
    let mut opening = tokio::spawn(SqliteStore::open(folder.file(), options.clone()));
    let waited = tokio::time::timeout(Duration::from_secs(1), &mut opening).await;
    assert!(waited.is_err(), "it does not wait");
    drop(lock);
    let store = opening.await.unwrap().unwrap();
    let began = tokio::time::Instant::now();
    refused(
        SqliteStore::open(folder.file(), options).await,
        "in use by another process",
    );
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    store.close().await;
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() {
    let folder = Folder::new();
    let nowhere = folder.0.join("nowhere").join("store.db");
    let open = |path| SqliteStore::open(path, SqliteOptions::default());
    refused(open(nowhere).await, "make it first");
    std::fs::create_dir(folder.0.join("folder")).unwrap();
    refused(open(folder.0.join("folder")).await, "cannot be opened");

    folder.open().await.close().await;
    let mut rights = std::fs::metadata(folder.file()).unwrap().permissions();
    rights.set_readonly(true);
    std::fs::set_permissions(folder.file(), rights).unwrap();
    let binding = std::fs::OpenOptions::new()
        .write(true)
        .open(folder.file())
        .is_err();
    if binding {
        refused(folder.try_open().await, "read-only");
    }
}

#[tokio::test]
async fn a_copy_of_a_running_store_is_whole() {
    let folder = Folder::new();
    let store = folder.open().await;
    for id in ["a", "b", "c"] {
        store.commit(whole(id)).await.unwrap();
    }
    // What a killed process leaves behind: the file and its log, as they are.
    let copy = Folder::new();
    for name in ["store.db", "store.db-wal"] {
        std::fs::copy(folder.0.join(name), copy.0.join(name)).unwrap();
    }
    let copied = copy.open().await;
    for id in ["a", "b", "c"] {
        assert_eq!(copied.task(&task(id).id).await.unwrap(), Some(task(id)));
    }
}

#[tokio::test]
async fn damage_is_found_when_it_is_looked_for() {
    let folder = Folder::new();
    let store = folder.open().await;
    for number in 0..200 {
        store.commit(whole(&format!("t{number}"))).await.unwrap();
    }
    store.close().await;
    let mut bytes = std::fs::read(folder.file()).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0x5a);
    std::fs::write(folder.file(), bytes).unwrap();
    let checked = SqliteOptions {
        check: Check::Always,
        ..SqliteOptions::default()
    };
    refused(SqliteStore::open(folder.file(), checked).await, "damaged");
}

#[test]
fn migrations_start_where_a_database_is() {
    let mut connection = Connection::open_in_memory().unwrap();
    assert_eq!(schema::version(&connection, "it").unwrap(), 0);
    schema::migrate(&mut connection, 0).unwrap();
    assert_eq!(
        schema::version(&connection, "it").unwrap(),
        schema::newest()
    );
    // Nothing is left to do, and nothing is done twice.
    schema::migrate(&mut connection, schema::newest()).unwrap();
}

/// The tables of statistics that a file has.
fn statistics(folder: &Folder) -> i64 {
    number(
        folder,
        "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'",
    )
}

#[tokio::test]
async fn statistics_of_an_earlier_version_are_removed() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.commit(whole("t")).await.unwrap();
    store.close().await;
    // As housekeeping left them, with one task stored.
    let connection = Connection::open(folder.file()).unwrap();
    connection.execute_batch("ANALYZE").unwrap();
    drop(connection);
    assert!(statistics(&folder) > 0);
    let store = folder.open().await;
    assert_eq!(statistics(&folder), 0);
    store.commit(whole("u")).await.unwrap();
    assert!(store.task(&task("t").id).await.unwrap().is_some());
}

#[tokio::test]
async fn housekeeping_gathers_no_statistics() {
    use interzone_hub::ports::Upkeep;
    let folder = Folder::new();
    let store = folder.open().await;
    store.commit(whole("t")).await.unwrap();
    store.tidy_up().await.unwrap();
    assert_eq!(statistics(&folder), 0);
}
