//! Watches: replay of past events followed by live ones, without gaps or duplicates.

use super::Hub;
use crate::access::Caller;
use crate::bus::BusMessage;
use crate::error::HubError;
use crate::event::{Event, EventBody, Subject};
use interzone_protocol::vocab::{StreamState, TaskId};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, Sleep, sleep_until};

/// Interval at which a watcher polls the log if the store's change hints are not forwarded.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Poll interval if they are forwarded: only in case a hint was lost. Ten thousand idle watchers must not keep a store
/// busy.
const FORWARDED_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum jitter of the poll interval in milliseconds, so that watchers started together do not poll together.
const POLL_JITTER_MILLIS: u64 = 15_000;

/// Maximum number of events read from the log at once.
const MAX_READ_EVENTS: usize = 16;

/// Maximum bytes of the backlog, not counting one event. The remainder is read again later: a slow client would
/// otherwise hold it in memory all that time.
const MAX_BACKLOG_BYTES: usize = 64 * 1024;

/// Item of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchItem {
    /// An event, in order. Text that was already sent as live deltas is removed from it.
    Event(Arc<Event>),
    /// A live text delta, ahead of its event. It has no sequence number: a client that reconnects names the last
    /// event it received.
    TextDelta {
        /// The agent run it belongs to.
        run: u64,
        /// Byte offset at which the text is appended.
        offset: u64,
        /// The appended text.
        delta: Arc<str>,
    },
}

/// A watch on one subject's log.
pub struct Watch {
    hub: Hub,
    subject: Subject,
    receiver: broadcast::Receiver<BusMessage>,
    backlog: VecDeque<Arc<Event>>,
    /// Number of events to read next: fewer where they are large.
    page_size: usize,
    /// Sequence number of the last event returned.
    last_seq: u64,
    /// True if the log may contain unread events.
    must_read: bool,
    /// Timer of the next poll; survives canceled waits. It is reused, because setting a timer for each event would
    /// cost more than the event itself when there are many watchers.
    poll_timer: Pin<Box<Sleep>>,
    is_over: bool,
    /// True if live text deltas are left out.
    is_log_only: bool,
    text_cursor: TextCursor,
}

/// Position in the current run's answer text up to which it has been returned.
#[derive(Default)]
struct TextCursor {
    run: u64,
    shown_bytes: u64,
}

impl Hub {
    /// Watches a task or stream from after sequence number `after` on; zero replays all events.
    ///
    /// The watch ends with the subject, after its last event.
    ///
    /// # Errors
    /// There is no such subject that the caller may see.
    pub async fn watch(
        &self,
        caller: &Caller,
        subject: Subject,
        after: u64,
    ) -> Result<Watch, HubError> {
        // Subscribe before the log is read, so that no event is missed in between.
        let receiver = self.inner.bus.subscribe(&subject);
        match &subject {
            Subject::Task(id) => drop(self.task(caller, id).await?),
            Subject::Stream(id) => drop(self.stream(caller, id).await?),
        }
        Ok(Watch {
            hub: self.clone(),
            subject,
            receiver,
            backlog: VecDeque::new(),
            page_size: MAX_READ_EVENTS,
            last_seq: after,
            must_read: true,
            poll_timer: Box::pin(sleep_until(self.next_poll())),
            is_over: false,
            is_log_only: false,
            text_cursor: TextCursor::default(),
        })
    }

    /// Watches a task about to be created with this id, from its first event on. There are no past events, so the log
    /// is read only after a live one was missed.
    pub fn watch_from_creation(&self, id: TaskId) -> Watch {
        let subject = Subject::Task(id);
        Watch {
            receiver: self.inner.bus.subscribe(&subject),
            hub: self.clone(),
            subject,
            backlog: VecDeque::new(),
            page_size: MAX_READ_EVENTS,
            last_seq: 0,
            must_read: false,
            poll_timer: Box::pin(sleep_until(self.next_poll())),
            is_over: false,
            is_log_only: false,
            text_cursor: TextCursor::default(),
        }
    }

    /// Time of the next poll of a watcher that has just read the log.
    fn next_poll(&self) -> Instant {
        let interval = if self.inner.bus.is_forwarding() {
            FORWARDED_POLL_INTERVAL
                + Duration::from_millis(self.inner.ids.random() % POLL_JITTER_MILLIS)
        } else {
            POLL_INTERVAL
        };
        Instant::now() + interval
    }

    /// Returns true if a subject whose log has no event after `last` will never have one.
    async fn has_ended(&self, subject: &Subject, last_seq: u64) -> Result<bool, HubError> {
        Ok(match subject {
            Subject::Task(id) => match self.store().task(id).await? {
                None => true,
                Some(task) => {
                    task.state.is_terminal() && self.is_log_empty_after(subject, last_seq).await?
                }
            },
            Subject::Stream(id) => match self.store().stream(id).await? {
                None => true,
                Some(stream) => {
                    stream.state == StreamState::Closed
                        && self.is_log_empty_after(subject, last_seq).await?
                }
            },
        })
    }

    /// Reads again: the final event may have been written since the log was read.
    async fn is_log_empty_after(&self, subject: &Subject, last_seq: u64) -> Result<bool, HubError> {
        Ok(self.store().events(subject, last_seq, 1).await?.is_empty())
    }
}

impl Watch {
    /// The watched subject.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Leaves out live text deltas, so that all watchers get the same items.
    #[must_use]
    pub fn log_only(mut self) -> Self {
        self.is_log_only = true;
        self
    }

    /// Sequence number of the last event returned: where to resume after an interruption.
    pub fn position(&self) -> u64 {
        self.last_seq
    }

    /// Returns the next item; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// The store operation failed. Calling it again continues at the same position.
    pub async fn next(&mut self) -> Result<Option<WatchItem>, HubError> {
        loop {
            if let Some(event) = self.backlog.pop_front() {
                if self.backlog.is_empty() {
                    // The backlog may have been large; release its memory while waiting.
                    self.backlog = VecDeque::new();
                }
                return Ok(Some(self.emit(event)));
            }
            if self.is_over {
                return Ok(None);
            }
            if self.must_read {
                // Boxed: the future is large, and most watchers only wait.
                Box::pin(self.read_log()).await?;
                continue;
            }
            let received = tokio::select! {
                biased;
                news = self.receiver.recv() => news,
                () = self.poll_timer.as_mut() => {
                    self.must_read = true;
                    continue;
                }
            };
            match received {
                Err(RecvError::Lagged(_)) => self.must_read = true,
                // This node's own events were published before the store's hint.
                Ok(BusMessage::LogAdvanced(seq)) => self.must_read |= seq > self.last_seq,
                Err(RecvError::Closed) => {
                    self.receiver = self.hub.inner.bus.subscribe(&self.subject);
                    self.must_read = true;
                }
                Ok(BusMessage::Event(event)) => {
                    if Some(event.seq) == self.last_seq.checked_add(1) {
                        return Ok(Some(self.emit(event)));
                    }
                    // Either it was returned before, or an event before it was missed.
                    self.must_read |= event.seq > self.last_seq;
                }
                Ok(BusMessage::TextDelta { .. }) if self.is_log_only => {}
                Ok(BusMessage::TextDelta { run, offset, delta }) => {
                    if let Some(item) = self.text_cursor.advance_live(run, offset, &delta) {
                        return Ok(Some(item));
                    }
                }
            }
        }
    }

    /// Reads events after the last one returned.
    async fn read_log(&mut self) -> Result<(), HubError> {
        let store = self.hub.store();
        let events = store
            .events(&self.subject, self.last_seq, self.page_size)
            .await?;
        if !events.is_empty() {
            let found = events.len();
            self.backlog = take_within_bytes(events, MAX_BACKLOG_BYTES)
                .map(Arc::new)
                .collect();
            let buffered = self.backlog.len();
            self.must_read = buffered < found || found == self.page_size;
            self.page_size = if buffered < found {
                buffered
            } else {
                self.page_size * 2
            }
            .clamp(1, MAX_READ_EVENTS);
            return Ok(());
        }
        // The log is at its end: either more events will follow, or the subject has ended, or it was removed and
        // retention has deleted its final events.
        self.is_over = self.hub.has_ended(&self.subject, self.last_seq).await?;
        self.must_read = false;
        self.poll_timer.as_mut().reset(self.hub.next_poll());
        Ok(())
    }

    fn emit(&mut self, event: Arc<Event>) -> WatchItem {
        self.last_seq = event.seq;
        self.is_over |= match &event.body {
            EventBody::State { to, .. } => to.is_terminal(),
            EventBody::StreamState { to, .. } => *to == StreamState::Closed,
            _ => false,
        };
        WatchItem::Event(match &event.body {
            EventBody::Text {
                run,
                answers,
                offset,
                delta,
            } => match self.text_cursor.advance_logged(*run, *offset, delta) {
                None => event,
                Some(remainder) => Arc::new(Event {
                    body: EventBody::Text {
                        run: *run,
                        answers: *answers,
                        offset: offset + u64::try_from(delta.len() - remainder.len()).unwrap_or(0),
                        delta: remainder.to_owned(),
                    },
                    ..(*event).clone()
                }),
            },
            _ => event,
        })
    }
}

/// Takes the first events up to this many bytes, but at least one.
fn take_within_bytes(events: Vec<Event>, bytes: usize) -> impl Iterator<Item = Event> {
    let mut total = 0_usize;
    events
        .into_iter()
        .enumerate()
        .map_while(move |(index, event)| {
            total = total.saturating_add(event.body.approximate_bytes());
            (index == 0 || total <= bytes).then_some(event)
        })
}

impl TextCursor {
    /// Returns the new part of a live delta that continues the returned text. A delta that arrives too early is left
    /// to the log.
    fn advance_live(&mut self, run: u64, offset: u64, delta: &Arc<str>) -> Option<WatchItem> {
        if run > self.run {
            *self = Self {
                run,
                shown_bytes: 0,
            };
        }
        if run < self.run || offset > self.shown_bytes {
            return None;
        }
        let skip = usize::try_from(self.shown_bytes - offset).ok()?;
        let unseen = delta.get(skip..).filter(|new| !new.is_empty())?;
        let item = WatchItem::TextDelta {
            run,
            offset: self.shown_bytes,
            delta: unseen.into(),
        };
        self.shown_bytes += u64::try_from(unseen.len()).ok()?;
        Some(item)
    }

    /// Returns the part of a logged delta that was not returned live, if that is not all of it.
    fn advance_logged<'d>(&mut self, run: u64, offset: u64, delta: &'d str) -> Option<&'d str> {
        if run > self.run {
            *self = Self {
                run,
                shown_bytes: 0,
            };
        }
        if run < self.run {
            return None;
        }
        let end = offset + u64::try_from(delta.len()).unwrap_or(0);
        let skip = usize::try_from(self.shown_bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.shown_bytes = self.shown_bytes.max(end);
        if skip == 0 {
            None
        } else {
            Some(delta.get(skip..).unwrap_or_default())
        }
    }
}
