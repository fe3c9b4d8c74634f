//! Counting what repeats, so that a log has one line for many refusals of the same kind.

use std::time::{Duration, Instant};

/// Counts events, and says when a line is due for those that were counted.
///
/// ```
/// use interzone_hub::Repeats;
/// use std::time::{Duration, Instant};
///
/// let mut refusals = Repeats::new(Duration::from_secs(5));
/// let start = Instant::now();
/// assert_eq!(refusals.count(1, start), Some(1));
/// assert_eq!(refusals.count(3, start), None);
/// assert_eq!(refusals.count(1, start + Duration::from_secs(5)), Some(4));
/// ```
#[derive(Debug)]
pub struct Repeats {
    interval: Duration,
    uncounted: u64,
    last_line: Option<Instant>,
}

impl Repeats {
    /// One line in each interval.
    pub const fn new(interval: Duration) -> Self {
        Self {
            interval,
            uncounted: 0,
            last_line: None,
        }
    }

    /// Counts so many events. If a line is due, answers for how many events it is.
    pub fn count(&mut self, events: u64, now: Instant) -> Option<u64> {
        self.uncounted = self.uncounted.saturating_add(events);
        self.due(now)
    }

    /// For how many events a line is due, if any were counted since the last line.
    pub fn due(&mut self, now: Instant) -> Option<u64> {
        let is_early = self
            .last_line
            .is_some_and(|last| now.saturating_duration_since(last) < self.interval);
        if self.uncounted == 0 || is_early {
            return None;
        }
        self.last_line = Some(now);
        Some(std::mem::take(&mut self.uncounted))
    }

    /// Whether all events that were counted are in a line.
    pub const fn is_empty(&self) -> bool {
        self.uncounted == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_in_one_line_and_lines_are_an_interval_apart() {
        let mut repeats = Repeats::new(Duration::from_secs(5));
        let start = Instant::now();
        assert_eq!(repeats.due(start), None);
        let (mut lines, mut events) = (0, 0);
        for millis in (0..20_000).step_by(10) {
            if let Some(count) = repeats.count(1, start + Duration::from_millis(millis)) {
                lines += 1;
                events += count;
            }
        }
        assert_eq!(lines, 4);
        assert!(!repeats.is_empty());
        events += repeats.due(start + Duration::from_secs(20)).unwrap();
        assert_eq!(events, 2_000);
        assert!(repeats.is_empty());
    }
}
