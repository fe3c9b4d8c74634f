//! HTTP/2 frame flood protection. Tracks received frames and closes the connection of a client that sends many frames
//! without a request: PRIORITY, WINDOW_UPDATE, PING, SETTINGS, RST_STREAM, empty or small DATA, CONTINUATION and unknown
//! types.
//! The HTTP library answers each at little cost, but without a limit.
//!
//! Each such frame is paid from a budget. Requests, their data and sent bytes refill it, because legitimate frames of
//! this kind come with them. Only frame headers are parsed.
//!
//! While no caller on the connection is authenticated, its streams are counted as their frames arrive, before the HTTP
//! library allocates them ([`heads`](super::heads)).

use super::conn_registry::ConnState;
use crate::telemetry::Metrics;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Length of the connection preface (RFC 9113, 3.4).
const PREFACE_BYTES: usize = 24;
/// Length of a frame header: length, type, flags and stream id (RFC 9113, 4.1).
const FRAME_HEADER_BYTES: usize = 9;

/// Budget of control frames beyond the traffic, and its refill per second.
const BUDGET_BURST: i64 = 1_000;
const BUDGET_PER_SECOND: i64 = 100;

/// Credit of a request, which may bring a few frames of its own: priorities, and windows for its response.
const REQUEST_CREDIT: i64 = 4;
/// Cost of a reset. A request that is opened and reset is wasted work, so a reset costs more than a request earns.
const RESET_COST: i64 = 8;
/// Cost of SETTINGS, which are applied to every stream.
const SETTINGS_COST: i64 = 4;
/// Cost of DATA with few bytes: each waits in a queue entry of a few hundred bytes.
const SMALL_DATA_COST: i64 = 4;
/// Received DATA bytes that pay for one frame.
const RECEIVED_BYTES_PER_CREDIT: usize = 64;
/// Sent bytes that pay for one frame: two WINDOW_UPDATE for each small DATA frame.
const SENT_BYTES_PER_CREDIT: u64 = 32;

/// Streams of one connection that are not counted: more than an ordinary client opens before its first response.
const FREE_STREAMS: u32 = 8;
/// Counted bytes of a stream, of which twice as much is charged. The HTTP library keeps the space of the largest number
/// of streams that were open at the same time.
const STREAM_BYTES: usize = 1024;
/// Small DATA frames that are received together and not counted, and the counted bytes of each further one.
const FREE_SMALL_FRAMES: usize = 16;
const SMALL_FRAME_BYTES: usize = 160;

const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const GOAWAY: u8 = 0x7;
const CONTINUATION: u8 = 0x9;

/// Flags of DATA (RFC 9113, 6.1).
const END_STREAM: u8 = 0x1;
const PADDED: u8 = 0x8;
/// Flag of HEADERS and CONTINUATION (RFC 9113, 6.2).
const END_HEADERS: u8 = 0x4;

/// Error: too many control frames.
#[derive(Debug, PartialEq, Eq)]
struct FrameFlood;

/// Position in the sequence of frames, and the remaining budget.
struct FrameTracker {
    /// Bytes to skip: the remainder of the preface, or of a frame's payload.
    skip: usize,
    header: [u8; FRAME_HEADER_BYTES],
    /// Received bytes of the frame header.
    header_bytes: usize,
    /// Received bytes of the open header block, in complete frames.
    block_bytes: usize,
    budget: i64,
    refilled_at: Instant,
    /// Sent bytes that have not been converted to budget.
    sent_bytes: u64,
    /// Highest stream id, and the number of streams that the client opened. It wraps.
    last_stream: u32,
    opened_streams: u32,
    /// Maximum number of open streams.
    max_streams: u32,
    /// Small DATA frames received since the client last paused, and their maximum.
    small_frames: usize,
    max_small_frames: usize,
}

impl FrameTracker {
    fn new() -> Self {
        Self {
            skip: PREFACE_BYTES,
            header: [0; FRAME_HEADER_BYTES],
            header_bytes: 0,
            block_bytes: 0,
            budget: BUDGET_BURST,
            refilled_at: Instant::now(),
            sent_bytes: 0,
            last_stream: 0,
            opened_streams: 0,
            max_streams: 0,
            small_frames: 0,
            max_small_frames: 0,
        }
    }

    fn track(&mut self, mut bytes: &[u8]) -> std::result::Result<(), FrameFlood> {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = bytes.split_at(skipped).1;
                self.end_frame();
                continue;
            }
            let missing = (FRAME_HEADER_BYTES - self.header_bytes).min(bytes.len());
            let (some, remaining) = bytes.split_at(missing);
            for (to, from) in self.header.iter_mut().skip(self.header_bytes).zip(some) {
                *to = *from;
            }
            self.header_bytes += missing;
            bytes = remaining;
            if self.header_bytes == FRAME_HEADER_BYTES {
                self.header_bytes = 0;
                let [_, _, _, kind, flags, ..] = self.header;
                self.skip = self.length();
                self.count_stream(kind, flags);
                self.charge_frame(kind, flags, self.skip)?;
                self.end_frame();
            }
        }
        Ok(())
    }

    /// Returns the payload length of the current frame.
    fn length(&self) -> usize {
        let [high, middle, low, ..] = self.header;
        let length = u32::from_be_bytes([0, high, middle, low]);
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    /// If the current frame is complete and belongs to a header block, the block grows or ends.
    fn end_frame(&mut self) {
        let [_, _, _, kind, flags, ..] = self.header;
        if self.skip > 0 || !matches!(kind, HEADERS | CONTINUATION) {
            return;
        }
        self.block_bytes = match flags & END_HEADERS {
            0 => self
                .block_bytes
                .saturating_add(FRAME_HEADER_BYTES + self.length()),
            _ => 0,
        };
    }

    /// Returns the received bytes of an incomplete frame.
    fn incomplete_bytes(&self) -> usize {
        match self.skip {
            0 => self.header_bytes,
            missing => FRAME_HEADER_BYTES + self.length().saturating_sub(missing),
        }
    }

    /// Counts a frame that opens a stream, or a small one that the HTTP library queues.
    fn count_stream(&mut self, kind: u8, flags: u8) {
        let [_, _, _, _, _, id @ ..] = self.header;
        let id = u32::from_be_bytes(id) & (u32::MAX >> 1);
        // A later block of the same stream has trailers.
        if kind == HEADERS && id > self.last_stream {
            self.last_stream = id;
            self.opened_streams = self.opened_streams.wrapping_add(1);
        } else if kind == DATA && flags & END_STREAM == 0 && self.skip < RECEIVED_BYTES_PER_CREDIT {
            self.small_frames += 1;
            self.max_small_frames = self.max_small_frames.max(self.small_frames);
        }
    }

    /// Returns the counted bytes of the streams, of which the connection has started and active requests. Streams that
    /// the HTTP library rejected are never started, and stay counted.
    fn stream_bytes(&mut self, (started, active): (u32, u32)) -> usize {
        let open = active.saturating_add(self.opened_streams.wrapping_sub(started));
        self.max_streams = self.max_streams.max(open);
        let streams = usize::try_from(self.max_streams.saturating_sub(FREE_STREAMS));
        let frames = self.max_small_frames.saturating_sub(FREE_SMALL_FRAMES);
        streams
            .unwrap_or(usize::MAX)
            .saturating_mul(STREAM_BYTES)
            .saturating_add(frames * SMALL_FRAME_BYTES)
    }

    /// Reports the bytes that the HTTP library buffers.
    fn report_buffered(&mut self, conn: &ConnState) {
        let [_, _, _, kind, ..] = self.header;
        let incomplete = self.incomplete_bytes();
        let is_head = self.skip > 0 && matches!(kind, HEADERS | CONTINUATION);
        let (frame, part_of_block) = match is_head || self.block_bytes > 0 {
            true => (0, incomplete),
            false => (incomplete, 0),
        };
        let block = self.block_bytes.saturating_add(part_of_block);
        conn.heads().set_frames(frame, block, self.block_bytes > 0);
        let streams = match conn.is_authenticated() {
            true => 0,
            false => self.stream_bytes(conn.request_counts()),
        };
        conn.heads().set_streams(streams);
        conn.update_head_charge();
    }

    fn charge_frame(
        &mut self,
        kind: u8,
        flags: u8,
        length: usize,
    ) -> std::result::Result<(), FrameFlood> {
        match kind {
            HEADERS => self.earn(REQUEST_CREDIT),
            // Padding earns nothing, however much there is.
            DATA if flags & PADDED == 0 && length >= RECEIVED_BYTES_PER_CREDIT => {
                self.earn(
                    i64::try_from(length / RECEIVED_BYTES_PER_CREDIT).unwrap_or(BUDGET_BURST),
                );
            }
            DATA if flags & END_STREAM != 0 => {}
            // The client is about to disconnect.
            GOAWAY => {}
            RST_STREAM => return self.pay(RESET_COST),
            SETTINGS => return self.pay(SETTINGS_COST),
            DATA if length > 0 => return self.pay(SMALL_DATA_COST),
            _ => return self.pay(1),
        }
        Ok(())
    }

    fn earn(&mut self, credit: i64) {
        self.budget = self.budget.saturating_add(credit).min(BUDGET_BURST);
    }

    fn pay(&mut self, cost: i64) -> std::result::Result<(), FrameFlood> {
        self.budget -= cost;
        if self.budget >= 0 {
            return Ok(());
        }
        // The clock is read and sent bytes are converted only now: most connections never come here.
        self.earn(i64::try_from(self.sent_bytes / SENT_BYTES_PER_CREDIT).unwrap_or(BUDGET_BURST));
        self.sent_bytes %= SENT_BYTES_PER_CREDIT;
        let now = Instant::now();
        let millis = now.saturating_duration_since(self.refilled_at).as_millis();
        let millis = i64::try_from(millis).unwrap_or(i64::MAX);
        self.earn(millis.saturating_mul(BUDGET_PER_SECOND) / 1_000);
        self.refilled_at = now;
        if self.budget >= 0 {
            Ok(())
        } else {
            Err(FrameFlood)
        }
    }

    fn add_sent(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.sent_bytes = self.sent_bytes.saturating_add(bytes);
    }
}

/// HTTP/2 connection with frame flood protection.
pub(super) struct FrameLimitedIo<S> {
    stream: S,
    frames: FrameTracker,
    metrics: Arc<Metrics>,
    conn: Arc<ConnState>,
}

impl<S> FrameLimitedIo<S> {
    pub(super) fn new(stream: S, metrics: Arc<Metrics>, conn: Arc<ConnState>) -> Self {
        Self {
            stream,
            frames: FrameTracker::new(),
            metrics,
            conn,
        }
    }

    fn count_sent(&mut self, result: Poll<Result<usize>>) -> Poll<Result<usize>> {
        if let Poll::Ready(Ok(sent)) = &result {
            self.frames.add_sent(*sent);
        }
        result
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FrameLimitedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let Poll::Ready(result) = Pin::new(&mut this.stream).poll_read(cx, buf) else {
            this.frames.small_frames = 0;
            return Poll::Pending;
        };
        result?;
        let received = buf.filled().get(before..).unwrap_or_default();
        this.frames.track(received).map_err(|FrameFlood| {
            this.metrics.record_client_terminations("frame_flood", 1);
            Error::new(ErrorKind::ConnectionAborted, "too many control frames")
        })?;
        this.frames.report_buffered(&this.conn);
        if this.conn.heads().must_reject_streams() {
            this.metrics.record_client_terminations("stream_limit", 1);
            return Poll::Ready(Err(Error::new(
                ErrorKind::ConnectionAborted,
                "too many streams of callers that are not authenticated",
            )));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FrameLimitedIo<S> {
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
        frame.resize(FRAME_HEADER_BYTES + usize::from(length), b'x');
        frame
    }

    fn after_preface() -> FrameTracker {
        let mut frames = FrameTracker::new();
        frames.track(&[b'P'; PREFACE_BYTES]).unwrap();
        frames
    }

    #[tokio::test(start_paused = true)]
    async fn frame_flood_is_detected_across_any_chunking() {
        let mut bytes = vec![b'P'; PREFACE_BYTES];
        for _ in 0..=BUDGET_BURST {
            bytes.extend(frame(WINDOW_UPDATE, 0, 4));
        }
        for size in [1, 2, 7, 9, 13, 1_000, bytes.len()] {
            let mut frames = FrameTracker::new();
            let tracked = bytes.chunks(size).try_for_each(|some| frames.track(some));
            assert_eq!(tracked, Err(FrameFlood), "chunks of {size} bytes");
        }
        let mut frames = FrameTracker::new();
        frames.track(&bytes[..bytes.len() - 13]).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn open_header_block_is_tracked_across_any_chunking() {
        let start = [frame(DATA, 0, 70), frame(HEADERS, 0, 100)].concat();
        let more = frame(CONTINUATION, 0, 50);
        let end = frame(CONTINUATION, END_HEADERS, 30);
        for size in [1, 2, 7, 9, 13, 1_000] {
            let mut frames = after_preface();
            let mut track = |bytes: &[u8]| {
                let tracked = bytes.chunks(size).try_for_each(|some| frames.track(some));
                assert_eq!(tracked, Ok(()));
                (frames.block_bytes, frames.incomplete_bytes())
            };
            assert_eq!(track(&start), (109, 0), "chunks of {size} bytes");
            assert_eq!(track(&more[..20]), (109, 20));
            assert_eq!(track(&more[20..]), (109 + 59, 0));
            assert_eq!(track(&end[..5]), (109 + 59, 5));
            assert_eq!(track(&end[5..]), (0, 0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_kind_of_control_frame_can_be_a_flood() {
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
            let sent = (0..2 * BUDGET_BURST).find(|_| frames.track(&frame).is_err());
            assert!(sent.is_some_and(|sent| sent <= BUDGET_BURST), "type {kind}");
        }
        // A request that is reset at once is charged for both frames.
        let mut frames = after_preface();
        let pair = [frame(HEADERS, 0, 30), frame(RST_STREAM, 0, 4)].concat();
        assert!((0..BUDGET_BURST).any(|_| frames.track(&pair).is_err()));
    }

    #[tokio::test(start_paused = true)]
    async fn control_frames_with_traffic_are_no_flood() {
        let mut frames = after_preface();
        let update = frame(WINDOW_UPDATE, 0, 4);
        for _ in 0..100 * BUDGET_BURST {
            // A small event, and a client that opens both windows for it.
            frames.add_sent(64);
            frames.track(&update).unwrap();
            frames.track(&update).unwrap();
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
        for _ in 0..100 * BUDGET_BURST {
            frames.track(&request).unwrap();
        }
        // Neither are slow ones.
        let ping = frame(0x6, 0, 8);
        let mut frames = after_preface();
        for _ in 0..100 * BUDGET_BURST {
            tokio::time::advance(Duration::from_millis(10)).await;
            frames.track(&ping).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn streams_are_counted_by_their_maximum() {
        let mut frames = after_preface();
        let open = |first: u8, count: u8| {
            let heads = (0..count).map(|number| {
                let mut head = frame(HEADERS, 0, 30);
                head[8] = first + 2 * number;
                head
            });
            heads.collect::<Vec<_>>().concat()
        };
        frames.track(&open(1, 8)).unwrap();
        assert_eq!(frames.stream_bytes((0, 0)), 0, "an ordinary client");
        frames.track(&open(17, 4)).unwrap();
        assert_eq!(frames.stream_bytes((0, 0)), 4 * STREAM_BYTES);
        assert_eq!(
            frames.stream_bytes((12, 2)),
            4 * STREAM_BYTES,
            "the space is kept"
        );
        // Trailers open no stream.
        frames.track(&open(1, 8)).unwrap();
        assert_eq!(frames.stream_bytes((12, 12)), 4 * STREAM_BYTES);
        frames.track(&open(25, 1)).unwrap();
        assert_eq!(frames.stream_bytes((12, 12)), 5 * STREAM_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn small_data_frames_are_counted_and_limited() {
        let small = frame(DATA, 0, 1);
        let mut frames = after_preface();
        for _ in 0..BUDGET_BURST / SMALL_DATA_COST {
            frames.track(&small).unwrap();
        }
        let counted = usize::try_from(BUDGET_BURST / SMALL_DATA_COST).unwrap() - FREE_SMALL_FRAMES;
        assert_eq!(frames.stream_bytes((0, 0)), counted * SMALL_FRAME_BYTES);
        assert_eq!(frames.track(&small), Err(FrameFlood));
    }
}
