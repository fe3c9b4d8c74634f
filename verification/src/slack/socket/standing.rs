//! How it stands with the sockets, for those who look after the zone. What comes over them is not known
//! here.

use super::SocketState;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// How it stands.
pub(super) struct Standing {
    state: watch::Sender<SocketState>,
    live: AtomicUsize,
}

impl Standing {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: watch::Sender::new(SocketState::Connecting),
            live: AtomicUsize::new(0),
        })
    }

    pub(super) fn watch(&self) -> watch::Receiver<SocketState> {
        self.state.subscribe()
    }

    pub(super) fn now(&self) -> SocketState {
        self.state.borrow().clone()
    }

    /// A socket said hello, and is there until this is dropped.
    pub(super) fn hello(self: &Arc<Self>) -> Live {
        self.live.fetch_add(1, Ordering::SeqCst);
        self.state.send_replace(SocketState::Connected);
        Live(Arc::clone(self))
    }

    /// There is no new socket. As long as an old one is there, that changes nothing.
    pub(super) fn failed(&self, state: SocketState) {
        if self.live.load(Ordering::SeqCst) == 0 {
            self.state.send_replace(state);
        }
    }

    /// There will be none any more.
    pub(super) fn ended(&self, state: SocketState) {
        self.state.send_replace(state);
    }
}

/// A socket that is there.
pub(super) struct Live(Arc<Standing>);

impl Drop for Live {
    fn drop(&mut self) {
        if self.0.live.fetch_sub(1, Ordering::SeqCst) == 1 {
            let over = |state: &mut SocketState| {
                let connected = *state == SocketState::Connected;
                if connected {
                    *state = SocketState::Connecting;
                }
                connected
            };
            self.0.state.send_if_modified(over);
        }
    }
}
