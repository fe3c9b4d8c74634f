//! Signing keys and their rotation.
//!
//! All keys are in one record, so that nodes that start or rotate at the same time agree by its revision: one
//! writes, the others read the result. A key is published before it signs and stays published until its last
//! token has expired. Private keys do not leave this module.

use super::credential::{self, RandomError};
use super::record_store::{IssuerRecords, IssuerStoreError};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use interzone_edge::auth::KeySet;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const KEYS_KIND: &str = "oauth.keys";
const KEYS_RECORD: &str = "ring";
/// Seconds for which a key is published before it signs: longer than verifiers cache a key set.
pub(super) const PUBLISH_AHEAD: u64 = 3600;
/// Seconds for which a key stays published after its last token, for clocks that are behind.
const RETIRE_LEEWAY: u64 = 300;
/// Maximum number of compare-and-swap attempts. One of the competing nodes succeeds each time.
const MAX_ATTEMPTS: usize = 16;

#[derive(Clone, Serialize, Deserialize)]
struct KeyRingRecord {
    /// HMAC key of the consent form's CSRF tickets, shared by all nodes.
    form_key: String,
    keys: Vec<KeyRecord>,
}

#[derive(Clone, Serialize, Deserialize)]
struct KeyRecord {
    kid: String,
    pkcs8: String,
    x: String,
    y: String,
    /// First second in which the key signs.
    from: u64,
    /// End of the signing period, exclusive.
    until: u64,
}

/// Key rotation parameters, in seconds.
#[derive(Clone, Copy)]
pub(super) struct KeyRotation {
    /// Time for which a key signs.
    pub(super) period: u64,
    /// Lifetime of its last token.
    pub(super) token_ttl: u64,
}

/// Error while loading or rotating the signing keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRingError {
    /// The record store failed.
    #[error("the signing keys cannot be read or written")]
    RecordStore(#[from] IssuerStoreError),
    /// A key could not be generated.
    #[error("no signing key could be generated")]
    NoRandom(#[from] RandomError),
    /// The record is corrupt.
    #[error("the signing key record is corrupt: remove it to create new keys")]
    Corrupt,
    /// Other nodes kept changing the record.
    #[error("too many nodes are changing the signing keys at once, try again")]
    Conflict,
}

/// The loaded signing keys.
pub(super) struct KeyRing {
    signers: Vec<SigningKey>,
    /// Public keys for verification on this node.
    pub(super) keys: Arc<KeySet>,
    /// Published key set (JWKS).
    pub(super) jwks: Bytes,
    pub(super) form_key: Vec<u8>,
}

struct SigningKey {
    header: Header,
    key: EncodingKey,
    from: u64,
    until: u64,
}

impl KeyRing {
    /// Loads the keys and rotates them if due.
    pub(super) async fn load(
        store: &IssuerRecords,
        rotation: KeyRotation,
        now: u64,
    ) -> Result<Self, KeyRingError> {
        for _ in 0..MAX_ATTEMPTS {
            let stored = store.get(KEYS_KIND, KEYS_RECORD).await?;
            let revision = stored.as_ref().map(|stored| stored.revision);
            let record = match &stored {
                None => KeyRingRecord {
                    form_key: credential::random_base64::<32>()?,
                    keys: Vec::new(),
                },
                Some(stored) => {
                    serde_json::from_str(&stored.value).map_err(|_| KeyRingError::Corrupt)?
                }
            };
            let Some(next) = rotate(&record, rotation, now)? else {
                return Self::from_record(&record);
            };
            let value = serde_json::to_string(&next).map_err(|_| KeyRingError::Corrupt)?;
            if store
                .put(KEYS_KIND, KEYS_RECORD, &value, revision, None)
                .await?
            {
                return Self::from_record(&next);
            }
        }
        Err(KeyRingError::Conflict)
    }

    fn from_record(record: &KeyRingRecord) -> Result<Self, KeyRingError> {
        let decode = |text: &str| {
            URL_SAFE_NO_PAD
                .decode(text)
                .map_err(|_| KeyRingError::Corrupt)
        };
        let mut signers = Vec::new();
        let mut published = Vec::new();
        for key in &record.keys {
            let mut header = Header::new(Algorithm::ES256);
            header.typ = Some("at+jwt".to_owned());
            header.kid = Some(key.kid.clone());
            signers.push(SigningKey {
                header,
                key: EncodingKey::from_ec_der(&decode(&key.pkcs8)?),
                from: key.from,
                until: key.until,
            });
            published.push(serde_json::json!({
                "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256",
                "kid": key.kid, "x": key.x, "y": key.y,
            }));
        }
        let jwks = serde_json::json!({ "keys": published }).to_string();
        let keys = KeySet::parse(jwks.as_bytes()).map_err(|_| KeyRingError::Corrupt)?;
        Ok(Self {
            signers,
            keys: Arc::new(keys),
            jwks: jwks.into(),
            form_key: decode(&record.form_key)?,
        })
    }

    /// Signs claims with the current key.
    pub(super) fn sign(&self, claims: &impl Serialize, now: u64) -> Option<String> {
        let is_current = |signer: &&SigningKey| signer.from <= now && now < signer.until;
        // If no key is current, the last one is used: an overdue key is better than no tokens.
        let signer = self
            .signers
            .iter()
            .find(is_current)
            .or(self.signers.last())?;
        jsonwebtoken::encode(&signer.header, claims, &signer.key).ok()
    }
}

/// Returns the rotated record; `None` if no change is due.
fn rotate(
    record: &KeyRingRecord,
    rotation: KeyRotation,
    now: u64,
) -> Result<Option<KeyRingRecord>, KeyRingError> {
    let is_needed = |key: &&KeyRecord| {
        let last_token = key.until.saturating_add(rotation.token_ttl);
        now < last_token.saturating_add(RETIRE_LEEWAY)
    };
    let keys: Vec<KeyRecord> = record.keys.iter().filter(is_needed).cloned().collect();
    let mut next = KeyRingRecord {
        form_key: record.form_key.clone(),
        keys,
    };
    let last_until = next.keys.iter().map(|key| key.until).max().unwrap_or(0);
    if last_until <= now.saturating_add(PUBLISH_AHEAD) {
        next.keys
            .push(new_key(last_until.max(now), rotation.period)?);
    } else if next.keys.len() == record.keys.len() {
        return Ok(None);
    }
    Ok(Some(next))
}

fn new_key(from: u64, period: u64) -> Result<KeyRecord, RandomError> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| RandomError)?;
    let pkcs8 = pair.to_pkcs8v1().map_err(|_| RandomError)?;
    // An uncompressed point: 4, then x, then y.
    let point = pair.public_key().as_ref();
    let (x, y) = point
        .strip_prefix(&[4])
        .and_then(|coordinates| coordinates.split_at_checked(32))
        .ok_or(RandomError)?;
    Ok(KeyRecord {
        kid: credential::random_base64::<12>()?,
        pkcs8: URL_SAFE_NO_PAD.encode(pkcs8.as_ref()),
        x: URL_SAFE_NO_PAD.encode(x),
        y: URL_SAFE_NO_PAD.encode(y),
        from,
        until: from.saturating_add(period),
    })
}
