//! Ports for time and unique ids, so that tests can control both.

use interzone_protocol::vocab::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

/// Source of the current time.
///
/// Timestamps may repeat and, across machines, differ slightly; correctness must not depend on their
/// order. Use sequence numbers for order.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// Source of unique ids.
pub trait IdSource: Send + Sync {
    /// Returns a new id that is unique across calls and machines and cannot be guessed. Later ids sort after
    /// earlier ones, closely enough for an index to grow at its end.
    fn next(&self, now: Timestamp) -> String;

    /// Returns 64 random bits, for jitter.
    fn random(&self) -> u64;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Random, time-ordered ids (UUID version 7).
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn next(&self, now: Timestamp) -> String {
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        // The ten bytes of a v4 UUID that are fully random; those in between contain version and variant.
        let bytes = uuid::Uuid::new_v4().into_bytes();
        let mut random = [0; 10];
        let random_bytes = bytes.iter().take(6).chain(bytes.iter().skip(12));
        random
            .iter_mut()
            .zip(random_bytes)
            .for_each(|(place, byte)| *place = *byte);
        uuid::Builder::from_unix_timestamp_millis(millis, &random)
            .into_uuid()
            .simple()
            .to_string()
    }

    fn random(&self) -> u64 {
        // The low half has two fixed bits at its top; folding in the high half hides them.
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        high.rotate_left(17) ^ low
    }
}
