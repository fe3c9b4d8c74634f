//! The app's tokens, as a program changes them: what they may do, how long they last, and that they end.

use super::Playground;
use std::time::Duration;

impl Playground {
    /// What the bot's token may do from now on.
    pub fn set_scopes(&self, scopes: &[&str]) {
        self.shared
            .change(|workspace| workspace.tokens.set_scopes(scopes));
    }

    /// How long tokens last that are granted from now on, where they rotate.
    pub fn set_token_life(&self, life: Duration) {
        self.shared
            .change(|workspace| workspace.tokens.set_life(life.as_secs()));
    }

    /// Every token that rotates has run out, but for the newest.
    pub fn end_old_tokens(&self) {
        self.shared.change(|workspace| workspace.tokens.run_out());
    }

    /// Removes the app: its tokens end, and it is told twice, as Slack does.
    pub fn uninstall(&self) {
        self.shared.change(|workspace| {
            workspace.tokens.revoke_bot();
            let bot = workspace.bot_user.clone();
            workspace.event(serde_json::json!({
                "type": "tokens_revoked", "tokens": {"oauth": [], "bot": [bot]},
            }));
            workspace.event(serde_json::json!({"type": "app_uninstalled"}));
        });
    }
}
