//! Public keys that may verify a token, as an issuer publishes them (RFC 7517).
//!
//! A key is bound to one algorithm the moment it is read, so that a token cannot choose another one
//! for it. Symmetric keys and keys for encryption never enter.

use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use std::fmt;

/// More keys than any issuer has at once; the rest is left out.
const MOST_KEYS: usize = 64;

/// A set of public keys.
#[derive(Clone, Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

/// A key and what it verifies.
#[derive(Clone)]
pub(crate) struct Key {
    id: Option<Box<str>>,
    algorithm: Algorithm,
    pub(crate) decoding: DecodingKey,
    pub(crate) fingerprint: Fingerprint,
}

/// The SHA-256 of a key under its id. It changes when the id is given to another key.
pub(crate) type Fingerprint = [u8; 32];

/// What looking for a key came to.
pub(crate) enum Found<'a> {
    /// These may have signed it. More than one only if an issuer gives one id to several keys.
    Keys(Vec<&'a Key>),
    /// No key has this id, or without an id none fits the algorithm. A newer set may have it.
    Unknown,
    /// The token names no key and several would fit, or its key is of another kind.
    Unfit,
}

impl KeySet {
    /// Reads a JWK set. Keys that cannot verify our algorithms are left out; what is left may be
    /// nothing.
    ///
    /// # Errors
    ///
    /// If it is not a JWK set at all.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<serde_json::Value>,
        }
        let set: Set = serde_json::from_slice(json)?;
        let keys = set.keys.into_iter().filter_map(read).take(MOST_KEYS);
        Ok(Self {
            keys: keys.collect(),
        })
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if no key can verify anything.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// True if this very key is in it, under the same id.
    pub(crate) fn has(&self, fingerprint: &Fingerprint) -> bool {
        // A handful of keys: walking them is faster than any index.
        self.keys.iter().any(|key| key.fingerprint == *fingerprint)
    }

    /// The keys that may have made a signature of this kind.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Found<'_> {
        let named = self.keys.iter().filter(|key| match id {
            Some(id) => key.id.as_deref() == Some(id),
            None => key.algorithm == algorithm,
        });
        let (fitting, others): (Vec<&Key>, Vec<&Key>) =
            named.partition(|key| key.algorithm == algorithm);
        match (fitting.len(), id) {
            (0, _) if others.is_empty() => Found::Unknown,
            (0, _) => Found::Unfit,
            (1, _) | (_, Some(_)) => Found::Keys(fitting),
            (_, None) => Found::Unfit,
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

fn read(value: serde_json::Value) -> Option<Key> {
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
    let named = |given: &str| given == name || (name == "EdDSA" && given == "Ed25519");
    if !jwk.alg.as_deref().is_none_or(named) {
        return None;
    }
    let material = [&jwk.kid, &jwk.n, &jwk.e, &jwk.x, &jwk.y];
    // Every part with its end, so that no part can pass for another one.
    let text = serde_json::to_vec(&(name, material)).ok()?;
    Some(Key {
        id: jwk.kid.map(Into::into),
        algorithm,
        decoding: key,
        fingerprint: super::known::hash(&text),
    })
}
