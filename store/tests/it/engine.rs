//! Engines under test: an empty store for each test, further handles on it, and its removal.

use crate::query_plans;
use interzone_hub::ports::Store;
use interzone_hub::{IdSource, RandomIds};
use interzone_protocol::vocab::Timestamp;
use interzone_store::postgres::{PostgresClock, PostgresOptions, PostgresStore};
use interzone_store::sqlite::{SqliteOptions, SqliteRecords, SqliteStore};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_postgres::NoTls;

/// Location of one store, empty at first. Clones share it.
#[derive(Clone)]
pub(crate) struct Engine(Arc<EngineLocation>);

enum EngineLocation {
    /// File that only one store may have open; all handles of a test are the same.
    Sqlite {
        folder: TempFolder,
        open: Mutex<Option<Arc<SqliteStore>>>,
    },
    /// Schema that any number of nodes may use.
    Postgres { url: String, schema: String },
}

impl Engine {
    pub(crate) fn sqlite() -> Self {
        query_plans::observe();
        Self(Arc::new(EngineLocation::Sqlite {
            folder: TempFolder::new("contract"),
            open: Mutex::new(None),
        }))
    }

    pub(crate) async fn postgres() -> Self {
        query_plans::observe();
        Self(Arc::new(EngineLocation::Postgres {
            url: postgres_url(),
            schema: format!("test_{:016x}", RandomIds.random()),
        }))
    }

    /// Runs a test, checks the plans of all statements that it caused, and removes its store, also when it failed.
    pub(crate) async fn run<T>(self, test: impl FnOnce(Self) -> T)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        let outcome = tokio::spawn(test(self.clone())).await;
        let refused = match (&outcome, &*self.0) {
            (Err(_), _) => Vec::new(),
            (Ok(()), EngineLocation::Sqlite { folder, .. }) => {
                query_plans::sqlite::check(&folder.database_path())
            }
            (Ok(()), EngineLocation::Postgres { url, schema }) => {
                query_plans::postgres::check(url, schema).await
            }
        };
        self.remove().await;
        if let Err(error) = outcome {
            resume_unwind(error.into_panic());
        }
        assert!(refused.is_empty(), "{}", refused.join("\n"));
    }

    /// Handle on the store: for PostgreSQL, a node of its own.
    pub(crate) async fn node(&self) -> Arc<dyn Store> {
        match &*self.0 {
            EngineLocation::Sqlite { folder, open } => {
                let existing = open.lock().unwrap().clone();
                if let Some(store) = existing {
                    return store;
                }
                let store = SqliteStore::open(folder.database_path(), SqliteOptions::default());
                let store = Arc::new(store.await.unwrap());
                *open.lock().unwrap() = Some(store.clone());
                store
            }
            EngineLocation::Postgres { url, schema } => Arc::new(postgres_node(url, schema).await),
        }
    }

    /// Returns true if the tables are of this version.
    pub(crate) async fn is_current(&self) -> bool {
        let is_current = match &*self.0 {
            EngineLocation::Sqlite { folder, .. } => {
                SqliteRecords::is_current(folder.database_path()).await
            }
            EngineLocation::Postgres { url, schema } => {
                PostgresStore::is_current(url, postgres_options(schema)).await
            }
        };
        is_current.unwrap()
    }

    /// Returns true if several processes may use the store concurrently.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(&*self.0, EngineLocation::Postgres { .. })
    }

    /// Expires the leases of dead nodes: a new process has opened the file, or on a server the lease time is over.
    pub(crate) async fn expire_leases(&self, store: &dyn Store, now: Timestamp) {
        store.release_stale_claims(now).await.unwrap();
    }

    /// Two handles: two nodes, where the engine supports nodes.
    pub(crate) async fn two_nodes(&self) -> [Arc<dyn Store>; 2] {
        [self.node().await, self.node().await]
    }

    /// Closes this handle, which must be the last, and opens the store again.
    pub(crate) async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        drop(store);
        if let EngineLocation::Sqlite { open, .. } = &*self.0 {
            let last = open.lock().unwrap().take();
            if let Some(store) = last {
                let store = Arc::into_inner(store).expect("no other handle is left");
                store.close().await;
            }
        }
        self.node().await
    }

    async fn remove(&self) {
        match &*self.0 {
            EngineLocation::Sqlite { open, .. } => drop(open.lock().unwrap().take()),
            EngineLocation::Postgres { url, schema } => drop_schema(url, schema).await,
        }
    }
}

/// Node of a PostgreSQL store, with connections that [`kill_connections`] finds by its schema.
pub(crate) async fn postgres_node(url: &str, schema: &str) -> PostgresStore {
    let options = postgres_options(schema);
    PostgresStore::connect(url, options).await.unwrap()
}

/// Node that uses the server's clock, as in production.
pub(crate) async fn postgres_node_with_server_clock(url: &str, schema: &str) -> Arc<dyn Store> {
    let options = PostgresOptions {
        clock: PostgresClock::Server,
        ..postgres_options(schema)
    };
    Arc::new(PostgresStore::connect(url, options).await.unwrap())
}

/// Runs statements in a schema.
pub(crate) async fn run_sql(url: &str, schema: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let sql = format!("SET search_path TO \"{schema}\"; {sql}");
    client.batch_execute(&sql).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}

pub(crate) fn postgres_options(schema: &str) -> PostgresOptions {
    PostgresOptions {
        schema: schema.to_owned(),
        application_name: schema.to_owned(),
        // Few: many tests share the server.
        pool_size: 6,
        // A machine that is busy with tests is slow.
        acquire_timeout: Duration::from_secs(60),
        statement_timeout: Duration::from_secs(60),
        lock_timeout: Duration::from_secs(60),
        // The tests set the time.
        clock: PostgresClock::Caller,
        ..PostgresOptions::default()
    }
}

/// Kills the connections of a node and returns their number.
pub(crate) async fn kill_connections(url: &str, name: &str) -> usize {
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
    count_rows(url, kill, name).await
}

/// Number of connections with this application name.
pub(crate) async fn count_connections(url: &str, name: &str) -> usize {
    let count = "SELECT pid FROM pg_stat_activity WHERE application_name = $1";
    count_rows(url, count, name).await
}

async fn count_rows(url: &str, sql: &str, name: &str) -> usize {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let rows = client.query(sql, &[&name]).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    rows.len()
}

/// PostgreSQL server of a test, for tests that kill it.
pub(crate) struct PostgresServer {
    pub(crate) url: String,
    folder: String,
}

impl PostgresServer {
    pub(crate) fn start() -> Self {
        let printed = run_script(&["start"]);
        let value = |name: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().to_owned()
        };
        Self {
            url: value("export INTERZONE_TEST_POSTGRES="),
            folder: value("export INTERZONE_TEST_POSTGRES_FOLDER="),
        }
    }

    pub(crate) fn crash(&self) {
        run_script(&["crash", &self.folder]);
    }

    pub(crate) fn restart(&self) {
        run_script(&["revive", &self.folder]);
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        run_script(&["stop", &self.folder]);
    }
}

fn run_script(arguments: &[&str]) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/postgres.sh");
    let output = Command::new(path).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) async fn drop_schema(url: &str, schema: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let drop_it = format!("DROP SCHEMA IF EXISTS \"{schema}\" CASCADE");
    client.batch_execute(&drop_it).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}

#[expect(
    clippy::disallowed_methods,
    reason = "test.sh exports the address of its server"
)]
pub(crate) fn postgres_url() -> String {
    std::env::var("INTERZONE_TEST_POSTGRES").expect(
        "INTERZONE_TEST_POSTGRES is not set: run ./test.sh --only test, or \
         eval \"$(scripts/postgres.sh start)\" first",
    )
}

/// Temporary folder that is removed on drop.
pub(crate) struct TempFolder(PathBuf);

impl TempFolder {
    pub(crate) fn new(label: &str) -> Self {
        let name = format!("interzone-{label}-{:016x}", RandomIds.random());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Path of the database in it.
    pub(crate) fn database_path(&self) -> PathBuf {
        self.0.join("store.db")
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // It is in a temporary folder; a failed test must not panic twice.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
