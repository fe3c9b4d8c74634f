//! What the doors, the deliveries and the handle share: one lock around the workspace, never held over a
//! wait, and a signal for everybody who waits for a change.

use crate::events::links::Links;
use crate::faults::Plan;
use crate::options::{Mode, PlaygroundOptions};
use crate::workspace::{Outgoing, Workspace};
use interzone_edge::Secret;
use interzone_edge::limits::HttpLimits;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Where the app is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub(crate) events: Option<Url>,
    pub(crate) interactions: Option<Url>,
}

pub(crate) struct Shared {
    workspace: Mutex<Workspace>,
    changed: watch::Sender<u64>,
    pub(crate) plan: Mutex<Plan>,
    pub(crate) target: Mutex<Target>,
    pub(crate) links: Links,
    pub(crate) limits: HttpLimits,
    pub(crate) mode: Mode,
    pub(crate) signing_secret: Secret,
    pub(crate) http: reqwest::Client,
    pub(crate) ack_time: Duration,
    pub(crate) retry_delays: Vec<Duration>,
    pub(crate) ping: Duration,
    pub(crate) hang: Duration,
    pub(crate) stop: CancellationToken,
}

impl Shared {
    pub(crate) fn new(
        options: &PlaygroundOptions,
        target: Target,
        base: String,
        http: reqwest::Client,
        limits: HttpLimits,
    ) -> Self {
        Self {
            workspace: Mutex::new(Workspace::new(options, base)),
            changed: watch::Sender::new(0),
            plan: Mutex::new(Plan::default()),
            target: Mutex::new(target),
            links: Links::default(),
            limits,
            mode: options.mode,
            signing_secret: options.signing_secret.clone(),
            http,
            ack_time: options.ack_time,
            retry_delays: options.retry_delays.clone(),
            ping: options.ping,
            hang: options.hang,
            stop: CancellationToken::new(),
        }
    }

    /// Looks at the workspace.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Workspace) -> T) -> T {
        look(&locked(&self.workspace))
    }

    /// Changes the workspace, and wakes whoever waits for that.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Workspace) -> T) -> T {
        let (made, revision) = {
            let mut workspace = locked(&self.workspace);
            workspace.revision += 1;
            (change(&mut workspace), workspace.revision)
        };
        self.changed.send_replace(revision);
        made
    }

    /// Takes the next thing that the app is to be told.
    pub(crate) fn next_outgoing(&self) -> Option<Outgoing> {
        locked(&self.workspace).outgoing.pop_front()
    }

    /// Tells of every change from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

/// A lock; what a broken holder left is as good as any.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
