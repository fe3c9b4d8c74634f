//! What a person agreed to: from a code that is good once, to tokens that renew each other.
//!
//! A code and a refresh token both name the grant and carry a secret. Whoever shows one that was
//! used before has a stolen copy, or was stolen from: the grant ends, and its tokens with it
//! (RFC 9700, 4.14.2).

use super::Inner;
use super::answer::Failure;
use super::clients::Client;
use super::credential::{self, NoRandom};
use super::keep::Kept;
use super::people::People;
use super::tokens::Issued;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const CODE: &str = "oauth.code";
const GRANT: &str = "oauth.grant";
/// How long a code is good: a browser brings it back at once.
const CODE_TTL: u64 = 60;
/// How many live tokens of one grant are remembered. More means that somebody renews without need.
const MOST_TOKENS: usize = 32;

/// What a person agreed to, while the client has not come for it yet.
#[derive(Serialize, Deserialize)]
pub(super) struct Agreed {
    pub(super) client_id: String,
    pub(super) redirect_uri: String,
    /// True if the client named it; then it must name it again (RFC 6749, 4.1.3).
    pub(super) redirect_named: bool,
    pub(super) challenge: String,
    pub(super) scopes: Vec<String>,
    pub(super) person: String,
}

#[derive(Serialize, Deserialize)]
struct CodeRecord {
    secret_sha256: String,
    created_at: u64,
    agreed: Agreed,
}

#[derive(Serialize, Deserialize)]
struct GrantRecord {
    client_id: String,
    person: String,
    scopes: Vec<String>,
    code_sha256: String,
    refresh_sha256: String,
    /// The tokens that may still be good, with their ends.
    tokens: Vec<(String, u64)>,
    created_at: u64,
    ends_at: u64,
}

/// What the client gets.
pub(super) struct Granted {
    pub(super) access: Issued,
    pub(super) refresh: String,
    pub(super) scopes: Vec<String>,
}

const USED: Failure = Failure::grant("the code or refresh token is not valid, or not any more");

impl Inner {
    /// Makes a code for what was agreed.
    pub(super) async fn new_code(&self, agreed: Agreed, now: u64) -> Result<String, Failure> {
        let (id, secret) = fresh()?;
        let record = CodeRecord {
            secret_sha256: credential::hash(&secret),
            created_at: now,
            agreed,
        };
        let end = Some(now.saturating_add(CODE_TTL));
        self.keep.put(CODE, &id, &text(&record)?, None, end).await?;
        Ok(format!("{id}.{secret}"))
    }

    /// Gives tokens for a code, once.
    pub(super) async fn redeem(
        &self,
        client: &Client,
        code: &str,
        redirect_uri: Option<&str>,
        verifier: &str,
        now: u64,
    ) -> Result<Granted, Failure> {
        let (id, secret) = parts(code).ok_or(USED)?;
        let Some(taken) = self.keep.take(CODE, id).await? else {
            // Used before: what came of it is not to be trusted.
            if let Some((_, grant)) = self.grant(id).await?
                && credential::matches(secret, Some(&grant.code_sha256))
            {
                self.end(id, &grant).await?;
            }
            return Err(USED);
        };
        let record: CodeRecord = parse(&taken).ok_or(USED)?;
        let agreed = record.agreed;
        if !credential::matches(secret, Some(&record.secret_sha256))
            || agreed.client_id != client.id
            || redirect_uri.map_or(agreed.redirect_named, |uri| uri != agreed.redirect_uri)
        {
            return Err(USED);
        }
        // RFC 7636, 4.6. A challenge is a hash of the verifier, spelled as our hashes are.
        let proper = (43..=128).contains(&verifier.len()) && verifier.bytes().all(is_unreserved);
        if !proper || !credential::matches(verifier, Some(&agreed.challenge)) {
            return Err(Failure::grant(
                "the code verifier does not fit the challenge",
            ));
        }
        if !self
            .still_there(client, &agreed.person, record.created_at)
            .await?
        {
            return Err(USED);
        }
        let access = self.issue(
            &People::subject(&agreed.person),
            &client.id,
            &agreed.scopes,
            now,
        )?;
        let refresh = credential::random::<32>().map_err(no_random)?;
        let grant = GrantRecord {
            client_id: agreed.client_id,
            person: agreed.person,
            scopes: agreed.scopes.clone(),
            code_sha256: record.secret_sha256,
            refresh_sha256: credential::hash(&refresh),
            tokens: vec![(access.id.clone(), access.expires_at)],
            created_at: now,
            ends_at: now.saturating_add(self.consent_ttl),
        };
        let end = Some(grant.ends_at);
        self.keep.put(GRANT, id, &text(&grant)?, None, end).await?;
        Ok(Granted {
            access,
            refresh: format!("{id}.{refresh}"),
            scopes: agreed.scopes,
        })
    }

    /// Gives new tokens for a refresh token, which is void from then on.
    pub(super) async fn renew(
        &self,
        client: &Client,
        refresh: &str,
        asked: Option<&str>,
        now: u64,
    ) -> Result<Granted, Failure> {
        let (id, secret) = parts(refresh).ok_or(USED)?;
        let (kept, mut grant) = self.grant(id).await?.ok_or(USED)?;
        if grant.client_id != client.id {
            return Err(USED);
        }
        if !credential::matches(secret, Some(&grant.refresh_sha256)) {
            self.end(id, &grant).await?;
            return Err(USED);
        }
        if !self
            .still_there(client, &grant.person, grant.created_at)
            .await?
        {
            self.end(id, &grant).await?;
            return Err(USED);
        }
        let wanted = asked.map_or_else(|| grant.scopes.join(" "), str::to_owned);
        let scopes = self.scopes(client, Some(&wanted))?;
        if !scopes.iter().all(|scope| grant.scopes.contains(scope)) {
            return Err(Failure::scope());
        }
        let access = self.issue(&People::subject(&grant.person), &client.id, &scopes, now)?;
        let refresh = credential::random::<32>().map_err(no_random)?;
        grant.refresh_sha256 = credential::hash(&refresh);
        grant.tokens.retain(|(_, end)| now < *end);
        if grant.tokens.len() >= MOST_TOKENS {
            return Err(Failure::grant(
                "this consent was renewed too often at once, wait a while",
            ));
        }
        grant.tokens.push((access.id.clone(), access.expires_at));
        let end = Some(grant.ends_at);
        let revision = Some(kept.revision);
        // Somebody else used the same refresh token at the same time, and was faster.
        if !self
            .keep
            .put(GRANT, id, &text(&grant)?, revision, end)
            .await?
        {
            return Err(USED);
        }
        Ok(Granted {
            access,
            refresh: format!("{id}.{refresh}"),
            scopes,
        })
    }

    /// Ends the grant of a refresh token, if it is this client's. Whether there is one is not told.
    pub(super) async fn give_back(&self, client: &Client, refresh: &str) -> Result<(), Failure> {
        let Some((id, secret)) = parts(refresh) else {
            return Ok(());
        };
        if let Some((_, grant)) = self.grant(id).await? {
            let good = credential::matches(secret, Some(&grant.refresh_sha256));
            if good && grant.client_id == client.id {
                self.end(id, &grant).await?;
            }
        }
        Ok(())
    }

    /// False if client or person are gone, or are others by now under the same name.
    async fn still_there(&self, client: &Client, person: &str, at: u64) -> Result<bool, Failure> {
        let since = self.people.since(person).await?;
        Ok(client.created_at <= at && since.is_some_and(|since| since <= at))
    }

    async fn grant(&self, id: &str) -> Result<Option<(Kept, GrantRecord)>, Failure> {
        let kept = self.keep.get(GRANT, id).await?;
        Ok(kept.and_then(|kept| parse(&kept).map(|grant| (kept, grant))))
    }

    async fn end(&self, id: &str, grant: &GrantRecord) -> Result<(), Failure> {
        self.keep.take(GRANT, id).await?;
        for (token, expires_at) in &grant.tokens {
            self.revoked
                .token(self.keep.as_ref(), token, *expires_at)
                .await?;
        }
        Ok(())
    }
}

/// An id to be found by, and a secret to be believed by.
fn fresh() -> Result<(String, String), Failure> {
    let make = || Ok((credential::random::<16>()?, credential::random::<32>()?));
    make().map_err(no_random)
}

fn no_random(error: NoRandom) -> Failure {
    tracing::error!(%error, "the issuer cannot answer");
    Failure::unavailable()
}

/// What cannot be ours does not travel to the store.
fn parts(given: &str) -> Option<(&str, &str)> {
    let (id, secret) = given.split_once('.')?;
    let plain = |text: &str| text.bytes().all(|byte| is_unreserved(byte) && byte != b'.');
    (id.len() == 22 && secret.len() == 43 && plain(id) && plain(secret)).then_some((id, secret))
}

/// RFC 3986, 2.3.
pub(super) const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn text(record: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(record).map_err(|_| Failure::unavailable())
}

fn parse<T: DeserializeOwned>(kept: &Kept) -> Option<T> {
    serde_json::from_str(&kept.value).ok()
}
