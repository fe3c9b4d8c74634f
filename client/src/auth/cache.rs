//! Tokens that are still good, one for each set of scopes. Many callers that need a new one wait
//! for one request. No lock is held while anybody waits.

use super::endpoint::{ClientAuth, Issuer};
use super::{ClientCredentials, Credentials, Session, Token, TokenSource};
use crate::Secret;
use crate::client::sorted;
use crate::error::{Error, TokenError};
use crate::options::Settings;
use crate::peer::{Deadline, Peers};
use crate::retry::Safety;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// A token is renewed so long before it expires.
const AHEAD: Duration = Duration::from_secs(300);
/// After a refresh that failed the old token, if it is still good, is used for so long before the
/// next attempt.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// However many documents and tries it takes, a token must be there by then.
const LONGEST: Duration = Duration::from_secs(45);
/// More sets of scopes than this no client has a use for.
const MOST_SETS: usize = 256;

/// Gives each call its token.
pub(crate) struct Tokens {
    source: Arc<Source>,
    slots: Mutex<HashMap<Vec<String>, Slot>>,
}

#[derive(Debug)]
struct Source {
    kind: Kind,
    issuer: Issuer,
}

enum Kind {
    Nobody,
    Fixed(Secret),
    Client(ClientCredentials),
    Session(Session),
    Provider(Arc<dyn TokenSource>),
}

type Flight = BoxFuture<'static, Result<Kept, Error>>;

#[derive(Default)]
struct Slot {
    kept: Option<Kept>,
    /// The refresh that is under way. It lives as long as somebody waits for it.
    flight: Option<WeakShared<Flight>>,
    /// Counts what was kept and dropped, so that a slow waiter does not bring back a token that
    /// was dropped meanwhile.
    version: u64,
}

#[derive(Clone)]
struct Kept {
    secret: Secret,
    expires: Option<Instant>,
    renew: Option<Instant>,
}

impl Kept {
    fn new(token: &Token, now: Instant) -> Self {
        let lifetime = token.lifetime();
        let renew = lifetime.map(|lifetime| {
            if lifetime < AHEAD * 2 {
                lifetime / 2
            } else {
                lifetime.saturating_sub(AHEAD)
            }
        });
        Self {
            secret: token.secret().clone(),
            // A lifetime beyond what the clock can count is no limit.
            expires: lifetime.and_then(|lifetime| now.checked_add(lifetime)),
            renew: renew.and_then(|wait| now.checked_add(wait)),
        }
    }

    fn is_good(&self, now: Instant) -> bool {
        self.expires.is_none_or(|end| now < end)
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.is_good(now) && self.renew.is_none_or(|due| now < due)
    }
}

enum Next {
    Use(Secret),
    Wait(Shared<Flight>, u64),
}

impl Tokens {
    pub(crate) fn new(
        credentials: Option<Credentials>,
        base: Url,
        peers: Arc<Peers>,
        settings: Settings,
    ) -> Self {
        let kind = match credentials {
            None => Kind::Nobody,
            Some(Credentials::Bearer(secret)) => Kind::Fixed(secret),
            Some(Credentials::ClientCredentials(client)) => Kind::Client(client),
            Some(Credentials::AuthorizationCode(session)) => Kind::Session(session),
            Some(Credentials::Provider(provider)) => Kind::Provider(provider.0),
        };
        let issuer = Issuer::new(base, peers, settings);
        Self {
            source: Arc::new(Source { kind, issuer }),
            slots: Mutex::new(HashMap::new()),
        }
    }

    /// A token with these scopes, or none where the caller has no credentials.
    pub(crate) async fn get(&self, scopes: &[String]) -> Result<Option<Secret>, Error> {
        let key = match &self.source.kind {
            Kind::Nobody => return Ok(None),
            Kind::Fixed(secret) => return Ok(Some(secret.clone())),
            _ => self.key(scopes),
        };
        let (flight, version) = match self.next(&key) {
            Next::Use(secret) => return Ok(Some(secret)),
            Next::Wait(flight, version) => (flight, version),
        };
        let outcome = flight.await;
        self.landed(&key, version, outcome).map(Some)
    }

    /// Drops a token that a peer refused. Tells whether there may be another.
    pub(crate) fn renew(&self, scopes: &[String], refused: Option<&Secret>) -> bool {
        let renewable = match &self.source.kind {
            Kind::Nobody | Kind::Fixed(_) => false,
            Kind::Session(session) => session.forget(refused),
            Kind::Client(_) | Kind::Provider(_) => true,
        };
        let key = self.key(scopes);
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get_mut(&key)
            && slot.kept.as_ref().map(|kept| &kept.secret) == refused
        {
            slot.kept = None;
            slot.version += 1;
        }
        renewable
    }

    /// Under which scopes a token is kept: a login has one token whatever the call.
    fn key(&self, scopes: &[String]) -> Vec<String> {
        match &self.source.kind {
            Kind::Session(_) => Vec::new(),
            Kind::Client(client) => match &client.scopes {
                Some(fixed) => sorted(fixed.clone()),
                None => scopes.to_vec(),
            },
            _ => scopes.to_vec(),
        }
    }

    fn next(&self, key: &[String]) -> Next {
        let now = Instant::now();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MOST_SETS && !slots.contains_key(key) {
            slots.clear();
        }
        let slot = slots.entry(key.to_vec()).or_default();
        if let Some(kept) = slot.kept.as_ref().filter(|kept| kept.is_fresh(now)) {
            return Next::Use(kept.secret.clone());
        }
        let under_way = slot.flight.as_ref().and_then(WeakShared::upgrade);
        if let Some(flight) = under_way {
            return Next::Wait(flight, slot.version);
        }
        let source = self.source.clone();
        let scopes = key.to_vec();
        let old = slot.kept.as_ref().map(|kept| kept.secret.clone());
        let fetch: Flight = async move {
            let fetch = source.fetch(&scopes, old.as_ref());
            let token = Deadline::within(LONGEST).limit(fetch).await??;
            Ok(Kept::new(&token, Instant::now()))
        }
        .boxed();
        let flight = fetch.shared();
        slot.flight = flight.downgrade();
        Next::Wait(flight, slot.version)
    }

    /// Takes in the outcome of a refresh. The first of its waiters to come keeps the token.
    fn landed(
        &self,
        key: &[String],
        version: u64,
        outcome: Result<Kept, Error>,
    ) -> Result<Secret, Error> {
        let now = Instant::now();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.entry(key.to_vec()).or_default();
        let first = slot.version == version;
        if first {
            slot.version += 1;
            slot.flight = None;
        }
        match outcome {
            Ok(kept) => {
                let secret = kept.secret.clone();
                if first {
                    slot.kept = Some(kept);
                }
                Ok(secret)
            }
            Err(error) => match slot.kept.as_mut().filter(|kept| kept.is_good(now)) {
                Some(old) => {
                    tracing::warn!(%error, "a token could not be renewed; the old one is still good");
                    old.renew = Some(now + AFTER_FAILURE);
                    Ok(old.secret.clone())
                }
                None => Err(error),
            },
        }
    }
}

impl Source {
    async fn fetch(&self, scopes: &[String], old: Option<&Secret>) -> Result<Token, Error> {
        match &self.kind {
            Kind::Nobody => Err(TokenError::NoCredentials.into()),
            Kind::Fixed(secret) => Ok(Token::new(secret.expose())),
            Kind::Session(session) => session.token(&self.issuer, old).await,
            Kind::Provider(provider) => {
                let token = provider.token(scopes).await;
                token.map_err(|source| TokenError::Source(source.into()).into())
            }
            Kind::Client(client) => self.client_credentials(client, scopes).await,
        }
    }

    async fn client_credentials(
        &self,
        client: &ClientCredentials,
        scopes: &[String],
    ) -> Result<Token, Error> {
        let url = match &client.token_url {
            Some(url) => self.issuer.checked(url)?,
            None => self.issuer.metadata().await?.token_url.clone(),
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
        let grant = self.issuer.grant(&url, auth, &form, Safety::Read).await?;
        Ok(grant.token)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::Fixed(_) => "Fixed",
            Self::Client(_) => "Client",
            Self::Session(_) => "Session",
            Self::Provider(_) => "Provider",
        })
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tokens").field(&self.source.kind).finish()
    }
}
