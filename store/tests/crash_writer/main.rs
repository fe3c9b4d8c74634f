//! Writes through a store from many tasks concurrently and prints what was acknowledged, one fact per line, until
//! it is killed. The tests in `it/faults` start it, kill it, and check the facts.
//!
//! `interzone-crash-writer sqlite FILE NAME WRITERS`
//! `interzone-crash-writer postgres URL SCHEMA NAME WRITERS`
//! `interzone-crash-writer fill FILE COPY RELIEF`: writes until the disk is full, runs the shell command RELIEF,
//! continues writing, and leaves a copy of the database.

#[path = "../it/faults/facts.rs"]
mod facts;
#[path = "../it/faults/load.rs"]
mod load;

use facts::Fact;
use interzone_hub::ports::{Maintenance, Store, StoreError, WorkStore};
use interzone_store::postgres::{PostgresClock, PostgresOptions, PostgresStore};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use load::{Fault, Load};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn main() -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    runtime.block_on(async {
        match arguments[..] {
            ["sqlite", file, name, writers] => {
                let store = SqliteStore::open(file, SqliteOptions::default()).await?;
                write_until_killed(Arc::new(store), name, writers.parse()?).await
            }
            ["postgres", url, schema, name, writers] => {
                let options = PostgresOptions {
                    schema: schema.to_owned(),
                    application_name: schema.to_owned(),
                    // The test sets the time.
                    clock: PostgresClock::Caller,
                    ..PostgresOptions::default()
                };
                let store = PostgresStore::connect(url, options).await?;
                write_until_killed(Arc::new(store), name, writers.parse()?).await
            }
            ["fill", file, copy, relief] => fill(file, copy, relief).await,
            _ => Err("see the head of tests/crash_writer/main.rs".into()),
        }
    })
}

/// Prints one complete line: a fact that is not printed did not happen, for the reader.
fn print_fact(fact: &Fact) {
    let line = format!("{fact}\n");
    // A reader that is gone is about to kill this process.
    drop(std::io::stdout().lock().write_all(line.as_bytes()));
}

async fn write_until_killed(
    store: Arc<dyn Store>,
    name: &str,
    writers: usize,
) -> Result<(), Fault> {
    let load = Load::start(store, name, writers, Arc::new(|fact| print_fact(&fact))).await?;
    load.end().await
}

/// Number of acknowledged writes that prove recovery.
const MIN_WRITES_AFTER_RELIEF: u64 = 150;
/// Number of rejected writes that prove a full disk.
const MIN_REJECTED_WRITES: u64 = 20;

async fn fill(file: &str, copy: &str, relief: &str) -> Result<(), Fault> {
    let store = Arc::new(SqliteStore::open(file, SqliteOptions::default()).await?);
    let refused = Arc::new(AtomicU64::new(0));
    let written = Arc::new(AtomicU64::new(0));
    let (refusals, writes) = (refused.clone(), written.clone());
    let record = move |fact: Fact| {
        match fact {
            Fact::Refused { .. } => refusals.fetch_add(1, Ordering::SeqCst),
            Fact::Wrote { .. } => writes.fetch_add(1, Ordering::SeqCst),
            _ => 0,
        };
        print_fact(&fact);
    };
    let load = Load::start(store.clone(), "full", 8, Arc::new(record)).await?;
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(5));
    while refused.load(Ordering::SeqCst) < MIN_REJECTED_WRITES {
        ticks.tick().await;
        if let Err(StoreError::Full | StoreError::Unavailable(_)) = store.check().await {
            // Reads work while writes are rejected.
            store.work_depth(load::now()).await?;
        }
    }
    let status = std::process::Command::new("sh")
        .args(["-c", relief])
        .status()?;
    if !status.success() {
        return Err(format!("{relief}: {status}").into());
    }
    let target = written.load(Ordering::SeqCst) + MIN_WRITES_AFTER_RELIEF;
    while written.load(Ordering::SeqCst) < target {
        ticks.tick().await;
    }
    load.stop();
    load.end().await?;
    store.check().await?;
    drop(store);
    std::fs::copy(file, copy)?;
    // The WAL may be empty or not; if it exists, it belongs to the database.
    let log = format!("{file}-wal");
    if std::fs::exists(&log)? {
        std::fs::copy(log, format!("{copy}-wal"))?;
    }
    print_fact(&Fact::Done);
    Ok(())
}
