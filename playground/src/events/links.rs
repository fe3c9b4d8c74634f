//! The sockets that the app opened: what goes down each, and what was acknowledged.

use super::Failed;
use crate::shared::{Shared, locked};
use crate::workspace::Outgoing;
use bytes::Bytes;
use interzone_edge::socket::{Heard, Socket, Upgrade};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};

/// Sockets that an app may have open.
const MOST: usize = 10;
/// What may wait for one socket.
const WAITING: usize = 1_024;

/// Why a socket is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// It will be closed soon: open another first.
    Warning,
    /// It is closed: open another.
    RefreshRequested,
    /// Socket Mode was switched off.
    LinkDisabled,
    /// Without a word, as a network breaks.
    Cut,
}

enum Order {
    Say(Bytes),
    Leave(Farewell),
}

/// Every open socket.
#[derive(Default)]
pub(crate) struct Links {
    open: Mutex<BTreeMap<u64, mpsc::Sender<Order>>>,
    unacknowledged: Mutex<BTreeMap<String, oneshot::Sender<()>>>,
    arrived: Notify,
    number: AtomicU64,
    turn: AtomicU64,
}

impl Links {
    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        locked(&self.open).len()
    }

    /// Sends something down one socket, waiting for one if need be, and waits for its acknowledgement.
    pub(crate) async fn deliver(
        &self,
        one: &Outgoing,
        attempt: usize,
        reason: Option<&str>,
        patience: Duration,
    ) -> Result<(), Failed> {
        let envelope = uuid::Uuid::new_v4().to_string();
        let kind = if one.interactive {
            "interactive"
        } else {
            "events_api"
        };
        let mut text = json!({
            "envelope_id": envelope, "payload": one.payload, "type": kind,
            "accepts_response_payload": one.interactive,
        });
        if let Some(fields) = text.as_object_mut().filter(|_| !one.interactive) {
            fields.insert("retry_attempt".to_owned(), attempt.into());
            let reason = reason.map_or("", |_| "timeout");
            fields.insert("retry_reason".to_owned(), reason.into());
        }
        let (acknowledge, acknowledged) = oneshot::channel();
        locked(&self.unacknowledged).insert(envelope.clone(), acknowledge);
        let text = Bytes::from(text.to_string());
        let sent = async {
            self.some_link(Order::Say(text)).await;
            acknowledged.await
        };
        let sent = tokio::time::timeout(patience, sent).await;
        let missing = locked(&self.unacknowledged).remove(&envelope).is_some();
        match sent {
            Ok(Ok(())) => Ok(()),
            _ if missing => Err(Failed::TimedOut),
            _ => Err(Failed::Unreachable),
        }
    }

    /// Hands an order to the sockets in turn, as soon as there is one.
    async fn some_link(&self, order: Order) {
        loop {
            let arrived = self.arrived.notified();
            let link = {
                let open = locked(&self.open);
                let turn = self.turn.fetch_add(1, Ordering::Relaxed);
                let turn = usize::try_from(turn).unwrap_or_default();
                let at = turn.checked_rem(open.len()).unwrap_or_default();
                open.values().nth(at).cloned()
            };
            match link {
                // One that is just closing loses it, and it is sent again as Slack does.
                Some(link) => {
                    let _ = link.send(order).await;
                    return;
                }
                None => arrived.await,
            }
        }
    }

    /// Closes every socket that is open now.
    pub(crate) fn dismiss(&self, why: Farewell) {
        for link in locked(&self.open).values() {
            // A socket that reads nothing any more is cut by its ping.
            let _ = link.try_send(Order::Leave(why));
        }
    }

    fn acknowledge(&self, text: &[u8]) {
        let said = serde_json::from_slice::<Value>(text).ok();
        let id = said.and_then(|said| Some(said.get("envelope_id")?.as_str()?.to_owned()));
        let waiting = id.and_then(|id| locked(&self.unacknowledged).remove(&id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(());
        }
    }
}

/// Serves one socket to its end.
pub(crate) async fn serve(shared: Arc<Shared>, upgrade: Upgrade) {
    let Some(mut socket) = upgrade.socket().await else {
        return;
    };
    let (sender, mut orders) = mpsc::channel(WAITING);
    let number = shared.links.number.fetch_add(1, Ordering::Relaxed);
    let count = {
        let mut open = locked(&shared.links.open);
        if open.len() < MOST {
            open.insert(number, sender);
        }
        open.len()
    };
    let known = locked(&shared.links.open).contains_key(&number);
    if !known {
        let text = disconnect("too_many_websockets");
        let _ = socket.say(text).await;
        let _ = socket.close(1000, "too many websockets").await;
        return;
    }
    let app = shared.look(|workspace| workspace.app.clone());
    let hello = json!({
        "type": "hello", "num_connections": count, "connection_info": {"app_id": app},
        "debug_info": {"host": "applink-playground", "build_number": 1,
            "approximate_connection_time": 18_060},
    });
    if socket.say(Bytes::from(hello.to_string())).await.is_ok() {
        shared.change(|_| ());
        shared.links.arrived.notify_waiters();
        talk(&shared, &mut socket, &mut orders).await;
    }
    locked(&shared.links.open).remove(&number);
    shared.change(|_| ());
}

async fn talk(shared: &Shared, socket: &mut Socket, orders: &mut mpsc::Receiver<Order>) {
    let mut ping = tokio::time::interval(shared.ping);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let sent = tokio::select! {
            () = shared.stop.cancelled() => {
                let _ = socket.close(1001, "the playground stops").await;
                return;
            }
            heard = socket.recv() => match heard {
                Heard::Text(text) => {
                    shared.links.acknowledge(text.as_bytes());
                    Ok(())
                }
                Heard::Binary | Heard::Sign => Ok(()),
                Heard::NoRoom | Heard::TooSlow | Heard::End => {
                    // Who says goodbye waits for the same.
                    let _ = socket.close(1000, "goodbye").await;
                    return;
                }
            },
            order = orders.recv() => match order {
                Some(Order::Say(text)) => socket.say(text).await,
                Some(Order::Leave(why)) => {
                    if leave(socket, why).await {
                        return;
                    }
                    Ok(())
                }
                None => return,
            },
            _ = ping.tick() => socket.ping().await,
        };
        if sent.is_err() {
            return;
        }
    }
}

fn disconnect(reason: &str) -> Bytes {
    let text = json!({"type": "disconnect", "reason": reason,
        "debug_info": {"host": "applink-playground"}});
    Bytes::from(text.to_string())
}

/// Says goodbye; whether the socket is closed now.
async fn leave(socket: &mut Socket, why: Farewell) -> bool {
    let reason = match why {
        Farewell::Cut => return true,
        Farewell::Warning => "warning",
        Farewell::RefreshRequested => "refresh_requested",
        Farewell::LinkDisabled => "link_disabled",
    };
    let told = socket.say(disconnect(reason)).await;
    if why == Farewell::Warning {
        return told.is_err();
    }
    let _ = socket.close(1000, "open another").await;
    true
}
