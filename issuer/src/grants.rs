//! Authorization codes, refresh tokens and the grants they belong to.
//!
//! A code and a refresh token both contain the grant's id and a secret. A second use of either means that
//! it was stolen: the grant and its tokens are revoked (RFC 9700, 4.14.2).
//!
//! Requests for one grant may arrive concurrently on any node, so every step is one compare-and-swap of one
//! record. A code is marked as used, a refresh token is replaced, and a token family is revoked by a record
//! that each of its tokens is checked against. A revocation writes that record first and removes the grant
//! second; a request that issues tokens writes the grant first and looks for that record second. So at least
//! one of the two sees the other.

use super::IssuerState;
use super::access_token::IssuedToken;
use super::clients::OAuthClient;
use super::credential::{self, RandomError};
use super::oauth_error::OAuthError;
use super::record_store::IssuerRecord;
use super::revocation_list::RevocationList;
use super::users::OAuthUsers;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const CODE_KIND: &str = "oauth.code";
const GRANT_KIND: &str = "oauth.grant";
/// Lifetime of a code, in seconds: a browser delivers it at once.
const CODE_TTL: u64 = 60;
/// Seconds for which a revocation outlives its token, for clocks that are behind.
const REVOCATION_LEEWAY: u64 = 300;
/// Maximum number of live tokens recorded for one grant. More means that a client refreshes needlessly.
const MAX_TOKENS_PER_GRANT: usize = 32;

/// A user's consent, until the client exchanges its code.
#[derive(Serialize, Deserialize)]
pub(super) struct ConsentRecord {
    pub(super) client_id: String,
    pub(super) redirect_uri: String,
    /// True if the client sent it; then it must send it again (RFC 6749, 4.1.3).
    pub(super) redirect_named: bool,
    pub(super) challenge: String,
    pub(super) scopes: Vec<String>,
    pub(super) person: String,
}

#[derive(Serialize, Deserialize)]
struct CodeRecord {
    secret_sha256: String,
    created_at: u64,
    agreed: ConsentRecord,
    /// True once it was presented, even if the exchange failed. The record stays until it expires, so that a
    /// second use is detected even while the first one is in progress.
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
    /// Ids and expiry times of tokens that may still be valid.
    tokens: Vec<(String, u64)>,
    created_at: u64,
    ends_at: u64,
}

/// Tokens of a successful exchange or refresh.
pub(super) struct TokenGrant {
    pub(super) access_token: IssuedToken,
    pub(super) refresh_token: String,
    pub(super) scopes: Vec<String>,
}

const INVALID_GRANT: OAuthError =
    OAuthError::invalid_grant("the code or refresh token is invalid, expired or already used");

impl IssuerState {
    /// Issues an authorization code for a consent.
    pub(super) async fn issue_code(
        &self,
        consent: ConsentRecord,
        now: u64,
    ) -> Result<String, OAuthError> {
        let (id, secret) = new_id_and_secret()?;
        let record = CodeRecord {
            secret_sha256: credential::hash(&secret),
            created_at: now,
            agreed: consent,
            used: false,
        };
        let expires_at = Some(now.saturating_add(CODE_TTL));
        self.store
            .put(CODE_KIND, &id, &to_json(&record)?, None, expires_at)
            .await?;
        Ok(format!("{id}.{secret}"))
    }

    /// Exchanges an authorization code for tokens. A code can be used once.
    pub(super) async fn exchange_code(
        &self,
        client: &OAuthClient,
        code: &str,
        redirect_uri: Option<&str>,
        verifier: &str,
        now: u64,
    ) -> Result<TokenGrant, OAuthError> {
        let (id, secret) = split_credential(code).ok_or(INVALID_GRANT)?;
        let Some(record) = self.use_code(id, secret, now).await? else {
            return Err(INVALID_GRANT);
        };
        let consent = record.agreed;
        if consent.client_id != client.id
            || redirect_uri.map_or(consent.redirect_named, |uri| uri != consent.redirect_uri)
        {
            return Err(INVALID_GRANT);
        }
        // RFC 7636, 4.6. The challenge has the same encoding as the hashes here.
        let is_well_formed =
            (43..=128).contains(&verifier.len()) && verifier.bytes().all(is_unreserved);
        if !is_well_formed || !credential::matches(verifier, Some(&consent.challenge)) {
            return Err(OAuthError::invalid_grant(
                "the code verifier does not match the challenge",
            ));
        }
        if !self
            .accounts_unchanged(client, &consent.person, record.created_at)
            .await?
        {
            return Err(INVALID_GRANT);
        }
        let access = self.issue_access_token(
            &OAuthUsers::subject(&consent.person),
            &client.id,
            &consent.scopes,
            Some(&family_id(id)),
            now,
        )?;
        let refresh = credential::random_base64::<32>().map_err(random_failed)?;
        let grant = GrantRecord {
            client_id: consent.client_id,
            person: consent.person,
            scopes: consent.scopes.clone(),
            code_sha256: record.secret_sha256,
            refresh_sha256: credential::hash(&refresh),
            tokens: vec![(access.id.clone(), access.expires_at)],
            created_at: now,
            ends_at: now.saturating_add(self.consent_ttl),
        };
        let expires_at = Some(grant.ends_at);
        let written = self
            .store
            .put(GRANT_KIND, id, &to_json(&grant)?, None, expires_at)
            .await?;
        if !written || self.remove_if_revoked(id).await? {
            return Err(INVALID_GRANT);
        }
        Ok(TokenGrant {
            access_token: access,
            refresh_token: format!("{id}.{refresh}"),
            scopes: consent.scopes,
        })
    }

    /// Marks a code as used. A second use revokes every token that the first one issued.
    async fn use_code(
        &self,
        id: &str,
        secret: &str,
        now: u64,
    ) -> Result<Option<CodeRecord>, OAuthError> {
        let Some(stored) = self.store.get(CODE_KIND, id).await? else {
            // The code has expired; its grant may still exist.
            if let Some((_, grant)) = self.find_grant(id).await?
                && credential::matches(secret, Some(&grant.code_sha256))
            {
                self.revoke_after_reuse(id, Some(&grant), now).await?;
            }
            return Ok(None);
        };
        let Some(mut record) = parse_record::<CodeRecord>(&stored) else {
            return Ok(None);
        };
        if !credential::matches(secret, Some(&record.secret_sha256)) {
            return Ok(None);
        }
        let is_first_use = !std::mem::replace(&mut record.used, true);
        let value = to_json(&record)?;
        // Of several concurrent requests one marks the code; for the others it is used.
        let is_marked = is_first_use
            && self
                .store
                .put(
                    CODE_KIND,
                    id,
                    &value,
                    Some(stored.revision),
                    stored.expires_at,
                )
                .await?;
        if !is_marked {
            let grant = self.find_grant(id).await?;
            let grant = grant.as_ref().map(|(_, grant)| grant);
            self.revoke_after_reuse(id, grant, now).await?;
            return Ok(None);
        }
        Ok(Some(record))
    }

    /// Exchanges a refresh token for new tokens; the refresh token becomes invalid.
    pub(super) async fn refresh_tokens(
        &self,
        client: &OAuthClient,
        refresh_token: &str,
        requested_scope: Option<&str>,
        now: u64,
    ) -> Result<TokenGrant, OAuthError> {
        let (id, secret) = split_credential(refresh_token).ok_or(INVALID_GRANT)?;
        let (stored, mut grant) = self.find_grant(id).await?.ok_or(INVALID_GRANT)?;
        if grant.client_id != client.id {
            return Err(INVALID_GRANT);
        }
        if !credential::matches(secret, Some(&grant.refresh_sha256)) {
            self.revoke_after_reuse(id, Some(&grant), now).await?;
            return Err(INVALID_GRANT);
        }
        if !self
            .accounts_unchanged(client, &grant.person, grant.created_at)
            .await?
        {
            self.end_grant(id, &grant, now).await?;
            return Err(INVALID_GRANT);
        }
        let scope = requested_scope.map_or_else(|| grant.scopes.join(" "), str::to_owned);
        let scopes = self.resolve_scopes(client, Some(&scope))?;
        if !scopes.iter().all(|scope| grant.scopes.contains(scope)) {
            return Err(OAuthError::invalid_scope());
        }
        let subject = OAuthUsers::subject(&grant.person);
        let access =
            self.issue_access_token(&subject, &client.id, &scopes, Some(&family_id(id)), now)?;
        let refresh = credential::random_base64::<32>().map_err(random_failed)?;
        grant.refresh_sha256 = credential::hash(&refresh);
        grant.tokens.retain(|(_, end)| now < *end);
        if grant.tokens.len() >= MAX_TOKENS_PER_GRANT {
            return Err(OAuthError::invalid_grant(
                "too many live tokens for this consent, wait until some expire",
            ));
        }
        grant.tokens.push((access.id.clone(), access.expires_at));
        let expires_at = Some(grant.ends_at);
        let revision = Some(stored.revision);
        let written = self
            .store
            .put(GRANT_KIND, id, &to_json(&grant)?, revision, expires_at)
            .await?;
        if !written {
            // Another request used the same refresh token concurrently and won, so this is its second use.
            // If the grant is gone instead, there is nothing left to revoke.
            if let Some((_, grant)) = self.find_grant(id).await? {
                self.revoke_after_reuse(id, Some(&grant), now).await?;
            }
            return Err(INVALID_GRANT);
        }
        if self.remove_if_revoked(id).await? {
            return Err(INVALID_GRANT);
        }
        Ok(TokenGrant {
            access_token: access,
            refresh_token: format!("{id}.{refresh}"),
            scopes,
        })
    }

    /// Revokes the grant of a refresh token if it is this client's. The result does not tell if there was one.
    pub(super) async fn revoke_refresh_token(
        &self,
        client: &OAuthClient,
        refresh_token: &str,
        now: u64,
    ) -> Result<(), OAuthError> {
        let Some((id, secret)) = split_credential(refresh_token) else {
            return Ok(());
        };
        if let Some((_, grant)) = self.find_grant(id).await? {
            let is_valid = credential::matches(secret, Some(&grant.refresh_sha256));
            if is_valid && grant.client_id == client.id {
                self.end_grant(id, &grant, now).await?;
            }
        }
        Ok(())
    }

    /// Returns false if the client or the user was removed, or removed and added again, since `at`.
    async fn accounts_unchanged(
        &self,
        client: &OAuthClient,
        person: &str,
        since: u64,
    ) -> Result<bool, OAuthError> {
        let user_created_at = self.users.created_at(person).await?;
        Ok(client.created_at <= since
            && user_created_at.is_some_and(|created_at| created_at <= since))
    }

    async fn find_grant(
        &self,
        id: &str,
    ) -> Result<Option<(IssuerRecord, GrantRecord)>, OAuthError> {
        let stored = self.store.get(GRANT_KIND, id).await?;
        Ok(stored.and_then(|stored| parse_record(&stored).map(|grant| (stored, grant))))
    }

    /// Called after a grant was written: returns true if its family was revoked before. Then the grant is
    /// removed, because the revocation may have looked for it too early.
    async fn remove_if_revoked(&self, id: &str) -> Result<bool, OAuthError> {
        let revoked = RevocationList::is_family_revoked(&self.store, &family_id(id)).await?;
        if revoked {
            self.store.take(GRANT_KIND, id).await?;
        }
        Ok(revoked)
    }

    /// Revokes a grant whose code or refresh token was used twice. The revocation lasts as long as the grant
    /// could, so that the grant is useless even if removing it fails.
    async fn revoke_after_reuse(
        &self,
        id: &str,
        grant: Option<&GrantRecord>,
        now: u64,
    ) -> Result<(), OAuthError> {
        tracing::warn!("code or refresh token reused, revoking its tokens");
        let until = grant.map_or(0, |grant| grant.ends_at);
        self.revoke_grant(id, grant, until, now).await
    }

    /// Revokes a grant that its user or client ended.
    async fn end_grant(&self, id: &str, grant: &GrantRecord, now: u64) -> Result<(), OAuthError> {
        self.revoke_grant(id, Some(grant), 0, now).await
    }

    /// Revokes the family first and removes the grant second. The revocation outlives every token issued so
    /// far, and those being issued.
    async fn revoke_grant(
        &self,
        id: &str,
        grant: Option<&GrantRecord>,
        until: u64,
        now: u64,
    ) -> Result<(), OAuthError> {
        let store = &self.store;
        let tokens = grant.map_or(&[][..], |grant| &grant.tokens);
        let until = tokens
            .iter()
            .map(|(_, end)| *end)
            .chain([until, now.saturating_add(self.token_ttl)])
            .max();
        let until = until.unwrap_or(now).saturating_add(REVOCATION_LEEWAY);
        self.revocations
            .revoke_family(store, &family_id(id), until)
            .await?;
        // Tokens of an earlier version have no family claim.
        for (token, expires_at) in tokens {
            self.revocations
                .revoke_token(store, token, *expires_at)
                .await?;
        }
        self.store.take(GRANT_KIND, id).await?;
        Ok(())
    }
}

/// Returns the token family of a grant: a hash of its id. The id itself must not be visible to the servers
/// that get the tokens, because it would be enough to have a public client's grant revoked.
fn family_id(id: &str) -> String {
    credential::hash(id)
}

/// Generates a record id and a secret.
fn new_id_and_secret() -> Result<(String, String), OAuthError> {
    let generate = || {
        Ok((
            credential::random_base64::<16>()?,
            credential::random_base64::<32>()?,
        ))
    };
    generate().map_err(random_failed)
}

fn random_failed(error: RandomError) -> OAuthError {
    tracing::error!(%error, "issuer cannot generate a secret");
    OAuthError::unavailable()
}

/// Splits a code or refresh token into id and secret; `None` if it is malformed, which saves a lookup.
fn split_credential(given: &str) -> Option<(&str, &str)> {
    let (id, secret) = given.split_once('.')?;
    let is_base64url = |text: &str| text.bytes().all(|byte| is_unreserved(byte) && byte != b'.');
    (id.len() == 22 && secret.len() == 43 && is_base64url(id) && is_base64url(secret))
        .then_some((id, secret))
}

/// Returns true for an unreserved URI character (RFC 3986, 2.3).
pub(super) const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn to_json(record: &impl Serialize) -> Result<String, OAuthError> {
    serde_json::to_string(record).map_err(|_| OAuthError::unavailable())
}

fn parse_record<T: DeserializeOwned>(stored: &IssuerRecord) -> Option<T> {
    serde_json::from_str(&stored.value).ok()
}
