//! Parsing and verification of one JSON Web Token.
//!
//! The content of a token is untrusted until its signature is verified; before that, only the fields needed to find the
//! key are read. The caller supplies the time and the keys.

use super::keys::{KeyLookup, KeySet, VerificationKey};
use super::{AuthFailure, Identity, reason};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde::Deserialize;

/// Expected claims of a token.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedClaims<'a> {
    /// Issuer (`iss`).
    pub issuer: &'a str,
    /// Audiences (`aud`), one of which the token must name.
    pub audience: &'a [String],
    /// Tolerated clock difference in seconds.
    pub leeway: u64,
}

/// Verifies a JWT with these keys. `None` if the token is not a valid JWT access token of the expected issuer.
pub fn verify_jwt(
    token: &str,
    keys: &KeySet,
    expect: &ExpectedClaims<'_>,
    now: u64,
) -> Option<Identity> {
    if !is_jwt(token) {
        return None;
    }
    UnverifiedJwt::parse(token)
        .ok()?
        .verify(keys, expect, now)?
        .ok()
}

/// A token split into its parts. Nothing is verified yet.
pub(super) struct UnverifiedJwt<'a> {
    /// Header and claims as they were signed.
    message: &'a str,
    claims: &'a str,
    signature: &'a str,
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
}

/// Returns true if the token has the form of a JWT; anything else is opaque.
pub(super) fn is_jwt(token: &str) -> bool {
    let base64url = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let mut parts = 1;
    for byte in token.bytes() {
        match byte {
            b'.' => parts += 1,
            other if base64url(other) => {}
            _ => return false,
        }
    }
    parts == 3
}

#[derive(Deserialize)]
struct JwtHeader {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<serde_json::Value>,
}

impl<'a> UnverifiedJwt<'a> {
    /// Splits the token and rejects it if no key could make it valid.
    pub(super) fn parse(token: &'a str) -> Result<Self, AuthFailure> {
        let malformed = AuthFailure::Invalid(reason::MALFORMED);
        let (message, signature) = token.rsplit_once('.').ok_or(malformed)?;
        let (header, claims) = message.split_once('.').ok_or(malformed)?;
        let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| malformed)?;
        let header: JwtHeader = serde_json::from_slice(&header).map_err(|_| malformed)?;
        // An allow-list: `none` and every HMAC algorithm are not on it.
        let algorithm = match header.alg.as_str() {
            "RS256" => Algorithm::RS256,
            "ES256" => Algorithm::ES256,
            "EdDSA" | "Ed25519" => Algorithm::EdDSA,
            _ => return Err(AuthFailure::Invalid(reason::ALGORITHM)),
        };
        // RFC 7515, 4.1.11: an unsupported critical extension must be rejected. None is supported.
        if header.crit.is_some() {
            return Err(AuthFailure::Invalid(reason::MALFORMED));
        }
        if !header.typ.as_deref().is_none_or(is_access_token) {
            return Err(AuthFailure::Invalid(reason::TOKEN_TYPE));
        }
        Ok(Self {
            message,
            claims,
            signature,
            algorithm,
            key_id: header.kid,
        })
    }

    /// Verifies the signature with these keys, then the claims. `None` if the key is not among them.
    pub(super) fn verify(
        &self,
        keys: &KeySet,
        expect: &ExpectedClaims<'_>,
        now: u64,
    ) -> Option<Result<Identity, AuthFailure>> {
        let candidates = match keys.find(self.key_id.as_deref(), self.algorithm) {
            KeyLookup::Keys(candidates) => candidates,
            KeyLookup::Unknown => return None,
            KeyLookup::Mismatch => return Some(Err(AuthFailure::Invalid(reason::KEY))),
        };
        let message = self.message.as_bytes();
        let verifies = |key: &&VerificationKey| {
            jsonwebtoken::crypto::verify(self.signature, message, &key.decoding, self.algorithm)
                .unwrap_or(false)
        };
        let Some(key) = candidates.into_iter().find(verifies) else {
            return Some(Err(AuthFailure::Invalid(reason::SIGNATURE)));
        };
        let mut result = self.verify_claims(expect, now);
        if let Ok(identity) = &mut result {
            identity.key = Some(key.fingerprint);
        }
        Some(result)
    }

    fn verify_claims(
        &self,
        expect: &ExpectedClaims<'_>,
        now: u64,
    ) -> Result<Identity, AuthFailure> {
        let malformed = AuthFailure::Invalid(reason::MALFORMED);
        let claims = URL_SAFE_NO_PAD.decode(self.claims).map_err(|_| malformed)?;
        // serde rejects a duplicate claim.
        let claims: JwtClaims = serde_json::from_slice(&claims).map_err(|_| malformed)?;
        if claims.iss.as_deref() != Some(expect.issuer) {
            return Err(AuthFailure::Invalid(reason::ISSUER));
        }
        if !claims.aud.is_some_and(|aud| aud.has_any(expect.audience)) {
            return Err(AuthFailure::Invalid(reason::AUDIENCE));
        }
        let expires_at = claims.exp.ok_or(malformed)?.0;
        let issued_at = claims.iat.ok_or(malformed)?.0;
        let latest = now.saturating_add(expect.leeway);
        if issued_at > latest || claims.nbf.is_some_and(|nbf| nbf.0 > latest) {
            return Err(AuthFailure::Invalid(reason::NOT_YET));
        }
        if expires_at.saturating_add(expect.leeway) <= now {
            return Err(AuthFailure::Expired);
        }
        let subject = claims.sub.filter(|sub| !sub.is_empty());
        let subject = subject.ok_or(AuthFailure::Invalid(reason::SUBJECT))?;
        let client = [claims.client_id, claims.azp, claims.agent_id]
            .into_iter()
            .flatten()
            .find(|client| !client.is_empty())
            .unwrap_or_else(|| subject.clone());
        check_names([&subject, &client])?;
        let scopes = claims.scope.or(claims.scp).or(claims.permissions);
        let mut identity = Identity::new(subject, client, OneOrMany::scopes(scopes), expires_at);
        identity.issued_at = issued_at;
        identity.token_id = claims.jti.map(Into::into);
        identity.family = claims.interzone_family.map(Into::into);
        identity.certificate = claims.cnf.map(CnfClaim::certificate).transpose()?;
        Ok(identity)
    }
}

/// Checks names, which go into records and logs: limited length, no control characters. 255 characters are what
/// OpenID Connect allows a subject.
pub(super) fn check_names(names: [&str; 2]) -> Result<(), AuthFailure> {
    let fits = |name: &str| name.len() <= 255 && !name.chars().any(char::is_control);
    match names.into_iter().all(fits) {
        true => Ok(()),
        false => Err(AuthFailure::Invalid(reason::SUBJECT)),
    }
}

/// Returns true for the token types of RFC 9068, 2.1 and RFC 7519, 5.1; `application/` is optional.
fn is_access_token(typ: &str) -> bool {
    ["JWT", "at+jwt", "application/at+jwt"]
        .iter()
        .any(|allowed| allowed.eq_ignore_ascii_case(typ))
}

#[derive(Deserialize)]
struct JwtClaims {
    iss: Option<String>,
    sub: Option<String>,
    aud: Option<OneOrMany>,
    exp: Option<Seconds>,
    nbf: Option<Seconds>,
    iat: Option<Seconds>,
    jti: Option<String>,
    client_id: Option<String>,
    azp: Option<String>,
    agent_id: Option<String>,
    scope: Option<OneOrMany>,
    scp: Option<OneOrMany>,
    permissions: Option<OneOrMany>,
    cnf: Option<CnfClaim>,
    interzone_family: Option<String>,
}

/// One string or several, as `aud` and scopes may be.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    /// Returns true if one of the values is in `wanted`.
    pub(super) fn has_any(&self, wanted: &[String]) -> bool {
        match self {
            Self::One(value) => wanted.contains(value),
            Self::Many(values) => values.iter().any(|value| wanted.contains(value)),
        }
    }

    /// Returns scopes given as one string with spaces, or as a list.
    pub(super) fn scopes(scopes: Option<Self>) -> Vec<Box<str>> {
        let split = |text: &str| text.split_ascii_whitespace().map(Into::into).collect();
        match scopes {
            None => Vec::new(),
            Some(Self::One(text)) => split(&text),
            Some(Self::Many(values)) => split(&values.join(" ")),
        }
    }
}

/// Seconds since 1970. RFC 7519 lets them have a fraction.
#[derive(Clone, Copy)]
pub(super) struct Seconds(pub(super) u64);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        if let Some(seconds) = number.as_u64() {
            return Ok(Self(seconds));
        }
        match number.as_f64() {
            Some(seconds) if (0.0..9e15).contains(&seconds) =>
            {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "in range by the guard; the fraction is meant to go"
                )]
                Ok(Self(seconds as u64))
            }
            _ => Err(serde::de::Error::custom("not a timestamp")),
        }
    }
}

/// The `cnf` claim: proof of possession (RFC 7800).
#[derive(Deserialize)]
pub(super) struct CnfClaim {
    #[serde(rename = "x5t#S256")]
    certificate: Option<String>,
    #[serde(flatten)]
    others: std::collections::BTreeMap<String, serde_json::Value>,
}

impl CnfClaim {
    /// Returns the hash of the certificate. An unsupported kind of binding is an error, not ignored.
    pub(super) fn certificate(self) -> Result<[u8; 32], AuthFailure> {
        let invalid = AuthFailure::Invalid(reason::BINDING);
        let text = self.certificate.filter(|_| self.others.is_empty());
        let hash = URL_SAFE_NO_PAD.decode(text.ok_or(invalid)?);
        hash.ok()
            .and_then(|hash| hash.try_into().ok())
            .ok_or(invalid)
    }
}
