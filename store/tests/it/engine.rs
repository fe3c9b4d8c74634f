//! The engines under test: an empty store for each test, more handles on it, and its end.

use crate::plans;
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

/// A place for one store, empty at first. Copies share it.
#[derive(Clone)]
pub(crate) struct Engine(Arc<Place>);

enum Place {
    /// A file, which only one store may have open; all handles of a test are the same.
    Sqlite {
        folder: Folder,
        open: Mutex<Option<Arc<SqliteStore>>>,
    },
    /// A schema, which any number of nodes may use.
    Postgres { url: String, schema: String },
}

impl Engine {
    pub(crate) fn sqlite() -> Self {
        plans::observe();
        Self(Arc::new(Place::Sqlite {
            folder: Folder::new("contract"),
            open: Mutex::new(None),
        }))
    }

    pub(crate) async fn postgres() -> Self {
        plans::observe();
        Self(Arc::new(Place::Postgres {
            url: postgres_url(),
            schema: format!("test_{:016x}", RandomIds.random()),
        }))
    }

    /// Runs a test, looks at the plans of all statements that it caused, and clears away what it left, also when it
    /// failed.
    pub(crate) async fn run<T>(self, test: impl FnOnce(Self) -> T)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        let outcome = tokio::spawn(test(self.clone())).await;
        let refused = match (&outcome, &*self.0) {
            (Err(_), _) => Vec::new(),
            (Ok(()), Place::Sqlite { folder, .. }) => plans::sqlite::check(&folder.file()),
            (Ok(()), Place::Postgres { url, schema }) => plans::postgres::check(url, schema).await,
        };
        self.remove().await;
        if let Err(error) = outcome {
            resume_unwind(error.into_panic());
        }
        assert!(refused.is_empty(), "{}", refused.join("\n"));
    }

    /// A handle on the store: for PostgreSQL, a node of its own.
    pub(crate) async fn node(&self) -> Arc<dyn Store> {
        match &*self.0 {
            Place::Sqlite { folder, open } => {
                let known = open.lock().unwrap().clone();
                if let Some(store) = known {
                    return store;
                }
                let store = SqliteStore::open(folder.file(), SqliteOptions::default());
                let store = Arc::new(store.await.unwrap());
                *open.lock().unwrap() = Some(store.clone());
                store
            }
            Place::Postgres { url, schema } => Arc::new(postgres_node(url, schema).await),
        }
    }

    /// Whether the tables of this version are there.
    pub(crate) async fn is_current(&self) -> bool {
        let looked = match &*self.0 {
            Place::Sqlite { folder, .. } => SqliteRecords::is_current(folder.file()).await,
            Place::Postgres { url, schema } => {
                PostgresStore::is_current(url, postgres_options(schema)).await
            }
        };
        looked.unwrap()
    }

    /// Whether several processes may use the store at once.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(&*self.0, Place::Postgres { .. })
    }

    /// Ends the leases of those who are gone: a file has another process then, and on a server their
    /// time is over.
    pub(crate) async fn end_leases(&self, store: &dyn Store, now: Timestamp) {
        store.take_over(now).await.unwrap();
    }

    /// Two handles: two nodes, where the engine knows nodes.
    pub(crate) async fn two_nodes(&self) -> [Arc<dyn Store>; 2] {
        [self.node().await, self.node().await]
    }

    /// Closes this handle, which must be the last, and opens the store anew.
    pub(crate) async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        drop(store);
        if let Place::Sqlite { open, .. } = &*self.0 {
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
            Place::Sqlite { open, .. } => drop(open.lock().unwrap().take()),
            Place::Postgres { url, schema } => drop_schema(url, schema).await,
        }
    }
}

/// A node of a PostgreSQL store, with connections that [`kill_connections`] finds by its schema.
pub(crate) async fn postgres_node(url: &str, schema: &str) -> PostgresStore {
    let options = postgres_options(schema);
    PostgresStore::connect(url, options).await.unwrap()
}

/// A node that judges by the server's clock, as nodes do outside of tests.
pub(crate) async fn postgres_node_by_server(url: &str, schema: &str) -> Arc<dyn Store> {
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

fn postgres_options(schema: &str) -> PostgresOptions {
    PostgresOptions {
        schema: schema.to_owned(),
        application_name: schema.to_owned(),
        // Few: many tests share the server.
        pool_size: 6,
        // A machine that is busy with tests is slow, which is no fault.
        acquire_timeout: Duration::from_secs(60),
        statement_timeout: Duration::from_secs(60),
        lock_timeout: Duration::from_secs(60),
        // The tests decide what time it is.
        clock: PostgresClock::Caller,
        ..PostgresOptions::default()
    }
}

/// Cuts the connections of a node, and says how many.
pub(crate) async fn kill_connections(url: &str, name: &str) -> usize {
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
    ask(url, kill, name).await
}

/// How many connections there are of that name.
pub(crate) async fn count_connections(url: &str, name: &str) -> usize {
    let count = "SELECT pid FROM pg_stat_activity WHERE application_name = $1";
    ask(url, count, name).await
}

async fn ask(url: &str, question: &str, name: &str) -> usize {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let rows = client.query(question, &[&name]).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    rows.len()
}

/// A server of its own, for tests that kill it.
pub(crate) struct Postgres {
    pub(crate) url: String,
    folder: String,
}

impl Postgres {
    pub(crate) fn start() -> Self {
        let printed = script(&["start"]);
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
        script(&["crash", &self.folder]);
    }

    pub(crate) fn revive(&self) {
        script(&["revive", &self.folder]);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        script(&["stop", &self.folder]);
    }
}

fn script(arguments: &[&str]) -> String {
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
    reason = "test.sh tells where its server is"
)]
pub(crate) fn postgres_url() -> String {
    std::env::var("INTERZONE_TEST_POSTGRES").expect(
        "INTERZONE_TEST_POSTGRES names no PostgreSQL server: run ./test.sh --only test, or \
         eval \"$(scripts/postgres.sh start)\" first",
    )
}

/// A folder that goes when this does.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(what: &str) -> Self {
        let name = format!("interzone-{what}-{:016x}", RandomIds.random());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The database in it.
    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("store.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of it is in a temporary place; a test that failed must not panic twice.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
