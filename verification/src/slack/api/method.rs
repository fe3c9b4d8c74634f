//! Web API methods, with their timeouts and size limits, and the form arguments of a call.

use std::borrow::Cow;
use std::time::Duration;
use url::form_urlencoded;

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// A method of the Web API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum SlackMethod {
            $($(#[$doc])* $name,)*
        }

        impl SlackMethod {
            /// Wire name of the method.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

methods! {
    /// Opens a Socket Mode connection.
    AppsConnectionsOpen = "apps.connections.open";
    /// Sets the assistant status of a thread.
    AssistantThreadsSetStatus = "assistant.threads.setStatus";
    /// Revokes a token.
    AuthRevoke = "auth.revoke";
    /// Identifies a token.
    AuthTest = "auth.test";
    /// Appends to a streaming message.
    ChatAppendStream = "chat.appendStream";
    /// Posts an ephemeral message.
    ChatPostEphemeral = "chat.postEphemeral";
    /// Posts a message.
    ChatPostMessage = "chat.postMessage";
    /// Starts a streaming message.
    ChatStartStream = "chat.startStream";
    /// Ends a streaming message.
    ChatStopStream = "chat.stopStream";
    /// Updates a message.
    ChatUpdate = "chat.update";
    /// Returns a conversation.
    ConversationsInfo = "conversations.info";
    /// Lists the members of a conversation.
    ConversationsMembers = "conversations.members";
    /// Returns a thread.
    ConversationsReplies = "conversations.replies";
    /// Shares an uploaded file.
    FilesCompleteUpload = "files.completeUploadExternal";
    /// Requests an upload URL.
    FilesGetUploadUrl = "files.getUploadURLExternal";
    /// Returns the description of a file.
    FilesInfo = "files.info";
    /// Exchanges a code or refresh token for an access token.
    OauthAccess = "oauth.v2.access";
    /// Adds a reaction.
    ReactionsAdd = "reactions.add";
    /// Removes a reaction.
    ReactionsRemove = "reactions.remove";
    /// Returns a workspace.
    TeamInfo = "team.info";
    /// Returns a user.
    UsersInfo = "users.info";
}

impl SlackMethod {
    /// Timeout of a call.
    pub(super) const fn timeout(self) -> Duration {
        match self {
            // Optional calls.
            Self::AssistantThreadsSetStatus | Self::ReactionsAdd | Self::ReactionsRemove => {
                Duration::from_secs(5)
            }
            Self::FilesCompleteUpload => Duration::from_secs(30),
            _ => Duration::from_secs(10),
        }
    }

    /// Size limit of the response in bytes.
    pub(super) const fn max_response_bytes(self) -> usize {
        match self {
            // 200 messages with blocks and files.
            Self::ConversationsReplies => 16 << 20,
            _ => 1 << 20,
        }
    }

    /// Returns true if Slack allows about one call per second and channel.
    pub(super) const fn is_limited_per_channel(self) -> bool {
        matches!(self, Self::ChatPostMessage)
    }
}

/// Arguments of a call.
#[derive(Clone, Debug, Default)]
pub struct SlackArgs<'a>(Vec<(&'static str, Cow<'a, str>)>);

impl<'a> SlackArgs<'a> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, name: &'static str, value: impl Into<Cow<'a, str>>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    /// Adds an argument if it is present.
    #[must_use]
    pub fn optional_arg(self, name: &'static str, value: Option<impl Into<Cow<'a, str>>>) -> Self {
        match value {
            Some(value) => self.arg(name, value),
            None => self,
        }
    }

    /// Adds an argument serialized as JSON.
    #[must_use]
    pub fn json_arg(self, name: &'static str, value: Option<&serde_json::Value>) -> Self {
        self.optional_arg(name, value.map(serde_json::Value::to_string))
    }

    /// Returns the channel argument, which is part of the rate limit key.
    pub(super) fn channel(&self) -> &str {
        let mut args = self.0.iter();
        args.find(|(name, _)| matches!(*name, "channel" | "channel_id"))
            .map_or("", |(_, value)| value)
    }

    pub(super) fn encode(&self) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(self.0.iter());
        form.finish()
    }
}
