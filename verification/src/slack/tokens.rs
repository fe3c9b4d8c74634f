//! The tokens with which Slack lets us in: one that the operator gives in a file, and those of the
//! workspaces that installed the app, which are sealed in the store. Whoever asks gets the one that is
//! good now. What is done with it must not enter.

mod file;
mod kept;
mod rotate;
#[cfg(test)]
mod tests;
mod token;
mod trouble;

pub use kept::Installed;
pub use token::{BotToken, InvalidToken};

use super::api::Slack;
use super::api::oauth::OauthApp;
use super::ids::{AppId, BotId, TeamId, UserId};
use super::vault::{Vault, VaultError};
use file::FileToken;
use interzone_hub::Clock;
use interzone_hub::ports::{RecordStore, StoreError};
use interzone_protocol::vocab::Timestamp;
use kept::Kept;
use std::fmt;
use std::sync::Arc;
use trouble::Trouble;

/// Our way into a workspace.
#[derive(Clone, Debug)]
pub struct Installation {
    /// Which workspace, or which organisation; none if the token is not known well enough yet.
    pub team: Option<TeamId>,
    /// The token.
    pub token: BotToken,
    /// We, as somebody who can be mentioned.
    pub bot_user: Option<UserId>,
    /// We, as somebody who posts.
    pub bot_id: Option<BotId>,
    /// The app.
    pub app_id: Option<AppId>,
}

impl Installation {
    /// A token alone, of which nothing else is known.
    pub fn unknown(token: BotToken) -> Self {
        Self {
            team: None,
            token,
            bot_user: None,
            bot_id: None,
            app_id: None,
        }
    }
}

/// Why there is no saying which token is good.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The store did not answer.
    #[error("the stored tokens cannot be read")]
    Store(#[from] StoreError),
    /// A stored token cannot be opened.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// What was sealed is not what we seal.
    #[error("what is stored for `{team}` is no installation: install the app there again")]
    Unreadable {
        /// The workspace.
        team: TeamId,
    },
    /// The token is over, and its successor is not there yet.
    #[error(
        "the token for `{team}` is over and there is no new one yet: if it stays so, install the app there again"
    )]
    Over {
        /// The workspace.
        team: TeamId,
    },
    /// There is no place for tokens of installed workspaces.
    #[error("there is no vault for tokens: name a key file for it")]
    NoVault,
}

impl TokensError {
    /// Whether the same question may be answered later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Store(StoreError::Unusable(_) | StoreError::Corrupt(_)) => false,
            Self::Store(_) => true,
            Self::Over { .. } => true,
            Self::Vault(_) | Self::Unreadable { .. } | Self::NoVault => false,
        }
    }
}

/// Where tokens of installed workspaces are kept.
pub struct Installs {
    /// The store.
    pub records: Arc<dyn RecordStore>,
    /// What seals them.
    pub vault: Vault,
    /// The app, which gets new tokens for those that end.
    pub app: Option<OauthApp>,
}

/// Where tokens come from.
pub struct TokensOptions {
    /// The token that the operator gave. It is never stored.
    pub file: Option<BotToken>,
    /// The place for tokens of installed workspaces, if there is one.
    pub installs: Option<Installs>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// All tokens. Cheap to clone.
#[derive(Clone)]
pub struct Tokens(Arc<Inner>);

struct Inner {
    slack: Slack,
    file: Option<FileToken>,
    kept: Option<Arc<Kept>>,
    clock: Arc<dyn Clock>,
    trouble: Arc<Trouble>,
}

impl Tokens {
    /// Sets everything up; nothing is read or asked yet.
    pub fn new(slack: Slack, options: TokensOptions) -> Self {
        let TokensOptions {
            file,
            installs,
            clock,
        } = options;
        Self(Arc::new(Inner {
            slack,
            file: file.map(FileToken::new),
            kept: installs.map(|installs| Arc::new(Kept::new(installs, Arc::clone(&clock)))),
            clock,
            trouble: Arc::default(),
        }))
    }

    /// Our way into a workspace, if we have one.
    ///
    /// The token of the file is good for the workspace that Slack says it is of; as long as Slack has not
    /// said so, it is good for any that has none of its own.
    ///
    /// # Errors
    /// It cannot be told, or the token is over.
    pub async fn installation(
        &self,
        team: &TeamId,
        enterprise: Option<&TeamId>,
    ) -> Result<Option<Arc<Installation>>, TokensError> {
        let inner = &*self.0;
        if let Some(file) = &inner.file {
            file.learn(&inner.slack, inner.clock.now(), &inner.trouble)
                .await;
            if let Some(known) = file.known_for(team, enterprise) {
                return Ok(Some(known));
            }
        }
        if let Some(kept) = &inner.kept {
            for id in [Some(team), enterprise].into_iter().flatten() {
                let found = kept.find(&inner.slack, id, &inner.trouble).await;
                if let Err(error) = &found
                    && !error.may_pass()
                {
                    inner.trouble.note(id.as_str(), error.to_string());
                }
                if let Some(found) = found? {
                    return Ok(Some(found));
                }
            }
        }
        // Whose the token is may have come out while we looked elsewhere.
        let file = inner.file.as_ref();
        Ok(file.and_then(|file| {
            file.while_unknown()
                .or_else(|| file.known_for(team, enterprise))
        }))
    }

    /// What is known of us in a workspace without asking anybody, for those who must not wait.
    pub fn peek(&self, team: &TeamId, enterprise: Option<&TeamId>) -> Option<Arc<Installation>> {
        let file = self.0.file.as_ref();
        let known = file.and_then(|file| file.known_for(team, enterprise));
        known.or_else(|| {
            let kept = self.0.kept.as_ref()?;
            let ids = [Some(team), enterprise];
            ids.into_iter().flatten().find_map(|id| kept.peek(id))
        })
    }

    /// Stores the token of a workspace that installed the app, sealed.
    ///
    /// # Errors
    /// There is no vault, or the store did not do it.
    pub async fn store(&self, installed: &Installed) -> Result<(), TokensError> {
        let kept = self.0.kept.as_ref().ok_or(TokensError::NoVault)?;
        kept.store(installed).await?;
        self.0.trouble.over(installed.team.as_str());
        Ok(())
    }

    /// Uses up a word that is good once on all nodes until this time, and then no more. Answers whether it
    /// was good.
    ///
    /// # Errors
    /// There is no vault, or the store did not do it.
    pub(super) async fn use_up(&self, word: &str, until: Timestamp) -> Result<bool, TokensError> {
        let kept = self.0.kept.as_ref().ok_or(TokensError::NoVault)?;
        kept.use_up(word, until).await
    }

    /// Forgets the token of a workspace, for Slack said at `said` that it is good no more. One that was
    /// stored after that stays: the news may be late. Answers whether there was one to forget.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn forget(
        &self,
        team: &TeamId,
        said: Option<Timestamp>,
    ) -> Result<bool, TokensError> {
        let of_file = self.0.file.as_ref().is_some_and(|file| file.doubt(team));
        let stored = match &self.0.kept {
            Some(kept) => kept.forget(team, said).await?,
            None => false,
        };
        if stored {
            self.0.trouble.over(team.as_str());
        }
        Ok(of_file || stored)
    }

    /// Opens every stored token, and says for how many workspaces there is one. A zone that cannot open
    /// what it stored must not start.
    ///
    /// # Errors
    /// One cannot be opened, or the store does not answer.
    pub async fn check(&self) -> Result<usize, TokensError> {
        match &self.0.kept {
            Some(kept) => kept.check().await,
            None => Ok(0),
        }
    }

    /// What an operator should look at, one sentence each.
    pub fn trouble(&self) -> Vec<String> {
        self.0.trouble.all()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("file", &self.0.file.is_some())
            .field("installs", &self.0.kept.is_some())
            .finish_non_exhaustive()
    }
}
