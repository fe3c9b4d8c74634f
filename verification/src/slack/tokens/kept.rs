//! Tokens of workspaces that installed the app: sealed, one record each, read again every few seconds,
//! so that every node soon sees what another one wrote. How a token is renewed stands beside this.

use super::rotate::{self, Rotation};
use super::trouble::Trouble;
use super::{BotToken, Installation, Installs, TokensError};
use crate::slack::api::Slack;
use crate::slack::api::oauth::{Granted, OauthApp};
use crate::slack::ids::{AppId, BotId, TeamId, UserId};
use crate::slack::vault::Vault;
use interzone_edge::Secret;
use interzone_hub::Clock;
use interzone_hub::ports::{Record, RecordStore};
use interzone_protocol::vocab::Timestamp;
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// The kind of the records.
pub(super) const KIND: &str = "slack.install";
/// The kind of the records of words that were good once.
const USED: &str = "slack.install.used";
/// How many workspaces are kept in memory. More are read when they are needed.
const REMEMBERED: usize = 1024;
/// How long what was read counts.
const FRESH: Duration = Duration::from_secs(3);

/// A workspace that installed the app.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Which, or the organisation if it is for all of its workspaces.
    pub team: TeamId,
    /// The token.
    pub token: BotToken,
    /// With what a new token can be had, once.
    pub refresh: Option<Secret>,
    /// When the token ends.
    pub expires_at: Option<Timestamp>,
    /// We, as somebody who can be mentioned.
    pub bot_user: Option<UserId>,
    /// We, as somebody who posts.
    pub bot_id: Option<BotId>,
    /// The app.
    pub app_id: Option<AppId>,
    /// When it was installed, or its token last renewed.
    pub at: Timestamp,
}

impl Installed {
    /// What Slack granted at `now`; nothing if it does not say for which workspace.
    pub fn of(granted: Granted, now: Timestamp) -> Option<Self> {
        let whole = granted.is_enterprise_install;
        let of_organisation = granted.enterprise.filter(|_| whole);
        let team = of_organisation.or(granted.team)?.id;
        Some(Self {
            team,
            token: granted.access_token,
            refresh: granted.refresh_token,
            expires_at: ends_at(granted.expires_in, now),
            bot_user: granted.bot_user_id,
            bot_id: None,
            app_id: granted.app_id,
            at: now,
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

pub(super) fn ends_at(seconds: Option<u64>, now: Timestamp) -> Option<Timestamp> {
    let lasting = seconds.filter(|seconds| *seconds > 0)?;
    Some(now.after(Duration::from_secs(lasting)))
}

/// How it is written down, before it is sealed.
#[derive(Serialize, Deserialize)]
struct Written {
    token: String,
    refresh: Option<String>,
    expires_at: Option<i64>,
    bot_user: Option<UserId>,
    bot_id: Option<BotId>,
    app_id: Option<AppId>,
    at: i64,
}

/// What was read, and when.
#[derive(Clone)]
pub(super) struct Read {
    pub(super) at: Timestamp,
    /// Zero if there is no record.
    pub(super) revision: u64,
    pub(super) installed: Option<Arc<Installed>>,
    installation: Option<Arc<Installation>>,
}

pub(super) struct Kept {
    pub(super) records: Arc<dyn RecordStore>,
    vault: Vault,
    pub(super) app: Option<OauthApp>,
    pub(super) clock: Arc<dyn Clock>,
    cache: Cache<TeamId, Read>,
    pub(super) rotation: Rotation,
}

impl Kept {
    pub(super) fn new(installs: Installs, clock: Arc<dyn Clock>) -> Self {
        Self {
            records: installs.records,
            vault: installs.vault,
            app: installs.app,
            clock,
            cache: Cache::new(REMEMBERED),
            rotation: Rotation::default(),
        }
    }

    /// The token of a workspace, renewed if it is about to end.
    pub(super) async fn find(
        self: &Arc<Self>,
        slack: &Slack,
        team: &TeamId,
        trouble: &Arc<Trouble>,
    ) -> Result<Option<Arc<Installation>>, TokensError> {
        let now = self.clock.now();
        let read = match self.cache.get(team) {
            Some(read) if now.since(read.at) < FRESH && read.at <= now => read,
            known => self.read(team, known).await?,
        };
        match &read.installed {
            Some(installed) if rotate::is_due(installed, now) => {
                let read = rotate::renewed(self, slack, team, read.clone(), trouble).await?;
                Ok(read.installation)
            }
            _ => Ok(read.installation),
        }
    }

    pub(super) fn peek(&self, team: &TeamId) -> Option<Arc<Installation>> {
        self.cache.get(team)?.installation
    }

    /// Reads a record, and opens it if it is not the one that is known.
    pub(super) async fn read(
        &self,
        team: &TeamId,
        known: Option<Read>,
    ) -> Result<Read, TokensError> {
        let now = self.clock.now();
        let record = self.records.record(KIND, team.as_str(), now).await?;
        let revision = record.as_ref().map_or(0, |record| record.revision);
        let read = match (known, record) {
            (Some(known), Some(_)) if known.revision == revision => Read { at: now, ..known },
            (_, record) => {
                let opened = record.map(|record| self.open(team, &record)).transpose()?;
                Read::new(now, revision, opened)
            }
        };
        self.cache.insert(team.clone(), read.clone());
        Ok(read)
    }

    /// Writes a record, whatever is there.
    pub(super) async fn store(&self, installed: &Installed) -> Result<(), TokensError> {
        self.put(installed, None).await.map(drop)
    }

    /// Writes a record if the one with this revision is there. Answers whether it was written.
    pub(super) async fn put(
        &self,
        installed: &Installed,
        expected: Option<u64>,
    ) -> Result<bool, TokensError> {
        let sealed = self.seal(installed)?;
        let (team, now) = (installed.team.as_str(), self.clock.now());
        let written = self
            .records
            .put_record(KIND, team, &sealed, expected, None, now)
            .await;
        self.cache.remove(team);
        Ok(written?)
    }

    pub(super) async fn use_up(&self, word: &str, until: Timestamp) -> Result<bool, TokensError> {
        // Whoever reads the store learns nothing that opens anything.
        let hash = Sha256::digest(word.as_bytes());
        let key: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let (records, now) = (&self.records, self.clock.now());
        let used = records.put_record(USED, &key, "", Some(0), Some(until), now);
        Ok(used.await?)
    }

    pub(super) async fn forget(
        &self,
        team: &TeamId,
        said: Option<Timestamp>,
    ) -> Result<bool, TokensError> {
        let now = self.clock.now();
        self.cache.remove(team);
        if let Some(said) = said
            && let Some(record) = self.records.record(KIND, team.as_str(), now).await?
            // One that cannot be opened is of no use to anybody.
            && self.open(team, &record).is_ok_and(|installed| installed.at > said)
        {
            return Ok(false);
        }
        let taken = self.records.take_record(KIND, team.as_str(), now).await?;
        self.cache.remove(team);
        Ok(taken.is_some())
    }

    pub(super) async fn check(&self) -> Result<usize, TokensError> {
        let all = self.records.records(KIND, self.clock.now()).await?;
        for (key, record) in &all {
            // The vault names what it cannot open, also where the key is no id of Slack's.
            let opened = self.vault.open(key, &record.value)?;
            let written: Result<Written, _> = serde_json::from_str(opened.expose());
            if let (Err(_), Ok(team)) = (written, TeamId::new(key)) {
                return Err(TokensError::Unreadable { team });
            }
        }
        Ok(all.len())
    }

    fn seal(&self, installed: &Installed) -> Result<String, TokensError> {
        let refresh = installed.refresh.as_ref();
        let written = Written {
            token: installed.token.expose().to_owned(),
            refresh: refresh.map(|refresh| refresh.expose().to_owned()),
            expires_at: installed.expires_at.map(Timestamp::as_millis),
            bot_user: installed.bot_user.clone(),
            bot_id: installed.bot_id.clone(),
            app_id: installed.app_id.clone(),
            at: installed.at.as_millis(),
        };
        let team = &installed.team;
        let text = serde_json::to_string(&written);
        let text = text.map_err(|_| TokensError::Unreadable { team: team.clone() })?;
        Ok(self.vault.seal(team.as_str(), &text)?)
    }

    fn open(&self, team: &TeamId, record: &Record) -> Result<Installed, TokensError> {
        let text = self.vault.open(team.as_str(), &record.value)?;
        let wrong = || TokensError::Unreadable { team: team.clone() };
        let written: Written = serde_json::from_str(text.expose()).map_err(|_| wrong())?;
        Ok(Installed {
            team: team.clone(),
            token: BotToken::new(&written.token).map_err(|_| wrong())?,
            refresh: written.refresh.map(Secret::new),
            expires_at: written.expires_at.map(Timestamp::from_millis),
            bot_user: written.bot_user,
            bot_id: written.bot_id,
            app_id: written.app_id,
            at: Timestamp::from_millis(written.at),
        })
    }
}

impl Read {
    fn new(at: Timestamp, revision: u64, installed: Option<Installed>) -> Self {
        let installation = installed.as_ref().map(Installed::installation);
        Self {
            at,
            revision,
            installed: installed.map(Arc::new),
            installation: installation.map(Arc::new),
        }
    }
}
