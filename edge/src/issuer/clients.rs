//! OAuth client accounts.
//!
//! Works on the record store alone, so that a CLI command can add a client while a server runs. A secret is
//! shown once, when it is created; only its hash is stored.

use super::credential::{self, RandomError};
use super::record_store::{IssuerRecord, IssuerStore, IssuerStoreError};
use super::redirect_uri::RedirectUri;
use super::revocation_list;
use crate::Secret;
use crate::clock::Clock;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Record kind of clients.
const CLIENT_KIND: &str = "oauth.client";

/// OAuth grant type of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantType {
    /// With its own secret, for itself.
    ClientCredentials,
    /// With a user's consent, on the user's behalf.
    AuthorizationCode,
}

/// Parameters of [`OAuthClients::add`].
#[derive(Clone, Debug, Default)]
pub struct NewOAuthClient {
    /// Client id; generated if absent.
    pub id: Option<String>,
    /// Display name.
    pub name: String,
    /// All scopes it may request.
    pub scopes: Vec<String>,
    /// Allowed redirect URIs.
    pub redirect_uris: Vec<String>,
    /// Allowed grant types.
    pub grants: Vec<GrantType>,
    /// True for a client that cannot protect a secret. It gets none and can act for users only.
    pub public: bool,
}

/// Credentials of a new client. The secret cannot be shown again.
#[derive(Clone, Debug)]
pub struct NewClientCredentials {
    /// Client id.
    pub client_id: String,
    /// Client secret; `None` for a public client.
    pub secret: Option<Secret>,
}

/// A stored OAuth client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuthClient {
    /// Client id.
    pub id: String,
    /// Display name.
    pub name: String,
    /// All scopes it may request.
    pub scopes: Vec<String>,
    /// Allowed redirect URIs.
    pub redirect_uris: Vec<String>,
    /// Allowed grant types.
    pub grants: Vec<GrantType>,
    /// True if it has no secret.
    pub public: bool,
    /// Creation time, in seconds since 1970.
    pub created_at: u64,
}

/// Error while adding or removing a client or a user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountError {
    /// The name is invalid.
    #[error("a name has 1 to 100 characters and no invisible ones")]
    Name,
    /// The id is invalid.
    #[error("an id has 1 to 64 of the characters a-z, 0-9, '.', '_', '@' and '-'")]
    Id,
    /// A scope name is invalid.
    #[error("{0:?} is not a scope: use visible ascii characters without quotes and backslashes")]
    Scope(String),
    /// No scope is given, so the client could never get a token.
    #[error("name at least one scope")]
    NoScopes,
    /// A redirect URI is invalid.
    #[error(
        "{0:?} is not a redirect uri: use https, or http on 127.0.0.1, [::1] or localhost, without a fragment"
    )]
    RedirectUri(String),
    /// The grant types do not match the other parameters.
    #[error(
        "name at least one grant; the authorization code needs a redirect uri, and a public client can use nothing else"
    )]
    Grants,
    /// The id is already in use.
    #[error("this name is taken: remove it first or choose another")]
    Taken,
    /// No secret could be generated.
    #[error("no secret could be generated")]
    NoRandom(#[from] RandomError),
    /// The record store failed.
    #[error("the account records cannot be read or written")]
    RecordStore(#[from] IssuerStoreError),
}

/// Manages OAuth clients: add, list, get, remove.
#[derive(Clone)]
pub struct OAuthClients {
    store: Arc<dyn IssuerStore>,
    clock: Clock,
}

#[derive(Serialize, Deserialize)]
struct ClientRecord {
    name: String,
    secret_sha256: Option<String>,
    scopes: Vec<String>,
    redirect_uris: Vec<String>,
    grants: Vec<GrantType>,
    created_at: u64,
}

impl OAuthClients {
    /// Returns the clients of a record store.
    pub fn new(store: Arc<dyn IssuerStore>, clock: Clock) -> Self {
        Self { store, clock }
    }

    /// Adds a client.
    ///
    /// # Errors
    ///
    /// If a parameter is invalid, the id is in use, or the record store fails.
    pub async fn add(&self, new: NewOAuthClient) -> Result<NewClientCredentials, AccountError> {
        let id = match new.id {
            Some(id) => id,
            None => format!("client-{}", uuid::Uuid::new_v4().simple()),
        };
        check_id(&id)?;
        check_name(&new.name)?;
        if let Some(invalid) = new.scopes.iter().find(|scope| !is_scope_token(scope)) {
            return Err(AccountError::Scope(invalid.clone()));
        }
        if new.scopes.is_empty() {
            return Err(AccountError::NoScopes);
        }
        for uri in &new.redirect_uris {
            RedirectUri::parse(uri).ok_or_else(|| AccountError::RedirectUri(uri.clone()))?;
        }
        let uses_code = new.grants.contains(&GrantType::AuthorizationCode);
        let uses_secret = new.grants.contains(&GrantType::ClientCredentials);
        let is_unusable = uses_code && new.redirect_uris.is_empty() || new.public && uses_secret;
        if is_unusable || new.grants.is_empty() {
            return Err(AccountError::Grants);
        }
        let secret = match new.public {
            true => None,
            false => Some(credential::generate_secret()?),
        };
        let secret_hash = secret
            .as_ref()
            .map(|secret| credential::hash(secret.expose()));
        let record = ClientRecord {
            name: new.name,
            secret_sha256: secret_hash,
            scopes: new.scopes,
            redirect_uris: new.redirect_uris,
            grants: new.grants,
            created_at: self.clock.unix(),
        };
        let value =
            serde_json::to_string(&record).map_err(|error| IssuerStoreError(error.into()))?;
        if !self.store.put(CLIENT_KIND, &id, &value, None, None).await? {
            return Err(AccountError::Taken);
        }
        Ok(NewClientCredentials {
            client_id: id,
            secret,
        })
    }

    /// Returns all clients, ordered by id.
    ///
    /// # Errors
    ///
    /// If the record store fails.
    pub async fn list(&self) -> Result<Vec<OAuthClient>, AccountError> {
        let all = self.store.list(CLIENT_KIND).await?;
        Ok(all
            .iter()
            .filter_map(parse_client)
            .map(|(client, _)| client)
            .collect())
    }

    /// Removes a client and revokes its tokens. Returns false if there was none.
    ///
    /// # Errors
    ///
    /// If the record store fails.
    pub async fn remove(&self, id: &str) -> Result<bool, AccountError> {
        if self.find(id).await?.is_none() {
            return Ok(false);
        }
        // Tokens first, so that a removal that fails half-way can be retried.
        revocation_list::revoke_account(self.store.as_ref(), id, self.clock.unix()).await?;
        Ok(self.store.take(CLIENT_KIND, id).await?.is_some())
    }

    /// Returns a client by its id.
    ///
    /// # Errors
    ///
    /// If the record store fails.
    pub async fn get(&self, id: &str) -> Result<Option<OAuthClient>, AccountError> {
        Ok(self.find(id).await?)
    }

    pub(super) async fn find(&self, id: &str) -> Result<Option<OAuthClient>, IssuerStoreError> {
        Ok(self.find_with_hash(id).await?.map(|(client, _)| client))
    }

    /// Returns the client with this id and secret. Takes the same time whether it exists or not.
    pub(super) async fn authenticate(
        &self,
        id: &str,
        secret: &str,
    ) -> Result<Option<OAuthClient>, IssuerStoreError> {
        let found = self.find_with_hash(id).await?;
        let hash = found.as_ref().and_then(|(_, hash)| hash.as_deref());
        let is_valid = credential::matches(secret, hash);
        Ok(found.filter(|_| is_valid).map(|(client, _)| client))
    }

    async fn find_with_hash(
        &self,
        id: &str,
    ) -> Result<Option<(OAuthClient, Option<String>)>, IssuerStoreError> {
        // Invalid ids are not looked up.
        if check_id(id).is_err() {
            return Ok(None);
        }
        Ok(self
            .store
            .get(CLIENT_KIND, id)
            .await?
            .as_ref()
            .and_then(parse_client))
    }
}

fn parse_client(stored: &IssuerRecord) -> Option<(OAuthClient, Option<String>)> {
    let record: ClientRecord = serde_json::from_str(&stored.value).ok()?;
    let client = OAuthClient {
        id: stored.key.clone(),
        name: record.name,
        scopes: record.scopes,
        redirect_uris: record.redirect_uris,
        grants: record.grants,
        public: record.secret_sha256.is_none(),
        created_at: record.created_at,
    };
    Some((client, record.secret_sha256))
}

/// Validates client ids and user names. No colon is allowed, so that the `sub` of a user is never a client id.
pub(super) fn check_id(id: &str) -> Result<(), AccountError> {
    let is_allowed = |byte: u8| {
        byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || matches!(byte, b'.' | b'_' | b'@' | b'-')
    };
    match (1..=64).contains(&id.len()) && id.bytes().all(is_allowed) {
        true => Ok(()),
        false => Err(AccountError::Id),
    }
}

fn check_name(name: &str) -> Result<(), AccountError> {
    let fits = (1..=100).contains(&name.chars().count()) && !name.trim().is_empty();
    // Bidirectional control and zero-width characters could make the name look like another one.
    let is_invisible = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    match fits && !name.chars().any(is_invisible) {
        true => Ok(()),
        false => Err(AccountError::Name),
    }
}

/// Returns true for a valid `scope-token` (RFC 6749, 3.3).
pub(super) fn is_scope_token(scope: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    (1..=128).contains(&scope.len()) && scope.bytes().all(is_allowed)
}
