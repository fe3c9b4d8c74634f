//! The methods of Slack's Web API that we call, and what is peculiar to each. How a call is made is
//! not known here.

use std::time::Duration;

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// A method of the Web API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Method {
            $($(#[$doc])* $name,)*
        }

        impl Method {
            /// As Slack calls it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

methods! {
    /// A socket for events.
    AppsConnectionsOpen = "apps.connections.open";
    /// Shows that an answer is on its way.
    AssistantThreadsSetStatus = "assistant.threads.setStatus";
    /// Takes a token back.
    AuthRevoke = "auth.revoke";
    /// Whose token this is.
    AuthTest = "auth.test";
    /// More of a message that grows.
    ChatAppendStream = "chat.appendStream";
    /// A message that one person sees.
    ChatPostEphemeral = "chat.postEphemeral";
    /// A message.
    ChatPostMessage = "chat.postMessage";
    /// The beginning of a message that grows.
    ChatStartStream = "chat.startStream";
    /// The end of a message that grows.
    ChatStopStream = "chat.stopStream";
    /// Another text for a message of ours.
    ChatUpdate = "chat.update";
    /// What a place is.
    ConversationsInfo = "conversations.info";
    /// Who is in a place.
    ConversationsMembers = "conversations.members";
    /// A thread.
    ConversationsReplies = "conversations.replies";
    /// Shows a file that was uploaded.
    FilesCompleteUpload = "files.completeUploadExternal";
    /// A place to upload a file to.
    FilesGetUploadUrl = "files.getUploadURLExternal";
    /// What a file is.
    FilesInfo = "files.info";
    /// A code or a refresh token for a token.
    OauthAccess = "oauth.v2.access";
    /// Adds a reaction.
    ReactionsAdd = "reactions.add";
    /// Takes a reaction away.
    ReactionsRemove = "reactions.remove";
    /// What a workspace is.
    TeamInfo = "team.info";
    /// Who somebody is.
    UsersInfo = "users.info";
}

impl Method {
    /// How long an answer may take, all of it.
    pub(super) const fn patience(self) -> Duration {
        match self {
            // What people do not wait for, or can do without.
            Self::AssistantThreadsSetStatus | Self::ReactionsAdd | Self::ReactionsRemove => {
                Duration::from_secs(5)
            }
            Self::FilesCompleteUpload => Duration::from_secs(30),
            _ => Duration::from_secs(10),
        }
    }

    /// How many bytes an answer may have.
    pub(super) const fn largest(self) -> usize {
        match self {
            // Two hundred messages with all that hangs on them.
            Self::ConversationsReplies => 16 << 20,
            _ => 1 << 20,
        }
    }

    /// Whether Slack lets about one a second through for each channel.
    pub(super) const fn is_paced(self) -> bool {
        matches!(self, Self::ChatPostMessage)
    }
}
