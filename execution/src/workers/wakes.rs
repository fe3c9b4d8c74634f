//! Passing the store's hints on to the workers that wait for them.

use super::Bells;
use interzone_hub::ports::Wake;

impl Bells {
    /// Rings for hints that came together. A bell that has not been heard yet rings once, however often it is
    /// rung, so each is rung once for all of them.
    pub(super) fn ring(&self, wakes: &[Wake]) {
        let (mut work, mut outbox) = (false, false);
        for wake in wakes {
            match wake {
                Wake::Work => work = true,
                Wake::Outbox => outbox = true,
                Wake::Everything => (work, outbox) = (true, true),
                Wake::Subject(..) | Wake::Signals(_) | Wake::Subscriptions => {}
            }
        }
        if work {
            self.work.notify_one();
        }
        if outbox {
            self.webhooks.notify_one();
            self.streams.notify_one();
        }
    }
}
