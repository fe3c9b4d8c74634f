//! What durability costs: the stores beside the floor of this disk, in one run.
//!
//! `cargo bench -p interzone-bench --bench store [-- --postgres URL] [--quick] [--check-bars] [--only PART] [--tasks N]`
//!
//! `PART` is `rest`, a store that is tidied up while it holds one task and then loaded, or `many`, which compares the cost
//! of every call in a store with `N` tasks (a million) with one that holds few.

#![expect(clippy::print_stdout, reason = "a measurement prints its table")]
#![expect(
    clippy::unwrap_used,
    reason = "a measurement that fails has nothing to say"
)]

mod age;
mod floor;
mod growth;
mod hot;
mod load;
mod meter;

use age::Time;
use interzone_bench::bars::missed;
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
    let value = |name: &str| {
        let mut left = arguments.iter().skip_while(|argument| *argument != name);
        left.nth(1).cloned()
    };
    let only = value("--only");
    let tasks = value("--tasks").map_or(size.largest, |tasks| tasks.parse().unwrap());
    if only.is_none() {
        runtime.block_on(run(size, postgres.as_deref()));
    }
    if only.as_deref().is_none_or(|only| only == "rest") {
        runtime.block_on(rest(postgres.as_deref()));
    }
    if only.as_deref().is_none_or(|only| only == "many") {
        runtime.block_on(many(tasks, postgres.as_deref()));
    }
    let missed = missed();
    if arguments.iter().any(|argument| argument == "--check-bars") && !missed.is_empty() {
        println!("missed: {}", missed.join(", "));
        std::process::exit(1);
    }
}

async fn rest(postgres: Option<&str>) {
    println!("\n# tidied up while young, then loaded");
    let folder = tempfile::tempdir_in(".").unwrap();
    let store = sqlite(&folder.path().join("rest.db"), SqliteOptions::default()).await;
    age::rested("sqlite", Time::Processor, store).await;
    if let Some(url) = postgres {
        age::rested("postgres", Time::Wall, connect(url).await).await;
    }
}

async fn many(tasks: usize, postgres: Option<&str>) {
    println!("\n# {tasks} tasks beside few");
    let folder = tempfile::tempdir_in(".").unwrap();
    // Whatever is called is read from the database, so that both do the same work.
    let open = async |name: &str| {
        let options = SqliteOptions {
            task_cache: 0,
            ..SqliteOptions::default()
        };
        sqlite(&folder.path().join(name), options).await
    };
    let (few, many) = (open("few.db").await, open("many.db").await);
    age::compare("sqlite", Time::Processor, few, many, tasks).await;
    if let Some(url) = postgres {
        let (few, many) = (connect(url).await, connect(url).await);
        age::compare("postgres", Time::Wall, few, many, tasks / 10).await;
    }
}

async fn run(size: Size, postgres: Option<&str>) {
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
            load::measure("postgres", connect(url).await, size, None).await;
            println!("\n# PostgreSQL, one task read again and again");
            hot::measure("postgres", connect(url).await).await;
            println!("\n# PostgreSQL as it grows");
            let smaller = Size {
                largest: size.largest / 10,
                ..size
            };
            growth::measure(connect(url).await, smaller).await;
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
