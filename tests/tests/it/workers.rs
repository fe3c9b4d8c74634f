//! The workers of a node on a real store: runs, leases, deliveries, shutdown.

mod at_hand;
mod at_once;
mod clocks;
pub(crate) mod counting;
mod memory;
mod outbox;
mod programs;
mod runs;
mod shares;
mod shutdown;

use interzone_execution::workers::{Carried, Carrier, WorkerOptions, Workers};
use interzone_hub::{
    Agent, AgentError, AgentInfo, Caller, Clock, EventBody, Hub, HubError, Limits, NewTask,
    OutboxEntry, Outcome, Output, RandomIds, Registry, Seen, Subject, SystemClock, Task, Turn,
};
use interzone_protocol::vocab::{AgentId, Message, PrincipalId, TaskId, TaskState, Timestamp};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// A clock that moves when told to.
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// A store that several nodes share.
struct Place {
    store: Arc<SqliteStore>,
    clock: Arc<TestClock>,
    folder: tempfile::TempDir,
}

impl Place {
    async fn new() -> Self {
        Self::with(SqliteOptions::default()).await
    }

    /// With a store that says soon when it cannot get on.
    async fn impatient() -> Self {
        let patience = Duration::from_millis(50);
        Self::with(SqliteOptions {
            patience,
            ..SqliteOptions::default()
        })
        .await
    }

    async fn with(options: SqliteOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        let store = SqliteStore::open(&path, options).await.unwrap();
        Self {
            store: Arc::new(store),
            clock: Arc::new(TestClock(AtomicI64::new(1_700_000_000_000))),
            folder,
        }
    }

    /// Has another program lock the store until what is given back is dropped.
    async fn lock(&self) -> Child {
        let code = "import sqlite3, sys\n\
            c = sqlite3.connect('hub.db', isolation_level=None, timeout=60)\n\
            c.execute('BEGIN IMMEDIATE')\n\
            print('locked', flush=True)\n\
            sys.stdin.read()";
        let mut child = Command::new("python3")
            .args(["-c", code])
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut said = [0; 6];
        let stdout = child.stdout.as_mut().unwrap();
        stdout.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"locked");
        child
    }

    fn pass(&self, time: Duration) {
        let millis = i64::try_from(time.as_millis()).unwrap();
        self.clock.0.fetch_add(millis, Ordering::SeqCst);
    }

    /// A node whose time passes when it is told to.
    fn hub(&self, agents: Vec<Arc<dyn Agent>>) -> Hub {
        self.hub_with(agents, self.clock.clone(), Limits::default())
    }

    /// A node whose time passes by itself.
    fn live_hub(&self, agents: Vec<Arc<dyn Agent>>) -> Hub {
        self.hub_with(agents, Arc::new(SystemClock), Limits::default())
    }

    fn hub_with(&self, agents: Vec<Arc<dyn Agent>>, clock: Arc<dyn Clock>, limits: Limits) -> Hub {
        let mut registry = Registry::default();
        agents.into_iter().for_each(|agent| registry.add(agent));
        let ids = Arc::new(RandomIds);
        Hub::new(self.store.clone(), clock, ids, registry, limits)
    }
}

/// Settings for a node that does not let a test wait.
fn quick(node: &str) -> WorkerOptions {
    WorkerOptions {
        look_every: Duration::from_millis(10),
        stop_grace: Duration::from_millis(200),
        ..WorkerOptions::new(node)
    }
}

fn start(hub: &Hub, options: WorkerOptions) -> Workers {
    let stop = CancellationToken::new();
    Workers::start(
        hub.clone(),
        Arc::new(NoWebhooks),
        options,
        Arc::new(()),
        stop,
    )
}

struct NoWebhooks;

#[async_trait::async_trait]
impl Carrier for NoWebhooks {
    async fn carry(&self, _: &Hub, _: &OutboxEntry) -> Result<Carried, HubError> {
        panic!("nothing should leave here");
    }
}

/// What an actor does, in the order in which it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    Begun(String, u32),
    Finished(String),
    /// It stopped because it was told to.
    Stopped(String),
    /// It was cut off.
    Cut(String),
}

/// An agent that does as it is told: `wait` until it is told to stop, `hang` whatever it is told,
/// `panic`, `break`, or wait at the gate and then finish.
struct Actor {
    info: AgentInfo,
    did: mpsc::UnboundedSender<Did>,
    gate: Arc<Semaphore>,
}

struct Stage {
    actor: Arc<Actor>,
    did: mpsc::UnboundedReceiver<Did>,
    gate: Arc<Semaphore>,
}

impl Stage {
    fn new(id: &str, concurrency: usize) -> Self {
        let (did, seen) = mpsc::unbounded_channel();
        let gate = Arc::new(Semaphore::new(0));
        let info = AgentInfo {
            id: AgentId::new(id).unwrap(),
            name: id.to_owned(),
            description: id.to_owned(),
            skills: Vec::new(),
            concurrency,
        };
        Self {
            actor: Arc::new(Actor {
                info,
                did,
                gate: gate.clone(),
            }),
            did: seen,
            gate,
        }
    }

    async fn next(&mut self) -> Did {
        let next = tokio::time::timeout(Duration::from_secs(20), self.did.recv());
        next.await.expect("something should happen").unwrap()
    }

    async fn begun(&mut self, text: &str, attempt: u32) {
        assert_eq!(self.next().await, Did::Begun(text.to_owned(), attempt));
    }

    fn nothing_more(&mut self) -> bool {
        self.did.try_recv().is_err()
    }
}

/// Notices that its run is cut off.
struct Cut(mpsc::UnboundedSender<Did>, Option<String>);

impl Drop for Cut {
    fn drop(&mut self) {
        if let Some(text) = self.1.take() {
            let _ = self.0.send(Did::Cut(text));
        }
    }
}

#[async_trait::async_trait]
impl Agent for Actor {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    async fn run(&self, turn: Turn, _: Arc<dyn Output>) -> Result<Outcome, AgentError> {
        let text = turn.message.text();
        let tell = |did: Did| {
            let _ = self.did.send(did);
        };
        tell(Did::Begun(text.clone(), turn.attempt));
        let mut cut = Cut(self.did.clone(), Some(text.clone()));
        let error = |code| AgentError {
            code,
            detail: "secret detail".to_owned(),
        };
        let ended = match text.as_str() {
            "wait" => {
                turn.stop.cancelled().await;
                tell(Did::Stopped(text.clone()));
                Err(error("agent_stopped"))
            }
            "hang" => std::future::pending().await,
            "panic" => panic!("as told"),
            "break" => Err(error("agent_broke")),
            _ => {
                self.gate.acquire().await.unwrap().forget();
                tell(Did::Finished(text.clone()));
                Ok(Outcome::Completed {
                    message: Some(Message::agent_text(format!("did {text}"))),
                    direct: false,
                })
            }
        };
        cut.1 = None;
        ended
    }
}

fn alice() -> Caller {
    Caller::new(PrincipalId::new("alice").unwrap())
}

fn bob() -> Caller {
    Caller::new(PrincipalId::new("bob").unwrap())
}

async fn ask(hub: &Hub, text: &str) -> TaskId {
    let new = NewTask::new(Message::user_text(text));
    hub.create_task(&alice(), new).await.unwrap().id
}

/// Watches a task until it has ended or waits for somebody. Answers all that happened.
async fn ended(hub: &Hub, id: &TaskId) -> (Task, Vec<EventBody>) {
    ended_after(hub, id, 0).await
}

async fn ended_after(hub: &Hub, id: &TaskId, after: u64) -> (Task, Vec<EventBody>) {
    let subject = Subject::Task(id.clone());
    let mut watch = hub.watch(&alice(), subject, after).await.unwrap();
    let mut log = Vec::new();
    loop {
        let seen = tokio::time::timeout(Duration::from_secs(20), watch.next());
        let Some(seen) = seen.await.expect("the task should end").unwrap() else {
            break;
        };
        let Seen::Event(event) = seen else { continue };
        log.push(event.body.clone());
        if matches!(&event.body, EventBody::State { to, .. } if to.is_interrupted()) {
            break;
        }
    }
    (hub.task(&alice(), id).await.unwrap(), log)
}

/// What was said about the end of a task that failed.
async fn why_failed(hub: &Hub, id: &TaskId) -> String {
    let (task, _) = ended(hub, id).await;
    assert_eq!(task.state, TaskState::Failed);
    let detail = hub.task_detail(&alice(), id, 0, false).await.unwrap();
    detail.status.unwrap().text()
}

async fn call_off(hub: &Hub, id: &TaskId) {
    hub.cancel(&alice(), id, None).await.unwrap();
}
