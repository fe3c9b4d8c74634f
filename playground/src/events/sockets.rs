//! Socket Mode connections of the app, with their acknowledgements.

use super::DeliveryFailure;
use crate::state::{PlaygroundState, lock};
use crate::workspace::OutgoingEvent;
use bytes::Bytes;
use interzone_edge::websocket::{WebSocket, WsEvent, WsUpgrade};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};

/// Maximum open sockets.
const MAX_SOCKETS: usize = 10;
/// Queue capacity of one socket.
const QUEUE_CAPACITY: usize = 1_024;

/// Reason for closing a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// The socket will be closed soon: the app should open another first.
    Warning,
    /// The socket is closed: the app should open another.
    RefreshRequested,
    /// Socket Mode was disabled.
    LinkDisabled,
    /// Dropped without a message, as by a network failure.
    Dropped,
}

enum SocketCommand {
    Send(Bytes),
    Disconnect(DisconnectReason),
}

/// All open sockets.
#[derive(Default)]
pub(crate) struct Sockets {
    open: Mutex<BTreeMap<u64, mpsc::Sender<SocketCommand>>>,
    unacknowledged: Mutex<BTreeMap<String, oneshot::Sender<()>>>,
    opened: Notify,
    number: AtomicU64,
    next_turn: AtomicU64,
}

impl Sockets {
    /// Returns the number of open sockets.
    pub(crate) fn count(&self) -> usize {
        lock(&self.open).len()
    }

    /// Sends an event down one socket, waiting for one if needed, and waits for its acknowledgement.
    pub(crate) async fn deliver(
        &self,
        event: &OutgoingEvent,
        attempt: usize,
        reason: Option<&str>,
        timeout: Duration,
    ) -> Result<(), DeliveryFailure> {
        let envelope = uuid::Uuid::new_v4().to_string();
        let kind = if event.is_interaction {
            "interactive"
        } else {
            "events_api"
        };
        let mut text = json!({
            "envelope_id": envelope, "payload": event.payload, "type": kind,
            "accepts_response_payload": event.is_interaction,
        });
        if let Some(fields) = text.as_object_mut().filter(|_| !event.is_interaction) {
            fields.insert("retry_attempt".to_owned(), attempt.into());
            let reason = reason.map_or("", |_| "timeout");
            fields.insert("retry_reason".to_owned(), reason.into());
        }
        let (acknowledge, acknowledged) = oneshot::channel();
        lock(&self.unacknowledged).insert(envelope.clone(), acknowledge);
        let text = Bytes::from(text.to_string());
        let sent = async {
            self.send_to_any(SocketCommand::Send(text)).await;
            acknowledged.await
        };
        let sent = tokio::time::timeout(timeout, sent).await;
        let missing = lock(&self.unacknowledged).remove(&envelope).is_some();
        match sent {
            Ok(Ok(())) => Ok(()),
            _ if missing => Err(DeliveryFailure::TimedOut),
            _ => Err(DeliveryFailure::Unreachable),
        }
    }

    /// Sends a command to the sockets in turn, as soon as there is one.
    async fn send_to_any(&self, command: SocketCommand) {
        loop {
            let arrived = self.opened.notified();
            let link = {
                let open = lock(&self.open);
                let turn = self.next_turn.fetch_add(1, Ordering::Relaxed);
                let turn = usize::try_from(turn).unwrap_or_default();
                let index = turn.checked_rem(open.len()).unwrap_or_default();
                open.values().nth(index).cloned()
            };
            match link {
                // A socket that is just closing loses it; it is retried as by Slack.
                Some(link) => {
                    let _ = link.send(command).await;
                    return;
                }
                None => arrived.await,
            }
        }
    }

    /// Closes all open sockets.
    pub(crate) fn disconnect_all(&self, reason: DisconnectReason) {
        for link in lock(&self.open).values() {
            // A socket that is not read any more is closed by its ping.
            let _ = link.try_send(SocketCommand::Disconnect(reason));
        }
    }

    fn acknowledge(&self, text: &[u8]) {
        let message = serde_json::from_slice::<Value>(text).ok();
        let id = message.and_then(|said| Some(said.get("envelope_id")?.as_str()?.to_owned()));
        let waiting = id.and_then(|id| lock(&self.unacknowledged).remove(&id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(());
        }
    }
}

/// Serves one socket until it closes.
pub(crate) async fn serve(shared: Arc<PlaygroundState>, upgrade: WsUpgrade) {
    let Some(mut socket) = upgrade.into_socket().await else {
        return;
    };
    let (sender, mut orders) = mpsc::channel(QUEUE_CAPACITY);
    let number = shared.sockets.number.fetch_add(1, Ordering::Relaxed);
    let count = {
        let mut open = lock(&shared.sockets.open);
        if open.len() < MAX_SOCKETS {
            open.insert(number, sender);
        }
        open.len()
    };
    let is_registered = lock(&shared.sockets.open).contains_key(&number);
    if !is_registered {
        let text = disconnect_message("too_many_websockets");
        let _ = socket.send_text(text).await;
        let _ = socket.close(1000, "too many websockets").await;
        return;
    }
    let app = shared.inspect(|workspace| workspace.app.clone());
    let hello = json!({
        "type": "hello", "num_connections": count, "connection_info": {"app_id": app},
        "debug_info": {"host": "applink-playground", "build_number": 1,
            "approximate_connection_time": 18_060},
    });
    if socket
        .send_text(Bytes::from(hello.to_string()))
        .await
        .is_ok()
    {
        shared.change(|_| ());
        shared.sockets.opened.notify_waiters();
        run_socket(&shared, &mut socket, &mut orders).await;
    }
    lock(&shared.sockets.open).remove(&number);
    shared.change(|_| ());
}

async fn run_socket(
    shared: &PlaygroundState,
    socket: &mut WebSocket,
    commands: &mut mpsc::Receiver<SocketCommand>,
) {
    let mut ping = tokio::time::interval(shared.ping_interval);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let result = tokio::select! {
            () = shared.stop.cancelled() => {
                let _ = socket.close(1001, "playground stopping").await;
                return;
            }
            event = socket.recv() => match event {
                WsEvent::Text(text) => {
                    shared.sockets.acknowledge(text.as_bytes());
                    Ok(())
                }
                WsEvent::Binary | WsEvent::KeepAlive => Ok(()),
                WsEvent::MemoryLimit | WsEvent::Timeout | WsEvent::Closed => {
                    // The client waits for a close frame in return.
                    let _ = socket.close(1000, "goodbye").await;
                    return;
                }
            },
            order = commands.recv() => match order {
                Some(SocketCommand::Send(text)) => socket.send_text(text).await,
                Some(SocketCommand::Disconnect(why)) => {
                    if disconnect(socket, why).await {
                        return;
                    }
                    Ok(())
                }
                None => return,
            },
            _ = ping.tick() => socket.ping().await,
        };
        if result.is_err() {
            return;
        }
    }
}

fn disconnect_message(reason: &str) -> Bytes {
    let text = json!({"type": "disconnect", "reason": reason,
        "debug_info": {"host": "applink-playground"}});
    Bytes::from(text.to_string())
}

/// Sends the disconnect message; returns true if the socket is closed now.
async fn disconnect(socket: &mut WebSocket, reason: DisconnectReason) -> bool {
    let text = match reason {
        DisconnectReason::Dropped => return true,
        DisconnectReason::Warning => "warning",
        DisconnectReason::RefreshRequested => "refresh_requested",
        DisconnectReason::LinkDisabled => "link_disabled",
    };
    let sent = socket.send_text(disconnect_message(text)).await;
    if reason == DisconnectReason::Warning {
        return sent.is_err();
    }
    let _ = socket.close(1000, "open another").await;
    true
}
