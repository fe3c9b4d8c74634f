//! The token that the operator gave in a file. Slack is asked whose it is when it is first used, and it
//! is used before Slack has said so. It is never stored.

use super::trouble::Trouble;
use super::{BotToken, Installation};
use crate::slack::api::{Slack, SlackError};
use crate::slack::ids::TeamId;
use interzone_protocol::vocab::Timestamp;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long to wait before Slack is asked again whose token it is.
const AGAIN: Duration = Duration::from_secs(30);
const ABOUT: &str = "the token of the file";

pub(super) struct FileToken {
    unknown: Arc<Installation>,
    state: Mutex<State>,
    /// Whoever has it asks; nobody waits for it.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    known: Option<Known>,
    not_before: Option<Timestamp>,
}

struct Known {
    installation: Arc<Installation>,
    /// Set if the token is for all workspaces of an organisation.
    enterprise: Option<TeamId>,
}

impl FileToken {
    pub(super) fn new(token: BotToken) -> Self {
        Self {
            unknown: Arc::new(Installation::unknown(token)),
            state: Mutex::default(),
            asking: tokio::sync::Mutex::new(()),
        }
    }

    /// Asks Slack whose token this is, if nobody knows and nobody asks.
    pub(super) async fn learn(&self, slack: &Slack, now: Timestamp, trouble: &Trouble) {
        let due = {
            let state = self.lock();
            state.known.is_none() && state.not_before.is_none_or(|moment| moment <= now)
        };
        let Some(_asking) = due.then(|| self.asking.try_lock().ok()).flatten() else {
            return;
        };
        match slack.hasty().auth_test(&self.unknown).await {
            Ok(test) => {
                let whole = test.is_enterprise_install == Some(true);
                let installation = Installation {
                    team: Some(test.team_id),
                    token: self.unknown.token.clone(),
                    bot_user: Some(test.user_id),
                    bot_id: test.bot_id,
                    app_id: None,
                };
                let known = Known {
                    installation: Arc::new(installation),
                    enterprise: test.enterprise_id.filter(|_| whole),
                };
                self.lock().known = Some(known);
                trouble.over(ABOUT);
            }
            Err(error) => {
                self.lock().not_before = Some(now.after(AGAIN));
                trouble.note(ABOUT, said(&error));
            }
        }
    }

    /// The token, if it is known to be good for this workspace.
    pub(super) fn known_for(
        &self,
        team: &TeamId,
        enterprise: Option<&TeamId>,
    ) -> Option<Arc<Installation>> {
        let state = self.lock();
        let known = state.known.as_ref()?;
        let its = known.installation.team.as_ref() == Some(team);
        let covered = known.enterprise.is_some()
            && (known.enterprise.as_ref() == enterprise || known.enterprise.as_ref() == Some(team));
        (its || covered).then(|| Arc::clone(&known.installation))
    }

    /// The token, if nobody knows yet what it is good for.
    pub(super) fn while_unknown(&self) -> Option<Arc<Installation>> {
        let unknown = self.lock().known.is_none();
        unknown.then(|| Arc::clone(&self.unknown))
    }

    /// Slack says that the token is good no more. If it is this one, Slack is asked at the next use.
    pub(super) fn doubt(&self, team: &TeamId) -> bool {
        let mut state = self.lock();
        let known = state.known.as_ref();
        let its = known.is_some_and(|known| known.installation.team.as_ref() == Some(team));
        if its {
            *state = State::default();
        }
        its
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn said(error: &SlackError) -> String {
    if error.may_pass() {
        format!("slack does not say whose token `bot_token_file` holds: {error}")
    } else {
        let word = error.word();
        format!(
            "slack refuses the token in `bot_token_file` (`{word}`): copy the bot token from the app's page"
        )
    }
}
