//! The workspace in memory: who is there, what was said, and what has to be told. Rules of Slack's API
//! are in `api`; nothing here waits or speaks to anybody.

pub(crate) mod channels;
pub(crate) mod files;
pub(crate) mod log;
pub(crate) mod messages;
pub(crate) mod people;
pub mod seed;
mod tell;

use crate::access::Tokens;
use crate::api::respond::Respond;
use crate::options::PlaygroundOptions;
use channels::Channel;
use files::File;
use interzone_edge::clock::Clock;
use log::{Call, Delivery};
use messages::{Message, Stream};
use people::User;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Events that may wait to be sent; the oldest leave first.
const WAITING: usize = 20_000;
/// Changes that a page which was away may still catch up with.
const JOURNAL: usize = 2_000;
/// How long a status stands if nothing is posted.
const STATUS_LIFE: Duration = Duration::from_secs(120);

/// Something that the app is to be told.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) payload: Value,
    /// A pressed button, not an event.
    pub(crate) interactive: bool,
}

/// Something that a page should draw again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Message(String, String),
    Gone(String, String),
    Whisper(String, String),
    Status(String, String),
    User(String),
}

/// A status line below a thread.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) text: String,
    pub(crate) at: Duration,
}

/// Everything in the workspace. Tests and the page look; only Slack's API and people change it.
#[derive(Debug)]
pub struct Workspace {
    pub(crate) team: String,
    pub(crate) app: String,
    pub(crate) bot: String,
    pub(crate) bot_user: String,
    pub(crate) base: String,
    pub(crate) clock: Clock,
    pub(crate) stream_life: Duration,
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) channels: BTreeMap<String, Channel>,
    pub(crate) messages: BTreeMap<String, BTreeMap<String, Message>>,
    pub(crate) ephemerals: VecDeque<Message>,
    pub(crate) files: BTreeMap<String, File>,
    pub(crate) statuses: BTreeMap<(String, String), Status>,
    pub(crate) tokens: Tokens,
    pub(crate) responds: VecDeque<(String, Respond)>,
    /// When each method is free again, where Slack's limits are kept.
    pub(crate) paces: Option<BTreeMap<String, Duration>>,
    pub(crate) outgoing: VecDeque<Outgoing>,
    pub(crate) calls: VecDeque<Call>,
    pub(crate) deliveries: VecDeque<Delivery>,
    pub(crate) journal: VecDeque<(u64, Change)>,
    pub(crate) revision: u64,
    began: Duration,
    /// What tells this run's ids from those of an earlier one: when it began.
    pub(crate) run: u64,
    last_second: u64,
    counters: BTreeMap<&'static str, u64>,
    messages_kept: usize,
    log_kept: usize,
    pub(crate) file_bytes: usize,
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
            base,
            clock: options.clock.clone(),
            stream_life: options.stream_life,
            users: users.map(|user| (user.id.clone(), user)).collect(),
            channels: channels
                .map(|channel| (channel.id.clone(), channel))
                .collect(),
            messages: BTreeMap::new(),
            ephemerals: VecDeque::new(),
            files: BTreeMap::new(),
            statuses: BTreeMap::new(),
            tokens: Tokens::new(options),
            responds: VecDeque::new(),
            paces: options.rate_limits.then(BTreeMap::new),
            outgoing: VecDeque::new(),
            calls: VecDeque::new(),
            deliveries: VecDeque::new(),
            journal: VecDeque::new(),
            revision: 0,
            began: options.clock.steady(),
            run: options.clock.unix(),
            last_second: 0,
            counters: BTreeMap::new(),
            messages_kept: options.messages,
            log_kept: options.log,
            file_bytes: options.file_bytes,
        }
    }

    /// A message.
    pub fn message(&self, channel: &str, ts: &str) -> Option<&Message> {
        self.messages.get(channel)?.get(ts)
    }

    /// All messages of a channel, oldest first, replies among them.
    pub fn messages(&self, channel: &str) -> impl Iterator<Item = &Message> {
        self.messages
            .get(channel)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// A thread: its first message and what answers it, oldest first.
    pub fn thread(&self, channel: &str, ts: &str) -> Vec<&Message> {
        let first = self.message(channel, ts);
        first.into_iter().chain(self.replies(channel, ts)).collect()
    }

    /// What answers a message, oldest first. A reply is never older than what it answers.
    pub(crate) fn replies(&self, channel: &str, thread: &str) -> Vec<&Message> {
        let all = self.messages.get(channel).into_iter();
        let newer = all.flat_map(|all| all.range(thread.to_owned()..));
        let replies = newer.map(|(_, message)| message);
        replies
            .filter(|m| m.is_reply() && m.thread_ts.as_deref() == Some(thread))
            .collect()
    }

    /// What was said to one person only, oldest first.
    pub fn ephemerals(&self) -> impl Iterator<Item = &Message> {
        self.ephemerals.iter()
    }

    /// The status below a thread.
    pub fn status(&self, channel: &str, thread: &str) -> Option<&str> {
        let status = self
            .statuses
            .get(&(channel.to_owned(), thread.to_owned()))?;
        let fresh = self.clock.steady().saturating_sub(status.at) < STATUS_LIFE;
        fresh.then_some(status.text.as_str())
    }

    /// A file.
    pub fn file(&self, id: &str) -> Option<&File> {
        self.files.get(id)
    }

    /// Somebody.
    pub fn user(&self, id: &str) -> Option<&User> {
        self.users.get(id)
    }

    /// A channel.
    pub fn channel(&self, id: &str) -> Option<&Channel> {
        self.channels.get(id)
    }

    /// Calls of the API, oldest first.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = &Call> {
        self.calls.iter()
    }

    /// Calls of one method, oldest first.
    pub fn calls_of(&self, method: &str) -> Vec<&Call> {
        self.calls().filter(|call| call.method == method).collect()
    }

    /// What time it is in [`Call::at`], counted from the start.
    pub fn now(&self) -> Duration {
        self.clock.steady().saturating_sub(self.began)
    }

    /// Attempts to bring something to the app, oldest first.
    pub fn deliveries(&self) -> impl DoubleEndedIterator<Item = &Delivery> {
        self.deliveries.iter()
    }

    /// The next number of a kind.
    pub(crate) fn next(&mut self, kind: &'static str) -> u64 {
        let counter = self.counters.entry(kind).or_default();
        *counter += 1;
        *counter
    }

    /// A name for a new message: never twice, and never before an older one.
    pub(crate) fn next_ts(&mut self) -> String {
        self.last_second = self.last_second.max(self.clock.unix());
        let number = self.next("ts");
        // More than a million messages carry into the seconds, as time would have by then.
        format!(
            "{}.{:06}",
            self.last_second + number / 1_000_000,
            number % 1_000_000
        )
    }

    /// Keeps a message, and lets the oldest go when there are too many.
    pub(crate) fn keep(&mut self, message: Message) {
        let (channel, ts) = (message.channel.clone(), message.ts.clone());
        let thread = message.thread_ts.clone();
        if message.user == self.bot_user {
            // Whatever the bot says takes its status away.
            if let Some(thread) = &thread {
                self.set_status(&channel, thread, "");
            }
        }
        self.messages
            .entry(channel.clone())
            .or_default()
            .insert(ts.clone(), message);
        self.changed(Change::Message(channel.clone(), ts));
        if let Some(thread) = thread {
            let all = self.messages.entry(channel.clone()).or_default();
            if let Some(parent) = all.get_mut(&thread) {
                parent.thread_ts = Some(thread.clone());
                self.changed(Change::Message(channel, thread));
            }
        }
        let kept: usize = self.messages.values().map(BTreeMap::len).sum();
        if kept > self.messages_kept {
            let largest = self.messages.values_mut().max_by_key(|all| all.len());
            if let Some(all) = largest {
                all.pop_first();
            }
        }
    }

    pub(crate) fn keep_ephemeral(&mut self, message: Message) {
        let change = Change::Whisper(message.channel.clone(), message.ts.clone());
        self.ephemerals.push_back(message);
        if self.ephemerals.len() > self.log_kept {
            self.ephemerals.pop_front();
        }
        self.changed(change);
    }

    pub(crate) fn set_status(&mut self, channel: &str, thread: &str, text: &str) {
        let key = (channel.to_owned(), thread.to_owned());
        let before = self.statuses.remove(&key);
        if !text.is_empty() {
            if self.statuses.len() >= self.log_kept {
                self.statuses.pop_first();
            }
            let (text, at) = (text.to_owned(), self.clock.steady());
            self.statuses.insert(key, Status { text, at });
        } else if before.is_none() {
            return;
        }
        self.changed(Change::Status(channel.to_owned(), thread.to_owned()));
    }

    /// Notes a change for whoever watches.
    pub(crate) fn changed(&mut self, change: Change) {
        self.revision += 1;
        self.journal.push_back((self.revision, change));
        if self.journal.len() > JOURNAL {
            self.journal.pop_front();
        }
    }

    /// Whether changes have been forgotten.
    pub(crate) fn journal_is_full(&self) -> bool {
        self.journal.len() >= JOURNAL
    }

    /// Something that the app is to be told.
    pub(crate) fn send(&mut self, outgoing: Outgoing) {
        self.outgoing.push_back(outgoing);
        if self.outgoing.len() > WAITING {
            tracing::warn!("too many events wait to be sent, the oldest is dropped");
            self.outgoing.pop_front();
        }
    }

    /// Writes a call down, and says its number.
    pub(crate) fn log_call(&mut self, method: &str, args: BTreeMap<String, Value>) -> u64 {
        let number = self.next("call");
        self.calls.push_back(Call {
            number,
            method: method.to_owned(),
            args,
            at: self.now(),
            answer: String::new(),
        });
        if self.calls.len() > self.log_kept {
            self.calls.pop_front();
        }
        self.revision += 1;
        number
    }

    /// Writes down how a call was answered.
    pub(crate) fn log_answer(&mut self, number: u64, answer: &str) {
        let call = self.calls.iter_mut().rev().find(|c| c.number == number);
        if let Some(call) = call {
            call.answer = answer.to_owned();
        }
        self.revision += 1;
    }

    pub(crate) fn log_delivery(&mut self, delivery: Delivery) {
        self.deliveries.push_back(delivery);
        if self.deliveries.len() > self.log_kept {
            self.deliveries.pop_front();
        }
        self.revision += 1;
    }

    /// How far a stream is by now.
    pub(crate) fn stream_of(&self, message: &Message) -> Option<Stream> {
        let age = self.clock.steady().saturating_sub(message.stream_began);
        match message.stream {
            Some(Stream::Open) if age >= self.stream_life => Some(Stream::Expired),
            other => other,
        }
    }
}
