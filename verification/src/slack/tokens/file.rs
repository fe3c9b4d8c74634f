//! The token from the operator's file. It is identified with `auth.test` on first use, and used meanwhile. It is never
//! stored.

use super::warnings::TokenWarnings;
use super::{BotToken, Installation};
use crate::slack::api::{Slack, SlackError};
use crate::slack::ids::TeamId;
use interzone_protocol::vocab::Timestamp;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Delay before `auth.test` is retried.
const RETRY_DELAY: Duration = Duration::from_secs(30);
const WARNING_KEY: &str = "bot_token_file";

pub(super) struct FileToken {
    unidentified: Arc<Installation>,
    state: Mutex<FileTokenState>,
    /// Held by the task that calls `auth.test`; other tasks do not wait for it.
    identifying: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct FileTokenState {
    identified: Option<IdentifiedToken>,
    not_before: Option<Timestamp>,
}

struct IdentifiedToken {
    installation: Arc<Installation>,
    /// Set if the token is for all workspaces of an organisation.
    enterprise: Option<TeamId>,
}

impl FileToken {
    pub(super) fn new(token: BotToken) -> Self {
        Self {
            unidentified: Arc::new(Installation::from_token(token)),
            state: Mutex::default(),
            identifying: tokio::sync::Mutex::new(()),
        }
    }

    /// Calls `auth.test` if the token is not identified and no other task is doing so.
    pub(super) async fn identify(&self, slack: &Slack, now: Timestamp, warnings: &TokenWarnings) {
        let due = {
            let state = self.lock();
            state.identified.is_none()
                && state.not_before.is_none_or(|not_before| not_before <= now)
        };
        let Some(_guard) = due.then(|| self.identifying.try_lock().ok()).flatten() else {
            return;
        };
        match slack.fail_fast().auth_test(&self.unidentified).await {
            Ok(test) => {
                let is_org_wide = test.is_enterprise_install == Some(true);
                let installation = Installation {
                    team: Some(test.team_id),
                    token: self.unidentified.token.clone(),
                    bot_user: Some(test.user_id),
                    bot_id: test.bot_id,
                    app_id: None,
                };
                let identified = IdentifiedToken {
                    installation: Arc::new(installation),
                    enterprise: test.enterprise_id.filter(|_| is_org_wide),
                };
                self.lock().identified = Some(identified);
                warnings.clear(WARNING_KEY);
            }
            Err(error) => {
                self.lock().not_before = Some(now.plus(RETRY_DELAY));
                warnings.set(WARNING_KEY, warning_text(&error));
            }
        }
    }

    /// Returns the token if it is known to be valid for this workspace.
    pub(super) fn identified_for(
        &self,
        team: &TeamId,
        enterprise: Option<&TeamId>,
    ) -> Option<Arc<Installation>> {
        let state = self.lock();
        let identified = state.identified.as_ref()?;
        let is_own_team = identified.installation.team.as_ref() == Some(team);
        let is_covered_by_org = identified.enterprise.is_some()
            && (identified.enterprise.as_ref() == enterprise
                || identified.enterprise.as_ref() == Some(team));
        (is_own_team || is_covered_by_org).then(|| Arc::clone(&identified.installation))
    }

    /// Returns the token if it is not identified yet.
    pub(super) fn if_unidentified(&self) -> Option<Arc<Installation>> {
        let is_unidentified = self.lock().identified.is_none();
        is_unidentified.then(|| Arc::clone(&self.unidentified))
    }

    /// Invalidates the identity if it is this workspace's, so that `auth.test` is called at the next use.
    pub(super) fn invalidate(&self, team: &TeamId) -> bool {
        let mut state = self.lock();
        let identified = state.identified.as_ref();
        let matches = identified
            .is_some_and(|identified| identified.installation.team.as_ref() == Some(team));
        if matches {
            *state = FileTokenState::default();
        }
        matches
    }

    fn lock(&self) -> MutexGuard<'_, FileTokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn warning_text(error: &SlackError) -> String {
    if error.is_retryable() {
        format!("cannot identify the token in `bot_token_file`: {error}")
    } else {
        let code = error.code();
        format!(
            "slack rejected the token in `bot_token_file` (`{code}`): copy the bot token from the app's page"
        )
    }
}
