//! What was said before: the newest messages of the thread with who said them, and of the threads that
//! the question links to, as far as the one who asks may read them. All of it is data for the agent;
//! none of it is obeyed here.

mod links;
pub(crate) mod mentions;
mod newest;

use crate::gates::{Known, People};
use crate::intake::readable;
use crate::policy::Policy;
use crate::question::{Forwarded, Question};
use crate::signs::is_blank;
use crate::slack::api::conversations::Message;
use crate::slack::api::{Slack, SlackError};
use crate::slack::ids::{TeamId, UserId};
use crate::slack::tokens::Installation;
use interzone_protocol::zone::{ContextMessage, ContextRole};
use links::Link;
use std::collections::{HashMap, VecDeque};

/// Messages on a page.
const PAGE: u16 = 200;
/// Links that are followed.
const LINKS: usize = 3;
/// People whose names are asked for; further ones go by their ids.
const NAMES: usize = 10;
/// Those who are in a place, a page at a time. In a larger place one is found by luck, or not.
const MEMBERS: u16 = 500;
const MEMBER_PAGES: usize = 20;
/// Characters of a name that is put into a text.
const LONGEST_NAME: usize = 80;
/// Characters of one message.
const LONGEST: usize = 4_000;
/// Bytes of all of it as JSON, so that it fits into one record.
const MOST_BYTES: usize = 48 * 1024;

/// What context is gathered with.
pub(crate) struct Reader<'a> {
    pub(crate) slack: &'a Slack,
    pub(crate) people: &'a People,
    pub(crate) policy: &'a Policy,
    /// How many messages of a thread.
    pub(crate) messages: usize,
}

impl Reader<'_> {
    /// What was said before, and what those are called whom the question mentions. What cannot be read
    /// is left out: an answer without context is better than none.
    pub(crate) async fn gather(
        &self,
        question: &Question,
        known: &Known,
        at: &Installation,
    ) -> (Vec<ContextMessage>, Vec<(UserId, String)>) {
        let mut names = Names::new(self, at, &question.team);
        let mentioned = names.mentioned(&question.text).await;
        let mut said = Vec::new();
        for link in links::in_text(&question.text).into_iter().take(LINKS) {
            match self.may_read(question, known, at, &link).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    tracing::info!(
                        event = question.event_id,
                        word = error.word(),
                        "a linked thread was not read"
                    );
                    continue;
                }
            }
            let messages = self.newest(at, &link.channel, &link.thread, &question.ts);
            let messages = messages.await;
            said.extend(names.told(messages, Some("linked thread")).await);
        }
        if question.in_thread {
            let (channel, thread) = (&question.channel, &question.thread);
            let messages = self.newest(at, channel, thread, &question.ts).await;
            said.extend(names.told(messages, None).await);
        }
        for forwarded in &question.forwarded {
            said.push(names.forwarded(forwarded).await);
        }
        (fitting(said), mentioned)
    }

    /// Whether the one who asks may read what they link to: they could in Slack, and the policy lets
    /// the place through.
    async fn may_read(
        &self,
        question: &Question,
        known: &Known,
        at: &Installation,
        link: &Link,
    ) -> Result<bool, SlackError> {
        if link.channel == question.channel {
            return Ok(true);
        }
        if self.policy.channel(&link.channel).is_err() {
            return Ok(false);
        }
        let place = self.people.channel(at, &question.team, &link.channel);
        if place.await?.is_public() && !known.is_guest(question) {
            return Ok(true);
        }
        let mut cursor = None;
        for _ in 0..MEMBER_PAGES {
            let page =
                self.slack
                    .conversations_members(at, &link.channel, cursor.as_deref(), MEMBERS);
            let (members, next) = page.await?;
            if members.contains(&question.user) {
                return Ok(true);
            }
            match next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        Ok(false)
    }
}

/// Whether somebody said something by it; that somebody came or went is nothing said.
fn is_said(message: &Message) -> bool {
    let plain = matches!(
        message.subtype.as_deref(),
        None | Some("file_share" | "thread_broadcast" | "bot_message")
    );
    plain && !(is_blank(&message.text) && message.files.is_empty())
}

/// Who said it, by name.
struct Names<'a> {
    reader: &'a Reader<'a>,
    at: &'a Installation,
    team: &'a TeamId,
    known: HashMap<UserId, String>,
}

impl<'a> Names<'a> {
    fn new(reader: &'a Reader<'a>, at: &'a Installation, team: &'a TeamId) -> Self {
        Self {
            reader,
            at,
            team,
            known: HashMap::new(),
        }
    }

    async fn told(
        &mut self,
        messages: VecDeque<Message>,
        place: Option<&str>,
    ) -> Vec<ContextMessage> {
        let mut told = Vec::with_capacity(messages.len());
        for message in messages {
            let ours = self.is_ours(&message);
            let name = if ours {
                None
            } else {
                self.name(&message).await
            };
            let user = match (name, place) {
                (Some(name), Some(place)) => Some(format!("{name} ({place})")),
                (None, Some(place)) => Some(place.to_owned()),
                (name, None) => name,
            };
            told.push(ContextMessage {
                role: if ours {
                    ContextRole::Assistant
                } else {
                    ContextRole::User
                },
                user,
                text: self.named(words(&message)).await,
            });
        }
        told
    }

    /// A message that came with the question.
    async fn forwarded(&mut self, forwarded: &Forwarded) -> ContextMessage {
        let place = "forwarded message";
        let user = match &forwarded.author {
            Some(author) => format!("{author} ({place})"),
            None => place.to_owned(),
        };
        ContextMessage {
            role: ContextRole::User,
            user: Some(user),
            text: self.named(forwarded.text.clone()).await,
        }
    }

    /// A text with names in place of mentions.
    async fn named(&mut self, text: String) -> String {
        let names = self.mentioned(&text).await;
        mentions::named(&text, &names)
    }

    /// What those are called whom a text mentions, as far as it can be found out.
    async fn mentioned(&mut self, text: &str) -> Vec<(UserId, String)> {
        let mut names = Vec::new();
        for user in mentions::of(text).into_iter().take(NAMES) {
            let name = self.name_of(&user).await;
            // It stands in the middle of what somebody wrote, on one line.
            let name = name.chars().filter(|sign| !sign.is_control());
            let name: String = name.take(LONGEST_NAME).collect();
            if name != user.as_str() {
                names.push((user, name));
            }
        }
        names
    }

    fn is_ours(&self, message: &Message) -> bool {
        let same = |of: bool, ours: bool| of && ours;
        same(message.bot_id.is_some(), message.bot_id == self.at.bot_id)
            || same(message.user.is_some(), message.user == self.at.bot_user)
            || same(message.app_id.is_some(), message.app_id == self.at.app_id)
    }

    async fn name(&mut self, message: &Message) -> Option<String> {
        match &message.user {
            Some(user) => Some(self.name_of(user).await),
            None => message.username.clone(),
        }
    }

    async fn name_of(&mut self, user: &UserId) -> String {
        if let Some(name) = self.known.get(user) {
            return name.clone();
        }
        let mut name = user.to_string();
        if self.known.len() < NAMES {
            let found = self.reader.people.user(self.at, self.team, user).await;
            if let Ok(found) = found {
                name = found.display_name().to_owned();
            }
            self.known.insert(user.clone(), name.clone());
        }
        name
    }
}

/// What a message says, with the names of its files.
fn words(message: &Message) -> String {
    let mut text: String = readable(&message.text).chars().take(LONGEST).collect();
    for file in &message.files {
        if !text.is_empty() {
            text.push('\n');
        }
        let name: String = file.name.chars().take(255).collect();
        text.push_str(&format!("[file: {name}]"));
    }
    text
}

/// As much of it as may be kept: the newest.
fn fitting(said: Vec<ContextMessage>) -> Vec<ContextMessage> {
    let mut bytes = 0_usize;
    let mut kept: Vec<ContextMessage> = said
        .into_iter()
        .rev()
        .take_while(|said| {
            let size = serde_json::to_vec(said).map_or(usize::MAX, |json| json.len() + 1);
            bytes = bytes.saturating_add(size);
            bytes <= MOST_BYTES
        })
        .collect();
    kept.reverse();
    kept
}
