//! Token control: scopes, lifetime and revocation.

use super::Playground;
use std::time::Duration;

impl Playground {
    /// Sets the scopes of the bot token.
    pub fn set_scopes(&self, scopes: &[&str]) {
        self.state
            .change(|workspace| workspace.tokens.set_scopes(scopes));
    }

    /// Sets the lifetime of rotating tokens granted from now on.
    pub fn set_token_lifetime(&self, life: Duration) {
        self.state
            .change(|workspace| workspace.tokens.set_lifetime(life.as_secs()));
    }

    /// Expires all rotating tokens except the newest.
    pub fn expire_old_tokens(&self) {
        self.state.change(|workspace| workspace.tokens.expire_old());
    }

    /// Uninstalls the app: revokes its tokens and sends both events, as Slack does.
    pub fn uninstall(&self) {
        self.state.change(|workspace| {
            workspace.tokens.revoke_bot();
            let bot = workspace.bot_user.clone();
            workspace.emit_event(serde_json::json!({
                "type": "tokens_revoked", "tokens": {"oauth": [], "bot": [bot]},
            }));
            workspace.emit_event(serde_json::json!({"type": "app_uninstalled"}));
        });
    }
}
