//! A connection that counts the messages that arrive by it. The headers of frames are read along with the WebSocket
//! library, so that the memory for a frame is reserved before the library makes room for it.

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

/// So many bytes of an unfinished message are not counted: the read buffer has room for them.
const FREE: usize = 4 * 1024;
/// The longest payload of a ping, a pong or a close (RFC 6455, 5.5).
const CONTROL: usize = 125;
/// The shortest header of a frame with a mask (RFC 6455, 5.2).
const SHORT_HEADER: usize = 6;

/// Why a connection is read no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no memory for the message, in all or in the caller's share.
    NoMemory,
    /// The message did not arrive in time.
    TooSlow,
    /// What arrived is no frame, or none that is allowed.
    Invalid,
}

/// Counts messages by the headers of their frames.
pub(super) struct Meter {
    budget: MemoryBudget,
    key: ShareKey,
    /// The most bytes of a frame.
    most: usize,
    /// How long a message may take to arrive.
    time: Duration,
    /// What has arrived of a header that is incomplete.
    head: Vec<u8>,
    frame: Frame,
    message: Option<Unfinished>,
    /// What the last finished message holds, until the read buffer is replaced.
    finished: Option<Arc<Reservation>>,
    /// Whether buffers of the library were enlarged for a message. It does not shrink them.
    enlarged: bool,
    refusal: Option<Refusal>,
}

/// The frame that arrives.
#[derive(Default)]
struct Frame {
    /// Bytes of its payload that are still to come.
    rest: usize,
    /// Whether it is the last of a message.
    ends_message: bool,
}

/// A message of which not everything has arrived.
#[derive(Default)]
struct Unfinished {
    /// Bytes that its frames have announced so far.
    bytes: usize,
    /// Whether it has more than one frame.
    fragmented: bool,
    reservation: Option<Reservation>,
    /// When it is too late. A message that arrives at once needs no timer.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Meter {
    pub(super) fn new(budget: MemoryBudget, key: ShareKey, most: usize, time: Duration) -> Self {
        Self {
            budget,
            key,
            most,
            time,
            head: Vec::new(),
            frame: Frame::default(),
            message: None,
            finished: None,
            enlarged: false,
            refusal: None,
        }
    }

    /// The memory that the last finished message takes; small ones take none.
    pub(super) fn finished(&self) -> Option<Arc<Reservation>> {
        self.finished.clone()
    }

    /// Why the connection is read no further.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// Whether the read buffer was enlarged and holds nothing that is needed.
    pub(super) fn buffer_is_replaceable(&self) -> bool {
        self.enlarged && self.message.is_none() && self.frame.rest == 0 && self.head.is_empty()
    }

    /// The read buffer was replaced by a new one.
    pub(super) fn buffer_was_replaced(&mut self) {
        self.enlarged = false;
        self.finished = None;
        self.message = None;
    }

    /// The most that may be read at once. An enlarged buffer gets nothing that lies beyond the end of a message, so that
    /// it is empty then and can be replaced.
    fn most_at_once(&self) -> usize {
        match (self.enlarged, self.frame.rest) {
            (false, _) => usize::MAX,
            (true, 0) => SHORT_HEADER.saturating_sub(self.head.len()).max(1),
            (true, rest) => rest,
        }
    }

    /// Counts bytes that have been read. Says whether they may be used: also when more is refused, if they finish a
    /// message before that.
    fn add(&mut self, bytes: &[u8]) -> bool {
        let mut finishes = false;
        self.refusal = self.count(bytes, &mut finishes).err();
        finishes || self.refusal.is_none()
    }

    fn count(&mut self, mut bytes: &[u8], finishes: &mut bool) -> Result<(), Refusal> {
        while let Some((first, others)) = bytes.split_first() {
            if self.frame.rest > 0 {
                let taken = self.frame.rest.min(bytes.len());
                bytes = bytes.get(taken..).unwrap_or_default();
                self.frame.rest -= taken;
                *finishes |= self.end_frame();
                continue;
            }
            bytes = others;
            self.head.push(*first);
            let header = FrameHeader::parse(&mut Cursor::new(&self.head));
            if let Some((header, length)) = header.map_err(|_| Refusal::Invalid)? {
                self.head.clear();
                self.begin_frame(&header, length)?;
                *finishes |= self.end_frame();
            }
        }
        self.hold()
    }

    fn begin_frame(&mut self, header: &FrameHeader, length: u64) -> Result<(), Refusal> {
        let length = usize::try_from(length).map_err(|_| Refusal::Invalid)?;
        let is_control = matches!(header.opcode, OpCode::Control(_));
        // The library would read all of a control frame before it sees that it is too long.
        let most = if is_control { CONTROL } else { self.most };
        if length > most {
            return Err(Refusal::Invalid);
        }
        self.frame = Frame {
            rest: length,
            ends_message: header.is_final && !is_control,
        };
        if !is_control {
            let message = self.message.get_or_insert_default();
            message.bytes = message.bytes.saturating_add(length);
            message.fragmented |= !header.is_final;
        }
        Ok(())
    }

    /// Says whether a message is finished.
    fn end_frame(&mut self) -> bool {
        let finishes = self.frame.rest == 0 && self.frame.ends_message;
        if finishes {
            let message = self.message.take().unwrap_or_default();
            // Small messages that are whole are bounded by the number of requests, as small bodies are.
            let large = message.bytes > MemoryBudget::PAGE;
            self.finished = message.reservation.filter(|_| large).map(Arc::new);
        }
        finishes
    }

    /// Reserves memory for the message that is unfinished after a read, as much as it has announced.
    fn hold(&mut self) -> Result<(), Refusal> {
        let Some(message) = &mut self.message else {
            return Ok(());
        };
        if message.timer.is_none() {
            message.timer = Some(Box::pin(sleep(self.time)));
        }
        // Fragments are collected in a second buffer.
        let copies = if message.fragmented { 2 } else { 1 };
        let bytes = message.bytes.saturating_mul(copies);
        if bytes <= FREE {
            return Ok(());
        }
        self.enlarged = true;
        let reserved = match &mut message.reservation {
            Some(reservation) => reservation.grow_to(bytes),
            none @ None => {
                *none = self.budget.reserve(&self.key, bytes);
                none.is_some()
            }
        };
        if reserved {
            Ok(())
        } else {
            Err(Refusal::NoMemory)
        }
    }

    /// Completes when the unfinished message has taken too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let timer = self.message.as_mut().and_then(|it| it.timer.as_mut());
        let Some(timer) = timer else {
            return Poll::Pending;
        };
        ready!(timer.as_mut().poll(cx));
        self.refusal = Some(Refusal::TooSlow);
        Poll::Ready(Err(refused()))
    }
}

/// The error of a read that is refused; why is kept by the meter.
fn refused() -> io::Error {
    io::ErrorKind::Other.into()
}

/// A connection that counts what arrives.
pub(super) struct Counted<S> {
    inner: S,
    meter: Meter,
}

impl<S> Counted<S> {
    pub(super) fn new(inner: S, meter: Meter) -> Self {
        Self { inner, meter }
    }

    pub(super) fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { inner, meter } = self.get_mut();
        if meter.refusal.is_some() {
            return Poll::Ready(Err(refused()));
        }
        let most = meter.most_at_once().min(buf.remaining());
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(most));
        // What has arrived is taken first: the time that a call takes here is not the sender's.
        match Pin::new(inner).poll_read(cx, &mut part) {
            Poll::Ready(Ok(())) => {
                let read = part.filled().len();
                if !meter.add(part.filled()) {
                    return Poll::Ready(Err(refused()));
                }
                buf.advance(read);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => meter.poll_late(cx),
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
    use super::super::tests::header;
    use super::*;
    use crate::budget::Shares;

    const PAGE: usize = MemoryBudget::PAGE;
    const TEXT: u8 = 0x1;
    const PING: u8 = 0x9;

    fn meter(budget: &MemoryBudget) -> Meter {
        let key = ShareKey::Unattributed;
        Meter::new(budget.clone(), key, 8 * PAGE, Duration::from_secs(60))
    }

    fn pages(count: usize) -> MemoryBudget {
        MemoryBudget::with_shares(count * PAGE, Shares::WHOLE)
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
    async fn announced_frame_is_reserved_before_its_bytes_arrive() {
        let budget = pages(3);
        let mut first = meter(&budget);
        assert!(first.add(&header(TEXT, true, 2 * PAGE)));
        assert_eq!(free(&budget), 1);
        let mut second = meter(&budget);
        assert!(!second.add(&header(TEXT, true, 2 * PAGE)));
        assert_eq!(second.refusal(), Some(Refusal::NoMemory));
        assert!(first.add(&vec![0; 2 * PAGE]));
        assert!(first.buffer_is_replaceable());
        let held = first.finished();
        first.buffer_was_replaced();
        assert_eq!(free(&budget), 1, "the message is in use");
        drop(held);
        assert_eq!(free(&budget), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_messages_over_4_kib_take_a_page_and_smaller_ones_nothing() {
        let budget = pages(2);
        let (mut small, mut medium) = (meter(&budget), meter(&budget));
        assert!(small.add(&header(TEXT, true, FREE)));
        assert_eq!(free(&budget), 2);
        assert!(medium.add(&header(TEXT, true, FREE + 1)));
        assert_eq!(free(&budget), 1);
        assert!(medium.add(&[0; FREE + 1]));
        assert!(medium.finished().is_none());
        assert_eq!(free(&budget), 2, "a small message that is whole is free");
    }

    #[tokio::test(start_paused = true)]
    async fn small_messages_that_arrive_whole_reserve_nothing() {
        let budget = pages(0);
        let mut meter = meter(&budget);
        let message = [header(TEXT, true, 7000), vec![0; 7000]].concat();
        for _ in 0..100 {
            assert!(meter.add(&message));
            assert!(!meter.enlarged && meter.message.is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn fragments_count_twice_and_pings_between_them_do_not_count() {
        let budget = pages(4);
        let mut meter = meter(&budget);
        assert!(meter.add(&[header(TEXT, false, PAGE), vec![0; PAGE]].concat()));
        assert_eq!(free(&budget), 2);
        for _ in 0..PAGE {
            assert!(meter.add(&[header(PING, true, 100), vec![0; 100]].concat()));
        }
        assert_eq!(free(&budget), 2);
        assert!(!meter.buffer_is_replaceable());
        assert!(meter.add(&header(0, true, PAGE)));
        assert_eq!(free(&budget), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn reads_into_an_enlarged_buffer_stop_at_the_end_of_the_message() {
        let mut meter = meter(&pages(2));
        assert_eq!(meter.most_at_once(), usize::MAX);
        assert!(meter.add(&header(TEXT, false, 5000)));
        assert_eq!(meter.most_at_once(), 5000);
        assert!(meter.add(&[0; 5000]));
        assert_eq!(meter.most_at_once(), SHORT_HEADER);
        assert!(meter.add(&header(0, true, 3)));
        assert_eq!(meter.most_at_once(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn frames_that_are_too_long_are_refused_by_their_header() {
        let budget = pages(64);
        for header in [header(PING, true, 126), header(TEXT, true, 8 * PAGE + 1)] {
            let mut meter = meter(&budget);
            assert!(!meter.add(&header));
            assert_eq!(meter.refusal(), Some(Refusal::Invalid));
        }
        assert_eq!(free(&budget), 64);
    }

    #[tokio::test(start_paused = true)]
    async fn message_before_a_refused_one_may_be_used() {
        let mut meter = meter(&pages(0));
        let call = [header(TEXT, true, 4), b"call".to_vec()].concat();
        assert!(meter.add(&[call, header(TEXT, true, PAGE)].concat()));
        assert_eq!(meter.refusal(), Some(Refusal::NoMemory));
    }
}
