//! What durability costs: the stores beside the floor of this disk, in one run.
//!
//! `cargo bench -p interzone-bench --bench store [-- --postgres URL] [--quick]`

#![expect(clippy::print_stdout, reason = "a measurement prints its table")]
#![expect(
    clippy::unwrap_used,
    reason = "a measurement that fails has nothing to say"
)]

mod floor;
mod growth;
mod hot;
mod load;
mod meter;

use interzone_hub::ports::Store;
use interzone_store::postgres::{PostgresOptions, PostgresStore};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::path::Path;
use std::sync::Arc;

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// Rows and tasks for each number of writers.
    pub(crate) tasks: usize,
    /// How far the table grows.
    pub(crate) largest: usize,
    /// Events in the log that is replayed.
    pub(crate) replayed: usize,
    /// Events that are stored when memory is read.
    pub(crate) stored_events: usize,
}

const WHOLE: Size = Size {
    tasks: 30_000,
    largest: 1_000_000,
    replayed: 100_000,
    stored_events: 1_000_000,
};
const QUICK: Size = Size {
    tasks: 3_000,
    largest: 10_000,
    replayed: 20_000,
    stored_events: 20_000,
};

pub(crate) const WRITERS: [usize; 3] = [1, 32, 256];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let size = if quick { QUICK } else { WHOLE };
    let named = arguments
        .iter()
        .position(|argument| argument == "--postgres");
    let postgres = named.and_then(|at| arguments.get(at + 1)).cloned();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(size, postgres));
}

async fn run(size: Size, postgres: Option<String>) {
    let folder = tempfile::tempdir_in(".").unwrap();
    println!("# the floor of this disk");
    let floor = floor::measure(folder.path(), size).await;

    println!("\n# SQLite");
    let store = sqlite(&folder.path().join("load.db"), SqliteOptions::default()).await;
    load::measure("sqlite", store, size, Some(&floor)).await;
    println!("\n# SQLite, one task read again and again");
    let store = sqlite(&folder.path().join("hot.db"), SqliteOptions::default()).await;
    hot::measure("sqlite", store).await;
    let forgetful = SqliteOptions {
        task_cache: 0,
        ..SqliteOptions::default()
    };
    let store = sqlite(&folder.path().join("cold.db"), forgetful).await;
    hot::measure("sqlite without a cache", store).await;
    println!("\n# SQLite as it grows");
    let store = sqlite(&folder.path().join("growth.db"), SqliteOptions::default()).await;
    growth::measure(store, size).await;

    match postgres {
        None => println!("\n# PostgreSQL: not measured, for no --postgres URL was given"),
        Some(url) => {
            println!("\n# PostgreSQL");
            load::measure("postgres", connect(&url).await, size, None).await;
            println!("\n# PostgreSQL, one task read again and again");
            hot::measure("postgres", connect(&url).await).await;
            println!("\n# PostgreSQL as it grows");
            let smaller = Size {
                largest: size.largest / 10,
                ..size
            };
            growth::measure(connect(&url).await, smaller).await;
        }
    }
}

async fn sqlite(path: &Path, options: SqliteOptions) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path, options).await.unwrap())
}

async fn connect(url: &str) -> Arc<dyn Store> {
    let schema = format!("bench_{}", uuid::Uuid::new_v4().simple());
    let options = PostgresOptions {
        schema,
        ..PostgresOptions::default()
    };
    Arc::new(PostgresStore::connect(url, options).await.unwrap())
}
