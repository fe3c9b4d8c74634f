//! The keys that sign tokens, one after the other.
//!
//! All of them are in one record, so that nodes that start or rotate together agree by its revision:
//! one writes, the others read what it wrote. A key is published before it signs and stays published
//! until its last token has ended. Private keys leave this file as signatures only.

use super::credential::{self, NoRandom};
use super::keep::{Keep, KeepError};
use crate::auth::KeySet;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const KIND: &str = "oauth.keys";
const KEY: &str = "ring";
/// How long a key is published before it signs, in seconds: longer than anybody caches a key set.
pub(super) const AHEAD: u64 = 3600;
/// How much longer than its last token a key stays published, for clocks that are behind.
const BEHIND: u64 = 300;
/// How often to try again when other nodes write at the same time. One of them succeeds each time.
const TRIES: usize = 16;

#[derive(Clone, Serialize, Deserialize)]
struct Record {
    /// Proves that a form came from us, whichever node made it.
    form_key: String,
    keys: Vec<KeyRecord>,
}

#[derive(Clone, Serialize, Deserialize)]
struct KeyRecord {
    kid: String,
    pkcs8: String,
    x: String,
    y: String,
    /// The key signs from this second…
    from: u64,
    /// …until before this one.
    until: u64,
}

/// How keys follow each other, in seconds.
#[derive(Clone, Copy)]
pub(super) struct Rotation {
    /// How long a key signs.
    pub(super) every: u64,
    /// How long its last token lives.
    pub(super) token_ttl: u64,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The records cannot be reached.
    #[error("the signing keys cannot be read or written")]
    Keep(#[from] KeepError),
    /// No key could be made.
    #[error("no signing key could be made")]
    NoRandom(#[from] NoRandom),
    /// The record is damaged.
    #[error("the record of the signing keys cannot be understood: remove it to make new ones")]
    Damaged,
    /// Others changed the record again and again.
    #[error("the signing keys are being changed by too many at once, try again")]
    Busy,
}

/// The keys, ready for use.
pub(super) struct Ring {
    signers: Vec<Signer>,
    /// For whoever verifies here.
    pub(super) keys: Arc<KeySet>,
    /// For whoever verifies elsewhere.
    pub(super) jwks: Bytes,
    pub(super) form_key: Vec<u8>,
}

struct Signer {
    header: Header,
    key: EncodingKey,
    from: u64,
    until: u64,
}

impl Ring {
    /// Reads the ring, and brings it up to date if it is time.
    pub(super) async fn current(
        keep: &dyn Keep,
        rotation: Rotation,
        now: u64,
    ) -> Result<Self, RingError> {
        for _ in 0..TRIES {
            let kept = keep.get(KIND, KEY).await?;
            let revision = kept.as_ref().map(|kept| kept.revision);
            let record = match &kept {
                None => Record {
                    form_key: credential::random::<32>()?,
                    keys: Vec::new(),
                },
                Some(kept) => serde_json::from_str(&kept.value).map_err(|_| RingError::Damaged)?,
            };
            let Some(next) = turned(&record, rotation, now)? else {
                return Self::from_record(&record);
            };
            let value = serde_json::to_string(&next).map_err(|_| RingError::Damaged)?;
            if keep.put(KIND, KEY, &value, revision, None).await? {
                return Self::from_record(&next);
            }
        }
        Err(RingError::Busy)
    }

    fn from_record(record: &Record) -> Result<Self, RingError> {
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| RingError::Damaged);
        let mut signers = Vec::new();
        let mut published = Vec::new();
        for key in &record.keys {
            let mut header = Header::new(Algorithm::ES256);
            header.typ = Some("at+jwt".to_owned());
            header.kid = Some(key.kid.clone());
            signers.push(Signer {
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
        let keys = KeySet::parse(jwks.as_bytes()).map_err(|_| RingError::Damaged)?;
        Ok(Self {
            signers,
            keys: Arc::new(keys),
            jwks: jwks.into(),
            form_key: decode(&record.form_key)?,
        })
    }

    /// Signs claims with the key whose turn it is.
    pub(super) fn sign(&self, claims: &impl Serialize, now: u64) -> Option<String> {
        let turn = |signer: &&Signer| signer.from <= now && now < signer.until;
        // Without one in its turn, the last goes on: late keys are better than no tokens.
        let signer = self.signers.iter().find(turn).or(self.signers.last())?;
        jsonwebtoken::encode(&signer.header, claims, &signer.key).ok()
    }
}

/// The record as it should be now; `None` if it is.
fn turned(record: &Record, rotation: Rotation, now: u64) -> Result<Option<Record>, RingError> {
    let needed = |key: &&KeyRecord| {
        let last_token = key.until.saturating_add(rotation.token_ttl);
        now < last_token.saturating_add(BEHIND)
    };
    let keys: Vec<KeyRecord> = record.keys.iter().filter(needed).cloned().collect();
    let mut next = Record {
        form_key: record.form_key.clone(),
        keys,
    };
    let end = next.keys.iter().map(|key| key.until).max().unwrap_or(0);
    if end <= now.saturating_add(AHEAD) {
        next.keys.push(new_key(end.max(now), rotation.every)?);
    } else if next.keys.len() == record.keys.len() {
        return Ok(None);
    }
    Ok(Some(next))
}

fn new_key(from: u64, every: u64) -> Result<KeyRecord, NoRandom> {
    let made = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| NoRandom)?;
    let pkcs8 = made.to_pkcs8v1().map_err(|_| NoRandom)?;
    // An uncompressed point: 4, then x, then y.
    let point = made.public_key().as_ref();
    let (x, y) = point
        .strip_prefix(&[4])
        .and_then(|both| both.split_at_checked(32))
        .ok_or(NoRandom)?;
    Ok(KeyRecord {
        kid: credential::random::<12>()?,
        pkcs8: URL_SAFE_NO_PAD.encode(pkcs8.as_ref()),
        x: URL_SAFE_NO_PAD.encode(x),
        y: URL_SAFE_NO_PAD.encode(y),
        from,
        until: from.saturating_add(every),
    })
}
