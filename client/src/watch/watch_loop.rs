//! Reconnecting watch loop: connects, reads, detects idle connections, resumes, and deduplicates events.

use super::WatchEvent;
use super::event::{self, Finality};
use super::text_cursor::TextCursor;
use crate::client::{Client, sort_scopes};
use crate::clock::saturating_deadline;
use crate::error::{Error, InvalidResponse};
use crate::sse::{SseEvent, SseParser};
use crate::transport::ByteStream;
use futures_util::StreamExt;
use interzone_protocol::Scope;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Time limit for the response to begin.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time without a connection before the watch fails.
const MAX_OUTAGE: Duration = Duration::from_secs(300);
/// Time for which an event without a sequence number waits for the one that has it.
const HOLD_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum number of waiting events.
const MAX_HELD: usize = 16;
/// A connection that ends sooner, without an event, counts as empty.
const EMPTY_CONNECTION_TIME: Duration = Duration::from_secs(5);
/// After this many consecutive empty connections the watch ends: all events precede its start.
const MAX_EMPTY_CONNECTIONS: u32 = 3;

pub(super) struct WatchLoop {
    client: Client,
    resource: &'static str,
    id: String,
    scopes: Vec<String>,
    last_sequence: Option<u64>,
    text_cursor: TextCursor,
    state: WatchState,
    ready: VecDeque<WatchEvent>,
    held: VecDeque<WatchEvent>,
    parsed: VecDeque<SseEvent>,
    failure: Option<Error>,
    finality: Finality,
    /// Consecutive failed connections.
    attempt: u32,
    /// Consecutive connections without an event.
    empty_connections: u32,
    /// Start of the current outage.
    lost_since: Option<Instant>,
    server_retry: Option<Duration>,
}

enum WatchState {
    Idle,
    Waiting(Instant),
    Open {
        body: ByteStream,
        parser: SseParser,
        opened_at: Instant,
        last_read_at: Instant,
        events: u64,
    },
    Done,
}

impl WatchLoop {
    pub(super) fn new(
        client: &Client,
        resource: &'static str,
        id: &str,
        scope: Scope,
        after: Option<u64>,
    ) -> Self {
        let scopes = [Scope::AgentIdentify, scope].map(|scope| scope.name().to_owned());
        Self {
            client: client.clone(),
            resource,
            id: id.to_owned(),
            scopes: sort_scopes(scopes.into()),
            last_sequence: after,
            text_cursor: TextCursor::default(),
            state: WatchState::Idle,
            ready: VecDeque::new(),
            held: VecDeque::new(),
            parsed: VecDeque::new(),
            failure: None,
            finality: Finality::Ongoing,
            attempt: 0,
            empty_connections: 0,
            lost_since: None,
            server_retry: None,
        }
    }

    pub(super) fn position(&self) -> Option<u64> {
        self.last_sequence
    }

    pub(super) async fn next(&mut self) -> Option<Result<WatchEvent, Error>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Some(error) = self.failure.take() {
                return Some(Err(error));
            }
            match &mut self.state {
                WatchState::Done => return None,
                WatchState::Idle => self.connect().await,
                WatchState::Waiting(until) => {
                    sleep_until(*until).await;
                    self.state = WatchState::Idle;
                }
                WatchState::Open {
                    body,
                    last_read_at: heard,
                    ..
                } => {
                    let is_holding = !self.held.is_empty();
                    let timeout = if is_holding {
                        HOLD_TIMEOUT
                    } else {
                        self.client.settings().idle_timeout
                    };
                    // Measured from the last byte, because the caller may have dropped this future in between.
                    match timeout_at(saturating_deadline(*heard, timeout), body.next()).await {
                        Ok(Some(Ok(bytes))) => self.on_bytes(&bytes),
                        Ok(Some(Err(error))) => {
                            let error = crate::transport::TransportError::broken(error);
                            self.schedule_reconnect(Some(&error.into()));
                        }
                        Ok(None) => self.on_closed(),
                        // The sequence number did not arrive in time.
                        Err(_) if is_holding => self.release_held(),
                        Err(_) => {
                            self.schedule_reconnect(Some(&Error::TimedOut { after: timeout }))
                        }
                    }
                }
            }
        }
    }

    async fn connect(&mut self) {
        let path = [self.resource, self.id.as_str(), "events"];
        let opening =
            self.client
                .open_events(&path, self.last_sequence, &self.scopes, CONNECT_TIMEOUT);
        match opening.await {
            Ok(response) => {
                self.state = WatchState::Open {
                    body: response.into_body(),
                    parser: SseParser::new(self.client.settings().max_event),
                    opened_at: Instant::now(),
                    last_read_at: Instant::now(),
                    events: 0,
                };
            }
            Err(error) if error.is_retryable() => self.schedule_reconnect(Some(&error)),
            Err(error) => self.fail(error),
        }
    }

    fn on_bytes(&mut self, bytes: &[u8]) {
        let WatchState::Open {
            parser,
            last_read_at: heard,
            events,
            ..
        } = &mut self.state
        else {
            return;
        };
        *heard = Instant::now();
        let parsed = parser.push(bytes, &mut self.parsed);
        self.server_retry = parser.retry().or(self.server_retry);
        if !self.parsed.is_empty() {
            *events += 1;
            self.attempt = 0;
            self.empty_connections = 0;
        }
        self.lost_since = None;
        while let Some(raw) = self.parsed.pop_front() {
            if let Err(fault) = self.process_event(&raw) {
                self.fail(fault.into());
                return;
            }
            if self.finality == Finality::Final {
                self.release_held();
                self.parsed.clear();
                self.state = WatchState::Done;
                return;
            }
        }
        if parsed.is_err() {
            let limit = self.client.settings().max_event;
            self.fail(InvalidResponse::EventTooLarge { limit }.into());
        }
    }

    /// Processes an event, unless it was delivered before.
    fn process_event(&mut self, raw: &SseEvent) -> Result<(), InvalidResponse> {
        let number = raw.id.as_deref().and_then(|id| id.parse::<u64>().ok());
        if let (Some(number), Some(last)) = (number, self.last_sequence)
            && number <= last
        {
            // The events held for this one were delivered with it.
            self.held.clear();
            return Ok(());
        }
        let event = event::decode_event(&raw.data)?;
        let finality = event::finality_of(&event);
        if finality != Finality::Ongoing {
            self.finality = finality;
        }
        let is_logged = event::is_logged(&event);
        if let Some(event) = self.trim_text(event) {
            self.held.push_back(event);
        }
        if number.is_some() {
            self.last_sequence = number;
            self.release_held();
        } else if !is_logged || self.held.len() > MAX_HELD {
            self.release_held();
        }
        Ok(())
    }

    /// Removes text that was delivered before; `None` if nothing is left.
    fn trim_text(&mut self, event: WatchEvent) -> Option<WatchEvent> {
        let WatchEvent::Text { run, offset, delta } = event else {
            return Some(event);
        };
        let (offset, new) = self.text_cursor.advance(run, offset, &delta)?;
        let delta = new.to_owned();
        Some(WatchEvent::Text { run, offset, delta })
    }

    fn release_held(&mut self) {
        self.ready.append(&mut self.held);
    }

    /// Handles the end of the response.
    fn on_closed(&mut self) {
        if self.finality != Finality::Ongoing {
            self.release_held();
            self.state = WatchState::Done;
            return;
        }
        if let WatchState::Open {
            opened_at: since,
            events,
            ..
        } = &self.state
            && *events == 0
            && since.elapsed() < EMPTY_CONNECTION_TIME
        {
            self.empty_connections += 1;
            if self.empty_connections >= MAX_EMPTY_CONNECTIONS {
                self.state = WatchState::Done;
                return;
            }
        }
        self.schedule_reconnect(None);
    }

    /// Schedules a reconnect with backoff.
    fn schedule_reconnect(&mut self, error: Option<&Error>) {
        // Held events are sent again after the reconnect.
        self.held.clear();
        let now = Instant::now();
        if let WatchState::Open {
            opened_at: since, ..
        } = &self.state
            && since.elapsed() >= EMPTY_CONNECTION_TIME
        {
            self.attempt = 0;
        }
        let lost_since = *self.lost_since.get_or_insert(now);
        if let Some(error) = error
            && now.duration_since(lost_since) >= MAX_OUTAGE
        {
            self.fail(error.clone());
            return;
        }
        let backoff = self.client.settings().retry.backoff_for(self.attempt);
        let requested_wait = error.and_then(Error::retry_after).or(self.server_retry);
        self.attempt = self.attempt.saturating_add(1);
        self.state = WatchState::Waiting(saturating_deadline(
            now,
            backoff + requested_wait.unwrap_or_default(),
        ));
    }

    fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        self.state = WatchState::Done;
    }
}

impl fmt::Debug for WatchLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchLoop")
            .field("last", &self.last_sequence)
            .field("stage", &self.finality)
            .finish_non_exhaustive()
    }
}
