//! What is noted of a program that prints what it should not: a little, escaped, and not too often.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How much of a line is shown.
const SHOWN: usize = 160;

/// How many notes there are at most in one window.
const MOST: u32 = 10;

const WINDOW: Duration = Duration::from_secs(60);

/// Decides whether one more note may be written.
pub(super) struct Notes {
    window: Mutex<(Instant, u32)>,
}

impl Notes {
    pub(super) fn new() -> Self {
        Self {
            window: Mutex::new((Instant::now(), 0)),
        }
    }

    /// Whether to write this one, and how many were left out since the last that was.
    pub(super) fn may_write(&self) -> Option<u32> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = &mut *window;
        let mut left_out = 0;
        if since.elapsed() >= WINDOW {
            left_out = count.saturating_sub(MOST);
            (*since, *count) = (Instant::now(), 0);
        }
        *count = count.saturating_add(1);
        (*count <= MOST).then_some(left_out)
    }
}

/// The beginning of what was printed, harmless in any log.
pub(super) fn harmless(line: &[u8]) -> String {
    let beginning = line.get(..SHOWN).unwrap_or(line);
    let mut shown: String = String::from_utf8_lossy(beginning).escape_debug().collect();
    if beginning.len() < line.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_are_only_so_many_in_a_minute() {
        let notes = Notes::new();
        let written = (0..50).filter(|_| notes.may_write().is_some()).count();
        assert_eq!(written, 10);
        tokio::time::advance(WINDOW).await;
        assert_eq!(notes.may_write(), Some(40));
        assert_eq!(notes.may_write(), Some(0));
    }

    #[test]
    fn nothing_drives_the_terminal() {
        let shown = harmless(b"\x1b[2J\xff\nx");
        assert!(!shown.contains(['\x1b', '\n']), "{shown}");
        assert!(harmless(&[b'x'; 10_000]).len() < 200);
    }
}
