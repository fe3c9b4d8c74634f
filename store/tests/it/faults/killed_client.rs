//! A writing process is killed during a write, repeatedly.

use super::facts::Fact;
use super::verify::{FactLog, UnreportedLimit};
use super::{SeededRandom, rounds};
use crate::engine::{TempFolder, count_connections, drop_schema, postgres_node, postgres_url};
use interzone_hub::ports::{Store, StoreError};
use interzone_hub::{IdSource, RandomIds};
use interzone_store::sqlite::{IntegrityCheck, SqliteOptions, SqliteStore};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

const WRITERS: usize = 12;
/// Rounds per database: long enough to be killed during recovery.
const ROUNDS_PER_DATABASE: u64 = 5;

/// Running writer process.
struct CrashWriter {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl CrashWriter {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_interzone-crash-writer"))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Reads this many facts, kills the writer a little later, and reads what it had printed by then.
    fn kill_after(mut self, facts: u64, bytes: u64, log: &mut FactLog) -> usize {
        let before = log.count;
        let mut line = String::new();
        for _ in 0..facts {
            line.clear();
            if self.output.read_line(&mut line).unwrap() == 0 {
                panic!("the writer ended by itself: {:?}", self.child.wait());
            }
            log.record(Fact::from_line(line.trim_end()).expect(&line));
        }
        let mut tail = vec![0; usize::try_from(bytes).unwrap()];
        self.output.read_exact(&mut tail).unwrap();
        self.child.kill().unwrap();
        self.output.read_to_end(&mut tail).unwrap();
        self.child.wait().unwrap();
        // The last line may be truncated: that fact was not reported.
        let tail = String::from_utf8(tail).unwrap();
        let end = tail.rfind('\n').map_or(0, |at| at + 1);
        for line in tail[..end].lines() {
            log.record(Fact::from_line(line).expect(line));
        }
        log.count - before
    }
}

/// Writes that may be done but not reported: the kill came between the two.
const UNREPORTED_PER_KILL: UnreportedLimit = UnreportedLimit {
    commits: 2 * WRITERS,
    others: 1,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_sqlite_writer_loses_nothing() {
    let mut dice = SeededRandom::new();
    let (mut folder, mut log) = (TempFolder::new("killed"), FactLog::default());
    for round in 0..rounds() {
        if round % ROUNDS_PER_DATABASE == 0 {
            (folder, log) = (TempFolder::new("killed"), FactLog::default());
        }
        let file = folder.database_path();
        let name = format!("r{round}");
        let writers = WRITERS.to_string();
        let writer = CrashWriter::start(&["sqlite", file.to_str().unwrap(), &name, &writers]);
        let count = writer.kill_after(dice.below(600), dice.below(40), &mut log);
        println!("round {round}: killed after {count} facts");
        let options = SqliteOptions {
            integrity_check: IntegrityCheck::Always,
            ..SqliteOptions::default()
        };
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&file, options).await.unwrap());
        log.check(&store, UNREPORTED_PER_KILL).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_postgres_writer_loses_nothing() {
    let mut dice = SeededRandom::new();
    let url = postgres_url();
    let (mut schema, mut log) = (String::new(), FactLog::default());
    for round in 0..rounds() {
        if round % ROUNDS_PER_DATABASE == 0 {
            if !schema.is_empty() {
                drop_schema(&url, &schema).await;
            }
            schema = format!("test_{:016x}", RandomIds.random());
            log = FactLog::default();
        }
        let name = format!("r{round}");
        let writers = WRITERS.to_string();
        let writer = CrashWriter::start(&["postgres", &url, &schema, &name, &writers]);
        let count = writer.kill_after(1 + dice.below(300), dice.below(40), &mut log);
        println!("round {round}: killed after {count} facts");
        wait_for_disconnect(&url, &schema).await;
        let store: Arc<dyn Store> = Arc::new(postgres_node(&url, &schema).await);
        log.check(&store, UNREPORTED_PER_KILL).await;
    }
    drop_schema(&url, &schema).await;
}

/// Waits until the server has finished the dead client's last statements; no other client writes afterwards.
async fn wait_for_disconnect(url: &str, schema: &str) {
    let mut pace = tokio::time::interval(std::time::Duration::from_millis(20));
    for _ in 0..500 {
        pace.tick().await;
        if count_connections(url, schema).await == 0 {
            return;
        }
    }
    panic!("a killed client's connections never ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_file_is_locked_by_one_process() {
    let folder = TempFolder::new("shared");
    let file = folder.database_path();
    let mut writer = CrashWriter::start(&["sqlite", file.to_str().unwrap(), "first", "2"]);
    let mut line = String::new();
    writer.output.read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "the first one writes");
    let second = SqliteStore::open(&file, SqliteOptions::default()).await;
    match second {
        Err(StoreError::Unusable(reason)) => println!("refused: {reason}"),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("two processes write one file"),
    }
    let mut log = FactLog::default();
    log.record(Fact::from_line(line.trim_end()).unwrap());
    writer.kill_after(50, 0, &mut log);
    // A lock does not outlive its process.
    let store = SqliteStore::open(&file, SqliteOptions::default()).await;
    let store: Arc<dyn Store> = Arc::new(store.unwrap());
    log.check(&store, UNREPORTED_PER_KILL).await;
}
