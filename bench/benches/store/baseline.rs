//! Baseline: raw disk and SQLite performance without our code.

use crate::meter::Meter;
use crate::{StoreBenchSize, WRITERS};
use rusqlite::Connection;
use std::io::Write;
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

/// Group-committed SQLite rows per second, for each number of writers.
pub(crate) struct Baseline(pub(crate) [f64; WRITERS.len()]);

pub(crate) async fn measure(folder: &Path, size: StoreBenchSize) -> Baseline {
    let syncs = 500;
    let mut file = std::fs::File::create(folder.join("raw")).unwrap();
    let meter = Meter::start();
    for _ in 0..syncs {
        file.write_all(&[b'x'; 4096]).unwrap();
        file.sync_data().unwrap();
    }
    println!("{:>10.0} raw fdatasync/s, 4 KiB each", meter.rate(syncs));
    let mut rates = [0.0; WRITERS.len()];
    for (writers, rate) in WRITERS.into_iter().zip(&mut rates) {
        let rows = size.tasks.min(writers * 4_000);
        *rate = raw_rows(&folder.join(format!("raw-{writers}.db")), writers, rows).await;
        println!("{rate:>10.0} raw group-committed SQLite rows/s, {writers} writers");
    }
    Baseline(rates)
}

/// Writers that each send one row of 400 bytes to a thread and wait until it is durable; the thread
/// commits all queued rows at once.
async fn raw_rows(path: &Path, writers: usize, rows: usize) -> f64 {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL);",
        )
        .unwrap();
    let (sender, mut receiver) = mpsc::channel::<oneshot::Sender<()>>(1024);
    let thread = std::thread::spawn(move || {
        let body = "x".repeat(400);
        while let Some(first) = receiver.blocking_recv() {
            let mut waiting = vec![first];
            while let Ok(next) = receiver.try_recv() {
                waiting.push(next);
            }
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            for _ in &waiting {
                let mut insert = connection
                    .prepare_cached("INSERT INTO rows (body) VALUES (?1)")
                    .unwrap();
                insert.execute([&body]).unwrap();
            }
            connection.execute_batch("COMMIT").unwrap();
            for writer in waiting {
                writer.send(()).unwrap();
            }
        }
    });
    let meter = Meter::start();
    let each = rows / writers;
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let sender = sender.clone();
            tokio::spawn(async move {
                for _ in 0..each {
                    let (ack, durable) = oneshot::channel();
                    sender.send(ack).await.unwrap();
                    durable.await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let rate = meter.rate(each * writers);
    drop(sender);
    thread.join().unwrap();
    rate
}
