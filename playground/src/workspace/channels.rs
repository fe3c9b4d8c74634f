//! Channels, and their JSON form in Slack's API.

use serde_json::{Value, json};

/// Kind of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// Visible to all.
    Public,
    /// Visible to members only.
    Private,
    /// Direct message with the bot.
    Im,
    /// Group direct message.
    Mpim,
}

impl ChannelKind {
    /// Returns the `channel_type` of events.
    pub(crate) const fn channel_type(self) -> &'static str {
        match self {
            Self::Public => "channel",
            Self::Private => "group",
            Self::Im => "im",
            Self::Mpim => "mpim",
        }
    }

    /// Returns the scope for seeing it.
    pub(crate) const fn read_scope(self) -> &'static str {
        match self {
            Self::Public => "channels:read",
            Self::Private => "groups:read",
            Self::Im => "im:read",
            Self::Mpim => "mpim:read",
        }
    }

    /// Returns the scope for reading its messages.
    pub(crate) const fn history_scope(self) -> &'static str {
        match self {
            Self::Public => "channels:history",
            Self::Private => "groups:history",
            Self::Im => "im:history",
            Self::Mpim => "mpim:history",
        }
    }

    /// Returns the type name in `conversations.list`.
    pub(crate) const fn list_type(self) -> &'static str {
        match self {
            Self::Public => "public_channel",
            Self::Private => "private_channel",
            Self::Im => "im",
            Self::Mpim => "mpim",
        }
    }
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaygroundChannel {
    /// Channel id.
    pub id: String,
    /// Name; for a DM, the user's.
    pub name: String,
    /// Kind.
    pub kind: ChannelKind,
    /// Member ids.
    pub members: Vec<String>,
    /// True if archived: no more posts.
    pub archived: bool,
}

impl PlaygroundChannel {
    /// Returns true if the user is a member.
    pub fn has_member(&self, user: &str) -> bool {
        self.members.iter().any(|member| member == user)
    }

    pub(crate) fn to_json(&self, team: &str, for_user: &str) -> Value {
        if self.kind == ChannelKind::Im {
            let other = self.members.iter().find(|member| *member != for_user);
            return json!({
                "id": self.id, "created": 1_700_000_000, "is_im": true, "is_archived": self.archived,
                "is_org_shared": false, "user": other, "context_team_id": team, "is_open": true,
            });
        }
        json!({
            "id": self.id, "name": self.name, "name_normalized": self.name,
            "is_channel": self.kind == ChannelKind::Public, "is_group": self.kind == ChannelKind::Private,
            "is_im": false, "is_mpim": self.kind == ChannelKind::Mpim,
            "is_private": self.kind != ChannelKind::Public,
            "created": 1_700_000_000, "creator": self.members.first(), "is_archived": self.archived,
            "is_general": false, "is_shared": false, "is_ext_shared": false, "is_org_shared": false,
            "is_member": self.has_member(for_user), "context_team_id": team,
            "topic": {"value": "", "creator": "", "last_set": 0},
            "purpose": {"value": "", "creator": "", "last_set": 0},
            "num_members": self.members.len(),
        })
    }
}
