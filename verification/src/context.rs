//! Context of a question: the newest messages of its thread and of the threads that it links to, as far as the asker
//! may read them. All of it is untrusted data for the agent.

mod links;
pub(crate) mod mentions;
mod thread_tail;

use crate::gates::{DirectoryCache, SlackIdentity};
use crate::intake::to_plain_text;
use crate::policy::Policy;
use crate::question::{ForwardedMessage, Question};
use crate::slack::api::conversations::SlackMessage;
use crate::slack::api::{Slack, SlackError};
use crate::slack::ids::{TeamId, UserId};
use crate::slack::tokens::Installation;
use crate::unicode_hygiene::is_invisible;
use interzone_protocol::zone::{ContextMessage, ContextRole};
use links::ThreadLink;
use std::collections::{HashMap, VecDeque};

/// Messages per page.
const PAGE_SIZE: u16 = 200;
/// Maximum links followed.
const MAX_LINKS: usize = 3;
/// Maximum users looked up by name; further ones appear by id.
const MAX_NAME_LOOKUPS: usize = 10;
/// Members per page, and maximum pages. In a larger channel a member may not be found.
const MEMBER_PAGE_SIZE: u16 = 500;
const MAX_MEMBER_PAGES: usize = 20;
/// Maximum characters of a name inserted into a text.
const MAX_NAME_CHARS: usize = 80;
/// Maximum characters of one message.
const MAX_MESSAGE_CHARS: usize = 4_000;
/// Maximum bytes of the context as JSON, so that it fits into one record.
const MAX_CONTEXT_BYTES: usize = 48 * 1024;

/// Gathers context from Slack.
pub(crate) struct ContextGatherer<'a> {
    pub(crate) slack: &'a Slack,
    pub(crate) directory: &'a DirectoryCache,
    pub(crate) policy: &'a Policy,
    /// Maximum messages per thread.
    pub(crate) max_messages: usize,
}

impl ContextGatherer<'_> {
    /// Returns the context and the names of mentioned users. Unreadable threads are skipped: an answer without context
    /// is better than none.
    pub(crate) async fn gather(
        &self,
        question: &Question,
        identity: &SlackIdentity,
        installation: &Installation,
    ) -> (Vec<ContextMessage>, Vec<(UserId, String)>) {
        let mut names = NameResolver::new(self, installation, &question.team);
        let mentioned = names.mentioned_names(&question.text).await;
        let mut context = Vec::new();
        for link in links::find_links(&question.text)
            .into_iter()
            .take(MAX_LINKS)
        {
            match self.may_read(question, identity, installation, &link).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    tracing::info!(
                        event = question.event_id,
                        code = error.code(),
                        "reading linked thread failed"
                    );
                    continue;
                }
            }
            let messages =
                self.newest_messages(installation, &link.channel, &link.thread, &question.ts);
            let messages = messages.await;
            context.extend(names.build_context(messages, Some("linked thread")).await);
        }
        if question.in_thread {
            let (channel, thread) = (&question.channel, &question.thread);
            let messages = self
                .newest_messages(installation, channel, thread, &question.ts)
                .await;
            context.extend(names.build_context(messages, None).await);
        }
        for forwarded in &question.forwarded {
            context.push(names.convert_forwarded(forwarded).await);
        }
        (truncate_context(context), mentioned)
    }

    /// Returns true if the asker may read a linked thread: they can in Slack, and the policy allows the channel.
    async fn may_read(
        &self,
        question: &Question,
        identity: &SlackIdentity,
        installation: &Installation,
        link: &ThreadLink,
    ) -> Result<bool, SlackError> {
        if link.channel == question.channel {
            return Ok(true);
        }
        if self.policy.decide_channel(&link.channel).is_err() {
            return Ok(false);
        }
        let channel = self
            .directory
            .channel(installation, &question.team, &link.channel);
        if channel.await?.is_public() && !identity.is_guest(question) {
            return Ok(true);
        }
        let mut cursor = None;
        for _ in 0..MAX_MEMBER_PAGES {
            let page = self.slack.conversations_members(
                installation,
                &link.channel,
                cursor.as_deref(),
                MEMBER_PAGE_SIZE,
            );
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

/// Returns true for messages with content; false for join and leave notices.
fn has_content(message: &SlackMessage) -> bool {
    let is_message = matches!(
        message.subtype.as_deref(),
        None | Some("file_share" | "thread_broadcast" | "bot_message")
    );
    is_message && !(is_invisible(&message.text) && message.files.is_empty())
}

/// Resolves user ids to names.
struct NameResolver<'a> {
    gatherer: &'a ContextGatherer<'a>,
    installation: &'a Installation,
    team: &'a TeamId,
    cache: HashMap<UserId, String>,
}

impl<'a> NameResolver<'a> {
    fn new(
        gatherer: &'a ContextGatherer<'a>,
        installation: &'a Installation,
        team: &'a TeamId,
    ) -> Self {
        Self {
            gatherer,
            installation,
            team,
            cache: HashMap::new(),
        }
    }

    async fn build_context(
        &mut self,
        messages: VecDeque<SlackMessage>,
        label: Option<&str>,
    ) -> Vec<ContextMessage> {
        let mut context = Vec::with_capacity(messages.len());
        for message in messages {
            let is_own = self.is_own_message(&message);
            let name = if is_own {
                None
            } else {
                self.author_name(&message).await
            };
            let user = match (name, label) {
                (Some(name), Some(place)) => Some(format!("{name} ({place})")),
                (None, Some(place)) => Some(place.to_owned()),
                (name, None) => name,
            };
            context.push(ContextMessage {
                role: if is_own {
                    ContextRole::Assistant
                } else {
                    ContextRole::User
                },
                user,
                text: self.replace_mentions(message_text(&message)).await,
            });
        }
        context
    }

    /// Converts a forwarded message.
    async fn convert_forwarded(&mut self, forwarded: &ForwardedMessage) -> ContextMessage {
        let label = "forwarded message";
        let user = match &forwarded.author {
            Some(author) => format!("{author} ({label})"),
            None => label.to_owned(),
        };
        ContextMessage {
            role: ContextRole::User,
            user: Some(user),
            text: self.replace_mentions(forwarded.text.clone()).await,
        }
    }

    /// Replaces mentions by names.
    async fn replace_mentions(&mut self, text: String) -> String {
        let names = self.mentioned_names(&text).await;
        mentions::replace_mentions(&text, &names)
    }

    /// Returns the names of the users mentioned in a text, as far as they can be looked up.
    async fn mentioned_names(&mut self, text: &str) -> Vec<(UserId, String)> {
        let mut names = Vec::new();
        for user in mentions::mentioned_users(text)
            .into_iter()
            .take(MAX_NAME_LOOKUPS)
        {
            let name = self.user_name(&user).await;
            // The name is inserted into a line of text.
            let name = name.chars().filter(|sign| !sign.is_control());
            let name: String = name.take(MAX_NAME_CHARS).collect();
            if name != user.as_str() {
                names.push((user, name));
            }
        }
        names
    }

    fn is_own_message(&self, message: &SlackMessage) -> bool {
        let both = |is_present: bool, is_equal: bool| is_present && is_equal;
        both(
            message.bot_id.is_some(),
            message.bot_id == self.installation.bot_id,
        ) || both(
            message.user.is_some(),
            message.user == self.installation.bot_user,
        ) || both(
            message.app_id.is_some(),
            message.app_id == self.installation.app_id,
        )
    }

    async fn author_name(&mut self, message: &SlackMessage) -> Option<String> {
        match &message.user {
            Some(user) => Some(self.user_name(user).await),
            None => message.username.clone(),
        }
    }

    async fn user_name(&mut self, user: &UserId) -> String {
        if let Some(name) = self.cache.get(user) {
            return name.clone();
        }
        let mut name = user.to_string();
        if self.cache.len() < MAX_NAME_LOOKUPS {
            let found = self
                .gatherer
                .directory
                .user(self.installation, self.team, user)
                .await;
            if let Ok(found) = found {
                name = found.display_name().to_owned();
            }
            self.cache.insert(user.clone(), name.clone());
        }
        name
    }
}

/// Returns the text of a message, followed by the names of its files.
fn message_text(message: &SlackMessage) -> String {
    let mut text: String = to_plain_text(&message.text)
        .chars()
        .take(MAX_MESSAGE_CHARS)
        .collect();
    for file in &message.files {
        if !text.is_empty() {
            text.push('\n');
        }
        let name: String = file.name.chars().take(255).collect();
        text.push_str(&format!("[file: {name}]"));
    }
    text
}

/// Keeps the newest messages that fit into [`MAX_CONTEXT_BYTES`].
fn truncate_context(context: Vec<ContextMessage>) -> Vec<ContextMessage> {
    let mut bytes = 0_usize;
    let mut newest: Vec<ContextMessage> = context
        .into_iter()
        .rev()
        .take_while(|message| {
            let size = serde_json::to_vec(message).map_or(usize::MAX, |json| json.len() + 1);
            bytes = bytes.saturating_add(size);
            bytes <= MAX_CONTEXT_BYTES
        })
        .collect();
    newest.reverse();
    newest
}
