//! Cost of durability: the stores compared with this disk's baseline, in one run.
//!
//! `cargo bench -p interzone-bench --bench store [-- --postgres URL] [--quick] [--check-bars] [--only PART] [--tasks N]`
//!
//! `PART` is `rest`, a store that is optimized while it holds one task and then loaded, or `many`, which compares the
//! cost of every call in a store with `N` tasks (default: a million) with a small store.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::unwrap_used, reason = "a failed benchmark has no result")]

mod baseline;
mod cached_reads;
mod growth;
mod load;
mod meter;
mod store_size;

use interzone_bench::thresholds::missed;
use interzone_hub::ports::Store;
use interzone_store::postgres::{PostgresOptions, PostgresStore};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::path::Path;
use std::sync::Arc;
use store_size::TimeSource;

/// Amount of work.
#[derive(Clone, Copy)]
pub(crate) struct StoreBenchSize {
    /// Rows and tasks for each number of writers.
    pub(crate) tasks: usize,
    /// Maximum number of tasks in the growth benchmark.
    pub(crate) largest: usize,
    /// Events in the replayed log.
    pub(crate) replayed: usize,
    /// Events stored when memory is measured.
    pub(crate) stored_events: usize,
}

const FULL: StoreBenchSize = StoreBenchSize {
    tasks: 30_000,
    largest: 1_000_000,
    replayed: 100_000,
    stored_events: 1_000_000,
};
const QUICK: StoreBenchSize = StoreBenchSize {
    tasks: 3_000,
    largest: 10_000,
    replayed: 20_000,
    stored_events: 20_000,
};

pub(crate) const WRITERS: [usize; 3] = [1, 32, 256];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let size = if quick { QUICK } else { FULL };
    let flag_index = arguments
        .iter()
        .position(|argument| argument == "--postgres");
    let postgres = flag_index.and_then(|at| arguments.get(at + 1)).cloned();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let value = |name: &str| {
        let mut from_flag = arguments.iter().skip_while(|argument| *argument != name);
        from_flag.nth(1).cloned()
    };
    let only = value("--only");
    let tasks = value("--tasks").map_or(size.largest, |tasks| tasks.parse().unwrap());
    if only.is_none() {
        runtime.block_on(run(size, postgres.as_deref()));
    }
    if only.as_deref().is_none_or(|only| only == "rest") {
        runtime.block_on(measure_housekeeping(postgres.as_deref()));
    }
    if only.as_deref().is_none_or(|only| only == "many") {
        runtime.block_on(compare_sizes(tasks, postgres.as_deref()));
    }
    let missed = missed();
    if arguments.iter().any(|argument| argument == "--check-bars") && !missed.is_empty() {
        println!("missed: {}", missed.join(", "));
        std::process::exit(1);
    }
}

async fn measure_housekeeping(postgres: Option<&str>) {
    println!("\n# optimized while small, then loaded");
    let folder = tempfile::tempdir_in(".").unwrap();
    let store = sqlite(&folder.path().join("rest.db"), SqliteOptions::default()).await;
    store_size::measure_after_housekeeping("sqlite", TimeSource::Cpu, store).await;
    if let Some(url) = postgres {
        store_size::measure_after_housekeeping("postgres", TimeSource::Wall, connect(url).await)
            .await;
    }
}

async fn compare_sizes(tasks: usize, postgres: Option<&str>) {
    println!("\n# {tasks} tasks compared with few");
    let folder = tempfile::tempdir_in(".").unwrap();
    // Without the task cache every call reads the database, so that both stores do the same work.
    let open = async |name: &str| {
        let options = SqliteOptions {
            task_cache: 0,
            ..SqliteOptions::default()
        };
        sqlite(&folder.path().join(name), options).await
    };
    let (few, many) = (open("few.db").await, open("many.db").await);
    store_size::compare("sqlite", TimeSource::Cpu, few, many, tasks).await;
    if let Some(url) = postgres {
        let (few, many) = (connect(url).await, connect(url).await);
        store_size::compare("postgres", TimeSource::Wall, few, many, tasks / 10).await;
    }
}

async fn run(size: StoreBenchSize, postgres: Option<&str>) {
    let folder = tempfile::tempdir_in(".").unwrap();
    println!("# baseline of this disk");
    let baseline = baseline::measure(folder.path(), size).await;

    println!("\n# SQLite");
    let store = sqlite(&folder.path().join("load.db"), SqliteOptions::default()).await;
    load::measure("sqlite", store, size, Some(&baseline)).await;
    println!("\n# SQLite, repeated reads of one task");
    let store = sqlite(&folder.path().join("hot.db"), SqliteOptions::default()).await;
    cached_reads::measure("sqlite", store).await;
    let uncached = SqliteOptions {
        task_cache: 0,
        ..SqliteOptions::default()
    };
    let store = sqlite(&folder.path().join("cold.db"), uncached).await;
    cached_reads::measure("sqlite without a cache", store).await;
    println!("\n# SQLite as it grows");
    let store = sqlite(&folder.path().join("growth.db"), SqliteOptions::default()).await;
    growth::measure(store, size).await;

    match postgres {
        None => println!("\n# PostgreSQL: skipped, no --postgres URL given"),
        Some(url) => {
            println!("\n# PostgreSQL");
            load::measure("postgres", connect(url).await, size, None).await;
            println!("\n# PostgreSQL, repeated reads of one task");
            cached_reads::measure("postgres", connect(url).await).await;
            println!("\n# PostgreSQL as it grows");
            let smaller = StoreBenchSize {
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
