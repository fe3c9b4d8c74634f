//! Follows the frames that arrive on an HTTP/2 connection, and ends the connection of a caller who sends
//! many that ask for nothing: PRIORITY, WINDOW_UPDATE, PING, SETTINGS, RST_STREAM, empty DATA, CONTINUATION
//! and unknown types. The HTTP library answers each for little work, but without an end.
//!
//! Each such frame is paid from a budget. Requests, their data and what we send fill it up again, because
//! honest frames of this kind come with them. What is in the frames is not looked at.

use super::pulse::Pulse;
use crate::telemetry::Metrics;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// What precedes the first frame (RFC 9113, 3.4).
const PREFACE: usize = 24;
/// Length, type, flags and stream id (RFC 9113, 4.1).
const HEAD: usize = 9;

/// Frames that a caller may send at once beyond what the connection carries, and how many more a second.
const BURST: i64 = 1_000;
const PER_SECOND: i64 = 100;

/// A request may bring a few frames of its own: priorities, and windows for its answer.
const REQUEST_CREDIT: i64 = 4;
/// A request that is opened and reset is work for nothing, so a reset costs more than a request brings.
const RESET_COST: i64 = 8;
/// New settings are applied to every stream.
const SETTINGS_COST: i64 = 4;
/// The data of a request pays for one frame in so many bytes.
const RECEIVED_BYTES: usize = 64;
/// What we send pays for one frame in so many bytes: two WINDOW_UPDATE for each small DATA frame.
const SENT_BYTES: u64 = 32;

const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const GOAWAY: u8 = 0x7;
const CONTINUATION: u8 = 0x9;

/// Flags of DATA (RFC 9113, 6.1).
const END_STREAM: u8 = 0x1;
const PADDED: u8 = 0x8;
/// A flag of HEADERS and CONTINUATION (RFC 9113, 6.2).
const END_HEADERS: u8 = 0x4;

/// Too many frames that ask for nothing.
#[derive(Debug, PartialEq, Eq)]
struct Flood;

/// Where in the sequence of frames the connection is, and what is left of its budget.
struct Frames {
    /// Bytes to skip: the rest of the preface, or of a frame's payload.
    skip: usize,
    head: [u8; HEAD],
    /// How much of the head has arrived.
    filled: usize,
    /// What has arrived of the header block that is open, in frames that are complete.
    block: usize,
    budget: i64,
    refilled: Instant,
    /// Bytes that we sent and that have not been turned into budget.
    sent: u64,
}

impl Frames {
    fn new() -> Self {
        Self {
            skip: PREFACE,
            head: [0; HEAD],
            filled: 0,
            block: 0,
            budget: BURST,
            refilled: Instant::now(),
            sent: 0,
        }
    }

    fn follow(&mut self, mut bytes: &[u8]) -> std::result::Result<(), Flood> {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = bytes.split_at(skipped).1;
                self.end_frame();
                continue;
            }
            let missing = (HEAD - self.filled).min(bytes.len());
            let (some, rest) = bytes.split_at(missing);
            for (to, from) in self.head.iter_mut().skip(self.filled).zip(some) {
                *to = *from;
            }
            self.filled += missing;
            bytes = rest;
            if self.filled == HEAD {
                self.filled = 0;
                let [_, _, _, kind, flags, ..] = self.head;
                self.skip = self.length();
                self.count(kind, flags, self.skip)?;
                self.end_frame();
            }
        }
        Ok(())
    }

    /// The length of the frame at hand.
    fn length(&self) -> usize {
        let [high, middle, low, ..] = self.head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    /// If the frame at hand is complete and belongs to a header block, the block grows or ends.
    fn end_frame(&mut self) {
        let [_, _, _, kind, flags, ..] = self.head;
        if self.skip > 0 || !matches!(kind, HEADERS | CONTINUATION) {
            return;
        }
        self.block = match flags & END_HEADERS {
            0 => self.block.saturating_add(HEAD + self.length()),
            _ => 0,
        };
    }

    /// What has arrived of a frame that is incomplete.
    fn incomplete(&self) -> usize {
        match self.skip {
            0 => self.filled,
            missing => HEAD + self.length().saturating_sub(missing),
        }
    }

    /// Reports what the HTTP library keeps until more arrives.
    fn report(&self, pulse: &Pulse) {
        let [_, _, _, kind, ..] = self.head;
        let incomplete = self.incomplete();
        let is_head = self.skip > 0 && matches!(kind, HEADERS | CONTINUATION);
        let (frame, part_of_block) = match is_head || self.block > 0 {
            true => (0, incomplete),
            false => (incomplete, 0),
        };
        let block = self.block.saturating_add(part_of_block);
        pulse.heads().set_frames(frame, block, self.block > 0);
        pulse.settle_heads();
    }

    fn count(&mut self, kind: u8, flags: u8, length: usize) -> std::result::Result<(), Flood> {
        match kind {
            HEADERS => self.earn(REQUEST_CREDIT),
            // Padding brings nothing, however much there is.
            DATA if flags & PADDED == 0 && length >= RECEIVED_BYTES => {
                self.earn(i64::try_from(length / RECEIVED_BYTES).unwrap_or(BURST));
            }
            DATA if flags & END_STREAM != 0 => {}
            // The caller is about to go.
            GOAWAY => {}
            RST_STREAM => return self.pay(RESET_COST),
            SETTINGS => return self.pay(SETTINGS_COST),
            _ => return self.pay(1),
        }
        Ok(())
    }

    fn earn(&mut self, credit: i64) {
        self.budget = self.budget.saturating_add(credit).min(BURST);
    }

    fn pay(&mut self, cost: i64) -> std::result::Result<(), Flood> {
        self.budget -= cost;
        if self.budget >= 0 {
            return Ok(());
        }
        // Only now is the clock asked, and what was sent counted: most connections never come here.
        self.earn(i64::try_from(self.sent / SENT_BYTES).unwrap_or(BURST));
        self.sent %= SENT_BYTES;
        let now = Instant::now();
        let millis = now.saturating_duration_since(self.refilled).as_millis();
        let millis = i64::try_from(millis).unwrap_or(i64::MAX);
        self.earn(millis.saturating_mul(PER_SECOND) / 1_000);
        self.refilled = now;
        if self.budget >= 0 { Ok(()) } else { Err(Flood) }
    }

    fn add_sent(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.sent = self.sent.saturating_add(bytes);
    }
}

/// An HTTP/2 connection whose incoming frames are counted.
pub(super) struct CountedFrames<S> {
    stream: S,
    frames: Frames,
    metrics: Arc<Metrics>,
    pulse: Arc<Pulse>,
}

impl<S> CountedFrames<S> {
    pub(super) fn new(stream: S, metrics: Arc<Metrics>, pulse: Arc<Pulse>) -> Self {
        Self {
            stream,
            frames: Frames::new(),
            metrics,
            pulse,
        }
    }

    fn count_sent(&mut self, result: Poll<Result<usize>>) -> Poll<Result<usize>> {
        if let Poll::Ready(Ok(sent)) = &result {
            self.frames.add_sent(*sent);
        }
        result
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedFrames<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        let arrived = buf.filled().get(before..).unwrap_or_default();
        this.frames.follow(arrived).map_err(|Flood| {
            this.metrics.cut_off("frame_flood", 1);
            Error::new(ErrorKind::ConnectionAborted, "too many control frames")
        })?;
        this.frames.report(&this.pulse);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedFrames<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.count_sent(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.count_sent(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const WINDOW_UPDATE: u8 = 0x8;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        frame.resize(HEAD + usize::from(length), b'x');
        frame
    }

    fn after_preface() -> Frames {
        let mut frames = Frames::new();
        frames.follow(&[b'P'; PREFACE]).unwrap();
        frames
    }

    #[tokio::test(start_paused = true)]
    async fn frames_are_found_however_the_bytes_are_cut() {
        let mut bytes = vec![b'P'; PREFACE];
        for _ in 0..=BURST {
            bytes.extend(frame(WINDOW_UPDATE, 0, 4));
        }
        for size in [1, 2, 7, 9, 13, 1_000, bytes.len()] {
            let mut frames = Frames::new();
            let followed = bytes.chunks(size).try_for_each(|some| frames.follow(some));
            assert_eq!(followed, Err(Flood), "pieces of {size} bytes");
        }
        let mut frames = Frames::new();
        frames.follow(&bytes[..bytes.len() - 13]).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn open_header_block_is_followed_however_the_bytes_are_cut() {
        let start = [frame(DATA, 0, 70), frame(HEADERS, 0, 100)].concat();
        let more = frame(CONTINUATION, 0, 50);
        let end = frame(CONTINUATION, END_HEADERS, 30);
        for size in [1, 2, 7, 9, 13, 1_000] {
            let mut frames = after_preface();
            let mut follow = |bytes: &[u8]| {
                let followed = bytes.chunks(size).try_for_each(|some| frames.follow(some));
                assert_eq!(followed, Ok(()));
                (frames.block, frames.incomplete())
            };
            assert_eq!(follow(&start), (109, 0), "pieces of {size} bytes");
            assert_eq!(follow(&more[..20]), (109, 20));
            assert_eq!(follow(&more[20..]), (109 + 59, 0));
            assert_eq!(follow(&end[..5]), (109 + 59, 5));
            assert_eq!(follow(&end[5..]), (0, 0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_kind_of_empty_frame_is_a_flood_in_the_end() {
        for (kind, flags, length) in [
            (0x0, 0, 0),
            (0x0, PADDED, 200),
            (0x2, 0, 5),
            (0x3, 0, 4),
            (0x4, 0, 0),
            (0x6, 0, 8),
            (0x8, 0, 4),
            (0x9, 0, 10),
            (0xee, 0, 0),
        ] {
            let (mut frames, frame) = (after_preface(), frame(kind, flags, length));
            let sent = (0..2 * BURST).find(|_| frames.follow(&frame).is_err());
            assert!(sent.is_some_and(|sent| sent <= BURST), "type {kind}");
        }
        // A request that is reset at once pays for both.
        let mut frames = after_preface();
        let pair = [frame(HEADERS, 0, 30), frame(RST_STREAM, 0, 4)].concat();
        assert!((0..BURST).any(|_| frames.follow(&pair).is_err()));
    }

    #[tokio::test(start_paused = true)]
    async fn frames_that_come_with_traffic_are_none() {
        let mut frames = after_preface();
        let update = frame(WINDOW_UPDATE, 0, 4);
        for _ in 0..100 * BURST {
            // A small event, and a client that opens both windows for it.
            frames.add_sent(64);
            frames.follow(&update).unwrap();
            frames.follow(&update).unwrap();
        }
        let mut frames = after_preface();
        let request = [
            frame(HEADERS, 0, 30),
            frame(0x2, 0, 5),
            frame(0x10, 0, 8),
            frame(DATA, END_STREAM, 20),
            frame(WINDOW_UPDATE, 0, 4),
        ]
        .concat();
        for _ in 0..100 * BURST {
            frames.follow(&request).unwrap();
        }
        // Nor are those that come at leisure.
        let ping = frame(0x6, 0, 8);
        let mut frames = after_preface();
        for _ in 0..100 * BURST {
            tokio::time::advance(Duration::from_millis(10)).await;
            frames.follow(&ping).unwrap();
        }
    }
}
