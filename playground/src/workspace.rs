//! The workspace in memory: users, channels, messages and outgoing events. Slack's API rules are in `api`; nothing here
//! waits or does I/O.

pub(crate) mod channels;
mod events;
pub(crate) mod files;
pub(crate) mod log;
pub(crate) mod messages;
pub mod seed;
pub(crate) mod users;

use crate::api::respond::ResponseTarget;
use crate::options::PlaygroundOptions;
use crate::tokens::WorkspaceTokens;
use channels::PlaygroundChannel;
use files::PlaygroundFile;
use interzone_edge::clock::Clock;
use log::{ApiCall, EventDelivery};
use messages::{PlaygroundMessage, StreamStatus};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use users::PlaygroundUser;

/// Maximum queued events; the oldest are dropped first.
const MAX_OUTGOING: usize = 20_000;
/// Maximum journal entries from which a reconnecting page can catch up.
const MAX_JOURNAL: usize = 2_000;
/// Lifetime of a status if nothing is posted.
const STATUS_TTL: Duration = Duration::from_secs(120);

/// An event or interaction for the app.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingEvent {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) payload: Value,
    /// True for an interaction.
    pub(crate) is_interaction: bool,
}

/// A change that pages must redraw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UiChange {
    Message(String, String),
    Deleted(String, String),
    Ephemeral(String, String),
    Status(String, String),
    User(String),
}

/// Status of a thread.
#[derive(Clone, Debug)]
pub(crate) struct ThreadStatus {
    pub(crate) text: String,
    pub(crate) set_at: Duration,
}

/// All data of the workspace. Tests and the page read it; only Slack's API and users change it.
#[derive(Debug)]
pub struct Workspace {
    pub(crate) team: String,
    pub(crate) app: String,
    pub(crate) bot: String,
    pub(crate) bot_user: String,
    pub(crate) base_url: String,
    pub(crate) clock: Clock,
    pub(crate) max_stream_duration: Duration,
    pub(crate) users: BTreeMap<String, PlaygroundUser>,
    pub(crate) channels: BTreeMap<String, PlaygroundChannel>,
    pub(crate) messages: BTreeMap<String, BTreeMap<String, PlaygroundMessage>>,
    pub(crate) ephemerals: VecDeque<PlaygroundMessage>,
    pub(crate) files: BTreeMap<String, PlaygroundFile>,
    pub(crate) statuses: BTreeMap<(String, String), ThreadStatus>,
    pub(crate) tokens: WorkspaceTokens,
    pub(crate) response_urls: VecDeque<(String, ResponseTarget)>,
    /// Time at which each method is free again, if rate limits are enabled.
    pub(crate) rate_limits: Option<BTreeMap<String, Duration>>,
    pub(crate) outgoing: VecDeque<OutgoingEvent>,
    pub(crate) calls: VecDeque<ApiCall>,
    pub(crate) deliveries: VecDeque<EventDelivery>,
    pub(crate) journal: VecDeque<(u64, UiChange)>,
    pub(crate) revision: u64,
    started_at: Duration,
    /// Start time, which distinguishes ids of this run from those of an earlier one.
    pub(crate) run: u64,
    last_second: u64,
    counters: BTreeMap<&'static str, u64>,
    max_messages: usize,
    max_log_entries: usize,
    pub(crate) max_file_bytes: usize,
}

impl Workspace {
    pub(crate) fn new(options: &PlaygroundOptions, base: String) -> Self {
        let users = seed::users().into_iter();
        let channels = seed::channels().into_iter();
        Self {
            team: seed::TEAM.to_owned(),
            app: seed::APP.to_owned(),
            bot: seed::BOT.to_owned(),
            bot_user: seed::BOT_USER.to_owned(),
            base_url: base,
            clock: options.clock.clone(),
            max_stream_duration: options.max_stream_duration,
            users: users.map(|user| (user.id.clone(), user)).collect(),
            channels: channels
                .map(|channel| (channel.id.clone(), channel))
                .collect(),
            messages: BTreeMap::new(),
            ephemerals: VecDeque::new(),
            files: BTreeMap::new(),
            statuses: BTreeMap::new(),
            tokens: WorkspaceTokens::new(options),
            response_urls: VecDeque::new(),
            rate_limits: options.rate_limits.then(BTreeMap::new),
            outgoing: VecDeque::new(),
            calls: VecDeque::new(),
            deliveries: VecDeque::new(),
            journal: VecDeque::new(),
            revision: 0,
            started_at: options.clock.monotonic(),
            run: options.clock.unix(),
            last_second: 0,
            counters: BTreeMap::new(),
            max_messages: options.max_messages,
            max_log_entries: options.max_log_entries,
            max_file_bytes: options.max_file_bytes,
        }
    }

    /// Returns a message.
    pub fn message(&self, channel: &str, ts: &str) -> Option<&PlaygroundMessage> {
        self.messages.get(channel)?.get(ts)
    }

    /// Returns all messages of a channel, oldest first, including replies.
    pub fn messages(&self, channel: &str) -> impl Iterator<Item = &PlaygroundMessage> {
        self.messages
            .get(channel)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Returns a thread: its first message and the replies, oldest first.
    pub fn thread(&self, channel: &str, ts: &str) -> Vec<&PlaygroundMessage> {
        let first = self.message(channel, ts);
        first.into_iter().chain(self.replies(channel, ts)).collect()
    }

    /// Returns the replies to a message, oldest first. A reply is never older than its parent.
    pub(crate) fn replies(&self, channel: &str, thread: &str) -> Vec<&PlaygroundMessage> {
        let all = self.messages.get(channel).into_iter();
        let newer = all.flat_map(|all| all.range(thread.to_owned()..));
        let replies = newer.map(|(_, message)| message);
        replies
            .filter(|m| m.is_reply() && m.thread_ts.as_deref() == Some(thread))
            .collect()
    }

    /// Returns all ephemeral messages, oldest first.
    pub fn ephemerals(&self) -> impl Iterator<Item = &PlaygroundMessage> {
        self.ephemerals.iter()
    }

    /// Returns the status of a thread.
    pub fn status(&self, channel: &str, thread: &str) -> Option<&str> {
        let status = self
            .statuses
            .get(&(channel.to_owned(), thread.to_owned()))?;
        let is_fresh = self.clock.monotonic().saturating_sub(status.set_at) < STATUS_TTL;
        is_fresh.then_some(status.text.as_str())
    }

    /// Returns a file.
    pub fn file(&self, id: &str) -> Option<&PlaygroundFile> {
        self.files.get(id)
    }

    /// Returns a user.
    pub fn user(&self, id: &str) -> Option<&PlaygroundUser> {
        self.users.get(id)
    }

    /// Returns a channel.
    pub fn channel(&self, id: &str) -> Option<&PlaygroundChannel> {
        self.channels.get(id)
    }

    /// Returns all API calls, oldest first.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = &ApiCall> {
        self.calls.iter()
    }

    /// Returns the calls of one method, oldest first.
    pub fn calls_of(&self, method: &str) -> Vec<&ApiCall> {
        self.calls().filter(|call| call.method == method).collect()
    }

    /// Returns the time since the start, as in [`ApiCall::at`].
    pub fn now(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.started_at)
    }

    /// Returns all delivery attempts, oldest first.
    pub fn deliveries(&self) -> impl DoubleEndedIterator<Item = &EventDelivery> {
        self.deliveries.iter()
    }

    /// Returns the next number of a counter.
    pub(crate) fn next_number(&mut self, counter_name: &'static str) -> u64 {
        let counter = self.counters.entry(counter_name).or_default();
        *counter += 1;
        *counter
    }

    /// Returns a new message ts, unique and increasing.
    pub(crate) fn next_ts(&mut self) -> String {
        self.last_second = self.last_second.max(self.clock.unix());
        let number = self.next_number("ts");
        // Above a million messages the counter carries into the seconds.
        format!(
            "{}.{:06}",
            self.last_second + number / 1_000_000,
            number % 1_000_000
        )
    }

    /// Stores a message; removes an old one if there are too many.
    pub(crate) fn insert_message(&mut self, message: PlaygroundMessage) {
        let (channel, ts) = (message.channel.clone(), message.ts.clone());
        let thread = message.thread_ts.clone();
        if message.user == self.bot_user {
            // A message of the bot clears its status.
            if let Some(thread) = &thread {
                self.set_status(&channel, thread, "");
            }
        }
        self.messages
            .entry(channel.clone())
            .or_default()
            .insert(ts.clone(), message);
        self.record_change(UiChange::Message(channel.clone(), ts));
        if let Some(thread) = thread {
            let all = self.messages.entry(channel.clone()).or_default();
            if let Some(parent) = all.get_mut(&thread) {
                parent.thread_ts = Some(thread.clone());
                self.record_change(UiChange::Message(channel, thread));
            }
        }
        let count: usize = self.messages.values().map(BTreeMap::len).sum();
        if count > self.max_messages {
            let largest = self.messages.values_mut().max_by_key(|all| all.len());
            if let Some(all) = largest {
                all.pop_first();
            }
        }
    }

    pub(crate) fn insert_ephemeral(&mut self, message: PlaygroundMessage) {
        let change = UiChange::Ephemeral(message.channel.clone(), message.ts.clone());
        self.ephemerals.push_back(message);
        if self.ephemerals.len() > self.max_log_entries {
            self.ephemerals.pop_front();
        }
        self.record_change(change);
    }

    pub(crate) fn set_status(&mut self, channel: &str, thread: &str, text: &str) {
        let key = (channel.to_owned(), thread.to_owned());
        let previous = self.statuses.remove(&key);
        if !text.is_empty() {
            if self.statuses.len() >= self.max_log_entries {
                self.statuses.pop_first();
            }
            let (text, at) = (text.to_owned(), self.clock.monotonic());
            self.statuses.insert(key, ThreadStatus { text, set_at: at });
        } else if previous.is_none() {
            return;
        }
        self.record_change(UiChange::Status(channel.to_owned(), thread.to_owned()));
    }

    /// Records a change for watchers.
    pub(crate) fn record_change(&mut self, change: UiChange) {
        self.revision += 1;
        self.journal.push_back((self.revision, change));
        if self.journal.len() > MAX_JOURNAL {
            self.journal.pop_front();
        }
    }

    /// Returns true if the journal is full, so old changes may be missing.
    pub(crate) fn is_journal_full(&self) -> bool {
        self.journal.len() >= MAX_JOURNAL
    }

    /// Queues an event for the app.
    pub(crate) fn enqueue_event(&mut self, outgoing: OutgoingEvent) {
        self.outgoing.push_back(outgoing);
        if self.outgoing.len() > MAX_OUTGOING {
            tracing::warn!("event queue full, dropping the oldest");
            self.outgoing.pop_front();
        }
    }

    /// Logs a call and returns its number.
    pub(crate) fn log_call(&mut self, method: &str, args: BTreeMap<String, Value>) -> u64 {
        let number = self.next_number("call");
        self.calls.push_back(ApiCall {
            number,
            method: method.to_owned(),
            args,
            at: self.now(),
            outcome: String::new(),
        });
        if self.calls.len() > self.max_log_entries {
            self.calls.pop_front();
        }
        self.revision += 1;
        number
    }

    /// Logs the outcome of a call.
    pub(crate) fn log_outcome(&mut self, number: u64, outcome: &str) {
        let call = self.calls.iter_mut().rev().find(|c| c.number == number);
        if let Some(call) = call {
            call.outcome = outcome.to_owned();
        }
        self.revision += 1;
    }

    pub(crate) fn log_delivery(&mut self, delivery: EventDelivery) {
        self.deliveries.push_back(delivery);
        if self.deliveries.len() > self.max_log_entries {
            self.deliveries.pop_front();
        }
        self.revision += 1;
    }

    /// Returns the current state of a stream, considering its maximum duration.
    pub(crate) fn stream_state(&self, message: &PlaygroundMessage) -> Option<StreamStatus> {
        let age = self
            .clock
            .monotonic()
            .saturating_sub(message.stream_started_at);
        match message.stream {
            Some(StreamStatus::Open) if age >= self.max_stream_duration => {
                Some(StreamStatus::Expired)
            }
            other => other,
        }
    }
}
