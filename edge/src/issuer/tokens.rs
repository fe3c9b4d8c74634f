//! Access tokens: how they are made, and how our own are recognised (RFC 9068).

use super::Inner;
use super::answer::Failure;
use super::clients::Client;
use crate::auth::Identity;
use crate::auth::jwt::{Expect, Unproven, has_shape};
use serde::Serialize;

/// A token that was just made.
pub(super) struct Issued {
    pub(super) token: String,
    pub(super) id: String,
    pub(super) expires_at: u64,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: Audience<'a>,
    exp: u64,
    iat: u64,
    jti: &'a str,
    client_id: &'a str,
    scope: String,
    /// The consent that it comes from, if any.
    #[serde(rename = "interzone_family", skip_serializing_if = "Option::is_none")]
    family: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Audience<'a> {
    One(&'a str),
    Many(&'a [String]),
}

impl Inner {
    /// Makes a token. With a `family` it ends when that family is revoked, also if this is happening
    /// now.
    pub(super) fn issue(
        &self,
        subject: &str,
        client: &str,
        scopes: &[String],
        family: Option<&str>,
        now: u64,
    ) -> Result<Issued, Failure> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let expires_at = now.saturating_add(self.token_ttl);
        let claims = Claims {
            iss: &self.url,
            sub: subject,
            aud: match self.audience.as_slice() {
                [one] => Audience::One(one),
                many => Audience::Many(many),
            },
            exp: expires_at,
            iat: now,
            jti: &id,
            client_id: client,
            scope: scopes.join(" "),
            family,
        };
        let token = self.ring.load().sign(&claims, now).ok_or_else(|| {
            tracing::error!("no signing key can be used");
            Failure::unavailable()
        })?;
        Ok(Issued {
            token,
            id,
            expires_at,
        })
    }

    /// Whose token this is, if it is one of ours and still good.
    /// `leeway`: how many seconds after its end it still counts.
    pub(super) fn recognise(&self, token: &str, now: u64, leeway: u64) -> Option<Identity> {
        if !has_shape(token) {
            return None;
        }
        let expect = Expect {
            issuer: &self.url,
            audience: &self.audience,
            leeway,
        };
        let ring = self.ring.load();
        let proven = Unproven::read(token).ok()?.prove(&ring.keys, &expect, now);
        let identity = proven?.ok()?;
        (!self.revoked.has(&identity)).then_some(identity)
    }

    /// The scopes to grant: those that were asked for, or all that the client has. One that it may
    /// not have, or that nobody grants, fails the whole request.
    pub(super) fn scopes(
        &self,
        client: &Client,
        asked: Option<&str>,
    ) -> Result<Vec<String>, Failure> {
        let known = |scope: &str| self.scopes.iter().any(|known| known.name == scope);
        let has = |scope: &str| client.scopes.iter().any(|held| held == scope) && known(scope);
        let mut scopes: Vec<String> = match asked {
            None => client
                .scopes
                .iter()
                .filter(|scope| known(scope))
                .cloned()
                .collect(),
            Some(asked) => asked.split_ascii_whitespace().map(str::to_owned).collect(),
        };
        scopes.sort_unstable();
        scopes.dedup();
        match !scopes.is_empty() && scopes.iter().all(|scope| has(scope)) {
            true => Ok(scopes),
            false => Err(Failure::scope()),
        }
    }

    /// Whom the token is wanted for: us or nobody (RFC 8707; `audience` is what some clients say).
    pub(super) fn check_target(&self, asked: [Option<&str>; 2]) -> Result<(), Failure> {
        let ours = |asked: &str| self.audience.iter().any(|known| known == asked);
        match asked.into_iter().flatten().all(ours) {
            true => Ok(()),
            false => Err(Failure::bad(
                "invalid_target",
                "tokens for this audience are not issued here",
            )),
        }
    }
}
