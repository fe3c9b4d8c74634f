//! Public keys of an issuer that verify tokens (JWK set, RFC 7517).
//!
//! A key is bound to one algorithm when it is parsed, so that a token cannot choose another one for it. Symmetric keys
//! and encryption keys are skipped.

use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use std::fmt;

/// Maximum number of keys; more than any issuer has at once. Further keys are ignored.
const MAX_KEYS: usize = 64;

/// A set of public keys.
#[derive(Clone, Default)]
pub struct KeySet {
    keys: Vec<VerificationKey>,
}

/// A public key and the algorithm it verifies.
#[derive(Clone)]
pub(crate) struct VerificationKey {
    id: Option<Box<str>>,
    algorithm: Algorithm,
    pub(crate) decoding: DecodingKey,
    pub(crate) fingerprint: KeyFingerprint,
}

/// SHA-256 of a key and its id. Changes when the id is given to another key.
pub(crate) type KeyFingerprint = [u8; 32];

/// Result of a key lookup.
pub(crate) enum KeyLookup<'a> {
    /// Candidate keys. More than one only if an issuer gives one id to several keys.
    Keys(Vec<&'a VerificationKey>),
    /// No key has this id, or without an id none fits the algorithm. A newer set may contain it.
    Unknown,
    /// The token names no key and several would fit, or its key is for another algorithm.
    Mismatch,
}

impl KeySet {
    /// Parses a JWK set. Keys that cannot verify a supported algorithm are skipped; the result may be empty.
    ///
    /// # Errors
    ///
    /// The input is not a JWK set.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct JwkSet {
            keys: Vec<serde_json::Value>,
        }
        let set: JwkSet = serde_json::from_slice(json)?;
        let keys = set.keys.into_iter().filter_map(parse_jwk).take(MAX_KEYS);
        Ok(Self {
            keys: keys.collect(),
        })
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns true if the set has no usable key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns true if exactly this key is in the set, under the same id.
    pub(crate) fn contains(&self, fingerprint: &KeyFingerprint) -> bool {
        // There are few keys: a scan is faster than any index.
        self.keys.iter().any(|key| key.fingerprint == *fingerprint)
    }

    /// Returns the keys that may have made a signature with this algorithm.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> KeyLookup<'_> {
        let matching = self.keys.iter().filter(|key| match id {
            Some(id) => key.id.as_deref() == Some(id),
            None => key.algorithm == algorithm,
        });
        let (fitting, others): (Vec<&VerificationKey>, Vec<&VerificationKey>) =
            matching.partition(|key| key.algorithm == algorithm);
        match (fitting.len(), id) {
            (0, _) if others.is_empty() => KeyLookup::Unknown,
            (0, _) => KeyLookup::Mismatch,
            (1, _) | (_, Some(_)) => KeyLookup::Keys(fitting),
            (_, None) => KeyLookup::Mismatch,
        }
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.keys.iter().map(|key| (&key.id, key.algorithm)))
            .finish()
    }
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

fn parse_jwk(value: serde_json::Value) -> Option<VerificationKey> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    if jwk
        .purpose
        .as_deref()
        .is_some_and(|purpose| purpose != "sig")
    {
        return None;
    }
    let verifies = |operations: &Vec<String>| operations.iter().any(|name| name == "verify");
    if !jwk.key_ops.as_ref().is_none_or(verifies) {
        return None;
    }
    let (algorithm, name, key) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => {
            let (n, e) = (jwk.n.as_ref()?, jwk.e.as_ref()?);
            let key = DecodingKey::from_rsa_components(n, e).ok()?;
            (Algorithm::RS256, "RS256", key)
        }
        ("EC", Some("P-256")) => {
            let (x, y) = (jwk.x.as_ref()?, jwk.y.as_ref()?);
            let key = DecodingKey::from_ec_components(x, y).ok()?;
            (Algorithm::ES256, "ES256", key)
        }
        ("OKP", Some("Ed25519")) => {
            let key = DecodingKey::from_ed_components(jwk.x.as_ref()?).ok()?;
            (Algorithm::EdDSA, "EdDSA", key)
        }
        _ => return None,
    };
    // RFC 9864 gives EdDSA on this curve a name of its own.
    let is_same_algorithm = |given: &str| given == name || (name == "EdDSA" && given == "Ed25519");
    if !jwk.alg.as_deref().is_none_or(is_same_algorithm) {
        return None;
    }
    let material = [&jwk.kid, &jwk.n, &jwk.e, &jwk.x, &jwk.y];
    // Serialized as JSON, so that the parts are delimited and one cannot pass for another.
    let text = serde_json::to_vec(&(name, material)).ok()?;
    Some(VerificationKey {
        id: jwk.kid.map(Into::into),
        algorithm,
        decoding: key,
        fingerprint: super::token_cache::token_hash(&text),
    })
}
