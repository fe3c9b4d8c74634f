//! What a person agreed to: from a code that is good once, to tokens that renew each other.
//!
//! A code and a refresh token both name the grant and carry a secret. One that was used before and is
//! shown again is a stolen copy, or was stolen from its owner: the grant ends, and its tokens with it
//! (RFC 9700, 4.14.2).
//!
//! Requests for one grant may arrive at the same time, at any node, so every step is one change of one
//! record under its revision. A code is marked as used, a refresh token is replaced, and a family of
//! tokens is revoked by a record that every token of it is checked against. A revocation writes that
//! record first and removes the grant second; a request that makes tokens writes the grant first and
//! looks for that record second. So at least one of the two sees the other.

use super::Inner;
use super::answer::Failure;
use super::clients::Client;
use super::credential::{self, NoRandom};
use super::keep::Kept;
use super::people::People;
use super::revoked::Revoked;
use super::tokens::Issued;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const CODE: &str = "oauth.code";
const GRANT: &str = "oauth.grant";
/// How long a code is good: a browser brings it back at once.
const CODE_TTL: u64 = 60;
/// How much longer than a token its revocation is kept, for clocks that are behind.
const REVOKED_SLACK: u64 = 300;
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
    /// It was shown, whatever came of it. It stays until its time is over, so that a second use is
    /// recognised even while the first one is still at work.
    #[serde(default)]
    used: bool,
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
            used: false,
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
        let Some(record) = self.use_code(id, secret, now).await? else {
            return Err(USED);
        };
        let agreed = record.agreed;
        if agreed.client_id != client.id
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
            Some(&family(id)),
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
        let put = self.keep.put(GRANT, id, &text(&grant)?, None, end).await?;
        if !put || self.was_revoked_meanwhile(id).await? {
            return Err(USED);
        }
        Ok(Granted {
            access,
            refresh: format!("{id}.{refresh}"),
            scopes: agreed.scopes,
        })
    }

    /// Redeems an authorization code. A second use revokes every token that the first one issued.
    async fn use_code(
        &self,
        id: &str,
        secret: &str,
        now: u64,
    ) -> Result<Option<CodeRecord>, Failure> {
        let Some(kept) = self.keep.get(CODE, id).await? else {
            // Its time is over; the grant that came of it may still be there.
            if let Some((_, grant)) = self.grant(id).await?
                && credential::matches(secret, Some(&grant.code_sha256))
            {
                self.revoke_stolen(id, Some(&grant), now).await?;
            }
            return Ok(None);
        };
        let Some(mut record) = parse::<CodeRecord>(&kept) else {
            return Ok(None);
        };
        if !credential::matches(secret, Some(&record.secret_sha256)) {
            return Ok(None);
        }
        let first = !std::mem::replace(&mut record.used, true);
        let value = text(&record)?;
        // Of several requests at the same time one marks it, and to the others it is used.
        let marked = first
            && self
                .keep
                .put(CODE, id, &value, Some(kept.revision), kept.expires_at)
                .await?;
        if !marked {
            let grant = self.grant(id).await?;
            let grant = grant.as_ref().map(|(_, grant)| grant);
            self.revoke_stolen(id, grant, now).await?;
            return Ok(None);
        }
        Ok(Some(record))
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
            self.revoke_stolen(id, Some(&grant), now).await?;
            return Err(USED);
        }
        if !self
            .still_there(client, &grant.person, grant.created_at)
            .await?
        {
            self.end(id, &grant, now).await?;
            return Err(USED);
        }
        let wanted = asked.map_or_else(|| grant.scopes.join(" "), str::to_owned);
        let scopes = self.scopes(client, Some(&wanted))?;
        if !scopes.iter().all(|scope| grant.scopes.contains(scope)) {
            return Err(Failure::scope());
        }
        let subject = People::subject(&grant.person);
        let access = self.issue(&subject, &client.id, &scopes, Some(&family(id)), now)?;
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
        let put = self
            .keep
            .put(GRANT, id, &text(&grant)?, revision, end)
            .await?;
        if !put {
            // Another request used the same refresh token at the same time and was faster, so this is
            // its second use. If the grant is gone instead, there is nothing left to revoke.
            if let Some((_, grant)) = self.grant(id).await? {
                self.revoke_stolen(id, Some(&grant), now).await?;
            }
            return Err(USED);
        }
        if self.was_revoked_meanwhile(id).await? {
            return Err(USED);
        }
        Ok(Granted {
            access,
            refresh: format!("{id}.{refresh}"),
            scopes,
        })
    }

    /// Ends the grant of a refresh token, if it is this client's. Whether there is one is not told.
    pub(super) async fn give_back(
        &self,
        client: &Client,
        refresh: &str,
        now: u64,
    ) -> Result<(), Failure> {
        let Some((id, secret)) = parts(refresh) else {
            return Ok(());
        };
        if let Some((_, grant)) = self.grant(id).await? {
            let good = credential::matches(secret, Some(&grant.refresh_sha256));
            if good && grant.client_id == client.id {
                self.end(id, &grant, now).await?;
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

    /// After a grant was written: whether its family was revoked before. Then the grant is removed, for
    /// the revocation may have looked for it too early.
    async fn was_revoked_meanwhile(&self, id: &str) -> Result<bool, Failure> {
        let revoked = Revoked::has_family(self.keep.as_ref(), &family(id)).await?;
        if revoked {
            self.keep.take(GRANT, id).await?;
        }
        Ok(revoked)
    }

    /// Ends a grant of which a code or a refresh token was used twice. The record stays as long as the
    /// grant could, so that the grant is of no use even if removing it fails.
    async fn revoke_stolen(
        &self,
        id: &str,
        grant: Option<&GrantRecord>,
        now: u64,
    ) -> Result<(), Failure> {
        tracing::warn!("a code or a refresh token was used twice; its tokens are revoked");
        let until = grant.map_or(0, |grant| grant.ends_at);
        self.revoke(id, grant, until, now).await
    }

    /// Ends a grant whose owner or client does not want it any more.
    async fn end(&self, id: &str, grant: &GrantRecord, now: u64) -> Result<(), Failure> {
        self.revoke(id, Some(grant), 0, now).await
    }

    /// Revokes the family first and removes the grant second. The record of the revocation outlives every
    /// token that was made so far, and those that are being made.
    async fn revoke(
        &self,
        id: &str,
        grant: Option<&GrantRecord>,
        until: u64,
        now: u64,
    ) -> Result<(), Failure> {
        let keep = self.keep.as_ref();
        let tokens = grant.map_or(&[][..], |grant| &grant.tokens);
        let until = tokens
            .iter()
            .map(|(_, end)| *end)
            .chain([until, now.saturating_add(self.token_ttl)])
            .max();
        let until = until.unwrap_or(now).saturating_add(REVOKED_SLACK);
        self.revoked.family(keep, &family(id), until).await?;
        // Tokens of an earlier version carry no family.
        for (token, expires_at) in tokens {
            self.revoked.token(keep, token, *expires_at).await?;
        }
        self.keep.take(GRANT, id).await?;
        Ok(())
    }
}

/// The name of a grant in its tokens. Not its id, which every server that gets the token would see: that
/// would be enough to have the grant of a public client ended.
fn family(id: &str) -> String {
    credential::hash(id)
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
