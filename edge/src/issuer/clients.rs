//! The programs that may ask for tokens.
//!
//! Works on the records alone, so that a command can add a client while a server runs. A secret is
//! shown once, when it is made; what is kept is its hash.

use super::credential::{self, NoRandom};
use super::keep::{Keep, KeepError, Kept};
use super::redirects::RedirectUri;
use super::revoked;
use crate::clock::Clock;
use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The kind of a client's record.
const KIND: &str = "oauth.client";

/// How a client may come to a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// By its own secret, for itself.
    ClientCredentials,
    /// By the consent of a person, on their behalf.
    AuthorizationCode,
}

/// A client to be.
#[derive(Clone, Debug, Default)]
pub struct NewClient {
    /// What it will be called on the wire; made up if left out.
    pub id: Option<String>,
    /// What people will see.
    pub name: String,
    /// All it may ever ask for.
    pub scopes: Vec<String>,
    /// Where people may be sent back to after their consent.
    pub redirect_uris: Vec<String>,
    /// How it may come to a token.
    pub grants: Vec<Grant>,
    /// True if it runs where it cannot keep a secret. It gets none, and can act for people only.
    pub public: bool,
}

/// What a new client needs to know. The secret is not to be had a second time.
#[derive(Clone, Debug)]
pub struct NewSecret {
    /// Its name on the wire.
    pub client_id: String,
    /// Its secret, unless it is public.
    pub secret: Option<Secret>,
}

/// A client as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its name on the wire.
    pub id: String,
    /// What people see.
    pub name: String,
    /// All it may ask for.
    pub scopes: Vec<String>,
    /// Where people may be sent back to.
    pub redirect_uris: Vec<String>,
    /// How it may come to a token.
    pub grants: Vec<Grant>,
    /// True if it has no secret.
    pub public: bool,
    /// When it was added, in seconds since 1970.
    pub created_at: u64,
}

/// Why a client or a person was not added or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountError {
    /// The name cannot be used.
    #[error("a name has 1 to 100 characters and none that cannot be seen")]
    Name,
    /// The id cannot be used.
    #[error("an id has 1 to 64 of the characters a-z, 0-9, '.', '_', '@' and '-'")]
    Id,
    /// A scope cannot be used.
    #[error("{0:?} is not a scope: use visible ascii characters without quotes and backslashes")]
    Scope(String),
    /// It could never get a token.
    #[error("name at least one scope")]
    NoScopes,
    /// A redirect URI cannot be used.
    #[error(
        "{0:?} is not a redirect uri: use https, or http on 127.0.0.1, [::1] or localhost, without a fragment"
    )]
    RedirectUri(String),
    /// The grants do not fit the rest.
    #[error(
        "name at least one grant; the authorization code needs a redirect uri, and a public client can use nothing else"
    )]
    Grants,
    /// The id is taken.
    #[error("this name is taken: remove it first or choose another")]
    Taken,
    /// No secret could be made.
    #[error("no secret could be made")]
    NoRandom(#[from] NoRandom),
    /// The records cannot be reached.
    #[error("the accounts cannot be reached")]
    Keep(#[from] KeepError),
}

/// Adds, lists and removes clients.
#[derive(Clone)]
pub struct Clients {
    keep: Arc<dyn Keep>,
    clock: Clock,
}

#[derive(Serialize, Deserialize)]
struct Record {
    name: String,
    secret_sha256: Option<String>,
    scopes: Vec<String>,
    redirect_uris: Vec<String>,
    grants: Vec<Grant>,
    created_at: u64,
}

impl Clients {
    /// The clients in these records.
    pub fn new(keep: Arc<dyn Keep>, clock: Clock) -> Self {
        Self { keep, clock }
    }

    /// Adds a client.
    ///
    /// # Errors
    ///
    /// What is wrong with it, or that the records cannot be reached.
    pub async fn add(&self, new: NewClient) -> Result<NewSecret, AccountError> {
        let id = match new.id {
            Some(id) => id,
            None => format!("client-{}", uuid::Uuid::new_v4().simple()),
        };
        check_id(&id)?;
        check_name(&new.name)?;
        if let Some(bad) = new.scopes.iter().find(|scope| !is_scope(scope)) {
            return Err(AccountError::Scope(bad.clone()));
        }
        if new.scopes.is_empty() {
            return Err(AccountError::NoScopes);
        }
        for uri in &new.redirect_uris {
            RedirectUri::parse(uri).ok_or_else(|| AccountError::RedirectUri(uri.clone()))?;
        }
        let by_code = new.grants.contains(&Grant::AuthorizationCode);
        let by_secret = new.grants.contains(&Grant::ClientCredentials);
        let lost = by_code && new.redirect_uris.is_empty() || new.public && by_secret;
        if lost || new.grants.is_empty() {
            return Err(AccountError::Grants);
        }
        let secret = match new.public {
            true => None,
            false => Some(credential::secret()?),
        };
        let hashed = secret
            .as_ref()
            .map(|secret| credential::hash(secret.expose()));
        let record = Record {
            name: new.name,
            secret_sha256: hashed,
            scopes: new.scopes,
            redirect_uris: new.redirect_uris,
            grants: new.grants,
            created_at: self.clock.unix(),
        };
        let value = serde_json::to_string(&record).map_err(|error| KeepError(error.into()))?;
        if !self.keep.put(KIND, &id, &value, None, None).await? {
            return Err(AccountError::Taken);
        }
        Ok(NewSecret {
            client_id: id,
            secret,
        })
    }

    /// All clients, by their ids.
    ///
    /// # Errors
    ///
    /// If the records cannot be reached.
    pub async fn list(&self) -> Result<Vec<Client>, AccountError> {
        let all = self.keep.list(KIND).await?;
        Ok(all
            .iter()
            .filter_map(read)
            .map(|(client, _)| client)
            .collect())
    }

    /// Removes a client and takes its tokens back. False if there was none.
    ///
    /// # Errors
    ///
    /// If the records cannot be reached.
    pub async fn remove(&self, id: &str) -> Result<bool, AccountError> {
        if self.find(id).await?.is_none() {
            return Ok(false);
        }
        // First the tokens: whoever fails half-way can try again.
        revoked::account(self.keep.as_ref(), id, self.clock.unix()).await?;
        Ok(self.keep.take(KIND, id).await?.is_some())
    }

    /// A client by its id.
    ///
    /// # Errors
    ///
    /// If the records cannot be reached.
    pub async fn get(&self, id: &str) -> Result<Option<Client>, AccountError> {
        Ok(self.find(id).await?)
    }

    pub(super) async fn find(&self, id: &str) -> Result<Option<Client>, KeepError> {
        Ok(self.with_hash(id).await?.map(|(client, _)| client))
    }

    /// The client that has this id and this secret. Takes the same time whether there is one or not.
    pub(super) async fn prove(&self, id: &str, secret: &str) -> Result<Option<Client>, KeepError> {
        let found = self.with_hash(id).await?;
        let hash = found.as_ref().and_then(|(_, hash)| hash.as_deref());
        let good = credential::matches(secret, hash);
        Ok(found.filter(|_| good).map(|(client, _)| client))
    }

    async fn with_hash(&self, id: &str) -> Result<Option<(Client, Option<String>)>, KeepError> {
        // What cannot be an id does not travel to the store.
        if check_id(id).is_err() {
            return Ok(None);
        }
        Ok(self.keep.get(KIND, id).await?.as_ref().and_then(read))
    }
}

fn read(kept: &Kept) -> Option<(Client, Option<String>)> {
    let record: Record = serde_json::from_str(&kept.value).ok()?;
    let client = Client {
        id: kept.key.clone(),
        name: record.name,
        scopes: record.scopes,
        redirect_uris: record.redirect_uris,
        grants: record.grants,
        public: record.secret_sha256.is_none(),
        created_at: record.created_at,
    };
    Some((client, record.secret_sha256))
}

/// Ids of clients and names of people: no colon, so that a subject can tell them apart.
pub(super) fn check_id(id: &str) -> Result<(), AccountError> {
    let plain = |byte: u8| {
        byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || matches!(byte, b'.' | b'_' | b'@' | b'-')
    };
    match (1..=64).contains(&id.len()) && id.bytes().all(plain) {
        true => Ok(()),
        false => Err(AccountError::Id),
    }
}

fn check_name(name: &str) -> Result<(), AccountError> {
    let fits = (1..=100).contains(&name.chars().count()) && !name.trim().is_empty();
    // Marks that turn the direction of text or take no room could show another name than this.
    let unseen = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    match fits && !name.chars().any(unseen) {
        true => Ok(()),
        false => Err(AccountError::Name),
    }
}

/// RFC 6749, 3.3 (`scope-token`).
pub(super) fn is_scope(scope: &str) -> bool {
    let plain = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    (1..=128).contains(&scope.len()) && scope.bytes().all(plain)
}
