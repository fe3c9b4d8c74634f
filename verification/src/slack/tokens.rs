//! Slack tokens: the operator's token from a file, and the tokens of workspaces that installed the app, stored
//! encrypted. Lookups return the currently valid token.

mod file;
mod rotate;
mod store;
#[cfg(test)]
mod tests;
mod token;
mod warnings;

pub use store::WorkspaceToken;
pub use token::{BotToken, InvalidBotToken};

use super::api::Slack;
use super::api::oauth::OauthApp;
use super::ids::{AppId, BotId, TeamId, UserId};
use file::FileToken;
use interzone_edge::vault::{Vault, VaultError};
use interzone_hub::Clock;
use interzone_hub::ports::{RecordStore, StoreError};
use interzone_protocol::vocab::Timestamp;
use std::fmt;
use std::sync::Arc;
use store::SealedTokenStore;
use warnings::TokenWarnings;

/// Credentials of the bot in a workspace.
#[derive(Clone, Debug)]
pub struct Installation {
    /// Workspace or organisation; absent while the token is not identified.
    pub team: Option<TeamId>,
    /// The token.
    pub token: BotToken,
    /// User id of the bot, used in mentions.
    pub bot_user: Option<UserId>,
    /// Bot id, used in posted messages.
    pub bot_id: Option<BotId>,
    /// The app.
    pub app_id: Option<AppId>,
}

impl Installation {
    /// Creates an installation of which only the token is known.
    pub fn from_token(token: BotToken) -> Self {
        Self {
            team: None,
            token,
            bot_user: None,
            bot_id: None,
            app_id: None,
        }
    }
}

/// Token lookup error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlackTokenError {
    /// The store failed.
    #[error("the stored tokens cannot be read")]
    Store(#[from] StoreError),
    /// A stored token cannot be decrypted.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// A decrypted record is invalid.
    #[error("the stored installation of `{team}` is invalid: install the app there again")]
    Unreadable {
        /// The workspace.
        team: TeamId,
    },
    /// The token has expired and is not renewed yet.
    #[error(
        "the token for `{team}` has expired and is not renewed yet: if this persists, install the app there again"
    )]
    Expired {
        /// The workspace.
        team: TeamId,
    },
    /// No vault is configured.
    #[error("no vault is configured for tokens: configure a key file")]
    NoVault,
}

impl SlackTokenError {
    /// Returns true if a retry may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Store(StoreError::Unusable(_) | StoreError::Corrupt(_)) => false,
            Self::Store(_) => true,
            Self::Expired { .. } => true,
            Self::Vault(_) | Self::Unreadable { .. } | Self::NoVault => false,
        }
    }
}

/// Storage of the tokens of installed workspaces.
pub struct InstalledTokenOptions {
    /// The record store.
    pub records: Arc<dyn RecordStore>,
    /// Encrypts the tokens.
    pub vault: Vault,
    /// App credentials, used to renew expiring tokens.
    pub app: Option<OauthApp>,
}

/// Token sources.
pub struct SlackTokenOptions {
    /// Token from the operator's file. It is never stored.
    pub file: Option<BotToken>,
    /// Storage for tokens of installed workspaces.
    pub installs: Option<InstalledTokenOptions>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// All Slack tokens. Cheap to clone.
#[derive(Clone)]
pub struct SlackTokens(Arc<SlackTokensInner>);

struct SlackTokensInner {
    slack: Slack,
    file: Option<FileToken>,
    store: Option<Arc<SealedTokenStore>>,
    clock: Arc<dyn Clock>,
    warnings: Arc<TokenWarnings>,
}

impl SlackTokens {
    /// Creates the token sources without any I/O.
    pub fn new(slack: Slack, options: SlackTokenOptions) -> Self {
        let SlackTokenOptions {
            file,
            installs,
            clock,
        } = options;
        Self(Arc::new(SlackTokensInner {
            slack,
            file: file.map(FileToken::new),
            store: installs
                .map(|installs| Arc::new(SealedTokenStore::new(installs, Arc::clone(&clock)))),
            clock,
            warnings: Arc::default(),
        }))
    }

    /// Returns the installation of a workspace, if there is one.
    ///
    /// The token of the file is valid for the workspace that Slack reports; until Slack has reported it, it is used for
    /// any workspace without its own token.
    ///
    /// # Errors
    /// The lookup failed, or the token has expired.
    pub async fn installation(
        &self,
        team: &TeamId,
        enterprise: Option<&TeamId>,
    ) -> Result<Option<Arc<Installation>>, SlackTokenError> {
        let inner = &*self.0;
        if let Some(file) = &inner.file {
            file.identify(&inner.slack, inner.clock.now(), &inner.warnings)
                .await;
            if let Some(installation) = file.identified_for(team, enterprise) {
                return Ok(Some(installation));
            }
        }
        if let Some(store) = &inner.store {
            for id in [Some(team), enterprise].into_iter().flatten() {
                let found = store.find(&inner.slack, id, &inner.warnings).await;
                if let Err(error) = &found
                    && !error.is_retryable()
                {
                    inner.warnings.set(id.as_str(), error.to_string());
                }
                if let Some(found) = found? {
                    return Ok(Some(found));
                }
            }
        }
        // The file token may have been identified in the meantime.
        let file = inner.file.as_ref();
        Ok(file.and_then(|file| {
            file.if_unidentified()
                .or_else(|| file.identified_for(team, enterprise))
        }))
    }

    /// Returns the cached installation of a workspace without any I/O.
    pub fn cached(&self, team: &TeamId, enterprise: Option<&TeamId>) -> Option<Arc<Installation>> {
        let file = self.0.file.as_ref();
        let identified = file.and_then(|file| file.identified_for(team, enterprise));
        identified.or_else(|| {
            let store = self.0.store.as_ref()?;
            let ids = [Some(team), enterprise];
            ids.into_iter().flatten().find_map(|id| store.cached(id))
        })
    }

    /// Stores the token of an installed workspace, encrypted.
    ///
    /// # Errors
    /// There is no vault, or the store write failed.
    pub async fn store(&self, installed: &WorkspaceToken) -> Result<(), SlackTokenError> {
        let store = self.0.store.as_ref().ok_or(SlackTokenError::NoVault)?;
        store.store(installed).await?;
        self.0.warnings.clear(installed.team.as_str());
        Ok(())
    }

    /// Consumes a nonce that may be used once over all nodes until it expires. Returns true if it was unused.
    ///
    /// # Errors
    /// There is no vault, or the store write failed.
    pub(super) async fn consume_nonce(
        &self,
        nonce: &str,
        expires_at: Timestamp,
    ) -> Result<bool, SlackTokenError> {
        let store = self.0.store.as_ref().ok_or(SlackTokenError::NoVault)?;
        store.consume_nonce(nonce, expires_at).await
    }

    /// Removes the token of a workspace after Slack reported at `reported_at` that it was revoked. A token stored
    /// later is kept, since the report may be late. Returns true if a token was removed.
    ///
    /// # Errors
    /// The store write failed.
    pub async fn remove(
        &self,
        team: &TeamId,
        reported_at: Option<Timestamp>,
    ) -> Result<bool, SlackTokenError> {
        let was_file_token = self
            .0
            .file
            .as_ref()
            .is_some_and(|file| file.invalidate(team));
        let was_stored = match &self.0.store {
            Some(kept) => kept.remove(team, reported_at).await?,
            None => false,
        };
        if was_stored {
            self.0.warnings.clear(team.as_str());
        }
        Ok(was_file_token || was_stored)
    }

    /// Decrypts every stored token and returns their number. A zone that cannot decrypt its tokens must not start.
    ///
    /// # Errors
    /// A token cannot be decrypted, or the store failed.
    pub async fn check_stored_tokens(&self) -> Result<usize, SlackTokenError> {
        match &self.0.store {
            Some(kept) => kept.check_all().await,
            None => Ok(0),
        }
    }

    /// Returns warnings for the operator, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings.all()
    }
}

impl fmt::Debug for SlackTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlackTokens")
            .field("file", &self.0.file.is_some())
            .field("installs", &self.0.store.is_some())
            .finish_non_exhaustive()
    }
}
