//! Encrypted tokens of workspaces that installed the app: one record each, cached for a few seconds, so that every node
//! soon sees changes of other nodes.

use super::rotate::{self, RotationState};
use super::warnings::TokenWarnings;
use super::{BotToken, Installation, InstalledTokenOptions, SlackTokenError};
use crate::slack::api::Slack;
use crate::slack::api::oauth::{OauthApp, OauthTokenResponse};
use crate::slack::ids::{AppId, BotId, TeamId, UserId};
use interzone_edge::Secret;
use interzone_edge::vault::Vault;
use interzone_hub::Clock;
use interzone_hub::ports::{RecordStore, StoredRecord};
use interzone_protocol::vocab::Timestamp;
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// Record kind of tokens.
pub(super) const TOKEN_RECORD_KIND: &str = "slack.install";
/// Record kind of used nonces.
const USED_NONCE_KIND: &str = "slack.install.used";
/// Maximum number of cached workspaces.
const MAX_CACHED_TEAMS: usize = 1024;
/// Cache lifetime.
const CACHE_TTL: Duration = Duration::from_secs(3);

/// Token of a workspace that installed the app.
#[derive(Clone, Debug)]
pub struct WorkspaceToken {
    /// Workspace, or organisation for an organisation-wide installation.
    pub team: TeamId,
    /// The token.
    pub token: BotToken,
    /// Single-use refresh token.
    pub refresh_token: Option<Secret>,
    /// Expiry of the token.
    pub expires_at: Option<Timestamp>,
    /// User id of the bot, used in mentions.
    pub bot_user: Option<UserId>,
    /// Bot id, used in posted messages.
    pub bot_id: Option<BotId>,
    /// The app.
    pub app_id: Option<AppId>,
    /// Time of installation or last renewal.
    pub issued_at: Timestamp,
}

impl WorkspaceToken {
    /// Creates a token from Slack's response at `now`; `None` if the response names no workspace.
    pub fn from_response(response: OauthTokenResponse, now: Timestamp) -> Option<Self> {
        let is_org_wide = response.is_enterprise_install;
        let organisation = response.enterprise.filter(|_| is_org_wide);
        let team = organisation.or(response.team)?.id;
        Some(Self {
            team,
            token: response.access_token,
            refresh_token: response.refresh_token,
            expires_at: expiry(response.expires_in, now),
            bot_user: response.bot_user_id,
            bot_id: None,
            app_id: response.app_id,
            issued_at: now,
        })
    }

    fn installation(&self) -> Installation {
        Installation {
            team: Some(self.team.clone()),
            token: self.token.clone(),
            bot_user: self.bot_user.clone(),
            bot_id: self.bot_id.clone(),
            app_id: self.app_id.clone(),
        }
    }
}

pub(super) fn expiry(seconds: Option<u64>, now: Timestamp) -> Option<Timestamp> {
    let lifetime = seconds.filter(|seconds| *seconds > 0)?;
    Some(now.plus(Duration::from_secs(lifetime)))
}

/// JSON form of a token before encryption.
#[derive(Serialize, Deserialize)]
struct StoredToken {
    token: String,
    refresh: Option<String>,
    expires_at: Option<i64>,
    bot_user: Option<UserId>,
    bot_id: Option<BotId>,
    app_id: Option<AppId>,
    at: i64,
}

/// Cached record with the time of its reading.
#[derive(Clone)]
pub(super) struct CachedToken {
    pub(super) read_at: Timestamp,
    /// Zero if there is no record.
    pub(super) revision: u64,
    pub(super) token: Option<Arc<WorkspaceToken>>,
    installation: Option<Arc<Installation>>,
}

pub(super) struct SealedTokenStore {
    pub(super) records: Arc<dyn RecordStore>,
    vault: Vault,
    pub(super) app: Option<OauthApp>,
    pub(super) clock: Arc<dyn Clock>,
    cache: Cache<TeamId, CachedToken>,
    pub(super) rotation: RotationState,
}

impl SealedTokenStore {
    pub(super) fn new(installs: InstalledTokenOptions, clock: Arc<dyn Clock>) -> Self {
        Self {
            records: installs.records,
            vault: installs.vault,
            app: installs.app,
            clock,
            cache: Cache::new(MAX_CACHED_TEAMS),
            rotation: RotationState::default(),
        }
    }

    /// Returns the installation of a workspace, with its token renewed if it is about to expire.
    pub(super) async fn find(
        self: &Arc<Self>,
        slack: &Slack,
        team: &TeamId,
        warnings: &Arc<TokenWarnings>,
    ) -> Result<Option<Arc<Installation>>, SlackTokenError> {
        let now = self.clock.now();
        let cached = match self.cache.get(team) {
            Some(read) if now.duration_since(read.read_at) < CACHE_TTL && read.read_at <= now => {
                read
            }
            stale => self.read(team, stale).await?,
        };
        match &cached.token {
            Some(installed) if rotate::needs_renewal(installed, now) => {
                let read =
                    rotate::renew_if_needed(self, slack, team, cached.clone(), warnings).await?;
                Ok(read.installation)
            }
            _ => Ok(cached.installation),
        }
    }

    pub(super) fn cached(&self, team: &TeamId) -> Option<Arc<Installation>> {
        self.cache.get(team)?.installation
    }

    /// Reads a record, and decrypts it if its revision is not the cached one.
    pub(super) async fn read(
        &self,
        team: &TeamId,
        cached: Option<CachedToken>,
    ) -> Result<CachedToken, SlackTokenError> {
        let now = self.clock.now();
        let record = self
            .records
            .record(TOKEN_RECORD_KIND, team.as_str(), now)
            .await?;
        let revision = record.as_ref().map_or(0, |record| record.revision);
        let loaded = match (cached, record) {
            (Some(known), Some(_)) if known.revision == revision => CachedToken {
                read_at: now,
                ..known
            },
            (_, record) => {
                let token = record
                    .map(|record| self.open_token(team, &record))
                    .transpose()?;
                CachedToken::new(now, revision, token)
            }
        };
        self.cache.insert(team.clone(), loaded.clone());
        Ok(loaded)
    }

    /// Writes a record unconditionally.
    pub(super) async fn store(&self, token: &WorkspaceToken) -> Result<(), SlackTokenError> {
        self.put(token, None).await.map(drop)
    }

    /// Writes a record if the stored one has this revision. Returns true if it was written.
    pub(super) async fn put(
        &self,
        token: &WorkspaceToken,
        expected: Option<u64>,
    ) -> Result<bool, SlackTokenError> {
        let sealed = self.seal_token(token)?;
        let (team, now) = (token.team.as_str(), self.clock.now());
        let written = self
            .records
            .put_record(TOKEN_RECORD_KIND, team, &sealed, expected, None, now)
            .await;
        self.cache.remove(team);
        Ok(written?)
    }

    pub(super) async fn consume_nonce(
        &self,
        nonce: &str,
        expires_at: Timestamp,
    ) -> Result<bool, SlackTokenError> {
        // Only the hash is stored, so that readers of the store cannot use the nonce.
        let hash = Sha256::digest(nonce.as_bytes());
        let key: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let (records, now) = (&self.records, self.clock.now());
        let put = records.put_record(USED_NONCE_KIND, &key, "", Some(0), Some(expires_at), now);
        Ok(put.await?)
    }

    pub(super) async fn remove(
        &self,
        team: &TeamId,
        reported_at: Option<Timestamp>,
    ) -> Result<bool, SlackTokenError> {
        let now = self.clock.now();
        self.cache.remove(team);
        if let Some(said) = reported_at
            && let Some(record) = self.records.record(TOKEN_RECORD_KIND, team.as_str(), now).await?
            // A token that cannot be decrypted is useless.
            && self.open_token(team, &record).is_ok_and(|installed| installed.issued_at > said)
        {
            return Ok(false);
        }
        let removed = self
            .records
            .take_record(TOKEN_RECORD_KIND, team.as_str(), now)
            .await?;
        self.cache.remove(team);
        Ok(removed.is_some())
    }

    pub(super) async fn check_all(&self) -> Result<usize, SlackTokenError> {
        let all = self
            .records
            .records(TOKEN_RECORD_KIND, self.clock.now())
            .await?;
        for (key, record) in &all {
            // The vault's error names the record, even if its key is not a valid Slack id.
            let json = self.vault.open(key, &record.value)?;
            let parsed: Result<StoredToken, _> = serde_json::from_str(json.expose());
            if let (Err(_), Ok(team)) = (parsed, TeamId::new(key)) {
                return Err(SlackTokenError::Unreadable { team });
            }
        }
        Ok(all.len())
    }

    fn seal_token(&self, token: &WorkspaceToken) -> Result<String, SlackTokenError> {
        let refresh = token.refresh_token.as_ref();
        let stored = StoredToken {
            token: token.token.expose().to_owned(),
            refresh: refresh.map(|refresh| refresh.expose().to_owned()),
            expires_at: token.expires_at.map(Timestamp::as_millis),
            bot_user: token.bot_user.clone(),
            bot_id: token.bot_id.clone(),
            app_id: token.app_id.clone(),
            at: token.issued_at.as_millis(),
        };
        let team = &token.team;
        let json = serde_json::to_string(&stored);
        let text = json.map_err(|_| SlackTokenError::Unreadable { team: team.clone() })?;
        Ok(self.vault.seal(team.as_str(), &text)?)
    }

    fn open_token(
        &self,
        team: &TeamId,
        record: &StoredRecord,
    ) -> Result<WorkspaceToken, SlackTokenError> {
        let json = self.vault.open(team.as_str(), &record.value)?;
        let unreadable = || SlackTokenError::Unreadable { team: team.clone() };
        let stored: StoredToken = serde_json::from_str(json.expose()).map_err(|_| unreadable())?;
        Ok(WorkspaceToken {
            team: team.clone(),
            token: BotToken::new(&stored.token).map_err(|_| unreadable())?,
            refresh_token: stored.refresh.map(Secret::new),
            expires_at: stored.expires_at.map(Timestamp::from_millis),
            bot_user: stored.bot_user,
            bot_id: stored.bot_id,
            app_id: stored.app_id,
            issued_at: Timestamp::from_millis(stored.at),
        })
    }
}

impl CachedToken {
    fn new(read_at: Timestamp, revision: u64, token: Option<WorkspaceToken>) -> Self {
        let installation = token.as_ref().map(WorkspaceToken::installation);
        Self {
            read_at,
            revision,
            token: token.map(Arc::new),
            installation: installation.map(Arc::new),
        }
    }
}
