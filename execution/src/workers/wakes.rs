//! Passing the store's hints on to the workers that wait for them.

use super::Bells;
use interzone_edge::health::Heart;
use interzone_hub::ports::Wake;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio_util::sync::CancellationToken;

/// Rings for each hint until told to stop. A bell that has not been heard yet rings once, however
/// often it is rung.
pub(super) async fn ring(
    mut wakes: broadcast::Receiver<Wake>,
    bells: Bells,
    _heart: Heart,
    stop: CancellationToken,
) {
    loop {
        let wake = tokio::select! {
            () = stop.cancelled() => return,
            wake = wakes.recv() => wake,
        };
        let (mut work, mut outbox) = match wake {
            Ok(wake) => rings(&wake),
            Err(RecvError::Lagged(_)) => (true, true),
            Err(RecvError::Closed) => return,
        };
        // Hints come by the group; those that are there need no waiting.
        loop {
            let more = match wakes.try_recv() {
                Ok(wake) => rings(&wake),
                Err(TryRecvError::Lagged(_)) => (true, true),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            };
            (work, outbox) = (work | more.0, outbox | more.1);
        }
        if work {
            bells.work.notify_one();
        }
        if outbox {
            bells.webhooks.notify_one();
            bells.streams.notify_one();
        }
    }
}

/// Whether a hint is for those who look for work, and for those who look into the outbox.
fn rings(wake: &Wake) -> (bool, bool) {
    match wake {
        Wake::Work => (true, false),
        Wake::Outbox => (false, true),
        Wake::Everything => (true, true),
        Wake::Subject(..) | Wake::Signals(_) | Wake::Subscriptions => (false, false),
    }
}
