//! Channels, and how Slack tells about them.

use serde_json::{Value, json};

/// What kind of place it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everybody may see it.
    Public,
    /// Only its members may see it.
    Private,
    /// One person and the bot.
    Im,
    /// Several people and the bot.
    Mpim,
}

impl Kind {
    /// The word of an event for it.
    pub(crate) const fn channel_type(self) -> &'static str {
        match self {
            Self::Public => "channel",
            Self::Private => "group",
            Self::Im => "im",
            Self::Mpim => "mpim",
        }
    }

    /// The scope that lets an app see it.
    pub(crate) const fn read_scope(self) -> &'static str {
        match self {
            Self::Public => "channels:read",
            Self::Private => "groups:read",
            Self::Im => "im:read",
            Self::Mpim => "mpim:read",
        }
    }

    /// The scope that lets an app read its messages.
    pub(crate) const fn history_scope(self) -> &'static str {
        match self {
            Self::Public => "channels:history",
            Self::Private => "groups:history",
            Self::Im => "im:history",
            Self::Mpim => "mpim:history",
        }
    }

    /// The word of `conversations.list` for it.
    pub(crate) const fn listed_as(self) -> &'static str {
        match self {
            Self::Public => "public_channel",
            Self::Private => "private_channel",
            Self::Im => "im",
            Self::Mpim => "mpim",
        }
    }
}

/// A place where messages are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The id.
    pub id: String,
    /// The name; that of a DM is its person's.
    pub name: String,
    /// What kind of place it is.
    pub kind: Kind,
    /// Who is in it.
    pub members: Vec<String>,
    /// Nobody may post any more.
    pub archived: bool,
}

impl Channel {
    /// Whether somebody is in it.
    pub fn has(&self, user: &str) -> bool {
        self.members.iter().any(|member| member == user)
    }

    pub(crate) fn json(&self, team: &str, for_user: &str) -> Value {
        if self.kind == Kind::Im {
            let other = self.members.iter().find(|member| *member != for_user);
            return json!({
                "id": self.id, "created": 1_700_000_000, "is_im": true, "is_archived": self.archived,
                "is_org_shared": false, "user": other, "context_team_id": team, "is_open": true,
            });
        }
        json!({
            "id": self.id, "name": self.name, "name_normalized": self.name,
            "is_channel": self.kind == Kind::Public, "is_group": self.kind == Kind::Private,
            "is_im": false, "is_mpim": self.kind == Kind::Mpim,
            "is_private": self.kind != Kind::Public,
            "created": 1_700_000_000, "creator": self.members.first(), "is_archived": self.archived,
            "is_general": false, "is_shared": false, "is_ext_shared": false, "is_org_shared": false,
            "is_member": self.has(for_user), "context_team_id": team,
            "topic": {"value": "", "creator": "", "last_set": 0},
            "purpose": {"value": "", "creator": "", "last_set": 0},
            "num_members": self.members.len(),
        })
    }
}
