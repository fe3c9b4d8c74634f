//! A connection whose input is counted: what has come of a message takes its part of a room, before
//! anybody can know how long the message will be.

use crate::budget::{MemoryBudget, Reservation, ShareKey};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much has come since the last message was whole.
pub(super) struct Tally {
    budget: MemoryBudget,
    key: ShareKey,
    count: Mutex<Count>,
}

#[derive(Default)]
struct Count {
    bytes: usize,
    held: Option<Reservation>,
    ran_out: bool,
}

impl Tally {
    pub(super) fn new(budget: MemoryBudget, key: ShareKey) -> Arc<Self> {
        Arc::new(Self {
            budget,
            key,
            count: Mutex::default(),
        })
    }

    /// The memory that a message takes which is now whole; small ones take none. Counting begins again.
    pub(super) fn settle(&self) -> Option<Reservation> {
        std::mem::take(&mut *self.lock()).held
    }

    /// These bytes that came belong to no message.
    pub(super) fn forget(&self, bytes: usize) {
        let mut count = self.lock();
        count.bytes = count.bytes.saturating_sub(bytes);
    }

    /// Whether there was no room for what came.
    pub(super) fn ran_out(&self) -> bool {
        self.lock().ran_out
    }

    fn add(&self, bytes: usize) -> io::Result<()> {
        let mut count = self.lock();
        count.bytes = count.bytes.saturating_add(bytes);
        if count.bytes <= MemoryBudget::PAGE {
            // The first page is free, until there is a second.
            return Ok(());
        }
        let bytes = count.bytes;
        let reserved = match &mut count.held {
            Some(held) => held.grow_to(bytes),
            held @ None => {
                *held = self.budget.reserve(&self.key, bytes);
                held.is_some()
            }
        };
        if reserved {
            return Ok(());
        }
        count.ran_out = true;
        Err(io::ErrorKind::OutOfMemory.into())
    }

    fn lock(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that counts what comes.
pub(super) struct Counted<S> {
    inner: S,
    tally: Arc<Tally>,
}

impl<S> Counted<S> {
    pub(super) fn new(inner: S, tally: Arc<Tally>) -> Self {
        Self { inner, tally }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.inner).poll_read(cx, buf) {
            Poll::Ready(Ok(())) => Poll::Ready(self.tally.add(buf.filled().len() - before)),
            other => other,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Shares;

    const PAGE: usize = MemoryBudget::PAGE;

    #[test]
    fn large_messages_take_room_and_small_ones_none() {
        let budget = MemoryBudget::with_shares(3 * PAGE, Shares::WHOLE);
        let key = ShareKey::Unattributed;
        let tally = Tally::new(budget.clone(), key.clone());
        tally.add(PAGE).unwrap();
        assert!(tally.settle().is_none(), "a small one is free");
        for _ in 0..3 {
            tally.add(PAGE).unwrap();
        }
        assert!(budget.reserve(&key, 1).is_none(), "all of it is taken");
        assert!(!tally.ran_out());
        // Somebody else has none left, and this one no more than there is.
        let other = Tally::new(budget.clone(), key.clone());
        other.add(1).unwrap();
        assert!(other.add(PAGE).is_err());
        assert!(other.ran_out());
        // Signs of life are no part of a message, however many there are.
        let alive = Tally::new(budget.clone(), key.clone());
        for _ in 0..PAGE {
            alive.add(10).unwrap();
            alive.forget(10);
        }
        let held = tally.settle();
        assert!(budget.reserve(&key, 1).is_none(), "it is being worked on");
        drop(held);
        tally.add(3 * PAGE).unwrap();
        assert!(tally.add(1).is_err());
    }
}
