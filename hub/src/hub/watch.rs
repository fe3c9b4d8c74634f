//! Watching: first what has happened, then what happens, without a gap and without repetition.

use super::Hub;
use crate::access::Caller;
use crate::bus::News;
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

/// How long a watcher relies on being told before it looks by itself, if nobody passes on what the
/// store hints at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The same if somebody does: then it is only in case that a hint was lost. Ten thousand idle
/// watchers must not keep a store busy.
const LOOK_SELDOM: Duration = Duration::from_secs(30);

/// By how much the waits of watchers who came together differ at most, in milliseconds.
const SPREAD: u64 = 15_000;

/// How many events are read from the log at once, at most.
const PAGE: usize = 16;

/// How many bytes of them wait to be shown, one event aside. The rest is read again when it is its turn: a
/// watcher that is not read would hold it all that time.
const BACKLOG_BYTES: usize = 64 * 1024;

/// What a watcher sees.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// An event, in its turn. Growing text that was shown live before is left out of it.
    Event(Arc<Event>),
    /// A piece of an answer, ahead of its event. It has no number: a watcher who comes back names the
    /// last event it saw.
    Text {
        /// Which run of the agent it belongs to.
        run: u64,
        /// How many bytes there were before.
        offset: u64,
        /// What was added.
        delta: Arc<str>,
    },
}

/// A view of one subject's log that stays open.
pub struct Watch {
    hub: Hub,
    subject: Subject,
    news: broadcast::Receiver<News>,
    read: VecDeque<Arc<Event>>,
    /// How many events are read next: fewer where they are large.
    page: usize,
    /// The number of the last event shown.
    last: u64,
    /// Whether the log may hold more than has been read.
    look: bool,
    /// Rings when it is time to look by itself, however often the waiting is broken off and begun again.
    /// It is kept: setting a timer for each event would cost a crowd more than the event does.
    alone: Pin<Box<Sleep>>,
    over: bool,
    text: Text,
}

/// How much of the present run's answer has been shown.
#[derive(Default)]
struct Text {
    run: u64,
    shown: u64,
}

impl Hub {
    /// Watches a task or stream from after event number `after` on; zero shows all.
    ///
    /// It ends when the subject does, once the last event has been shown.
    ///
    /// # Errors
    /// There is no such subject that the caller may see.
    pub async fn watch(
        &self,
        caller: &Caller,
        subject: Subject,
        after: u64,
    ) -> Result<Watch, HubError> {
        // Listening begins before the log is read, so that nothing falls between the two.
        let news = self.inner.bus.listen(&subject);
        match &subject {
            Subject::Task(id) => drop(self.task(caller, id).await?),
            Subject::Stream(id) => drop(self.stream(caller, id).await?),
        }
        Ok(Watch {
            hub: self.clone(),
            subject,
            news,
            read: VecDeque::new(),
            page: PAGE,
            last: after,
            look: true,
            alone: Box::pin(sleep_until(self.look_at())),
            over: false,
            text: Text::default(),
        })
    }

    /// Watches a task that is about to be begun under this id, from its first event on. Nothing has
    /// happened to it, so nothing is read until something was missed.
    pub fn watch_new(&self, id: TaskId) -> Watch {
        let subject = Subject::Task(id);
        Watch {
            news: self.inner.bus.listen(&subject),
            hub: self.clone(),
            subject,
            read: VecDeque::new(),
            page: PAGE,
            last: 0,
            look: false,
            alone: Box::pin(sleep_until(self.look_at())),
            over: false,
            text: Text::default(),
        }
    }

    /// When a watcher who has just looked looks again by itself.
    fn look_at(&self) -> Instant {
        let wait = if self.inner.bus.is_fed() {
            LOOK_SELDOM + Duration::from_millis(self.inner.ids.random() % SPREAD)
        } else {
            LOOK_EVERY
        };
        Instant::now() + wait
    }

    /// Whether a subject whose log has nothing after `last` will never have anything more.
    async fn is_over(&self, subject: &Subject, last: u64) -> Result<bool, HubError> {
        Ok(match subject {
            Subject::Task(id) => match self.store().task(id).await? {
                None => true,
                Some(task) => task.state.is_terminal() && self.nothing_after(subject, last).await?,
            },
            Subject::Stream(id) => match self.store().stream(id).await? {
                None => true,
                Some(stream) => {
                    stream.state == StreamState::Closed && self.nothing_after(subject, last).await?
                }
            },
        })
    }

    /// Looks again: what ended the subject may have been written since the log was read.
    async fn nothing_after(&self, subject: &Subject, last: u64) -> Result<bool, HubError> {
        Ok(self.store().events(subject, last, 1).await?.is_empty())
    }
}

impl Watch {
    /// What is watched.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The number of the last event shown: where to go on after an interruption.
    pub fn position(&self) -> u64 {
        self.last
    }

    /// What is seen next; nothing when there will be nothing more. It may be dropped while waiting,
    /// and called again.
    ///
    /// # Errors
    /// The store did not do it. Calling it again goes on where it was.
    pub async fn next(&mut self) -> Result<Option<Seen>, HubError> {
        loop {
            if let Some(event) = self.read.pop_front() {
                if self.read.is_empty() {
                    // What was read at once may have been much; waiting needs no room for it.
                    self.read = VecDeque::new();
                }
                return Ok(Some(self.show(event)));
            }
            if self.over {
                return Ok(None);
            }
            if self.look {
                // Boxed: reading takes room, and most watchers only wait.
                Box::pin(self.read_on()).await?;
                continue;
            }
            let news = tokio::select! {
                biased;
                news = self.news.recv() => news,
                () = self.alone.as_mut() => {
                    self.look = true;
                    continue;
                }
            };
            match news {
                Err(RecvError::Lagged(_)) => self.look = true,
                // What this node wrote was told as an event, ahead of the store's own hint.
                Ok(News::Look(seq)) => self.look |= seq > self.last,
                Err(RecvError::Closed) => {
                    self.news = self.hub.inner.bus.listen(&self.subject);
                    self.look = true;
                }
                Ok(News::Event(event)) => {
                    if Some(event.seq) == self.last.checked_add(1) {
                        return Ok(Some(self.show(event)));
                    }
                    // Either it has been shown, or something between it and the last was missed.
                    self.look |= event.seq > self.last;
                }
                Ok(News::Text { run, offset, delta }) => {
                    if let Some(seen) = self.text.live(run, offset, &delta) {
                        return Ok(Some(seen));
                    }
                }
            }
        }
    }

    /// Reads what the log has after the last event that was shown.
    async fn read_on(&mut self) -> Result<(), HubError> {
        let store = self.hub.store();
        let events = store.events(&self.subject, self.last, self.page).await?;
        if !events.is_empty() {
            let found = events.len();
            self.read = within(events, BACKLOG_BYTES).map(Arc::new).collect();
            let kept = self.read.len();
            self.look = kept < found || found == self.page;
            self.page = if kept < found { kept } else { self.page * 2 }.clamp(1, PAGE);
            return Ok(());
        }
        // The log has no more: either more will come, or the subject is over, or gone, and retention
        // has taken the events that would have said so.
        self.over = self.hub.is_over(&self.subject, self.last).await?;
        self.look = false;
        self.alone.as_mut().reset(self.hub.look_at());
        Ok(())
    }

    fn show(&mut self, event: Arc<Event>) -> Seen {
        self.last = event.seq;
        self.over |= match &event.body {
            EventBody::State { to, .. } => to.is_terminal(),
            EventBody::StreamState { to, .. } => *to == StreamState::Closed,
            _ => false,
        };
        Seen::Event(match &event.body {
            EventBody::Text { run, offset, delta } => {
                match self.text.logged(*run, *offset, delta) {
                    None => event,
                    Some(left) => Arc::new(Event {
                        body: EventBody::Text {
                            run: *run,
                            offset: offset + u64::try_from(delta.len() - left.len()).unwrap_or(0),
                            delta: left.to_owned(),
                        },
                        ..(*event).clone()
                    }),
                }
            }
            _ => event,
        })
    }
}

/// The first of these events: as many as have so many bytes, and at least one.
fn within(events: Vec<Event>, bytes: usize) -> impl Iterator<Item = Event> {
    let mut total = 0_usize;
    events
        .into_iter()
        .enumerate()
        .map_while(move |(index, event)| {
            total = total.saturating_add(event.body.bytes());
            (index == 0 || total <= bytes).then_some(event)
        })
}

impl Text {
    /// Live text that goes on where what was shown ends. What comes too early is left for the log.
    fn live(&mut self, run: u64, offset: u64, delta: &Arc<str>) -> Option<Seen> {
        if run > self.run {
            *self = Self { run, shown: 0 };
        }
        if run < self.run || offset > self.shown {
            return None;
        }
        let known = usize::try_from(self.shown - offset).ok()?;
        let new = delta.get(known..).filter(|new| !new.is_empty())?;
        let seen = Seen::Text {
            run,
            offset: self.shown,
            delta: new.into(),
        };
        self.shown += u64::try_from(new.len()).ok()?;
        Some(seen)
    }

    /// What of a logged piece has not been shown live, if that is not all of it.
    fn logged<'d>(&mut self, run: u64, offset: u64, delta: &'d str) -> Option<&'d str> {
        if run > self.run {
            *self = Self { run, shown: 0 };
        }
        if run < self.run {
            return None;
        }
        let end = offset + u64::try_from(delta.len()).unwrap_or(0);
        let known = usize::try_from(self.shown.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.shown = self.shown.max(end);
        if known == 0 {
            None
        } else {
            Some(delta.get(known..).unwrap_or_default())
        }
    }
}
