//! Socket Mode client: receives events over a WebSocket, for zones without a public URL. A socket that Slack closes,
//! that is silent or that breaks is replaced; when Slack announces the close, the new socket is opened first.

mod connect;
mod connection;
mod status;
#[cfg(test)]
mod tests;

use super::api::{Slack, SlackError, SlackSetupError};
use super::tokens::BotToken;
use async_trait::async_trait;
use bytes::Bytes;
use connect::{ConnectError, HttpSocketConnector, SocketConnector};
use connection::{CloseReason, SocketContext, SocketEvent, SocketEventKind};
use interzone_backoff::Backoff;
use interzone_edge::tls::TrustRoots;
use status::ConnectionStatus;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Lifetime after which a closed socket is replaced without delay.
const STABLE_LIFETIME: Duration = Duration::from_secs(30);
/// Reconnect delays.
const RECONNECT_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// Minimum reconnect delays after non-network errors: too many sockets, or a rejected token.
const REJECTED_BACKOFF: Backoff = Backoff::new(Duration::from_secs(30), Duration::from_secs(60));
/// Time for open sockets to finish on shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
const SOCKET_MODE_DISABLED: &str =
    "Socket Mode is disabled for this app: enable it on the app's page";

/// Result of handling an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvelopeAck {
    /// Handled; it is acknowledged.
    Done,
    /// Not handled; it is not acknowledged, and Slack sends it again.
    Retry,
}

/// Handler of Socket Mode envelopes.
#[async_trait]
pub trait EnvelopeHandler: Send + Sync {
    /// Handles an envelope: its type (`events_api`, `interactive`, …) and its JSON payload.
    ///
    /// Slack waits three seconds for the acknowledgement, and may deliver an envelope more than once.
    async fn handle(&self, kind: &str, payload: Bytes) -> EnvelopeAck;
}

/// Connection state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketState {
    /// Not connected.
    Connecting,
    /// Connected and receiving events.
    Connected,
    /// Slack rejects the connection for this reason; this needs operator action.
    Rejected(String),
}

/// Reason why the client stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketStopReason {
    /// Shutdown was requested.
    Requested,
    /// Socket Mode was disabled for the app.
    LinkDisabled,
}

/// Socket Mode client.
pub struct SocketMode {
    connector: Arc<dyn SocketConnector>,
    handler: Arc<dyn EnvelopeHandler>,
    status: Arc<ConnectionStatus>,
}

impl SocketMode {
    /// Creates the client with the app-level token (`xapp-…`), without connecting.
    ///
    /// # Errors
    /// The HTTP client cannot be created.
    pub fn new(
        slack: Slack,
        app_token: BotToken,
        trust: &TrustRoots,
        handler: Arc<dyn EnvelopeHandler>,
    ) -> Result<Self, SlackSetupError> {
        let connect = HttpSocketConnector::new(slack, app_token, trust)?;
        Ok(Self::with_connector(Arc::new(connect), handler))
    }

    fn with_connector(
        connect: Arc<dyn SocketConnector>,
        handler: Arc<dyn EnvelopeHandler>,
    ) -> Self {
        Self {
            connector: connect,
            handler,
            status: ConnectionStatus::new(),
        }
    }

    /// Watches the connection state.
    pub fn state(&self) -> watch::Receiver<SocketState> {
        self.status.subscribe()
    }

    /// Keeps a socket open until shutdown, or until Socket Mode is disabled.
    pub async fn run(&self, stop: CancellationToken) -> SocketStopReason {
        let stop = stop.child_token();
        let (events_tx, mut events) = mpsc::channel(16);
        let mut connections = JoinSet::new();
        let mut failures = 0;
        let mut delay = Duration::ZERO;
        let mut id = 0;
        let stopped = loop {
            let connect = async {
                tokio::time::sleep(delay).await;
                self.connector.connect().await
            };
            let connected = tokio::select! {
                () = stop.cancelled() => break SocketStopReason::Requested,
                opened = connect => opened,
            };
            let socket = match connected {
                Ok(socket) => socket,
                Err(error) => {
                    failures += 1;
                    delay = self.on_connect_error(&error, failures);
                    continue;
                }
            };
            id += 1;
            let context = SocketContext {
                id,
                handler: Arc::clone(&self.handler),
                events: events_tx.clone(),
                status: Arc::clone(&self.status),
                stop: stop.clone(),
            };
            let task = connections.spawn(context.run(socket)).id();
            match wait_for_replacement(id, task, &mut events, &mut connections, &stop).await {
                SocketEventKind::Closing { lived } => {
                    delay = replacement_delay(&mut failures, lived)
                }
                SocketEventKind::Closed(CloseReason::Lost { reason: why, lived }) => {
                    tracing::info!(reason = why, "slack socket closed");
                    delay = replacement_delay(&mut failures, lived);
                }
                SocketEventKind::Closed(CloseReason::TooManySockets) => {
                    tracing::warn!("too many open slack sockets, retrying");
                    failures += 1;
                    delay = backoff(failures).max(REJECTED_BACKOFF.equal_jitter(0));
                }
                SocketEventKind::Closed(CloseReason::LinkDisabled) => {
                    break SocketStopReason::LinkDisabled;
                }
            }
        };
        // Open sockets finish the envelopes in progress.
        stop.cancel();
        let ended = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, ended).await;
        connections.shutdown().await;
        self.status.set_final(match stopped {
            SocketStopReason::Requested => SocketState::Connecting,
            SocketStopReason::LinkDisabled => {
                tracing::error!("socket mode is disabled, not reconnecting");
                SocketState::Rejected(SOCKET_MODE_DISABLED.to_owned())
            }
        });
        stopped
    }

    /// Records a failed connection attempt and returns the reconnect delay.
    fn on_connect_error(&self, error: &ConnectError, failures: u32) -> Duration {
        let mut delay = backoff(failures);
        let mut state = SocketState::Connecting;
        if let ConnectError::Slack(error) = error {
            if let Some(after) = error.retry_after() {
                delay = delay.max(after);
            } else if !error.is_retryable() {
                delay = delay.max(REJECTED_BACKOFF.equal_jitter(0));
                state = SocketState::Rejected(rejection_text(error));
            }
        }
        tracing::warn!(%error, failures, "slack socket connection failed");
        self.status.set_failed(state);
        delay
    }
}

/// Waits until the socket with this id needs a replacement.
async fn wait_for_replacement(
    id: u64,
    task: tokio::task::Id,
    events: &mut mpsc::Receiver<SocketEvent>,
    connections: &mut JoinSet<()>,
    stop: &CancellationToken,
) -> SocketEventKind {
    let closed = |reason| {
        SocketEventKind::Closed(CloseReason::Lost {
            reason,
            lived: None,
        })
    };
    loop {
        tokio::select! {
            // An event of the socket takes precedence over the end of its task.
            biased;
            () = stop.cancelled() => return closed("shutdown"),
            event = events.recv() => match event {
                Some(news) if news.id == id => return news.kind,
                // From an old socket, which has been replaced.
                Some(_) => {}
                None => return closed("event channel closed"),
            },
            Some(finished) = connections.join_next_with_id() => {
                let finished = finished.map_or_else(|error| error.id(), |(task, ())| task);
                if finished == task {
                    return closed("task ended unexpectedly");
                }
            }
        }
    }
}

impl fmt::Debug for SocketMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketMode")
            .field("state", &self.status.current())
            .finish_non_exhaustive()
    }
}

fn rejection_text(error: &SlackError) -> String {
    let code = error.code();
    format!(
        "slack rejected the socket (`{code}`): check `app_token_file` and that Socket Mode is on"
    )
}

/// Returns the delay before replacing a socket; `lived` is the time since its hello, if there was one.
fn replacement_delay(failures: &mut u32, lived: Option<Duration>) -> Duration {
    if lived.is_some_and(|lived| lived >= STABLE_LIFETIME) {
        *failures = 0;
        return Duration::ZERO;
    }
    *failures += 1;
    backoff(*failures)
}

/// Returns the reconnect delay, with jitter, so that nodes do not reconnect at once.
fn backoff(failures: u32) -> Duration {
    RECONNECT_BACKOFF.equal_jitter(failures.saturating_sub(1))
}
