//! One Socket Mode connection: dispatches envelopes to the handler, sends acknowledgements and pings.

use super::connect::SlackSocket;
use super::status::{ConnectedGuard, ConnectionStatus};
use super::{EnvelopeAck, EnvelopeHandler};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::CancellationToken;

/// Maximum number of envelopes handled concurrently; at the limit, reading stops.
const MAX_CONCURRENT_ENVELOPES: usize = 64;
/// Handler timeout; a slower envelope counts as not handled.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the hello message.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Ping interval, and the time without any message after which the socket counts as dead.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const SILENCE_TIMEOUT: Duration = Duration::from_secs(75);
/// Time that a socket announced to close may be used beside its replacement.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for envelopes in progress to finish on shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// Write timeout.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Event of a connection.
pub(super) struct SocketEvent {
    pub(super) id: u64,
    pub(super) kind: SocketEventKind,
}

pub(super) enum SocketEventKind {
    /// Slack announced that it will close the socket; `lived` is the time since its hello.
    Closing {
        lived: Option<Duration>,
    },
    Closed(CloseReason),
}

/// Reason why a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CloseReason {
    Lost {
        reason: &'static str,
        lived: Option<Duration>,
    },
    TooManySockets,
    LinkDisabled,
}

/// Dependencies of a connection.
pub(super) struct SocketContext {
    pub(super) id: u64,
    pub(super) handler: Arc<dyn EnvelopeHandler>,
    pub(super) events: mpsc::Sender<SocketEvent>,
    pub(super) status: Arc<ConnectionStatus>,
    pub(super) stop: CancellationToken,
}

#[derive(Deserialize)]
struct SocketFrame<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    envelope_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

type HandlerFuture = BoxFuture<'static, Option<String>>;

/// State of a connection.
struct ConnectionState {
    in_progress: FuturesUnordered<HandlerFuture>,
    last_received: Instant,
    opened: Instant,
    hello: Option<(Instant, ConnectedGuard)>,
    /// Time after which it must not be used any more, once its close is announced.
    drain_until: Option<Instant>,
}

impl ConnectionState {
    fn lifetime(&self) -> Option<Duration> {
        self.hello.as_ref().map(|(at, _)| at.elapsed())
    }

    /// Returns the next deadline and the close reason if it passes.
    fn deadline(&self) -> (Instant, &'static str) {
        let mut deadlines = vec![(self.last_received + SILENCE_TIMEOUT, "no message received")];
        if self.hello.is_none() {
            deadlines.push((self.opened + HELLO_TIMEOUT, "no hello received"));
        }
        deadlines.extend(self.drain_until.map(|until| (until, "replaced")));
        let first = deadlines.into_iter().min_by_key(|(at, _)| *at);
        first.unwrap_or((self.last_received + SILENCE_TIMEOUT, "no message received"))
    }
}

impl SocketContext {
    /// Runs the connection until it ends, and reports the reason.
    pub(super) async fn run(self, mut socket: SlackSocket) {
        let now = Instant::now();
        let mut state = ConnectionState {
            in_progress: FuturesUnordered::new(),
            last_received: now,
            opened: now,
            hello: None,
            drain_until: None,
        };
        let reason = self.run_loop(&mut socket, &mut state).await;
        state.hello = None;
        self.emit(SocketEventKind::Closed(reason)).await;
        // Finish the envelopes in progress; a replacement may be open already.
        let finish = async {
            while let Some(done) = state.in_progress.next().await {
                if let Some(id) = done {
                    acknowledge(&mut socket, &id).await?;
                }
            }
            socket.close(None).await.map_err(|_| "connection broken")
        };
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, finish).await;
    }

    async fn run_loop(&self, socket: &mut SlackSocket, state: &mut ConnectionState) -> CloseReason {
        let mut pings = tokio::time::interval_at(state.opened + PING_INTERVAL, PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (deadline, reason) = state.deadline();
            let is_full = state.in_progress.len() >= MAX_CONCURRENT_ENVELOPES;
            let step = tokio::select! {
                () = self.stop.cancelled() => Err("shutdown"),
                Some(done) = state.in_progress.next(), if !state.in_progress.is_empty() => {
                    if is_full {
                        // Reading was paused, so silence is not counted.
                        state.last_received = Instant::now();
                    }
                    match done {
                        Some(id) => acknowledge(socket, &id).await,
                        None => Ok(()),
                    }
                }
                message = socket.next(), if !is_full => {
                    state.last_received = Instant::now();
                    match self.handle_message(message, state).await {
                        Ok(()) => Ok(()),
                        Err(end) => return end,
                    }
                }
                _ = pings.tick() => send(socket, Message::Ping(Bytes::new())).await,
                () = tokio::time::sleep_until(deadline), if !is_full => Err(reason),
            };
            if let Err(reason) = step {
                let lived = state.lifetime();
                return CloseReason::Lost { reason, lived };
            }
        }
    }

    async fn handle_message(
        &self,
        message: Option<Result<Message, Error>>,
        state: &mut ConnectionState,
    ) -> Result<(), CloseReason> {
        let lost = |why, state: &ConnectionState| CloseReason::Lost {
            reason: why,
            lived: state.lifetime(),
        };
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(_))) | None => return Err(lost("closed by slack", state)),
            Some(Ok(_)) => return Ok(()),
            Some(Err(Error::Capacity(_))) => return Err(lost("message too large", state)),
            Some(Err(_)) => return Err(lost("connection broken", state)),
        };
        let Ok(frame) = serde_json::from_str::<SocketFrame<'_>>(&text) else {
            tracing::warn!("invalid json in slack socket message");
            return Ok(());
        };
        match (&*frame.kind, frame.reason.as_deref()) {
            ("hello", _) => {
                if state.hello.is_none() {
                    state.hello = Some((Instant::now(), self.status.mark_connected()));
                }
            }
            ("disconnect", Some("link_disabled")) => return Err(CloseReason::LinkDisabled),
            ("disconnect", Some("too_many_websockets")) => return Err(CloseReason::TooManySockets),
            ("disconnect", _) => {
                if state.drain_until.is_none() {
                    state.drain_until = Some(Instant::now() + DRAIN_TIMEOUT);
                    let lived = state.lifetime();
                    self.emit(SocketEventKind::Closing { lived }).await;
                }
            }
            (kind, _) => {
                if let (Some(id), Some(payload)) = (&frame.envelope_id, frame.payload) {
                    let payload = Bytes::copy_from_slice(payload.get().as_bytes());
                    state
                        .in_progress
                        .push(self.handle_envelope(kind, id, payload));
                }
            }
        }
        Ok(())
    }

    /// Handles an envelope; resolves to its id if it is to be acknowledged.
    fn handle_envelope(&self, kind: &str, id: &str, payload: Bytes) -> HandlerFuture {
        let (kind, id) = (kind.to_owned(), id.to_owned());
        let handler = Arc::clone(&self.handler);
        async move {
            let handled = handler.handle(&kind, payload);
            let handled = tokio::time::timeout(HANDLER_TIMEOUT, handled).await;
            (handled == Ok(EnvelopeAck::Done)).then_some(id)
        }
        .boxed()
    }

    async fn emit(&self, kind: SocketEventKind) {
        // The receiver is gone on shutdown.
        let _ = self.events.send(SocketEvent { id: self.id, kind }).await;
    }
}

async fn acknowledge(socket: &mut SlackSocket, id: &str) -> Result<(), &'static str> {
    let text = serde_json::json!({ "envelope_id": id }).to_string();
    send(socket, Message::text(text)).await
}

async fn send(socket: &mut SlackSocket, message: Message) -> Result<(), &'static str> {
    match tokio::time::timeout(WRITE_TIMEOUT, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err("connection broken"),
        Err(_) => Err("write timed out"),
    }
}
