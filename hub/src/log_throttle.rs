//! Throttling of repeated log messages.

use std::time::{Duration, Instant};

/// Counts events and tells when a log line for the counted events is due.
///
/// ```
/// use interzone_hub::LogThrottle;
/// use std::time::{Duration, Instant};
///
/// let mut refusals = LogThrottle::new(Duration::from_secs(5));
/// let start = Instant::now();
/// assert_eq!(refusals.record(1, start), Some(1));
/// assert_eq!(refusals.record(3, start), None);
/// assert_eq!(refusals.record(1, start + Duration::from_secs(5)), Some(4));
/// ```
#[derive(Debug)]
pub struct LogThrottle {
    interval: Duration,
    unreported: u64,
    last_reported_at: Option<Instant>,
}

impl LogThrottle {
    /// At most one log line per interval.
    pub const fn new(interval: Duration) -> Self {
        Self {
            interval,
            unreported: 0,
            last_reported_at: None,
        }
    }

    /// Counts events. If a log line is due, returns the number of events it reports.
    pub fn record(&mut self, events: u64, now: Instant) -> Option<u64> {
        self.unreported = self.unreported.saturating_add(events);
        self.take_due(now)
    }

    /// Returns the number of events to report if a log line is due and events were counted since the last one.
    pub fn take_due(&mut self, now: Instant) -> Option<u64> {
        let is_early = self
            .last_reported_at
            .is_some_and(|last| now.saturating_duration_since(last) < self.interval);
        if self.unreported == 0 || is_early {
            return None;
        }
        self.last_reported_at = Some(now);
        Some(std::mem::take(&mut self.unreported))
    }

    /// Returns true if all counted events have been reported.
    pub const fn is_empty(&self) -> bool {
        self.unreported == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_reported_once_per_interval() {
        let mut throttle = LogThrottle::new(Duration::from_secs(5));
        let start = Instant::now();
        assert_eq!(throttle.take_due(start), None);
        let (mut lines, mut events) = (0, 0);
        for millis in (0..20_000).step_by(10) {
            if let Some(count) = throttle.record(1, start + Duration::from_millis(millis)) {
                lines += 1;
                events += count;
            }
        }
        assert_eq!(lines, 4);
        assert!(!throttle.is_empty());
        events += throttle.take_due(start + Duration::from_secs(20)).unwrap();
        assert_eq!(events, 2_000);
        assert!(throttle.is_empty());
    }
}
