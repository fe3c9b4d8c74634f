//! Workers of a node on a real store: runs, leases, deliveries, shutdown.

mod clocks;
pub(crate) mod counting_store;
mod direct_dispatch;
mod example_programs;
mod inline_answers;
mod input_memory;
mod outbox;
mod runs;
mod shutdown;
mod slot_shares;

use interzone_delivery::{DeliveryHandler, DeliveryOutcome};
use interzone_execution::workers::{WorkerOptions, Workers};
use interzone_hub::{
    Agent, AgentError, AgentInfo, AgentProfile, Caller, Clock, EventBody, Hub, HubError, Limits,
    NewTask, OutboxEntry, RandomIds, Registry, Subject, SystemClock, Task, Turn, TurnOutcome,
    TurnOutput, WatchItem,
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

/// Clock that is advanced by the test.
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Store that several nodes share.
struct WorkersFixture {
    store: Arc<SqliteStore>,
    clock: Arc<ManualClock>,
    folder: tempfile::TempDir,
}

impl WorkersFixture {
    async fn new() -> Self {
        Self::with_options(SqliteOptions::default()).await
    }

    /// Uses a store with a short busy timeout.
    async fn with_short_busy_timeout() -> Self {
        let busy_timeout = Duration::from_millis(50);
        Self::with_options(SqliteOptions {
            busy_timeout,
            ..SqliteOptions::default()
        })
        .await
    }

    async fn with_options(options: SqliteOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hub.db");
        let store = SqliteStore::open(&path, options).await.unwrap();
        Self {
            store: Arc::new(store),
            clock: Arc::new(ManualClock(AtomicI64::new(1_700_000_000_000))),
            folder,
        }
    }

    /// Has another process lock the store until the returned child is dropped.
    async fn lock_store(&self) -> Child {
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
        let mut output = [0; 6];
        let stdout = child.stdout.as_mut().unwrap();
        stdout.read_exact(&mut output).await.unwrap();
        assert_eq!(&output, b"locked");
        child
    }

    fn advance_clock(&self, time: Duration) {
        let millis = i64::try_from(time.as_millis()).unwrap();
        self.clock.0.fetch_add(millis, Ordering::SeqCst);
    }

    /// Node whose clock is advanced by the test.
    fn hub_with_manual_clock(&self, agents: Vec<Arc<dyn Agent>>) -> Hub {
        self.hub_with(agents, self.clock.clone(), Limits::default())
    }

    /// Node on the system clock.
    fn hub_with_system_clock(&self, agents: Vec<Arc<dyn Agent>>) -> Hub {
        self.hub_with(agents, Arc::new(SystemClock), Limits::default())
    }

    fn hub_with(&self, agents: Vec<Arc<dyn Agent>>, clock: Arc<dyn Clock>, limits: Limits) -> Hub {
        let mut registry = Registry::default();
        agents.into_iter().for_each(|agent| registry.add(agent));
        let ids = Arc::new(RandomIds);
        Hub::new(self.store.clone(), clock, ids, registry, limits)
    }
}

/// Worker options with short intervals.
fn quick_options(node: &str) -> WorkerOptions {
    WorkerOptions {
        poll_interval: Duration::from_millis(10),
        stop_grace: Duration::from_millis(200),
        ..WorkerOptions::new(node)
    }
}

fn start_workers(hub: &Hub, options: WorkerOptions) -> Workers {
    let stop = CancellationToken::new();
    Workers::start(
        hub.clone(),
        Arc::new(RejectingDeliveryHandler),
        options,
        Arc::new(()),
        stop,
    )
}

struct RejectingDeliveryHandler;

#[async_trait::async_trait]
impl DeliveryHandler for RejectingDeliveryHandler {
    async fn deliver(&self, _: &OutboxEntry) -> Result<DeliveryOutcome, HubError> {
        panic!("no delivery is expected");
    }
}

/// Actions of a scripted agent, in the order in which they happen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AgentAction {
    Started(String, u32),
    Finished(String),
    /// It stopped because its turn was canceled.
    Stopped(String),
    /// Its future was dropped.
    Dropped(String),
}

/// Agent that follows the message text: `wait` until canceled, `hang` ignoring cancellation, `panic`, `break`
/// (return an error), or else wait for a permit and finish.
struct ScriptedAgent {
    info: AgentInfo,
    actions: mpsc::UnboundedSender<AgentAction>,
    gate: Arc<Semaphore>,
}

struct AgentScript {
    agent: Arc<ScriptedAgent>,
    actions: mpsc::UnboundedReceiver<AgentAction>,
    gate: Arc<Semaphore>,
}

impl AgentScript {
    fn new(id: &str, concurrency: usize) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let gate = Arc::new(Semaphore::new(0));
        let info = AgentInfo {
            id: AgentId::new(id).unwrap(),
            name: id.to_owned(),
            description: id.to_owned(),
            skills: Vec::new(),
            concurrency,
            profile: AgentProfile::default(),
        };
        Self {
            agent: Arc::new(ScriptedAgent {
                info,
                actions: sender,
                gate: gate.clone(),
            }),
            actions: receiver,
            gate,
        }
    }

    async fn next_action(&mut self) -> AgentAction {
        let next = tokio::time::timeout(Duration::from_secs(20), self.actions.recv());
        next.await.expect("an action before the timeout").unwrap()
    }

    async fn expect_started(&mut self, text: &str, attempt: u32) {
        assert_eq!(
            self.next_action().await,
            AgentAction::Started(text.to_owned(), attempt)
        );
    }

    fn has_no_action(&mut self) -> bool {
        self.actions.try_recv().is_err()
    }
}

/// Reports that the run's future was dropped.
struct DropReporter(mpsc::UnboundedSender<AgentAction>, Option<String>);

impl Drop for DropReporter {
    fn drop(&mut self) {
        if let Some(text) = self.1.take() {
            let _ = self.0.send(AgentAction::Dropped(text));
        }
    }
}

#[async_trait::async_trait]
impl Agent for ScriptedAgent {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    async fn run(&self, turn: Turn, _: Arc<dyn TurnOutput>) -> Result<TurnOutcome, AgentError> {
        let text = turn.message.text();
        let report = |action: AgentAction| {
            let _ = self.actions.send(action);
        };
        report(AgentAction::Started(text.clone(), turn.attempt));
        let mut drop_reporter = DropReporter(self.actions.clone(), Some(text.clone()));
        let error = |code| AgentError {
            code,
            detail: "secret detail".to_owned(),
        };
        let result = match text.as_str() {
            "wait" => {
                turn.cancel_token.cancelled().await;
                report(AgentAction::Stopped(text.clone()));
                Err(error("agent_stopped"))
            }
            "hang" => std::future::pending().await,
            "panic" => panic!("requested by the test"),
            "break" => Err(error("agent_broke")),
            _ => {
                self.gate.acquire().await.unwrap().forget();
                report(AgentAction::Finished(text.clone()));
                Ok(TurnOutcome::Completed {
                    message: Some(Message::agent_text(format!("did {text}"))),
                    direct: false,
                })
            }
        };
        drop_reporter.1 = None;
        result
    }
}

fn alice() -> Caller {
    Caller::new(PrincipalId::new("alice").unwrap())
}

fn bob() -> Caller {
    Caller::new(PrincipalId::new("bob").unwrap())
}

async fn create_task(hub: &Hub, text: &str) -> TaskId {
    let new = NewTask::new(Message::user_text(text));
    hub.create_task(&alice(), new).await.unwrap().id
}

/// Watches a task until it is terminal or interrupted; returns it with all its events.
async fn wait_until_ended(hub: &Hub, id: &TaskId) -> (Task, Vec<EventBody>) {
    wait_until_ended_after(hub, id, 0).await
}

async fn wait_until_ended_after(hub: &Hub, id: &TaskId, after: u64) -> (Task, Vec<EventBody>) {
    let subject = Subject::Task(id.clone());
    let mut watch = hub.watch(&alice(), subject, after).await.unwrap();
    let mut log = Vec::new();
    loop {
        let next = tokio::time::timeout(Duration::from_secs(20), watch.next());
        let Some(item) = next.await.expect("the task should end").unwrap() else {
            break;
        };
        let WatchItem::Event(event) = item else {
            continue;
        };
        log.push(event.body.clone());
        if matches!(&event.body, EventBody::State { to, .. } if to.is_interrupted()) {
            break;
        }
    }
    (hub.task(&alice(), id).await.unwrap(), log)
}

/// Status text of a failed task.
async fn failure_text(hub: &Hub, id: &TaskId) -> String {
    let (task, _) = wait_until_ended(hub, id).await;
    assert_eq!(task.state, TaskState::Failed);
    let detail = hub.task_detail(&alice(), id, 0, false).await.unwrap();
    detail.status_message.unwrap().text()
}

async fn cancel(hub: &Hub, id: &TaskId) {
    hub.cancel(&alice(), id, None).await.unwrap();
}
