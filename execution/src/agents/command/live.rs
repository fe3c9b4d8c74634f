//! A running program as its runs see it: a way to tell it something, and what it says to each.

use super::wire;
use bytes::Bytes;
use interzone_hub::{AgentError, Outcome};
use interzone_protocol::vocab::{Artifact, TaskId};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How much of what a program says may wait for one run.
const WAITING: usize = 32;

/// What a program says to a run.
pub(super) enum Said {
    /// The answer has grown.
    Text(String),
    /// What is going on.
    Status(String),
    /// An artifact, or more of it.
    Artifact {
        artifact: Box<Artifact>,
        append: bool,
        last: bool,
    },
    /// The run is over.
    Done(Box<Result<Outcome, AgentError>>),
}

/// A running program.
pub(super) struct Live {
    to: mpsc::Sender<Bytes>,
    runs: Mutex<Runs>,
    /// Whether it has ever answered as agreed.
    answered: AtomicBool,
    /// It is of no use any more.
    given_up: CancellationToken,
}

#[derive(Default)]
struct Runs {
    closed: bool,
    last: i64,
    by_id: HashMap<i64, mpsc::Sender<Said>>,
    by_task: HashMap<TaskId, i64>,
    /// Those that were called off, and that the program has not answered yet.
    called_off: HashSet<i64>,
}

impl Live {
    pub(super) fn new(to: mpsc::Sender<Bytes>) -> Arc<Self> {
        Arc::new(Self {
            to,
            runs: Mutex::default(),
            answered: AtomicBool::new(false),
            given_up: CancellationToken::new(),
        })
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run; nothing if the program has ended.
    pub(super) fn enter(self: &Arc<Self>, task: &TaskId) -> Option<Entered> {
        let (sender, said) = mpsc::channel(WAITING);
        let mut runs = self.runs();
        if runs.closed {
            return None;
        }
        runs.last += 1;
        let id = runs.last;
        runs.by_id.insert(id, sender);
        // Whoever was at the same task before has been told to stop: what comes is no longer for it.
        runs.by_task.insert(task.clone(), id);
        Some(Entered {
            live: self.clone(),
            id,
            task: task.clone(),
            said,
            over: false,
        })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.runs().closed
    }

    /// Ends all runs: the program is gone.
    pub(super) fn close(&self) {
        let mut runs = self.runs();
        runs.closed = true;
        runs.by_id.clear();
        runs.by_task.clear();
        runs.called_off.clear();
    }

    /// How many runs there are.
    pub(super) fn count(&self) -> usize {
        self.runs().by_id.len()
    }

    /// Returns when the program is given up.
    pub(super) async fn given_up(&self) {
        self.given_up.cancelled().await;
    }

    pub(super) fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Says something to a run, if there is such a run.
    pub(super) async fn say(&self, of: &wire::Of, said: Said) {
        let run = {
            let runs = self.runs();
            let id = match of {
                wire::Of::Request(id) => Some(id),
                wire::Of::Task(task) => runs.by_task.get(task),
            };
            id.and_then(|id| runs.by_id.get(id)).cloned()
        };
        let Some(run) = run else { return };
        if matches!(&said, Said::Done(outcome) if outcome.is_ok()) {
            self.answered.store(true, Ordering::Relaxed);
        }
        // A run that is over does not listen, and nothing is lost by it. One that is slow holds up the
        // program, for as long as it may run at all.
        let _ = run.send(said).await;
    }

    /// Tells the program something, if there is room for it now.
    pub(super) fn try_tell(&self, line: Bytes) {
        // Without room the program does not read, and whoever writes to it will notice.
        let _ = self.to.try_send(line);
    }
}

/// One run within a program. Dropping it before it is over calls it off.
pub(super) struct Entered {
    live: Arc<Live>,
    id: i64,
    task: TaskId,
    said: mpsc::Receiver<Said>,
    over: bool,
}

impl Entered {
    pub(super) fn id(&self) -> i64 {
        self.id
    }

    pub(super) async fn next(&mut self) -> Option<Said> {
        self.said.recv().await
    }

    pub(super) async fn send(&self, line: Bytes) -> Result<(), AgentError> {
        self.live.to.send(line).await.map_err(|_| super::died())
    }

    /// Whether the program works at nothing else that anybody waits for.
    pub(super) fn is_alone(&self) -> bool {
        let runs = self.live.runs();
        runs.by_id.len() == runs.called_off.len()
    }

    /// Gives the whole program up: it is ended, and another one is started, which new runs wait for.
    pub(super) fn give_up(&self) {
        self.live.close();
        self.live.given_up.cancel();
    }

    /// Tells the program that this run is called off.
    pub(super) async fn call_off(&mut self) {
        self.over = true;
        self.live.runs().called_off.insert(self.id);
        if let Some(line) = wire::cancel(&self.task) {
            // A program that is gone needs no telling.
            let _ = self.live.to.send(line).await;
        }
    }

    /// The program has answered.
    pub(super) fn done(&mut self) {
        self.over = true;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut runs = self.live.runs();
        runs.by_id.remove(&self.id);
        runs.called_off.remove(&self.id);
        if runs.by_task.get(&self.task) == Some(&self.id) {
            runs.by_task.remove(&self.task);
        }
        drop(runs);
        if !self.over
            && let Some(line) = wire::cancel(&self.task)
        {
            self.live.try_tell(line);
        }
    }
}
