//! Slack, as the zone meets it: its ids, its Web API, its signatures, its sockets, and the tokens with
//! which it lets us in. What a question is, who may ask one and what is answered must not enter here.

pub mod api;
#[cfg(test)]
pub(crate) mod fake;
pub mod ids;
pub mod install;
pub mod signature;
pub mod socket;
pub mod tokens;
pub mod vault;

/// What the app must be allowed to do, as it asks for it when it is installed. The manifest in
/// `examples/` asks for the same.
pub const SCOPES: &[&str] = &[
    // To hear those who mention it, and to read the thread that it is asked in.
    "app_mentions:read",
    "channels:history",
    "groups:history",
    "im:history",
    "mpim:history",
    // To see that a place is there, and who is in it.
    "channels:read",
    "groups:read",
    "im:read",
    "mpim:read",
    "team:read",
    "users:read",
    // To answer.
    "chat:write",
    "reactions:write",
    "files:read",
    "files:write",
    // Where Slack still asks for it to show that an answer is on its way.
    "assistant:write",
];

/// The events that Slack must send. The manifest in `examples/` asks for the same.
pub const EVENTS: &[&str] = &[
    "app_mention",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "app_uninstalled",
    "tokens_revoked",
];
