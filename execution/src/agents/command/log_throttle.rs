//! Throttled, escaped logging of invalid program output.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of bytes of a line that are logged.
const MAX_LOGGED_BYTES: usize = 160;

/// Maximum number of log messages per window.
const MAX_LOGS_PER_WINDOW: u32 = 10;

const WINDOW: Duration = Duration::from_secs(60);

/// Limits the number of log messages per window.
pub(super) struct LogThrottle {
    window: Mutex<(Instant, u32)>,
}

impl LogThrottle {
    pub(super) fn new() -> Self {
        Self {
            window: Mutex::new((Instant::now(), 0)),
        }
    }

    /// Returns `Some` if a message may be logged now, with the number suppressed in the window before.
    pub(super) fn allow(&self) -> Option<u32> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = &mut *window;
        let mut suppressed = 0;
        if since.elapsed() >= WINDOW {
            suppressed = count.saturating_sub(MAX_LOGS_PER_WINDOW);
            (*since, *count) = (Instant::now(), 0);
        }
        *count = count.saturating_add(1);
        (*count <= MAX_LOGS_PER_WINDOW).then_some(suppressed)
    }
}

/// Returns the beginning of a line, escaped so that it is safe in any log.
pub(super) fn escape_for_log(line: &[u8]) -> String {
    let prefix = line.get(..MAX_LOGGED_BYTES).unwrap_or(line);
    let mut escaped: String = String::from_utf8_lossy(prefix).escape_debug().collect();
    if prefix.len() < line.len() {
        escaped.push('…');
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn throttle_allows_ten_messages_per_minute() {
        let throttle = LogThrottle::new();
        let allowed = (0..50).filter(|_| throttle.allow().is_some()).count();
        assert_eq!(allowed, 10);
        tokio::time::advance(WINDOW).await;
        assert_eq!(throttle.allow(), Some(40));
        assert_eq!(throttle.allow(), Some(0));
    }

    #[test]
    fn control_characters_are_escaped_in_logs() {
        let escaped = escape_for_log(b"\x1b[2J\xff\nx");
        assert!(!escaped.contains(['\x1b', '\n']), "{escaped}");
        assert!(escape_for_log(&[b'x'; 10_000]).len() < 200);
    }
}
