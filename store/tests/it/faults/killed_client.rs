//! A process that writes is killed in mid-write, again and again.

use super::facts::Fact;
use super::verify::{Told, Untold};
use super::{Dice, rounds};
use crate::engine::{Folder, count_connections, drop_schema, postgres_node, postgres_url};
use interzone_hub::ports::{Store, StoreError};
use interzone_hub::{IdSource, RandomIds};
use interzone_store::sqlite::{Check, SqliteOptions, SqliteStore};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

const WRITERS: usize = 12;
/// How many rounds one database lives: long enough to be killed while it recovers.
const LIFETIME: u64 = 5;

/// A writer that is running.
struct Writer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Writer {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_interzone-crash-writer"))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Reads so many facts, kills the writer a little later, and reads what it had said by then.
    fn kill_after(mut self, facts: u64, bytes: u64, told: &mut Told) -> usize {
        let before = told.count;
        let mut line = String::new();
        for _ in 0..facts {
            line.clear();
            if self.output.read_line(&mut line).unwrap() == 0 {
                panic!("the writer ended by itself: {:?}", self.child.wait());
            }
            told.note(Fact::from_line(line.trim_end()).expect(&line));
        }
        let mut rest = vec![0; usize::try_from(bytes).unwrap()];
        self.output.read_exact(&mut rest).unwrap();
        self.child.kill().unwrap();
        self.output.read_to_end(&mut rest).unwrap();
        self.child.wait().unwrap();
        // The last line may be cut off: that fact was not told.
        let rest = String::from_utf8(rest).unwrap();
        let end = rest.rfind('\n').map_or(0, |at| at + 1);
        for line in rest[..end].lines() {
            told.note(Fact::from_line(line).expect(line));
        }
        told.count - before
    }
}

/// What may have been done and not told: the kill came between the two.
const CUT_OFF: Untold = Untold {
    commits: 2 * WRITERS,
    others: 1,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_loses_nothing() {
    let mut dice = Dice::new();
    let (mut folder, mut told) = (Folder::new("killed"), Told::default());
    for round in 0..rounds() {
        if round % LIFETIME == 0 {
            (folder, told) = (Folder::new("killed"), Told::default());
        }
        let file = folder.file();
        let name = format!("r{round}");
        let writers = WRITERS.to_string();
        let writer = Writer::start(&["sqlite", file.to_str().unwrap(), &name, &writers]);
        let heard = writer.kill_after(dice.below(600), dice.below(40), &mut told);
        println!("round {round}: killed after {heard} facts");
        let options = SqliteOptions {
            check: Check::Always,
            ..SqliteOptions::default()
        };
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&file, options).await.unwrap());
        told.check(&store, CUT_OFF).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_loses_nothing() {
    let mut dice = Dice::new();
    let url = postgres_url();
    let (mut schema, mut told) = (String::new(), Told::default());
    for round in 0..rounds() {
        if round % LIFETIME == 0 {
            if !schema.is_empty() {
                drop_schema(&url, &schema).await;
            }
            schema = format!("test_{:016x}", RandomIds.random());
            told = Told::default();
        }
        let name = format!("r{round}");
        let writers = WRITERS.to_string();
        let writer = Writer::start(&["postgres", &url, &schema, &name, &writers]);
        let heard = writer.kill_after(1 + dice.below(300), dice.below(40), &mut told);
        println!("round {round}: killed after {heard} facts");
        settle_down(&url, &schema).await;
        let store: Arc<dyn Store> = Arc::new(postgres_node(&url, &schema).await);
        told.check(&store, CUT_OFF).await;
    }
    drop_schema(&url, &schema).await;
}

/// The server may still be at what the dead client sent last; nobody else writes afterwards.
async fn settle_down(url: &str, schema: &str) {
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
async fn sqlite_is_not_shared_by_two_processes() {
    let folder = Folder::new("shared");
    let file = folder.file();
    let mut writer = Writer::start(&["sqlite", file.to_str().unwrap(), "first", "2"]);
    let mut line = String::new();
    writer.output.read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "the first one writes");
    let second = SqliteStore::open(&file, SqliteOptions::default()).await;
    match second {
        Err(StoreError::Unusable(why)) => println!("refused: {why}"),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("two processes write one file"),
    }
    let mut told = Told::default();
    told.note(Fact::from_line(line.trim_end()).unwrap());
    writer.kill_after(50, 0, &mut told);
    // A lock does not outlive its process.
    let store = SqliteStore::open(&file, SqliteOptions::default()).await;
    let store: Arc<dyn Store> = Arc::new(store.unwrap());
    told.check(&store, CUT_OFF).await;
}
