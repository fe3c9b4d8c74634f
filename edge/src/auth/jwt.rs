//! One JSON Web Token, taken apart and judged.
//!
//! Everything a token says of itself is hostile until its signature holds; before that, only what is
//! needed to find the key is read. No time is asked for here and nothing is fetched.

use super::keys::{Found, Key, KeySet};
use super::{Identity, Refusal, reason};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde::Deserialize;

/// What a token must say to be good here.
pub(crate) struct Expect<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) audience: &'a [String],
    /// How far clocks may be apart, in seconds.
    pub(crate) leeway: u64,
}

/// A token whose parts can be told apart. Nothing is proven yet.
pub(crate) struct Unproven<'a> {
    /// Header and claims as they were signed.
    message: &'a str,
    claims: &'a str,
    signature: &'a str,
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
}

/// True if it has the shape of a JWT; anything else is opaque to us.
pub(crate) fn has_shape(token: &str) -> bool {
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
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<serde_json::Value>,
}

impl<'a> Unproven<'a> {
    /// Tells the parts apart and refuses what no key could make good.
    pub(crate) fn read(token: &'a str) -> Result<Self, Refusal> {
        let malformed = Refusal::Invalid(reason::MALFORMED);
        let (message, signature) = token.rsplit_once('.').ok_or(malformed)?;
        let (header, claims) = message.split_once('.').ok_or(malformed)?;
        let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| malformed)?;
        let header: Header = serde_json::from_slice(&header).map_err(|_| malformed)?;
        // An allow-list: `none` and every kind of HMAC are simply not on it.
        let algorithm = match header.alg.as_str() {
            "RS256" => Algorithm::RS256,
            "ES256" => Algorithm::ES256,
            "EdDSA" | "Ed25519" => Algorithm::EdDSA,
            _ => return Err(Refusal::Invalid(reason::ALGORITHM)),
        };
        // RFC 7515, 4.1.11: what we do not understand and must, we refuse. We understand none.
        if header.crit.is_some() {
            return Err(Refusal::Invalid(reason::MALFORMED));
        }
        if !header.typ.as_deref().is_none_or(is_access_token) {
            return Err(Refusal::Invalid(reason::KIND));
        }
        Ok(Self {
            message,
            claims,
            signature,
            algorithm,
            key_id: header.kid,
        })
    }

    /// Proves the signature with these keys and judges the claims. `None` means that the key is not
    /// among them.
    pub(crate) fn prove(
        &self,
        keys: &KeySet,
        expect: &Expect<'_>,
        now: u64,
    ) -> Option<Result<Identity, Refusal>> {
        let candidates = match keys.find(self.key_id.as_deref(), self.algorithm) {
            Found::Keys(candidates) => candidates,
            Found::Unknown => return None,
            Found::Unfit => return Some(Err(Refusal::Invalid(reason::KEY))),
        };
        let message = self.message.as_bytes();
        let verifies = |key: &&Key| {
            jsonwebtoken::crypto::verify(self.signature, message, &key.decoding, self.algorithm)
                .unwrap_or(false)
        };
        let Some(key) = candidates.into_iter().find(verifies) else {
            return Some(Err(Refusal::Invalid(reason::SIGNATURE)));
        };
        let mut judged = self.judge(expect, now);
        if let Ok(identity) = &mut judged {
            identity.key = Some(key.fingerprint);
        }
        Some(judged)
    }

    fn judge(&self, expect: &Expect<'_>, now: u64) -> Result<Identity, Refusal> {
        let malformed = Refusal::Invalid(reason::MALFORMED);
        let claims = URL_SAFE_NO_PAD.decode(self.claims).map_err(|_| malformed)?;
        // A claim that stands there twice is refused by serde, whichever reader would win.
        let claims: Claims = serde_json::from_slice(&claims).map_err(|_| malformed)?;
        if claims.iss.as_deref() != Some(expect.issuer) {
            return Err(Refusal::Invalid(reason::ISSUER));
        }
        if !claims.aud.is_some_and(|aud| aud.has_any(expect.audience)) {
            return Err(Refusal::Invalid(reason::AUDIENCE));
        }
        let expires_at = claims.exp.ok_or(malformed)?.0;
        let issued_at = claims.iat.ok_or(malformed)?.0;
        let latest = now.saturating_add(expect.leeway);
        if issued_at > latest || claims.nbf.is_some_and(|nbf| nbf.0 > latest) {
            return Err(Refusal::Invalid(reason::NOT_YET));
        }
        if expires_at.saturating_add(expect.leeway) <= now {
            return Err(Refusal::Expired);
        }
        let subject = claims.sub.filter(|sub| !sub.is_empty());
        let subject = subject.ok_or(Refusal::Invalid(reason::SUBJECT))?;
        let client = [claims.client_id, claims.azp, claims.agent_id]
            .into_iter()
            .flatten()
            .find(|client| !client.is_empty())
            .unwrap_or_else(|| subject.clone());
        check_names([&subject, &client])?;
        let scopes = claims.scope.or(claims.scp).or(claims.permissions);
        let mut identity = Identity::new(subject, client, Words::scopes(scopes), expires_at);
        identity.issued_at = issued_at;
        identity.token_id = claims.jti.map(Into::into);
        identity.family = claims.interzone_family.map(Into::into);
        identity.certificate = claims.cnf.map(Confirmation::certificate).transpose()?;
        Ok(identity)
    }
}

/// Names go into records and logs, so they have an end and nothing in them that cannot be seen.
/// 255 characters are what OpenID Connect allows a subject.
pub(super) fn check_names(names: [&str; 2]) -> Result<(), Refusal> {
    let fits = |name: &str| name.len() <= 255 && !name.chars().any(char::is_control);
    match names.into_iter().all(fits) {
        true => Ok(()),
        false => Err(Refusal::Invalid(reason::SUBJECT)),
    }
}

/// RFC 9068, 2.1 and RFC 7519, 5.1; `application/` may be written out.
fn is_access_token(typ: &str) -> bool {
    ["JWT", "at+jwt", "application/at+jwt"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(typ))
}

#[derive(Deserialize)]
struct Claims {
    iss: Option<String>,
    sub: Option<String>,
    aud: Option<Words>,
    exp: Option<Seconds>,
    nbf: Option<Seconds>,
    iat: Option<Seconds>,
    jti: Option<String>,
    client_id: Option<String>,
    azp: Option<String>,
    agent_id: Option<String>,
    scope: Option<Words>,
    scp: Option<Words>,
    permissions: Option<Words>,
    cnf: Option<Confirmation>,
    interzone_family: Option<String>,
}

/// One string or several: what `aud` and scopes may be.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Words {
    One(String),
    Many(Vec<String>),
}

impl Words {
    /// True if one of them is exactly one of `wanted`.
    pub(super) fn has_any(&self, wanted: &[String]) -> bool {
        match self {
            Self::One(word) => wanted.contains(word),
            Self::Many(words) => words.iter().any(|word| wanted.contains(word)),
        }
    }

    /// Scopes come as one string with spaces, or as a list.
    pub(super) fn scopes(words: Option<Self>) -> Vec<Box<str>> {
        let split = |text: &str| text.split_ascii_whitespace().map(Into::into).collect();
        match words {
            None => Vec::new(),
            Some(Self::One(text)) => split(&text),
            Some(Self::Many(words)) => split(&words.join(" ")),
        }
    }
}

/// Seconds since 1970. RFC 7519 lets them have a fraction.
#[derive(Clone, Copy)]
pub(super) struct Seconds(pub(super) u64);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        if let Some(whole) = number.as_u64() {
            return Ok(Self(whole));
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
            _ => Err(serde::de::Error::custom("not a moment")),
        }
    }
}

/// What else must be there for the token to count (RFC 7800).
#[derive(Deserialize)]
pub(super) struct Confirmation {
    #[serde(rename = "x5t#S256")]
    certificate: Option<String>,
    #[serde(flatten)]
    others: std::collections::BTreeMap<String, serde_json::Value>,
}

impl Confirmation {
    /// The hash of the certificate. A binding of a kind that we cannot check is not ignored.
    pub(super) fn certificate(self) -> Result<[u8; 32], Refusal> {
        let refused = Refusal::Invalid(reason::BINDING);
        let text = self.certificate.filter(|_| self.others.is_empty());
        let hash = URL_SAFE_NO_PAD.decode(text.ok_or(refused)?);
        hash.ok()
            .and_then(|hash| hash.try_into().ok())
            .ok_or(refused)
    }
}
