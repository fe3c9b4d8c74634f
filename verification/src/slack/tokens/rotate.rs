//! Renewing a token before it ends. Its refresh token is good once, so of all nodes one renews, under a
//! claim in the store; the others go on with the old token, which is good until its end.

use super::TokensError;
use super::kept::{Installed, Kept, Read, ends_at};
use super::trouble::Trouble;
use crate::slack::api::oauth::Granted;
use crate::slack::api::{Slack, SlackError};
use crate::slack::ids::TeamId;
use interzone_protocol::vocab::Timestamp;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The kind of the claims.
const KIND: &str = "slack.rotate";
/// A token is renewed when it has less than this left. Slack's last twelve hours.
const MARGIN: Duration = Duration::from_secs(3600);
/// How long a claim holds. It is longer than all that is done under it may take.
const CLAIM: Duration = Duration::from_secs(60);
/// After a failure the old token is used for so long before the next try.
const AGAIN: Duration = Duration::from_secs(30);
/// Who has no good token waits for the node that renews it, looking so often.
const LOOK: Duration = Duration::from_millis(200);
const LOOKS: u32 = 50;
/// How often the new token is written before it is given up; it cannot be had a second time.
const WRITES: u32 = 5;
/// How many workspaces' failures are remembered.
const MOST: usize = 1024;

/// Who failed lately and when to try again, and who is being renewed by this process.
#[derive(Default)]
pub(super) struct Rotation {
    failed: Mutex<HashMap<TeamId, Timestamp>>,
    renewing: Mutex<HashSet<TeamId>>,
}

/// That this process renews the token of a workspace. It ends when this is dropped.
struct Renewing {
    kept: Arc<Kept>,
    team: TeamId,
}

impl Renewing {
    /// None if this process does so already: the claim in the store may be over by a clock that was set.
    fn begin(kept: &Arc<Kept>, team: &TeamId) -> Option<Self> {
        let mut renewing = kept.rotation.renewing();
        renewing.insert(team.clone()).then(|| Self {
            kept: Arc::clone(kept),
            team: team.clone(),
        })
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.kept.rotation.renewing().remove(&self.team);
    }
}

impl Rotation {
    fn renewing(&self) -> MutexGuard<'_, HashSet<TeamId>> {
        self.renewing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rests(&self, team: &TeamId, now: Timestamp) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get(team).is_some_and(|until| *until > now)
    }

    fn failed(&self, team: &TeamId, now: Timestamp) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|_, until| *until > now);
        if failed.len() < MOST {
            failed.insert(team.clone(), now.after(AGAIN));
        }
    }
}

pub(super) fn is_due(installed: &Installed, now: Timestamp) -> bool {
    let ends = installed.expires_at;
    ends.is_some_and(|ends| ends <= now.after(MARGIN))
}

fn is_over(read: &Read, now: Timestamp) -> bool {
    let ends = read.installed.as_ref().and_then(|read| read.expires_at);
    ends.is_some_and(|ends| ends <= now)
}

/// The token of a workspace after it was renewed, or the old one as long as it is good.
pub(super) async fn renewed(
    kept: &Arc<Kept>,
    slack: &Slack,
    team: &TeamId,
    mut read: Read,
    trouble: &Arc<Trouble>,
) -> Result<Read, TokensError> {
    for _ in 0..LOOKS {
        let now = kept.clock.now();
        let Some(installed) = read.installed.clone() else {
            return Ok(read);
        };
        if !is_due(&installed, now) {
            return Ok(read);
        }
        let over = is_over(&read, now);
        if kept.rotation.rests(team, now) {
            break;
        }
        if let Some(renewing) = Renewing::begin(kept, team)
            && claim(kept, team, now).await?
        {
            read = to_its_end(renewing, slack, team, &read, trouble).await?;
            if is_over(&read, kept.clock.now()) {
                break;
            }
            return Ok(read);
        }
        if !over {
            return Ok(read);
        }
        tokio::time::sleep(LOOK).await;
        read = kept.read(team, Some(read)).await?;
    }
    if is_over(&read, kept.clock.now()) {
        return Err(TokensError::Over { team: team.clone() });
    }
    Ok(read)
}

async fn claim(kept: &Kept, team: &TeamId, now: Timestamp) -> Result<bool, TokensError> {
    let until = Some(now.after(CLAIM));
    let put = kept
        .records
        .put_record(KIND, team.as_str(), "", Some(0), until, now);
    Ok(put.await?)
}

/// Renews the token, under the claim, whether or not the caller waits for it: a refresh token that was
/// used and an answer that nobody took would lock the workspace out.
async fn to_its_end(
    renewing: Renewing,
    slack: &Slack,
    team: &TeamId,
    read: &Read,
    trouble: &Arc<Trouble>,
) -> Result<Read, TokensError> {
    let (kept, slack, trouble) = (
        Arc::clone(&renewing.kept),
        slack.clone(),
        Arc::clone(trouble),
    );
    let (id, read) = (team.clone(), read.clone());
    // It ends by itself, for each of its steps has a limit.
    let task = tokio::spawn(async move {
        let renewed = renew(&kept, &slack, &id, &read, &trouble).await;
        let now = kept.clock.now();
        // A claim that stays ends by itself.
        let _ = kept.records.take_record(KIND, id.as_str(), now).await;
        drop(renewing);
        renewed
    });
    let over = |_| TokensError::Over { team: team.clone() };
    task.await.map_err(over)?
}

/// Renews the token. What came of it is what is stored then.
async fn renew(
    kept: &Kept,
    slack: &Slack,
    team: &TeamId,
    read: &Read,
    trouble: &Trouble,
) -> Result<Read, TokensError> {
    // Somebody may have renewed it between our reading and our claim.
    let read = kept.read(team, Some(read.clone())).await?;
    let now = kept.clock.now();
    let Some(installed) = read.installed.clone().filter(|read| is_due(read, now)) else {
        return Ok(read);
    };
    let rest = |what: String| {
        trouble.note(team.as_str(), what);
        kept.rotation.failed(team, now);
    };
    let (Some(app), Some(refresh)) = (&kept.app, &installed.refresh) else {
        rest(format!(
            "the token for `{team}` ends and cannot be renewed: configure the app's client id and secret, and install the app there again"
        ));
        return Ok(read);
    };
    let granted = match slack.hasty().oauth_refresh(app, refresh).await {
        Ok(granted) => granted,
        Err(error) => {
            rest(said(team, &error));
            return Ok(read);
        }
    };
    let Some(new) = successor(&installed, granted, kept.clock.now()) else {
        rest(format!(
            "slack renewed the token for `{team}` with that of another workspace: install the app there again"
        ));
        return Ok(read);
    };
    write(kept, &new, read.revision).await.inspect_err(|_| {
        rest(format!(
            "the new token for `{team}` could not be stored: if it stays so, install the app there again"
        ));
    })?;
    trouble.over(team.as_str());
    // Theirs counts if somebody installed or removed the app meanwhile.
    kept.read(team, None).await
}

/// Writes the new token unless the old one is there no more. The old refresh token is used up, so this
/// does not give up at the first failure.
async fn write(kept: &Kept, new: &Installed, revision: u64) -> Result<(), TokensError> {
    let mut wait = LOOK;
    for _ in 1..WRITES {
        match kept.put(new, Some(revision)).await {
            Err(TokensError::Store(error)) => {
                tracing::warn!(team = %new.team, %error, "a new token could not be stored yet");
            }
            done => return done.map(drop),
        }
        tokio::time::sleep(wait).await;
        wait *= 2;
    }
    kept.put(new, Some(revision)).await.map(drop)
}

/// What follows an installation; nothing if it is another workspace's.
fn successor(old: &Installed, granted: Granted, now: Timestamp) -> Option<Installed> {
    let expires_at = ends_at(granted.expires_in, now);
    let whole = granted.is_enterprise_install;
    let organisation = granted.enterprise.filter(|_| whole);
    let told = organisation.or(granted.team).map(|named| named.id);
    if told.is_some_and(|told| told != old.team) {
        return None;
    }
    Some(Installed {
        team: old.team.clone(),
        token: granted.access_token,
        refresh: granted.refresh_token,
        expires_at,
        bot_user: granted.bot_user_id.or_else(|| old.bot_user.clone()),
        bot_id: old.bot_id.clone(),
        app_id: granted.app_id.or_else(|| old.app_id.clone()),
        at: now,
    })
}

fn said(team: &TeamId, error: &SlackError) -> String {
    let word = error.word();
    if error.may_pass() {
        format!("the token for `{team}` could not be renewed yet (`{word}`)")
    } else {
        format!(
            "slack does not renew the token for `{team}` (`{word}`): check the app's client id and secret, and install the app there again"
        )
    }
}
