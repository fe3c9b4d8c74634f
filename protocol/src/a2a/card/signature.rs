//! Canonical form of an agent card, which its signature covers. The caller chooses keys and algorithms.

use super::A2aAgentCard;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// Largest integer up to which ECMAScript represents all integers exactly.
const MAX_SAFE_INTEGER: u64 = 9_007_199_254_740_992;

/// Canonical form of a card, which its signature covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CanonicalForm {
    /// As in the specification: unset and default members are left out, required ones are kept.
    Specification,
    /// As the official SDKs compute it: without any empty string, array or object.
    Pruned,
}

impl A2aAgentCard {
    /// The canonical JSON (RFC 8785) of the card without its signatures.
    ///
    /// # Errors
    /// The card has no JSON form.
    pub fn canonical_json(&self, form: CanonicalForm) -> Result<Vec<u8>, serde_json::Error> {
        let unsigned = Self {
            signatures: Vec::new(),
            ..self.clone()
        };
        // The form of 1.0 has no unset and no default member, which is the specification's form.
        let mut card = serde_json::to_value(unsigned)?;
        if form == CanonicalForm::Pruned {
            prune(&mut card);
        }
        round_integers(&mut card);
        serde_json_canonicalizer::to_vec(&card)
    }
}

/// Removes empty strings, arrays and objects and nulls, innermost first. Returns false if nothing remains.
fn prune(value: &mut Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => {
            items.retain_mut(prune);
            !items.is_empty()
        }
        Value::Object(members) => {
            members.retain(|_, value| prune(value));
            !members.is_empty()
        }
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Replaces integers that ECMAScript cannot represent by the nearest number that it can.
fn round_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let is_exact = number.is_f64()
                || number
                    .as_i64()
                    .is_some_and(|number| number.unsigned_abs() <= MAX_SAFE_INTEGER);
            if !is_exact && let Some(rounded) = number.as_f64().and_then(Number::from_f64) {
                *number = rounded;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(round_integers),
        Value::Object(members) => members.values_mut().for_each(round_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Bytes to sign: the protected header and the card's canonical JSON.
///
/// # Errors
/// The card has no JSON form.
pub fn signing_input(
    card: &A2aAgentCard,
    form: CanonicalForm,
    protected: &str,
) -> Result<String, serde_json::Error> {
    let payload = BASE64_URL_SAFE_NO_PAD.encode(card.canonical_json(form)?);
    Ok(format!("{protected}.{payload}"))
}

/// Protected header of a card's signature.
///
/// ```
/// use interzone_protocol::a2a::ProtectedHeader;
///
/// let header = ProtectedHeader::new("EdDSA", "k1");
/// let encoded = header.encode()?;
/// assert_eq!(encoded, "eyJhbGciOiJFZERTQSIsImtpZCI6ImsxIiwidHlwIjoiSk9TRSJ9");
/// assert_eq!(ProtectedHeader::decode(&encoded), Some(header));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedHeader {
    /// Signature algorithm.
    pub alg: String,
    /// Id of the key.
    pub kid: String,
    /// `JOSE`.
    #[serde(default = "jose")]
    pub typ: String,
    /// URL of the key set. Only a trusted origin's is ever fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jku: Option<String>,
}

fn jose() -> String {
    "JOSE".to_owned()
}

impl ProtectedHeader {
    /// A header without the URL of a key set.
    pub fn new(alg: impl Into<String>, kid: impl Into<String>) -> Self {
        Self {
            alg: alg.into(),
            kid: kid.into(),
            typ: jose(),
            jku: None,
        }
    }

    /// Encodes the header as base64url.
    ///
    /// # Errors
    /// None in practice: every header has a JSON form.
    pub fn encode(&self) -> Result<String, serde_json::Error> {
        Ok(BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(self)?))
    }

    /// Decodes a signature's `protected`; `None` if it is not a header with algorithm and key id.
    pub fn decode(protected: &str) -> Option<Self> {
        let json = BASE64_URL_SAFE_NO_PAD.decode(protected).ok()?;
        serde_json::from_slice(&json).ok()
    }
}
