//! Cost of calls in a large store compared with a small one, and in a store optimized while small.

use crate::growth::{fill, page_query, task_id};
use crate::load::{caller, hub};
use crate::meter::Meter;
use interzone_bench::thresholds::{check_threshold, median};
use interzone_hub::ports::Store;
use interzone_hub::{Hub, NewTask, Retention, Run, Subject, TurnOutcome, TurnStart};
use interzone_protocol::vocab::{AgentId, Message, TaskId};
use std::sync::Arc;
use std::time::Duration;

/// Number of tasks in the small store: enough for a page.
const SMALL_STORE_TASKS: usize = 200;
/// Calls per round, and rounds.
const CALLS_PER_ROUND: u32 = 200;
const ROUNDS: usize = 9;
/// Maximum ratio of a call's cost to that in a small store.
const MAX_RATIO: f64 = 1.3;
/// Tasks per step after the housekeeping.
const TASKS_PER_STEP: u32 = 3_000;
const STEPS: usize = 6;

/// One task, then housekeeping, then load: the cost of a task must not rise with the number of tasks.
pub(crate) async fn measure_after_housekeeping(
    name: &str,
    time: TimeSource,
    store: Arc<dyn Store>,
) {
    let hub = hub(store);
    execute(&hub).await;
    let store = hub.store();
    store
        .purge(&Retention::default(), hub.now(), 1_000)
        .await
        .unwrap();
    store.optimize().await.unwrap();
    let mut costs = Vec::new();
    for step in 1..=STEPS {
        let meter = Meter::start();
        for _ in 0..TASKS_PER_STEP {
            execute(&hub).await;
        }
        let cost = time.micros(&meter, TASKS_PER_STEP);
        println!(
            "{cost:>10.1} µs {time} for a task from creation to completion, {name}, step {step}"
        );
        costs.push(cost);
    }
    let last = costs.last().copied().unwrap_or(f64::NAN);
    let first = costs.first().copied().unwrap_or(f64::NAN);
    let threshold = format!("{name}, optimized with one task: last step to first");
    check_threshold(&threshold, last / first, true, MAX_RATIO);
}

/// A measured call.
#[derive(Clone, Copy, Debug)]
enum StoreCall {
    Create,
    Get,
    Send,
    Cancel,
    Execute,
    List,
    Watch,
    Claim,
    /// Like `Get`, of a task not read before: most of its pages come from the file.
    GetCold,
    WatchCold,
}

const ALL_CALLS: [StoreCall; 10] = [
    StoreCall::Create,
    StoreCall::Get,
    StoreCall::Send,
    StoreCall::Cancel,
    StoreCall::Execute,
    StoreCall::List,
    StoreCall::Watch,
    StoreCall::Claim,
    StoreCall::GetCold,
    StoreCall::WatchCold,
];

impl StoreCall {
    /// Returns true if its cost is bounded in a large store. A first read from the file costs a system call
    /// per page, which a store of 200 tasks does not have.
    fn is_bounded(self) -> bool {
        !matches!(self, Self::GetCold | Self::WatchCold)
    }
}

/// Measures every call, in turns, on a small and on a large store.
pub(crate) async fn compare(
    name: &str,
    time: TimeSource,
    few: Arc<dyn Store>,
    many: Arc<dyn Store>,
    tasks: usize,
) {
    let stores = [
        (hub(few), SMALL_STORE_TASKS),
        (hub(many), tasks.max(SMALL_STORE_TASKS)),
    ];
    for (hub, stored) in &stores {
        let meter = Meter::start();
        fill(hub, 0, *stored, 1).await;
        println!("{:>10.1?} to store {stored} tasks, {name}", meter.wall());
    }
    for call in ALL_CALLS {
        let mut costs = [Vec::new(), Vec::new()];
        // The first round warms caches and is not counted.
        for round in 0..=ROUNDS {
            for ((hub, stored), costs) in stores.iter().zip(&mut costs) {
                let cost = cost(hub, time, call, *stored, round).await;
                if round > 0 {
                    costs.push(cost);
                }
            }
        }
        let [few, many] = costs.map(median);
        println!(
            "{few:>10.1} µs {time} with {SMALL_STORE_TASKS} tasks, {many:.1} with {tasks}: {call:?}, {name}"
        );
        if call.is_bounded() {
            let threshold = format!("{name}, {call:?} with {tasks} tasks by {SMALL_STORE_TASKS}");
            check_threshold(&threshold, many / few, true, MAX_RATIO);
        }
    }
}

/// Average cost of a call, in microseconds.
async fn cost(hub: &Hub, time: TimeSource, call: StoreCall, stored: usize, round: usize) -> f64 {
    let prepared_tasks = prepare_tasks(hub, call).await;
    let caller = caller();
    let meter = Meter::start();
    for n in 0..CALLS_PER_ROUND as usize {
        // Tasks of all ages: the same ones in each round, so that they are cached, or different ones.
        let task = match call {
            StoreCall::GetCold | StoreCall::WatchCold => (round * 7_919 + n * 104_729) % stored,
            _ => n * stored / CALLS_PER_ROUND as usize,
        };
        let old_task = || task_id(task);
        match (call, prepared_tasks.get(n)) {
            (StoreCall::Create, _) => drop(create(hub).await),
            (StoreCall::Get | StoreCall::GetCold, _) => {
                drop(
                    hub.task_view(&caller, &old_task(), 100, true)
                        .await
                        .unwrap(),
                );
            }
            (StoreCall::Send, Some(id)) => {
                let message = Message::user_text("And those of the north?");
                drop(hub.send_message(&caller, id, message).await.unwrap());
            }
            (StoreCall::Cancel, Some(id)) => drop(hub.cancel(&caller, id, None).await.unwrap()),
            (StoreCall::Execute, _) => execute(hub).await,
            (StoreCall::List, _) => {
                let list = hub.list_tasks(&caller, page_query()).await.unwrap();
                assert_eq!(list.tasks.len(), 50);
            }
            (StoreCall::Watch | StoreCall::WatchCold, _) => {
                let watch = hub.watch(&caller, Subject::Task(old_task()), 0).await;
                assert!(watch.unwrap().next().await.unwrap().is_some());
            }
            (StoreCall::Claim, _) => assert_eq!(claim(hub).await.len(), 1),
            (StoreCall::Send | StoreCall::Cancel, None) => {}
        }
    }
    let cost = time.micros(&meter, CALLS_PER_ROUND);
    drain_queue(hub).await;
    cost
}

/// Creates the tasks that the call needs, one each.
async fn prepare_tasks(hub: &Hub, call: StoreCall) -> Vec<TaskId> {
    let mut tasks = Vec::new();
    if matches!(call, StoreCall::Send | StoreCall::Cancel | StoreCall::Claim) {
        for _ in 0..CALLS_PER_ROUND {
            tasks.push(create(hub).await);
        }
    }
    tasks
}

/// Completes the tasks left in the queue, so that the next round finds it empty.
async fn drain_queue(hub: &Hub) {
    loop {
        let runs = claim_up_to(hub, 64).await;
        if runs.is_empty() {
            return;
        }
        for run in runs {
            complete(&run).await;
        }
    }
}

async fn create(hub: &Hub) -> TaskId {
    let message = Message::user_text("Please analyse the figures of the last quarter.");
    let created = hub.create_task(&caller(), NewTask::new(message)).await;
    created.unwrap().id
}

/// The store operations of `execute_task`: create, claim and complete.
async fn execute(hub: &Hub) {
    create(hub).await;
    for run in claim(hub).await {
        complete(&run).await;
    }
}

async fn claim(hub: &Hub) -> Vec<Arc<Run>> {
    claim_up_to(hub, 1).await
}

async fn claim_up_to(hub: &Hub, limit: usize) -> Vec<Arc<Run>> {
    let slots = vec![(AgentId::new("idle").unwrap(), limit)];
    let runs = hub.claim("bench", slots, Duration::from_secs(600)).await;
    runs.unwrap()
}

async fn complete(run: &Run) {
    if let TurnStart::Turn(turn) = run.start_turn().await.unwrap() {
        let outcome = TurnOutcome::Completed {
            message: Some(Message::agent_text("They are fine.")),
            direct: false,
        };
        run.complete(&turn, outcome).await.unwrap();
    }
}

/// Measured time: CPU time of this process (SQLite), or wall time (database server).
#[derive(Clone, Copy)]
pub(crate) enum TimeSource {
    Cpu,
    Wall,
}

impl TimeSource {
    fn micros(self, meter: &Meter, calls: u32) -> f64 {
        let total = match self {
            Self::Cpu => meter.cpu(),
            Self::Wall => meter.wall(),
        };
        (total / calls).as_secs_f64() * 1e6
    }
}

impl std::fmt::Display for TimeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "of CPU",
            Self::Wall => "wall time",
        })
    }
}
