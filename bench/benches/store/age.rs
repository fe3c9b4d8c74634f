//! Age: what calls cost in a store that was tidied up while it was young, and in one that holds many tasks, beside
//! one that holds few.

use crate::growth::{fill, page, task_id};
use crate::load::{caller, hub};
use crate::meter::Meter;
use interzone_bench::bars::{bar, median};
use interzone_hub::ports::Store;
use interzone_hub::{Hub, NewTask, Outcome, Retention, Run, Subject, TurnStart};
use interzone_protocol::vocab::{AgentId, Message, TaskId};
use std::sync::Arc;
use std::time::Duration;

/// How many tasks there are where there are few: enough to fill a page.
const FEW: usize = 200;
/// How many calls are averaged, and how often.
const CALLS: u32 = 200;
const ROUNDS: usize = 9;
/// The most that a call may cost, by what it costs in a young store.
const MOST: f64 = 1.3;
/// Tasks from one look at the cost to the next, after the rest.
const STEP: u32 = 3_000;
const STEPS: usize = 6;

/// One task, then housekeeping, then load: the cost of a task must not rise with the tasks before it.
pub(crate) async fn rested(name: &str, time: Time, store: Arc<dyn Store>) {
    let hub = hub(store);
    execute(&hub).await;
    let store = hub.store();
    store
        .purge(&Retention::default(), hub.now(), 1_000)
        .await
        .unwrap();
    store.tidy_up().await.unwrap();
    let mut costs = Vec::new();
    for step in 1..=STEPS {
        let meter = Meter::start();
        for _ in 0..STEP {
            execute(&hub).await;
        }
        let cost = time.micros(&meter, STEP);
        println!("{cost:>10.1} µs {time} for a task from question to answer, {name}, step {step}");
        costs.push(cost);
    }
    let last = costs.last().copied().unwrap_or(f64::NAN);
    let first = costs.first().copied().unwrap_or(f64::NAN);
    let what = format!("{name}, tidied up with one task: the last task by the first");
    bar(&what, last / first, true, MOST);
}

/// What is called.
#[derive(Clone, Copy, Debug)]
enum Call {
    Create,
    Get,
    Send,
    Cancel,
    Execute,
    List,
    Watch,
    Claim,
    /// As `Get`, of a task that was not read before: most of its pages come from the file.
    GetCold,
    WatchCold,
}

const ALL: [Call; 10] = [
    Call::Create,
    Call::Get,
    Call::Send,
    Call::Cancel,
    Call::Execute,
    Call::List,
    Call::Watch,
    Call::Claim,
    Call::GetCold,
    Call::WatchCold,
];

impl Call {
    /// Whether it may cost only a little more with many tasks. What is read from the file for the first time costs
    /// a system call for each page, and in a store of 200 tasks there is no such page.
    fn is_bounded(self) -> bool {
        !matches!(self, Self::GetCold | Self::WatchCold)
    }
}

/// Every call, in turns on a store with few tasks and on one with many.
pub(crate) async fn compare(
    name: &str,
    time: Time,
    few: Arc<dyn Store>,
    many: Arc<dyn Store>,
    tasks: usize,
) {
    let stores = [(hub(few), FEW), (hub(many), tasks.max(FEW))];
    for (hub, stored) in &stores {
        let meter = Meter::start();
        fill(hub, 0, *stored, 1).await;
        println!("{:>10.1?} to store {stored} tasks, {name}", meter.wall());
    }
    for call in ALL {
        let mut costs = [Vec::new(), Vec::new()];
        // The first round warms caches, and is not counted.
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
            "{few:>10.1} µs {time} with {FEW} tasks, {many:.1} with {tasks}: {call:?}, {name}"
        );
        if call.is_bounded() {
            let what = format!("{name}, {call:?} with {tasks} tasks by {FEW}");
            bar(&what, many / few, true, MOST);
        }
    }
}

/// What one call costs on average, in microseconds.
async fn cost(hub: &Hub, time: Time, call: Call, stored: usize, round: usize) -> f64 {
    let ready = prepared(hub, call).await;
    let caller = caller();
    let meter = Meter::start();
    for n in 0..CALLS as usize {
        // Of all ages: the same ones in each round, so that they are in memory, or others each time.
        let task = match call {
            Call::GetCold | Call::WatchCold => (round * 7_919 + n * 104_729) % stored,
            _ => n * stored / CALLS as usize,
        };
        let old = || task_id(task);
        match (call, ready.get(n)) {
            (Call::Create, _) => drop(create(hub).await),
            (Call::Get | Call::GetCold, _) => {
                drop(hub.task_view(&caller, &old(), 100, true).await.unwrap());
            }
            (Call::Send, Some(id)) => {
                let message = Message::user_text("And those of the north?");
                drop(hub.send(&caller, id, message).await.unwrap());
            }
            (Call::Cancel, Some(id)) => drop(hub.cancel(&caller, id, None).await.unwrap()),
            (Call::Execute, _) => execute(hub).await,
            (Call::List, _) => {
                let list = hub.list_tasks(&caller, page()).await.unwrap();
                assert_eq!(list.tasks.len(), 50);
            }
            (Call::Watch | Call::WatchCold, _) => {
                let watch = hub.watch(&caller, Subject::Task(old()), 0).await;
                assert!(watch.unwrap().next().await.unwrap().is_some());
            }
            (Call::Claim, _) => assert_eq!(claim(hub).await.len(), 1),
            (Call::Send | Call::Cancel, None) => {}
        }
    }
    let cost = time.micros(&meter, CALLS);
    clear(hub).await;
    cost
}

/// Tasks that wait for the calls that need one each.
async fn prepared(hub: &Hub, call: Call) -> Vec<TaskId> {
    let mut ready = Vec::new();
    if matches!(call, Call::Send | Call::Cancel | Call::Claim) {
        for _ in 0..CALLS {
            ready.push(create(hub).await);
        }
    }
    ready
}

/// Ends what a round has left in the queue, so that the next finds it empty.
async fn clear(hub: &Hub) {
    loop {
        let runs = claim_up_to(hub, 64).await;
        if runs.is_empty() {
            return;
        }
        for run in runs {
            end(&run).await;
        }
    }
}

async fn create(hub: &Hub) -> TaskId {
    let message = Message::user_text("Please analyse the figures of the last quarter.");
    let created = hub.create_task(&caller(), NewTask::new(message)).await;
    created.unwrap().id
}

/// What `execute_task` does to a store: a task is made, claimed and answered.
async fn execute(hub: &Hub) {
    create(hub).await;
    for run in claim(hub).await {
        end(&run).await;
    }
}

async fn claim(hub: &Hub) -> Vec<Arc<Run>> {
    claim_up_to(hub, 1).await
}

async fn claim_up_to(hub: &Hub, most: usize) -> Vec<Arc<Run>> {
    let wanted = vec![(AgentId::new("idle").unwrap(), most)];
    let runs = hub.claim("bench", wanted, Duration::from_secs(600)).await;
    runs.unwrap()
}

async fn end(run: &Run) {
    if let TurnStart::Turn(turn) = run.begin().await.unwrap() {
        let outcome = Outcome::Completed {
            message: Some(Message::agent_text("They are fine.")),
            direct: false,
        };
        run.end(&turn, outcome).await.unwrap();
    }
}

/// Which time is measured: that of this process, in which SQLite works, or on the wall, for a server beside it.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    Processor,
    Wall,
}

impl Time {
    fn micros(self, meter: &Meter, calls: u32) -> f64 {
        let whole = match self {
            Self::Processor => meter.processor(),
            Self::Wall => meter.wall(),
        };
        (whole / calls).as_secs_f64() * 1e6
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Processor => "of processor",
            Self::Wall => "on the wall",
        })
    }
}
