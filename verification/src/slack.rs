//! Slack integration: ids, Web API client, request signatures, Socket Mode, installation and token storage.

pub mod api;
#[cfg(test)]
pub(crate) mod fake;
pub mod ids;
pub mod install;
pub mod signature;
pub mod socket;
pub mod tokens;

/// OAuth scopes requested at installation. The manifest in `examples/` requests the same.
pub const SCOPES: &[&str] = &[
    // Receive mentions and read the thread of a question.
    "app_mentions:read",
    "channels:history",
    "groups:history",
    "im:history",
    "mpim:history",
    // Look up channels, their members and users.
    "channels:read",
    "groups:read",
    "im:read",
    "mpim:read",
    "team:read",
    "users:read",
    // Post answers.
    "chat:write",
    "reactions:write",
    "files:read",
    "files:write",
    // Some workspaces still require it for the assistant status.
    "assistant:write",
];

/// Event subscriptions. The manifest in `examples/` requests the same.
pub const EVENTS: &[&str] = &[
    "app_mention",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "app_uninstalled",
    "tokens_revoked",
];
