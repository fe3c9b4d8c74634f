//! Renews tokens before they expire. A refresh token is single-use, so one node renews under a claim in the store; the
//! others continue with the old token, which is valid until its expiry.

use super::SlackTokenError;
use super::store::{CachedToken, SealedTokenStore, WorkspaceToken, expiry};
use super::warnings::TokenWarnings;
use crate::slack::api::oauth::OauthTokenResponse;
use crate::slack::api::{Slack, SlackError};
use crate::slack::ids::TeamId;
use interzone_backoff::Backoff;
use interzone_protocol::vocab::Timestamp;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Record kind of claims.
const CLAIM_RECORD_KIND: &str = "slack.rotate";
/// A token is renewed when its remaining lifetime is below this. Slack's tokens live for twelve hours.
const RENEWAL_MARGIN: Duration = Duration::from_secs(3600);
/// Lifetime of a claim: longer than all steps of a renewal may take.
const CLAIM_TTL: Duration = Duration::from_secs(60);
/// Delay before a failed renewal is retried; the old token is used in the meantime.
const RETRY_DELAY: Duration = Duration::from_secs(30);
/// Poll interval and maximum number of polls while another node renews an expired token.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const MAX_POLLS: u32 = 50;
/// Maximum number of attempts to store the new token, which cannot be requested a second time.
const MAX_WRITE_ATTEMPTS: u32 = 5;
/// Delays between these attempts.
const WRITE_BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
/// Maximum number of workspaces with a recorded failure.
const MAX_FAILURES: usize = 1024;

/// Retry times of failed renewals, and the renewals in progress in this process.
#[derive(Default)]
pub(super) struct RotationState {
    retry_at: Mutex<HashMap<TeamId, Timestamp>>,
    in_progress: Mutex<HashSet<TeamId>>,
}

/// Guard of a renewal in progress in this process.
struct RenewalGuard {
    store: Arc<SealedTokenStore>,
    team: TeamId,
}

impl RenewalGuard {
    /// Returns `None` if this process is renewing the token already: the claim may have expired by a clock change.
    fn acquire(store: &Arc<SealedTokenStore>, team: &TeamId) -> Option<Self> {
        let mut in_progress = store.rotation.lock_in_progress();
        in_progress.insert(team.clone()).then(|| Self {
            store: Arc::clone(store),
            team: team.clone(),
        })
    }
}

impl Drop for RenewalGuard {
    fn drop(&mut self) {
        self.store.rotation.lock_in_progress().remove(&self.team);
    }
}

impl RotationState {
    fn lock_in_progress(&self) -> MutexGuard<'_, HashSet<TeamId>> {
        self.in_progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_backing_off(&self, team: &TeamId, now: Timestamp) -> bool {
        let retry_at = self.retry_at.lock().unwrap_or_else(PoisonError::into_inner);
        retry_at.get(team).is_some_and(|until| *until > now)
    }

    fn record_failure(&self, team: &TeamId, now: Timestamp) {
        let mut retry_at = self.retry_at.lock().unwrap_or_else(PoisonError::into_inner);
        retry_at.retain(|_, until| *until > now);
        if retry_at.len() < MAX_FAILURES {
            retry_at.insert(team.clone(), now.plus(RETRY_DELAY));
        }
    }
}

pub(super) fn needs_renewal(token: &WorkspaceToken, now: Timestamp) -> bool {
    let expires_at = token.expires_at;
    expires_at.is_some_and(|ends| ends <= now.plus(RENEWAL_MARGIN))
}

fn is_expired(cached: &CachedToken, now: Timestamp) -> bool {
    let expires_at = cached.token.as_ref().and_then(|read| read.expires_at);
    expires_at.is_some_and(|ends| ends <= now)
}

/// Returns the renewed token, or the old one while it is valid.
pub(super) async fn renew_if_needed(
    store: &Arc<SealedTokenStore>,
    slack: &Slack,
    team: &TeamId,
    mut cached: CachedToken,
    warnings: &Arc<TokenWarnings>,
) -> Result<CachedToken, SlackTokenError> {
    for _ in 0..MAX_POLLS {
        let now = store.clock.now();
        let Some(token) = cached.token.clone() else {
            return Ok(cached);
        };
        if !needs_renewal(&token, now) {
            return Ok(cached);
        }
        let expired = is_expired(&cached, now);
        if store.rotation.is_backing_off(team, now) {
            break;
        }
        if let Some(guard) = RenewalGuard::acquire(store, team)
            && claim(store, team, now).await?
        {
            cached = to_its_end(guard, slack, team, &cached, warnings).await?;
            if is_expired(&cached, store.clock.now()) {
                break;
            }
            return Ok(cached);
        }
        if !expired {
            return Ok(cached);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        cached = store.read(team, Some(cached)).await?;
    }
    if is_expired(&cached, store.clock.now()) {
        return Err(SlackTokenError::Expired { team: team.clone() });
    }
    Ok(cached)
}

async fn claim(
    store: &SealedTokenStore,
    team: &TeamId,
    now: Timestamp,
) -> Result<bool, SlackTokenError> {
    let expires_at = Some(now.plus(CLAIM_TTL));
    let put = store.records.put_record(
        CLAIM_RECORD_KIND,
        team.as_str(),
        "",
        Some(0),
        expires_at,
        now,
    );
    Ok(put.await?)
}

/// Renews the token under the claim in a separate task, so that it completes even if the caller is canceled: losing
/// the response after the refresh token was used would lock the workspace out.
async fn to_its_end(
    guard: RenewalGuard,
    slack: &Slack,
    team: &TeamId,
    cached: &CachedToken,
    warnings: &Arc<TokenWarnings>,
) -> Result<CachedToken, SlackTokenError> {
    let (store, slack, warnings) = (
        Arc::clone(&guard.store),
        slack.clone(),
        Arc::clone(warnings),
    );
    let (id, cached) = (team.clone(), cached.clone());
    // The task ends by itself, since each of its steps has a timeout.
    let task = tokio::spawn(async move {
        let result = renew_token(&store, &slack, &id, &cached, &warnings).await;
        let now = store.clock.now();
        // A remaining claim expires by itself.
        let _ = store
            .records
            .take_record(CLAIM_RECORD_KIND, id.as_str(), now)
            .await;
        drop(guard);
        result
    });
    let expired = |_| SlackTokenError::Expired { team: team.clone() };
    task.await.map_err(expired)?
}

/// Renews the token and returns the stored record.
async fn renew_token(
    store: &SealedTokenStore,
    slack: &Slack,
    team: &TeamId,
    cached: &CachedToken,
    warnings: &TokenWarnings,
) -> Result<CachedToken, SlackTokenError> {
    // Another node may have renewed it between our read and our claim.
    let cached = store.read(team, Some(cached.clone())).await?;
    let now = store.clock.now();
    let Some(token) = cached.token.clone().filter(|read| needs_renewal(read, now)) else {
        return Ok(cached);
    };
    let fail = |warning: String| {
        warnings.set(team.as_str(), warning);
        store.rotation.record_failure(team, now);
    };
    let (Some(app), Some(refresh)) = (&store.app, &token.refresh_token) else {
        fail(format!(
            "the token for `{team}` expires and cannot be renewed: configure the app's client id and secret, and install the app there again"
        ));
        return Ok(cached);
    };
    let response = match slack.fail_fast().oauth_refresh(app, refresh).await {
        Ok(granted) => granted,
        Err(error) => {
            fail(warning_text(team, &error));
            return Ok(cached);
        }
    };
    let Some(new_token) = renewed_token(&token, response, store.clock.now()) else {
        fail(format!(
            "slack returned a token of another workspace for `{team}`: install the app there again"
        ));
        return Ok(cached);
    };
    write_token(store, &new_token, cached.revision).await.inspect_err(|_| {
        fail(format!(
            "the new token for `{team}` could not be stored: if this persists, install the app there again"
        ));
    })?;
    warnings.clear(team.as_str());
    // Another installation or removal of the app takes precedence.
    store.read(team, None).await
}

/// Writes the new token unless the old one was replaced. Retries, since the old refresh token is used up.
async fn write_token(
    store: &SealedTokenStore,
    token: &WorkspaceToken,
    revision: u64,
) -> Result<(), SlackTokenError> {
    for retry in 0..MAX_WRITE_ATTEMPTS - 1 {
        match store.put(token, Some(revision)).await {
            Err(SlackTokenError::Store(error)) => {
                tracing::warn!(team = %token.team, %error, "could not store renewed token, retrying");
            }
            result => return result.map(drop),
        }
        tokio::time::sleep(WRITE_BACKOFF.delay(retry)).await;
    }
    store.put(token, Some(revision)).await.map(drop)
}

/// Creates the renewed token; `None` if the response is for another workspace.
fn renewed_token(
    old: &WorkspaceToken,
    response: OauthTokenResponse,
    now: Timestamp,
) -> Option<WorkspaceToken> {
    let expires_at = expiry(response.expires_in, now);
    let is_org_wide = response.is_enterprise_install;
    let organisation = response.enterprise.filter(|_| is_org_wide);
    let team = organisation.or(response.team).map(|named| named.id);
    if team.is_some_and(|team| team != old.team) {
        return None;
    }
    Some(WorkspaceToken {
        team: old.team.clone(),
        token: response.access_token,
        refresh_token: response.refresh_token,
        expires_at,
        bot_user: response.bot_user_id.or_else(|| old.bot_user.clone()),
        bot_id: old.bot_id.clone(),
        app_id: response.app_id.or_else(|| old.app_id.clone()),
        issued_at: now,
    })
}

fn warning_text(team: &TeamId, error: &SlackError) -> String {
    let code = error.code();
    if error.is_retryable() {
        format!("the token for `{team}` could not be renewed yet (`{code}`)")
    } else {
        format!(
            "slack does not renew the token for `{team}` (`{code}`): check the app's client id and secret, and install the app there again"
        )
    }
}
