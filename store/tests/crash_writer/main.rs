//! Writes through a store from many sides at once and says what was acknowledged, a line for each
//! fact, until it is killed. The tests in `it/faults` start it, kill it, and check the facts.
//!
//! `interzone-crash-writer sqlite FILE NAME WRITERS`
//! `interzone-crash-writer postgres URL SCHEMA NAME WRITERS`
//! `interzone-crash-writer fill FILE COPY RELIEF`: writes until there is no room, runs the shell
//! command RELIEF, goes on writing, and leaves a copy of the database.

#[path = "../it/faults/facts.rs"]
mod facts;
#[path = "../it/faults/load.rs"]
mod load;

use facts::Fact;
use interzone_hub::ports::{Store, StoreError, Upkeep, WorkStore};
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
                    // The test decides what time it is.
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

/// One line, whole and at once: what is not told did not happen, as far as the reader knows.
fn tell(fact: &Fact) {
    let line = format!("{fact}\n");
    // A reader that has gone is about to kill us.
    drop(std::io::stdout().lock().write_all(line.as_bytes()));
}

async fn write_until_killed(
    store: Arc<dyn Store>,
    name: &str,
    writers: usize,
) -> Result<(), Fault> {
    let load = Load::start(store, name, writers, Arc::new(|fact| tell(&fact))).await?;
    load.end().await
}

/// How many acknowledged writes show that it goes on.
const ENOUGH: u64 = 150;
/// How many refused ones show that it is full, and stays so.
const REFUSED: u64 = 20;

async fn fill(file: &str, copy: &str, relief: &str) -> Result<(), Fault> {
    let store = Arc::new(SqliteStore::open(file, SqliteOptions::default()).await?);
    let refused = Arc::new(AtomicU64::new(0));
    let written = Arc::new(AtomicU64::new(0));
    let (refusals, writes) = (refused.clone(), written.clone());
    let note = move |fact: Fact| {
        match fact {
            Fact::Refused { .. } => refusals.fetch_add(1, Ordering::SeqCst),
            Fact::Wrote { .. } => writes.fetch_add(1, Ordering::SeqCst),
            _ => 0,
        };
        tell(&fact);
    };
    let load = Load::start(store.clone(), "full", 8, Arc::new(note)).await?;
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(5));
    while refused.load(Ordering::SeqCst) < REFUSED {
        ticks.tick().await;
        if let Err(StoreError::Full | StoreError::Unavailable(_)) = store.check().await {
            // Readers go on while nobody can write.
            store.work_depth(load::now()).await?;
        }
    }
    let status = std::process::Command::new("sh")
        .args(["-c", relief])
        .status()?;
    if !status.success() {
        return Err(format!("{relief}: {status}").into());
    }
    let target = written.load(Ordering::SeqCst) + ENOUGH;
    while written.load(Ordering::SeqCst) < target {
        ticks.tick().await;
    }
    load.stop();
    load.end().await?;
    store.check().await?;
    drop(store);
    std::fs::copy(file, copy)?;
    // Whether anything is left in the log is the store's business; what is there belongs to it.
    let log = format!("{file}-wal");
    if std::fs::exists(&log)? {
        std::fs::copy(log, format!("{copy}-wal"))?;
    }
    tell(&Fact::Done);
    Ok(())
}
