//! Tokens that say nothing by themselves: the issuer is asked about them (RFC 7662).
//!
//! A token goes to the configured issuer and nowhere else.

use super::jwt::{Confirmation, Expect, Seconds, Words, check_names};
use super::known::TokenHash;
use super::{Identity, Refusal, question, reason};
use crate::capped;
use crate::secret::Secret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use url::Url;
use url::form_urlencoded::{self, byte_serialize};

/// How long a good answer counts. The issuer may take a token back at any time.
const FRESH: u64 = 60;
/// How long whoever has a token without end may go on without showing it again, in seconds.
const ENDLESS: u64 = 3600;
/// How many questions may be open at once; the rest waits, at most as long as one question may take.
/// Tokens take turns by their hash, so that nobody asks about the same one at the same time.
const AT_ONCE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);
const LARGEST: usize = 64 << 10;

/// Who may ask the issuer, and where.
#[derive(Clone, Debug)]
pub struct Introspection {
    /// The issuer's endpoint: https, or http on this machine.
    pub url: String,
    /// Who we are there.
    pub client_id: String,
    /// How we prove it.
    pub secret: Secret,
}

pub(super) struct Introspector {
    url: Url,
    authorization: http::HeaderValue,
    http: reqwest::Client,
    turns: Vec<Mutex<()>>,
}

impl Introspector {
    pub(super) fn new(url: Url, who: &Introspection, http: reqwest::Client) -> Option<Self> {
        // RFC 6749, 2.3.1: both halves are form-encoded before they are joined.
        let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", encode(&who.client_id), encode(who.secret.expose()));
        let basic = format!("Basic {}", STANDARD.encode(pair));
        let mut authorization = http::HeaderValue::from_str(&basic).ok()?;
        authorization.set_sensitive(true);
        Some(Self {
            url,
            authorization,
            http,
            turns: (0..AT_ONCE).map(|_| Mutex::default()).collect(),
        })
    }

    /// Waits for the turn of a token.
    pub(super) async fn turn(&self, hash: &TokenHash) -> Result<MutexGuard<'_, ()>, Refusal> {
        let place = hash.first().map_or(0, |byte| usize::from(*byte)) % AT_ONCE;
        let turn = self.turns.get(place).ok_or(Refusal::Unavailable)?;
        let turn = tokio::time::timeout(PATIENCE, turn.lock()).await;
        turn.map_err(|_| Refusal::Unavailable)
    }

    /// Asks the issuer.
    pub(super) async fn ask(
        &self,
        token: &str,
        expect: &Expect<'_>,
        now: u64,
    ) -> Result<Identity, Refusal> {
        let answer = tokio::time::timeout(PATIENCE, self.post(token)).await;
        let answer = answer.unwrap_or_else(|_| {
            tracing::warn!(url = %self.url, "introspection took too long");
            None
        });
        answer.ok_or(Refusal::Unavailable)?.judge(expect, now)
    }

    async fn post(&self, token: &str) -> Option<Answer> {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("token", token)
            .append_pair("token_type_hint", "access_token")
            .finish();
        let asked = self
            .http
            .post(self.url.clone())
            .header(http::header::AUTHORIZATION, self.authorization.clone())
            .header(http::header::ACCEPT, "application/json")
            .header(
                http::header::CONTENT_TYPE,
                "application/x-www-form-urlencoded",
            )
            .body(form);
        let answer = match question::put(asked).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(url = %self.url, %error, "introspection failed");
                return None;
            }
        };
        let body = match capped::whole(answer, LARGEST).await {
            Ok(body) => body,
            Err(cut) => {
                tracing::warn!(url = %self.url, ?cut, "introspection failed");
                return None;
            }
        };
        match serde_json::from_slice(&body) {
            Ok(answer) => Some(answer),
            Err(error) => {
                tracing::warn!(url = %self.url, line = error.line(), "introspection gave no sense");
                None
            }
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    active: bool,
    iss: Option<String>,
    sub: Option<String>,
    aud: Option<Words>,
    exp: Option<Seconds>,
    nbf: Option<Seconds>,
    iat: Option<Seconds>,
    client_id: Option<String>,
    scope: Option<Words>,
    cnf: Option<Confirmation>,
}

impl Answer {
    fn judge(self, expect: &Expect<'_>, now: u64) -> Result<Identity, Refusal> {
        if !self.active {
            return Err(Refusal::Invalid(reason::INACTIVE));
        }
        if self.iss.is_some_and(|iss| iss != expect.issuer) {
            return Err(Refusal::Invalid(reason::ISSUER));
        }
        if self.aud.is_some_and(|aud| !aud.has_any(expect.audience)) {
            return Err(Refusal::Invalid(reason::AUDIENCE));
        }
        let latest = now.saturating_add(expect.leeway);
        if self.nbf.is_some_and(|nbf| nbf.0 > latest) {
            return Err(Refusal::Invalid(reason::NOT_YET));
        }
        let fresh_until = now.saturating_add(FRESH);
        let expires_at = match self.exp {
            Some(exp) if exp.0.saturating_add(expect.leeway) <= now => {
                return Err(Refusal::Expired);
            }
            Some(exp) => exp.0,
            // RFC 7662 lets it be left out. What is done in its name still ends some day.
            None => now.saturating_add(ENDLESS),
        };
        let client = self.client_id.filter(|id| !id.is_empty());
        let subject = self.sub.filter(|sub| !sub.is_empty());
        let subject = subject.or_else(|| client.clone());
        let subject = subject.ok_or(Refusal::Invalid(reason::SUBJECT))?;
        let client = client.unwrap_or_else(|| subject.clone());
        check_names([&subject, &client])?;
        let mut identity = Identity::new(subject, client, Words::scopes(self.scope), expires_at);
        identity.issued_at = self.iat.map_or(0, |iat| iat.0);
        identity.fresh_until = fresh_until;
        identity.certificate = self.cnf.map(Confirmation::certificate).transpose()?;
        Ok(identity)
    }
}
