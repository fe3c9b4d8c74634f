//! Introspection of opaque tokens at the issuer (RFC 7662).
//!
//! A token is sent to the configured issuer only.

use super::jwt::{CnfClaim, ExpectedClaims, OneOrMany, Seconds, check_names};
use super::token_cache::TokenHash;
use super::{AuthFailure, Identity, issuer_request, reason};
use crate::Secret;
use crate::limited_body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use url::Url;
use url::form_urlencoded::{self, byte_serialize};

/// Seconds for which a positive response is cached. The issuer may revoke a token at any time.
const CACHE_TTL_SECS: u64 = 60;
/// Seconds until an identity without expiry must present its token again.
const DEFAULT_EXPIRY_SECS: u64 = 3600;
/// Maximum number of concurrent introspection requests; further ones wait, at most for [`INTROSPECTION_TIMEOUT`].
/// Tokens are assigned to locks by their hash, so that each token has only one request at a time (single-flight).
const MAX_CONCURRENT: usize = 64;
const INTROSPECTION_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Introspection endpoint of the issuer and the credentials for it.
#[derive(Clone, Debug)]
pub struct Introspection {
    /// URL of the endpoint: https, or http on this machine.
    pub url: String,
    /// Our client id at the issuer.
    pub client_id: String,
    /// Our client secret.
    pub secret: Secret,
}

pub(super) struct Introspector {
    url: Url,
    authorization: http::HeaderValue,
    http: reqwest::Client,
    locks: Vec<Mutex<()>>,
}

impl Introspector {
    pub(super) fn new(url: Url, config: &Introspection, http: reqwest::Client) -> Option<Self> {
        // RFC 6749, 2.3.1: both halves are form-encoded before they are joined.
        let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!(
            "{}:{}",
            encode(&config.client_id),
            encode(config.secret.expose())
        );
        let basic = format!("Basic {}", STANDARD.encode(pair));
        let mut authorization = http::HeaderValue::from_str(&basic).ok()?;
        authorization.set_sensitive(true);
        Some(Self {
            url,
            authorization,
            http,
            locks: (0..MAX_CONCURRENT).map(|_| Mutex::default()).collect(),
        })
    }

    /// Waits for the lock of a token, so that concurrent requests with one token ask the issuer once.
    pub(super) async fn single_flight(
        &self,
        hash: &TokenHash,
    ) -> Result<MutexGuard<'_, ()>, AuthFailure> {
        let index = hash.first().map_or(0, |byte| usize::from(*byte)) % MAX_CONCURRENT;
        let lock = self.locks.get(index).ok_or(AuthFailure::Unavailable)?;
        let guard = tokio::time::timeout(INTROSPECTION_TIMEOUT, lock.lock()).await;
        guard.map_err(|_| AuthFailure::Unavailable)
    }

    /// Introspects a token at the issuer.
    pub(super) async fn introspect(
        &self,
        token: &str,
        expect: &ExpectedClaims<'_>,
        now: u64,
    ) -> Result<Identity, AuthFailure> {
        let response = tokio::time::timeout(INTROSPECTION_TIMEOUT, self.send(token)).await;
        let response = response.unwrap_or_else(|_| {
            tracing::warn!(url = %self.url, "introspection timed out");
            None
        });
        response
            .ok_or(AuthFailure::Unavailable)?
            .verify_claims(expect, now)
    }

    async fn send(&self, token: &str) -> Option<IntrospectionReply> {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("token", token)
            .append_pair("token_type_hint", "access_token")
            .finish();
        let request = self
            .http
            .post(self.url.clone())
            .header(http::header::AUTHORIZATION, self.authorization.clone())
            .header(http::header::ACCEPT, "application/json")
            .header(
                http::header::CONTENT_TYPE,
                "application/x-www-form-urlencoded",
            )
            .body(form);
        let response = match issuer_request::send_with_retry(request).await {
            Ok(response) => response,
            Err(error) => {
                tracing::warn!(url = %self.url, %error, "introspection failed");
                return None;
            }
        };
        let body = match limited_body::read_all(response, MAX_RESPONSE_BYTES).await {
            Ok(body) => body,
            Err(error) => {
                tracing::warn!(url = %self.url, %error, "introspection failed");
                return None;
            }
        };
        match serde_json::from_slice(&body) {
            Ok(reply) => Some(reply),
            Err(error) => {
                tracing::warn!(url = %self.url, line = error.line(), "invalid introspection response");
                None
            }
        }
    }
}

#[derive(Deserialize)]
struct IntrospectionReply {
    active: bool,
    iss: Option<String>,
    sub: Option<String>,
    aud: Option<OneOrMany>,
    exp: Option<Seconds>,
    nbf: Option<Seconds>,
    iat: Option<Seconds>,
    client_id: Option<String>,
    scope: Option<OneOrMany>,
    cnf: Option<CnfClaim>,
}

impl IntrospectionReply {
    fn verify_claims(self, expect: &ExpectedClaims<'_>, now: u64) -> Result<Identity, AuthFailure> {
        if !self.active {
            return Err(AuthFailure::Invalid(reason::INACTIVE));
        }
        if self.iss.is_some_and(|iss| iss != expect.issuer) {
            return Err(AuthFailure::Invalid(reason::ISSUER));
        }
        if self.aud.is_some_and(|aud| !aud.has_any(expect.audience)) {
            return Err(AuthFailure::Invalid(reason::AUDIENCE));
        }
        let latest = now.saturating_add(expect.leeway);
        if self.nbf.is_some_and(|nbf| nbf.0 > latest) {
            return Err(AuthFailure::Invalid(reason::NOT_YET));
        }
        let fresh_until = now.saturating_add(CACHE_TTL_SECS);
        let expires_at = match self.exp {
            Some(exp) if exp.0.saturating_add(expect.leeway) <= now => {
                return Err(AuthFailure::Expired);
            }
            Some(exp) => exp.0,
            // RFC 7662 allows it to be absent. The identity still has to expire.
            None => now.saturating_add(DEFAULT_EXPIRY_SECS),
        };
        let client = self.client_id.filter(|id| !id.is_empty());
        let subject = self.sub.filter(|sub| !sub.is_empty());
        let subject = subject.or_else(|| client.clone());
        let subject = subject.ok_or(AuthFailure::Invalid(reason::SUBJECT))?;
        let client = client.unwrap_or_else(|| subject.clone());
        check_names([&subject, &client])?;
        let mut identity =
            Identity::new(subject, client, OneOrMany::scopes(self.scope), expires_at);
        identity.issued_at = self.iat.map_or(0, |iat| iat.0);
        identity.fresh_until = fresh_until;
        identity.certificate = self.cnf.map(CnfClaim::certificate).transpose()?;
        Ok(identity)
    }
}
