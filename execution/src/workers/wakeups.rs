//! Forwards the store's change hints to the workers.

use super::Wakeups;
use interzone_hub::ports::ChangeHint;

impl Wakeups {
    /// Notifies the workers of a batch of hints, each at most once: a pending notification is not counted.
    pub(super) fn notify(&self, hints: &[ChangeHint]) {
        let (mut work, mut outbox) = (false, false);
        for hint in hints {
            match hint {
                ChangeHint::Work => work = true,
                ChangeHint::Outbox => outbox = true,
                ChangeHint::Everything => (work, outbox) = (true, true),
                ChangeHint::Subject(..) | ChangeHint::Signals(_) | ChangeHint::Subscriptions => {}
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
