//! What the hub cannot know by itself: what time it is, and what nobody else has called anything.
//!
//! Both are ports, so that tests decide them.

use interzone_protocol::vocab::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time.
///
/// Moments of one clock may repeat and, across machines, differ by a little; nothing that must not
/// fail may depend on their order. Sequence numbers are for order.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// Makes ids.
pub trait IdSource: Send + Sync {
    /// A new id that no call has given before, here or on another machine, and that cannot be
    /// guessed. Ids made later sort after ids made earlier, near enough for an index to grow at its
    /// end.
    fn next(&self, now: Timestamp) -> String;

    /// Sixty-four random bits, for jitter.
    fn random(&self) -> u64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Random ids that begin with the time (UUID version 7).
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn next(&self, now: Timestamp) -> String {
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        // The ten bytes of a random id that are all random: those between hold its version.
        let bytes = uuid::Uuid::new_v4().into_bytes();
        let mut random = [0; 10];
        let free = bytes.iter().take(6).chain(bytes.iter().skip(12));
        random
            .iter_mut()
            .zip(free)
            .for_each(|(place, byte)| *place = *byte);
        uuid::Builder::from_unix_timestamp_millis(millis, &random)
            .into_uuid()
            .simple()
            .to_string()
    }

    fn random(&self) -> u64 {
        // The low half has two fixed bits at its top; folding the high half in hides them.
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        high.rotate_left(17) ^ low
    }
}
