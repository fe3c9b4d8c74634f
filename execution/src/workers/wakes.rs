//! Passing the store's hints on to the workers that wait for them.

use super::Bells;
use super::health::Heart;
use interzone_hub::ports::Wake;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
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
        let (work, outbox) = match wake {
            Ok(Wake::Work) => (true, false),
            Ok(Wake::Outbox) => (false, true),
            Ok(Wake::Everything) | Err(RecvError::Lagged(_)) => (true, true),
            Ok(Wake::Subject(..) | Wake::Signals(_) | Wake::Subscriptions) => (false, false),
            Err(RecvError::Closed) => return,
        };
        if work {
            bells.work.notify_one();
        }
        if outbox {
            bells.webhooks.notify_one();
            bells.streams.notify_one();
        }
    }
}
