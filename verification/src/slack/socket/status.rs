//! Connection status of Socket Mode.

use super::SocketState;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// Connection status over all sockets.
pub(super) struct ConnectionStatus {
    state: watch::Sender<SocketState>,
    connected: AtomicUsize,
}

impl ConnectionStatus {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: watch::Sender::new(SocketState::Connecting),
            connected: AtomicUsize::new(0),
        })
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<SocketState> {
        self.state.subscribe()
    }

    pub(super) fn current(&self) -> SocketState {
        self.state.borrow().clone()
    }

    /// Marks a socket as connected until the guard is dropped.
    pub(super) fn mark_connected(self: &Arc<Self>) -> ConnectedGuard {
        self.connected.fetch_add(1, Ordering::SeqCst);
        self.state.send_replace(SocketState::Connected);
        ConnectedGuard(Arc::clone(self))
    }

    /// Records a failed connection attempt; ignored while another socket is connected.
    pub(super) fn set_failed(&self, state: SocketState) {
        if self.connected.load(Ordering::SeqCst) == 0 {
            self.state.send_replace(state);
        }
    }

    /// Sets the final state.
    pub(super) fn set_final(&self, state: SocketState) {
        self.state.send_replace(state);
    }
}

/// Guard of a connected socket.
pub(super) struct ConnectedGuard(Arc<ConnectionStatus>);

impl Drop for ConnectedGuard {
    fn drop(&mut self) {
        if self.0.connected.fetch_sub(1, Ordering::SeqCst) == 1 {
            let disconnect = |state: &mut SocketState| {
                let connected = *state == SocketState::Connected;
                if connected {
                    *state = SocketState::Connecting;
                }
                connected
            };
            self.0.state.send_if_modified(disconnect);
        }
    }
}
