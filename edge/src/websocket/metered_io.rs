//! Meters the WebSocket messages received on a connection. Parses frame headers ahead of the WebSocket library, so that
//! the memory for a frame is reserved before the library allocates it.

use crate::budget::{MemoryBudget, Reservation, ShareKey};
use std::io::{self, Cursor};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::OpCode;

/// Bytes of a partial message that are not counted: the read buffer has space for them.
const FREE_BYTES: usize = 4 * 1024;
/// Maximum payload of a ping, pong or close frame (RFC 6455, 5.5).
const MAX_CONTROL_PAYLOAD: usize = 125;
/// Minimum length of a masked frame header (RFC 6455, 5.2).
const MIN_HEADER_BYTES: usize = 6;

/// Reason why a connection is not read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameRejection {
    /// The memory budget, or the caller's share, is used up.
    NoMemory,
    /// The message did not arrive in time.
    Timeout,
    /// The frame is invalid or not allowed.
    Invalid,
}

/// Counts messages by their frame headers.
pub(super) struct FrameMeter {
    budget: MemoryBudget,
    key: ShareKey,
    /// Maximum bytes of a frame.
    max_frame_bytes: usize,
    /// Timeout of a message.
    timeout: Duration,
    /// Received part of an incomplete frame header.
    partial_header: Vec<u8>,
    frame: CurrentFrame,
    message: Option<PartialMessage>,
    /// Reservation of the last complete message, until the read buffer is replaced.
    finished: Option<Arc<Reservation>>,
    /// Buffers of the library were enlarged for a message. It does not shrink them.
    is_enlarged: bool,
    rejection: Option<FrameRejection>,
}

/// The frame being received.
#[derive(Default)]
struct CurrentFrame {
    /// Bytes of its payload that are still to come.
    remaining: usize,
    /// The frame is the last of a message.
    ends_message: bool,
}

/// A partly received message.
#[derive(Default)]
struct PartialMessage {
    /// Bytes that its frames have announced so far.
    bytes: usize,
    /// The message has more than one frame.
    is_fragmented: bool,
    reservation: Option<Reservation>,
    /// Timeout of the message. One that arrives at once needs no timer.
    timer: Option<Pin<Box<Sleep>>>,
}

impl FrameMeter {
    pub(super) fn new(
        budget: MemoryBudget,
        key: ShareKey,
        max_frame_bytes: usize,
        timeout: Duration,
    ) -> Self {
        Self {
            budget,
            key,
            max_frame_bytes,
            timeout,
            partial_header: Vec::new(),
            frame: CurrentFrame::default(),
            message: None,
            finished: None,
            is_enlarged: false,
            rejection: None,
        }
    }

    /// Returns the reservation of the last complete message; small ones have none.
    pub(super) fn finished_reservation(&self) -> Option<Arc<Reservation>> {
        self.finished.clone()
    }

    /// Returns why the connection is not read any further.
    pub(super) fn rejection(&self) -> Option<FrameRejection> {
        self.rejection
    }

    /// Returns true if the read buffer was enlarged and holds nothing that is needed.
    pub(super) fn buffer_is_replaceable(&self) -> bool {
        self.is_enlarged
            && self.message.is_none()
            && self.frame.remaining == 0
            && self.partial_header.is_empty()
    }

    /// Records that the read buffer was replaced.
    pub(super) fn buffer_was_replaced(&mut self) {
        self.is_enlarged = false;
        self.finished = None;
        self.message = None;
    }

    /// Returns the maximum size of the next read. A read into an enlarged buffer does not go beyond the end of a
    /// message, so that the buffer is empty then and can be replaced.
    fn max_read(&self) -> usize {
        match (self.is_enlarged, self.frame.remaining) {
            (false, _) => usize::MAX,
            (true, 0) => MIN_HEADER_BYTES
                .saturating_sub(self.partial_header.len())
                .max(1),
            (true, rest) => rest,
        }
    }

    /// Counts received bytes. Returns true if they may be used: also when more is rejected, if they complete a message
    /// before that.
    fn count_read(&mut self, bytes: &[u8]) -> bool {
        let mut completes_message = false;
        self.rejection = self.count(bytes, &mut completes_message).err();
        completes_message || self.rejection.is_none()
    }

    fn count(
        &mut self,
        mut bytes: &[u8],
        completes_message: &mut bool,
    ) -> Result<(), FrameRejection> {
        while let Some((first, remaining)) = bytes.split_first() {
            if self.frame.remaining > 0 {
                let taken = self.frame.remaining.min(bytes.len());
                bytes = bytes.get(taken..).unwrap_or_default();
                self.frame.remaining -= taken;
                *completes_message |= self.end_frame();
                continue;
            }
            bytes = remaining;
            self.partial_header.push(*first);
            let header = FrameHeader::parse(&mut Cursor::new(&self.partial_header));
            if let Some((header, length)) = header.map_err(|_| FrameRejection::Invalid)? {
                self.partial_header.clear();
                self.begin_frame(&header, length)?;
                *completes_message |= self.end_frame();
            }
        }
        self.reserve()
    }

    fn begin_frame(&mut self, header: &FrameHeader, length: u64) -> Result<(), FrameRejection> {
        let length = usize::try_from(length).map_err(|_| FrameRejection::Invalid)?;
        let is_control = matches!(header.opcode, OpCode::Control(_));
        // The library would read all of a control frame before it sees that it is too long.
        let max = if is_control {
            MAX_CONTROL_PAYLOAD
        } else {
            self.max_frame_bytes
        };
        if length > max {
            return Err(FrameRejection::Invalid);
        }
        self.frame = CurrentFrame {
            remaining: length,
            ends_message: header.is_final && !is_control,
        };
        if !is_control {
            let message = self.message.get_or_insert_default();
            message.bytes = message.bytes.saturating_add(length);
            message.is_fragmented |= !header.is_final;
        }
        Ok(())
    }

    /// Returns true if a message is complete.
    fn end_frame(&mut self) -> bool {
        let is_complete = self.frame.remaining == 0 && self.frame.ends_message;
        if is_complete {
            let message = self.message.take().unwrap_or_default();
            // Small complete messages are bounded by the number of requests, as small bodies are.
            let is_large = message.bytes > MemoryBudget::PAGE;
            self.finished = message.reservation.filter(|_| is_large).map(Arc::new);
        }
        is_complete
    }

    /// Reserves memory for a partial message, as much as it has announced.
    fn reserve(&mut self) -> Result<(), FrameRejection> {
        let Some(message) = &mut self.message else {
            return Ok(());
        };
        if message.timer.is_none() {
            message.timer = Some(Box::pin(sleep(self.timeout)));
        }
        // Fragments are collected in a second buffer.
        let copies = if message.is_fragmented { 2 } else { 1 };
        let bytes = message.bytes.saturating_mul(copies);
        if bytes <= FREE_BYTES {
            return Ok(());
        }
        self.is_enlarged = true;
        let is_reserved = match &mut message.reservation {
            Some(reservation) => reservation.grow_to(bytes),
            none @ None => {
                *none = self.budget.reserve(&self.key, bytes);
                none.is_some()
            }
        };
        if is_reserved {
            Ok(())
        } else {
            Err(FrameRejection::NoMemory)
        }
    }

    /// Completes when the partial message times out.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let timer = self.message.as_mut().and_then(|it| it.timer.as_mut());
        let Some(timer) = timer else {
            return Poll::Pending;
        };
        ready!(timer.as_mut().poll(cx));
        self.rejection = Some(FrameRejection::Timeout);
        Poll::Ready(Err(rejected()))
    }
}

/// Error of a rejected read; the meter keeps the reason.
fn rejected() -> io::Error {
    io::ErrorKind::Other.into()
}

/// Connection that meters what it receives.
pub(super) struct MeteredIo<S> {
    inner: S,
    meter: FrameMeter,
}

impl<S> MeteredIo<S> {
    pub(super) fn new(inner: S, meter: FrameMeter) -> Self {
        Self { inner, meter }
    }

    pub(super) fn meter(&mut self) -> &mut FrameMeter {
        &mut self.meter
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredIo<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { inner, meter } = self.get_mut();
        if meter.rejection.is_some() {
            return Poll::Ready(Err(rejected()));
        }
        let max = meter.max_read().min(buf.remaining());
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(max));
        // Read first: processing time on this side does not count against the sender.
        match Pin::new(inner).poll_read(cx, &mut part) {
            Poll::Ready(Ok(())) => {
                let read = part.filled().len();
                if !meter.count_read(part.filled()) {
                    return Poll::Ready(Err(rejected()));
                }
                buf.advance(read);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => meter.poll_timeout(cx),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredIo<S> {
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
    use super::super::tests::frame_header;
    use super::*;
    use crate::budget::Shares;

    const PAGE: usize = MemoryBudget::PAGE;
    const TEXT: u8 = 0x1;
    const PING: u8 = 0x9;

    fn meter(budget: &MemoryBudget) -> FrameMeter {
        let key = ShareKey::Unattributed;
        FrameMeter::new(budget.clone(), key, 8 * PAGE, Duration::from_secs(60))
    }

    fn pages(count: usize) -> MemoryBudget {
        MemoryBudget::with_shares(count * PAGE, Shares::FULL)
    }

    fn free(budget: &MemoryBudget) -> usize {
        let fits = |pages: &usize| {
            budget
                .reserve(&ShareKey::Unattributed, pages * PAGE)
                .is_some()
        };
        (0..=64).rev().find(fits).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn frame_is_reserved_by_its_header() {
        let budget = pages(3);
        let mut first = meter(&budget);
        assert!(first.count_read(&frame_header(TEXT, true, 2 * PAGE)));
        assert_eq!(free(&budget), 1);
        let mut second = meter(&budget);
        assert!(!second.count_read(&frame_header(TEXT, true, 2 * PAGE)));
        assert_eq!(second.rejection(), Some(FrameRejection::NoMemory));
        assert!(first.count_read(&vec![0; 2 * PAGE]));
        assert!(first.buffer_is_replaceable());
        let reservation = first.finished_reservation();
        first.buffer_was_replaced();
        assert_eq!(free(&budget), 1, "the message is in use");
        drop(reservation);
        assert_eq!(free(&budget), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn partial_messages_over_4_kib_reserve_a_page() {
        let budget = pages(2);
        let (mut small, mut medium) = (meter(&budget), meter(&budget));
        assert!(small.count_read(&frame_header(TEXT, true, FREE_BYTES)));
        assert_eq!(free(&budget), 2);
        assert!(medium.count_read(&frame_header(TEXT, true, FREE_BYTES + 1)));
        assert_eq!(free(&budget), 1);
        assert!(medium.count_read(&[0; FREE_BYTES + 1]));
        assert!(medium.finished_reservation().is_none());
        assert_eq!(free(&budget), 2, "a small complete message is free");
    }

    #[tokio::test(start_paused = true)]
    async fn small_complete_messages_reserve_nothing() {
        let budget = pages(0);
        let mut meter = meter(&budget);
        let message = [frame_header(TEXT, true, 7000), vec![0; 7000]].concat();
        for _ in 0..100 {
            assert!(meter.count_read(&message));
            assert!(!meter.is_enlarged && meter.message.is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn fragments_count_twice_and_pings_are_free() {
        let budget = pages(4);
        let mut meter = meter(&budget);
        assert!(meter.count_read(&[frame_header(TEXT, false, PAGE), vec![0; PAGE]].concat()));
        assert_eq!(free(&budget), 2);
        for _ in 0..PAGE {
            assert!(meter.count_read(&[frame_header(PING, true, 100), vec![0; 100]].concat()));
        }
        assert_eq!(free(&budget), 2);
        assert!(!meter.buffer_is_replaceable());
        assert!(meter.count_read(&frame_header(0, true, PAGE)));
        assert_eq!(free(&budget), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn enlarged_buffer_reads_stop_at_message_end() {
        let mut meter = meter(&pages(2));
        assert_eq!(meter.max_read(), usize::MAX);
        assert!(meter.count_read(&frame_header(TEXT, false, 5000)));
        assert_eq!(meter.max_read(), 5000);
        assert!(meter.count_read(&[0; 5000]));
        assert_eq!(meter.max_read(), MIN_HEADER_BYTES);
        assert!(meter.count_read(&frame_header(0, true, 3)));
        assert_eq!(meter.max_read(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn oversized_frames_are_rejected_by_their_header() {
        let budget = pages(64);
        for header in [
            frame_header(PING, true, 126),
            frame_header(TEXT, true, 8 * PAGE + 1),
        ] {
            let mut meter = meter(&budget);
            assert!(!meter.count_read(&header));
            assert_eq!(meter.rejection(), Some(FrameRejection::Invalid));
        }
        assert_eq!(free(&budget), 64);
    }

    #[tokio::test(start_paused = true)]
    async fn message_before_a_rejected_one_is_usable() {
        let mut meter = meter(&pages(0));
        let call = [frame_header(TEXT, true, 4), b"call".to_vec()].concat();
        assert!(meter.count_read(&[call, frame_header(TEXT, true, PAGE)].concat()));
        assert_eq!(meter.rejection(), Some(FrameRejection::NoMemory));
    }
}
