//! Token cache, one entry per set of scopes, with single-flight refresh. No lock is held across an await.

use super::token_endpoint::{ClientAuth, TokenEndpoint};
use super::{ClientCredentials, Credentials, LoginSession, Token, TokenSource};
use crate::Secret;
use crate::client::sort_scopes;
use crate::error::{Error, TokenError};
use crate::http_exchange::{Deadline, PeerPool};
use crate::options::ClientSettings;
use crate::retry::Idempotency;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// A token is renewed this long before it expires.
const RENEW_AHEAD: Duration = Duration::from_secs(300);
/// Delay until the next attempt after a failed refresh, while the old token is still valid.
const RETRY_DELAY: Duration = Duration::from_secs(10);
/// Time limit for getting a token, including discovery and retries.
const FETCH_TIMEOUT: Duration = Duration::from_secs(45);
/// Maximum number of scope sets; more than any client uses.
const MAX_ENTRIES: usize = 256;

/// Provides each call with its token.
pub(crate) struct TokenCache {
    source: Arc<TokenFetcher>,
    entries: Mutex<HashMap<Vec<String>, CacheEntry>>,
}

#[derive(Debug)]
struct TokenFetcher {
    kind: CredentialKind,
    endpoint: TokenEndpoint,
}

enum CredentialKind {
    Anonymous,
    Fixed(Secret),
    Client(ClientCredentials),
    Session(LoginSession),
    Provider(Arc<dyn TokenSource>),
}

type TokenFetchFuture = BoxFuture<'static, Result<CachedToken, Error>>;

#[derive(Default)]
struct CacheEntry {
    token: Option<CachedToken>,
    /// The refresh in progress. It is dropped when no caller waits for it.
    in_flight: Option<WeakShared<TokenFetchFuture>>,
    /// Counts insertions and removals, so that a slow waiter does not restore a token that was removed
    /// in the meantime.
    version: u64,
}

#[derive(Clone)]
struct CachedToken {
    secret: Secret,
    expires_at: Option<Instant>,
    renew_at: Option<Instant>,
}

impl CachedToken {
    fn new(token: &Token, now: Instant) -> Self {
        let lifetime = token.lifetime();
        let renew = lifetime.map(|lifetime| {
            if lifetime < RENEW_AHEAD * 2 {
                lifetime / 2
            } else {
                lifetime.saturating_sub(RENEW_AHEAD)
            }
        });
        Self {
            secret: token.secret().clone(),
            // A lifetime beyond the clock's range is no limit.
            expires_at: lifetime.and_then(|lifetime| now.checked_add(lifetime)),
            renew_at: renew.and_then(|wait| now.checked_add(wait)),
        }
    }

    fn is_valid(&self, now: Instant) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.is_valid(now) && self.renew_at.is_none_or(|due| now < due)
    }
}

enum CacheLookup {
    Use(Secret),
    Wait(Shared<TokenFetchFuture>, u64),
}

impl TokenCache {
    pub(crate) fn new(
        credentials: Option<Credentials>,
        base: Url,
        peers: Arc<PeerPool>,
        settings: ClientSettings,
    ) -> Self {
        let kind = match credentials {
            None => CredentialKind::Anonymous,
            Some(Credentials::Bearer(secret)) => CredentialKind::Fixed(secret),
            Some(Credentials::ClientCredentials(client)) => CredentialKind::Client(client),
            Some(Credentials::AuthorizationCode(session)) => CredentialKind::Session(session),
            Some(Credentials::Provider(provider)) => CredentialKind::Provider(provider.0),
        };
        let issuer = TokenEndpoint::new(base, peers, settings);
        Self {
            source: Arc::new(TokenFetcher {
                kind,
                endpoint: issuer,
            }),
            entries: Mutex::new(HashMap::new()),
        }
    }

    /// Returns a token with these scopes; `None` if the client has no credentials.
    pub(crate) async fn get(&self, scopes: &[String]) -> Result<Option<Secret>, Error> {
        let key = match &self.source.kind {
            CredentialKind::Anonymous => return Ok(None),
            CredentialKind::Fixed(secret) => return Ok(Some(secret.clone())),
            _ => self.key(scopes),
        };
        let (in_flight, version) = match self.lookup(&key) {
            CacheLookup::Use(secret) => return Ok(Some(secret)),
            CacheLookup::Wait(in_flight, version) => (in_flight, version),
        };
        let outcome = in_flight.await;
        self.finish_refresh(&key, version, outcome).map(Some)
    }

    /// Removes a token that a peer rejected. Returns true if another one may be available.
    pub(crate) fn invalidate(&self, scopes: &[String], rejected: Option<&Secret>) -> bool {
        let is_renewable = match &self.source.kind {
            CredentialKind::Anonymous | CredentialKind::Fixed(_) => false,
            CredentialKind::Session(session) => session.invalidate(rejected),
            CredentialKind::Client(_) | CredentialKind::Provider(_) => true,
        };
        let key = self.key(scopes);
        let mut slots = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get_mut(&key)
            && slot.token.as_ref().map(|kept| &kept.secret) == rejected
        {
            slot.token = None;
            slot.version += 1;
        }
        is_renewable
    }

    /// Returns the cache key: a login session has one token for all scopes.
    fn key(&self, scopes: &[String]) -> Vec<String> {
        match &self.source.kind {
            CredentialKind::Session(_) => Vec::new(),
            CredentialKind::Client(client) => match &client.scopes {
                Some(fixed) => sort_scopes(fixed.clone()),
                None => scopes.to_vec(),
            },
            _ => scopes.to_vec(),
        }
    }

    fn lookup(&self, key: &[String]) -> CacheLookup {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MAX_ENTRIES && !entries.contains_key(key) {
            entries.clear();
        }
        let entry = entries.entry(key.to_vec()).or_default();
        if let Some(token) = entry.token.as_ref().filter(|kept| kept.is_fresh(now)) {
            return CacheLookup::Use(token.secret.clone());
        }
        let running = entry.in_flight.as_ref().and_then(WeakShared::upgrade);
        if let Some(flight) = running {
            return CacheLookup::Wait(flight, entry.version);
        }
        let source = self.source.clone();
        let scopes = key.to_vec();
        let previous = entry.token.as_ref().map(|kept| kept.secret.clone());
        let fetch: TokenFetchFuture = async move {
            let fetch = source.fetch(&scopes, previous.as_ref());
            let token = Deadline::from_now(FETCH_TIMEOUT).run(fetch).await??;
            Ok(CachedToken::new(&token, Instant::now()))
        }
        .boxed();
        let in_flight = fetch.shared();
        entry.in_flight = in_flight.downgrade();
        CacheLookup::Wait(in_flight, entry.version)
    }

    /// Records the outcome of a refresh. The first of its waiters stores the token.
    fn finish_refresh(
        &self,
        key: &[String],
        version: u64,
        outcome: Result<CachedToken, Error>,
    ) -> Result<Secret, Error> {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.entry(key.to_vec()).or_default();
        let is_first = entry.version == version;
        if is_first {
            entry.version += 1;
            entry.in_flight = None;
        }
        match outcome {
            Ok(token) => {
                let secret = token.secret.clone();
                if is_first {
                    entry.token = Some(token);
                }
                Ok(secret)
            }
            Err(error) => match entry.token.as_mut().filter(|kept| kept.is_valid(now)) {
                Some(previous) => {
                    tracing::warn!(%error, "token refresh failed, using the old token");
                    previous.renew_at = Some(now + RETRY_DELAY);
                    Ok(previous.secret.clone())
                }
                None => Err(error),
            },
        }
    }
}

impl TokenFetcher {
    async fn fetch(&self, scopes: &[String], previous: Option<&Secret>) -> Result<Token, Error> {
        match &self.kind {
            CredentialKind::Anonymous => Err(TokenError::NoCredentials.into()),
            CredentialKind::Fixed(secret) => Ok(Token::new(secret.expose())),
            CredentialKind::Session(session) => session.token(&self.endpoint, previous).await,
            CredentialKind::Provider(provider) => {
                let token = provider.token(scopes).await;
                token.map_err(|source| TokenError::Source(source.into()).into())
            }
            CredentialKind::Client(client) => self.client_credentials(client, scopes).await,
        }
    }

    async fn client_credentials(
        &self,
        client: &ClientCredentials,
        scopes: &[String],
    ) -> Result<Token, Error> {
        let url = match &client.token_url {
            Some(url) => self.endpoint.require_secure(url)?,
            None => self.endpoint.metadata().await?.token_url.clone(),
        };
        let scope = scopes.join(" ");
        let mut form = vec![("grant_type", "client_credentials")];
        if !scope.is_empty() {
            form.push(("scope", &scope));
        }
        if let Some(audience) = &client.audience {
            form.push(("audience", audience));
        }
        if let Some(resource) = &client.resource {
            form.push(("resource", resource));
        }
        let auth = ClientAuth {
            client_id: &client.client_id,
            secret: Some(&client.secret),
        };
        let response = self
            .endpoint
            .request_token(&url, auth, &form, Idempotency::Idempotent)
            .await?;
        Ok(response.token)
    }
}

impl fmt::Debug for CredentialKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Fixed(_) => "Fixed",
            Self::Client(_) => "Client",
            Self::Session(_) => "Session",
            Self::Provider(_) => "Provider",
        })
    }
}

impl fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenCache")
            .field(&self.source.kind)
            .finish()
    }
}
