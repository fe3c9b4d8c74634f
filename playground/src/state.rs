//! Shared state: one lock around the workspace, never held across an await, and a change notification.

use crate::events::sockets::Sockets;
use crate::faults::FaultPlan;
use crate::options::{DeliveryMode, PlaygroundOptions};
use crate::workspace::{OutgoingEvent, Workspace};
use interzone_edge::Secret;
use interzone_edge::limits::HttpLimits;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use url::Url;

/// URLs of the app.
#[derive(Clone, Debug, Default)]
pub(crate) struct AppUrls {
    pub(crate) events: Option<Url>,
    pub(crate) interactions: Option<Url>,
}

pub(crate) struct PlaygroundState {
    workspace: Mutex<Workspace>,
    changed: watch::Sender<u64>,
    pub(crate) faults: Mutex<FaultPlan>,
    pub(crate) target: Mutex<AppUrls>,
    pub(crate) sockets: Sockets,
    pub(crate) limits: HttpLimits,
    pub(crate) mode: DeliveryMode,
    pub(crate) signing_secret: Secret,
    pub(crate) http: reqwest::Client,
    pub(crate) ack_timeout: Duration,
    pub(crate) retry_delays: Vec<Duration>,
    pub(crate) ping_interval: Duration,
    pub(crate) hang_duration: Duration,
    pub(crate) stop: CancellationToken,
}

impl PlaygroundState {
    pub(crate) fn new(
        options: &PlaygroundOptions,
        target: AppUrls,
        base_url: String,
        http: reqwest::Client,
        limits: HttpLimits,
    ) -> Self {
        Self {
            workspace: Mutex::new(Workspace::new(options, base_url)),
            changed: watch::Sender::new(0),
            faults: Mutex::new(FaultPlan::default()),
            target: Mutex::new(target),
            sockets: Sockets::default(),
            limits,
            mode: options.mode,
            signing_secret: options.signing_secret.clone(),
            http,
            ack_timeout: options.ack_timeout,
            retry_delays: options.retry_delays.clone(),
            ping_interval: options.ping_interval,
            hang_duration: options.hang_duration,
            stop: CancellationToken::new(),
        }
    }

    /// Inspects the workspace.
    pub(crate) fn inspect<T>(&self, read: impl FnOnce(&Workspace) -> T) -> T {
        read(&lock(&self.workspace))
    }

    /// Changes the workspace and notifies waiters.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Workspace) -> T) -> T {
        let (result, revision) = {
            let mut workspace = lock(&self.workspace);
            workspace.revision += 1;
            (change(&mut workspace), workspace.revision)
        };
        self.changed.send_replace(revision);
        result
    }

    /// Takes the next event to send to the app.
    pub(crate) fn next_event(&self) -> Option<OutgoingEvent> {
        lock(&self.workspace).outgoing.pop_front()
    }

    /// Subscribes to changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

/// Locks a mutex, ignoring poisoning: the data stays usable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
