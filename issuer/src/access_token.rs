//! Access tokens: issuing, and verification of tokens issued here (RFC 9068).

use super::IssuerState;
use super::clients::OAuthClient;
use super::oauth_error::OAuthError;
use interzone_edge::auth::{ExpectedClaims, Identity, verify_jwt};
use serde::Serialize;

/// A newly issued access token.
pub(super) struct IssuedToken {
    pub(super) token: String,
    pub(super) id: String,
    pub(super) expires_at: u64,
}

#[derive(Serialize)]
struct AccessTokenClaims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: AudienceClaim<'a>,
    exp: u64,
    iat: u64,
    jti: &'a str,
    client_id: &'a str,
    scope: String,
    /// Token family: the consent that the token belongs to, if any.
    #[serde(rename = "interzone_family", skip_serializing_if = "Option::is_none")]
    family: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AudienceClaim<'a> {
    One(&'a str),
    Many(&'a [String]),
}

impl IssuerState {
    /// Issues an access token. With a `family` the token is invalid once that family is revoked, even if the
    /// revocation happens concurrently.
    pub(super) fn issue_access_token(
        &self,
        subject: &str,
        client: &str,
        scopes: &[String],
        family: Option<&str>,
        now: u64,
    ) -> Result<IssuedToken, OAuthError> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let expires_at = now.saturating_add(self.token_ttl);
        let claims = AccessTokenClaims {
            iss: &self.url,
            sub: subject,
            aud: match self.audience.as_slice() {
                [one] => AudienceClaim::One(one),
                many => AudienceClaim::Many(many),
            },
            exp: expires_at,
            iat: now,
            jti: &id,
            client_id: client,
            scope: scopes.join(" "),
            family,
        };
        let token = self.keys.load().sign(&claims, now).ok_or_else(|| {
            tracing::error!("no usable signing key");
            OAuthError::unavailable()
        })?;
        Ok(IssuedToken {
            token,
            id,
            expires_at,
        })
    }

    /// Verifies a token issued here; `None` if it is invalid, expired or revoked.
    /// `leeway`: seconds after its expiry for which it is still accepted.
    pub(super) fn verify_own(&self, token: &str, now: u64, leeway: u64) -> Option<Identity> {
        let expected = ExpectedClaims {
            issuer: &self.url,
            audience: &self.audience,
            leeway,
        };
        let ring = self.keys.load();
        let identity = verify_jwt(token, &ring.keys, &expected, now)?;
        (!self.revocations.contains(&identity)).then_some(identity)
    }

    /// Returns the scopes to grant: the requested ones, or all of the client. A scope that the client may not
    /// have, or that is not defined, fails the request.
    pub(super) fn resolve_scopes(
        &self,
        client: &OAuthClient,
        requested: Option<&str>,
    ) -> Result<Vec<String>, OAuthError> {
        let is_defined = |scope: &str| self.scopes.iter().any(|defined| defined.name == scope);
        let is_allowed =
            |scope: &str| client.scopes.iter().any(|allowed| allowed == scope) && is_defined(scope);
        let mut scopes: Vec<String> = match requested {
            None => client
                .scopes
                .iter()
                .filter(|scope| is_defined(scope))
                .cloned()
                .collect(),
            Some(requested) => requested
                .split_ascii_whitespace()
                .map(str::to_owned)
                .collect(),
        };
        scopes.sort_unstable();
        scopes.dedup();
        match !scopes.is_empty() && scopes.iter().all(|scope| is_allowed(scope)) {
            true => Ok(scopes),
            false => Err(OAuthError::invalid_scope()),
        }
    }

    /// Checks that the requested audience is one of ours (`resource`: RFC 8707; some clients send `audience`).
    pub(super) fn check_audience(&self, requested: [Option<&str>; 2]) -> Result<(), OAuthError> {
        let is_ours = |requested: &str| self.audience.iter().any(|audience| audience == requested);
        match requested.into_iter().flatten().all(is_ours) {
            true => Ok(()),
            false => Err(OAuthError::bad_request(
                "invalid_target",
                "tokens for this audience are not issued here",
            )),
        }
    }
}
