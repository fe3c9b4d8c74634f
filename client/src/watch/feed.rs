//! The engine of a watch: connects, reads, notices silence, comes back, and tells each event once.

use super::Watched;
use super::event::{self, Stage};
use super::sse::{Event, Parser};
use super::text::Text;
use crate::client::{Client, sorted};
use crate::clock::after;
use crate::error::{AnswerFault, Error};
use crate::transport::ByteStream;
use futures_util::StreamExt;
use interzone_protocol::acp::Scope;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long a connection may take until the response begins.
const CONNECT: Duration = Duration::from_secs(15);
/// How long a peer may be away before the watch ends with the error.
const PATIENCE: Duration = Duration::from_secs(300);
/// An event without a number waits so long for the one that carries it.
const HOLD: Duration = Duration::from_millis(250);
/// And at most so many of them wait.
const MOST_HELD: usize = 16;
/// A connection that ends sooner, and without an event, had nothing to say.
const BRIEF: Duration = Duration::from_secs(5);
/// So often in a row, it never will: all was told before the watch began.
const NOTHING_TO_SAY: u32 = 3;

pub(super) struct Feed {
    client: Client,
    kind: &'static str,
    id: String,
    scopes: Vec<String>,
    last: Option<u64>,
    text: Text,
    state: State,
    ready: VecDeque<Watched>,
    held: VecDeque<Watched>,
    raw: VecDeque<Event>,
    failure: Option<Error>,
    stage: Stage,
    /// Failed connections in a row.
    attempt: u32,
    /// Connections in a row that ended at once.
    empty: u32,
    /// Since when nothing has come.
    lost: Option<Instant>,
    retry: Option<Duration>,
}

enum State {
    Idle,
    Waiting(Instant),
    Open {
        body: ByteStream,
        parser: Parser,
        since: Instant,
        heard: Instant,
        events: u64,
    },
    Done,
}

impl Feed {
    pub(super) fn new(
        client: &Client,
        kind: &'static str,
        id: &str,
        scope: Scope,
        after: Option<u64>,
    ) -> Self {
        let scopes = [Scope::AgentIdentify, scope].map(|scope| scope.name().to_owned());
        Self {
            client: client.clone(),
            kind,
            id: id.to_owned(),
            scopes: sorted(scopes.into()),
            last: after,
            text: Text::default(),
            state: State::Idle,
            ready: VecDeque::new(),
            held: VecDeque::new(),
            raw: VecDeque::new(),
            failure: None,
            stage: Stage::Going,
            attempt: 0,
            empty: 0,
            lost: None,
            retry: None,
        }
    }

    pub(super) fn position(&self) -> Option<u64> {
        self.last
    }

    pub(super) async fn next(&mut self) -> Option<Result<Watched, Error>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Some(error) = self.failure.take() {
                return Some(Err(error));
            }
            match &mut self.state {
                State::Done => return None,
                State::Idle => self.connect().await,
                State::Waiting(until) => {
                    sleep_until(*until).await;
                    self.state = State::Idle;
                }
                State::Open { body, heard, .. } => {
                    let waiting = !self.held.is_empty();
                    let limit = if waiting {
                        HOLD
                    } else {
                        self.client.settings().idle
                    };
                    // Counted from the last byte, however often the caller gave up waiting since.
                    match timeout_at(after(*heard, limit), body.next()).await {
                        Ok(Some(Ok(bytes))) => self.read(&bytes),
                        Ok(Some(Err(error))) => {
                            let error = crate::transport::TransportError::broken(error);
                            self.come_back(Some(&error.into()));
                        }
                        Ok(None) => self.closed(),
                        // The number did not come, so it never will.
                        Err(_) if waiting => self.release(),
                        Err(_) => self.come_back(Some(&Error::TimedOut { after: limit })),
                    }
                }
            }
        }
    }

    async fn connect(&mut self) {
        let path = [self.kind, self.id.as_str(), "events"];
        let opened = self.client.open(&path, self.last, &self.scopes, CONNECT);
        match opened.await {
            Ok(response) => {
                self.state = State::Open {
                    body: response.into_body(),
                    parser: Parser::new(self.client.settings().max_event),
                    since: Instant::now(),
                    heard: Instant::now(),
                    events: 0,
                };
            }
            Err(error) if error.is_retryable() => self.come_back(Some(&error)),
            Err(error) => self.fail(error),
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        let State::Open {
            parser,
            heard,
            events,
            ..
        } = &mut self.state
        else {
            return;
        };
        *heard = Instant::now();
        let read = parser.push(bytes, &mut self.raw);
        self.retry = parser.retry().or(self.retry);
        if !self.raw.is_empty() {
            *events += 1;
            self.attempt = 0;
            self.empty = 0;
        }
        self.lost = None;
        while let Some(raw) = self.raw.pop_front() {
            if let Err(fault) = self.take(&raw) {
                self.fail(fault.into());
                return;
            }
            if self.stage == Stage::Over {
                self.release();
                self.raw.clear();
                self.state = State::Done;
                return;
            }
        }
        if read.is_err() {
            let limit = self.client.settings().max_event;
            self.fail(AnswerFault::EventTooLarge { limit }.into());
        }
    }

    /// Takes an event in, unless it was told before.
    fn take(&mut self, raw: &Event) -> Result<(), AnswerFault> {
        let number = raw.id.as_deref().and_then(|id| id.parse::<u64>().ok());
        if let (Some(number), Some(last)) = (number, self.last)
            && number <= last
        {
            // Those that waited for this one were told with it.
            self.held.clear();
            return Ok(());
        }
        let event = event::read(&raw.data)?;
        let stage = event::stage(&event);
        if stage != Stage::Going {
            self.stage = stage;
        }
        let logged = event::is_logged(&event);
        if let Some(event) = self.trimmed(event) {
            self.held.push_back(event);
        }
        if number.is_some() {
            self.last = number;
            self.release();
        } else if !logged || self.held.len() > MOST_HELD {
            self.release();
        }
        Ok(())
    }

    /// The event without the words that were told before, if anything is left.
    fn trimmed(&mut self, event: Watched) -> Option<Watched> {
        let Watched::Text { run, offset, delta } = event else {
            return Some(event);
        };
        let (offset, new) = self.text.take(run, offset, &delta)?;
        let delta = new.to_owned();
        Some(Watched::Text { run, offset, delta })
    }

    fn release(&mut self) {
        self.ready.append(&mut self.held);
    }

    /// The peer ended the response.
    fn closed(&mut self) {
        if self.stage != Stage::Going {
            self.release();
            self.state = State::Done;
            return;
        }
        if let State::Open { since, events, .. } = &self.state
            && *events == 0
            && since.elapsed() < BRIEF
        {
            self.empty += 1;
            if self.empty >= NOTHING_TO_SAY {
                self.state = State::Done;
                return;
            }
        }
        self.come_back(None);
    }

    /// Waits, longer each time, and connects again.
    fn come_back(&mut self, error: Option<&Error>) {
        // What was not told whole comes again.
        self.held.clear();
        let now = Instant::now();
        if let State::Open { since, .. } = &self.state
            && since.elapsed() >= BRIEF
        {
            self.attempt = 0;
        }
        let lost = *self.lost.get_or_insert(now);
        if let Some(error) = error
            && now.duration_since(lost) >= PATIENCE
        {
            self.fail(error.clone());
            return;
        }
        let backoff = self.client.settings().retry.wait(self.attempt);
        let asked = error.and_then(Error::retry_after).or(self.retry);
        self.attempt = self.attempt.saturating_add(1);
        self.state = State::Waiting(after(now, backoff + asked.unwrap_or_default()));
    }

    fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        self.state = State::Done;
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("last", &self.last)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}
