//! Test issuer with its own keys, so that any valid or invalid token can be made.

use super::mock_server::{MockServer, json_response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const AUDIENCE: &str = "https://acp.test";
pub(crate) const EVERY_SCOPE: &str = "acp:agent:identify acp:tasks:read acp:tasks:write \
     acp:tasks:cancel acp:streams:read acp:streams:write acp:notifications:receive";

pub(crate) struct TestIssuer {
    pub(crate) url: String,
    pub(crate) key: KeyPair,
    /// Number of times the keys were fetched.
    pub(crate) key_fetches: Arc<AtomicUsize>,
    _web: MockServer,
}

pub(crate) const KID: &str = "the-key";

pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns a public EC key as a JWK. The raw key is a format byte, then both coordinates.
pub(crate) fn jwk(key: &KeyPair, kid: &str) -> Value {
    let raw = key.public_key_raw();
    assert_eq!((raw.len(), raw[0]), (65, 4), "an uncompressed point");
    json!({
        "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": kid,
        "x": base64url(&raw[1..33]), "y": base64url(&raw[33..]),
    })
}

/// Signs any header and claims with an EC key.
pub(crate) fn sign_token(header: &Header, claims: &Value, key: &KeyPair) -> String {
    let key = EncodingKey::from_ec_der(&key.serialize_der());
    jsonwebtoken::encode(header, claims, &key).unwrap()
}

impl TestIssuer {
    pub(crate) async fn start() -> Self {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let keys = json!({"keys": [jwk(&key, KID)]}).to_string();
        let fetched = Arc::new(AtomicUsize::new(0));
        let count = fetched.clone();
        let web = MockServer::start(move |request| {
            if request.path == "/jwks.json" {
                count.fetch_add(1, Ordering::SeqCst);
                json_response(200, keys.clone())
            } else {
                json_response(404, "{}")
            }
        })
        .await;
        Self {
            url: format!("http://{}/", web.address),
            key,
            key_fetches: fetched,
            _web: web,
        }
    }

    /// Claims that are valid for an hour.
    pub(crate) fn claims(&self, subject: &str, scope: &str) -> Value {
        json!({
            "iss": self.url, "aud": AUDIENCE, "sub": subject, "client_id": subject, "scope": scope,
            "iat": now(), "exp": now() + 3600, "jti": format!("{subject}-{scope}"),
        })
    }

    pub(crate) fn header(&self) -> Header {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(KID.to_owned());
        header.typ = Some("at+jwt".to_owned());
        header
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        sign_token(&self.header(), claims, &self.key)
    }

    /// Token with every scope.
    pub(crate) fn token(&self, subject: &str) -> String {
        self.sign(&self.claims(subject, EVERY_SCOPE))
    }

    pub(crate) fn token_with_scope(&self, subject: &str, scope: &str) -> String {
        self.sign(&self.claims(subject, scope))
    }

    /// Token that expired an hour ago.
    pub(crate) fn expired_token(&self, subject: &str) -> String {
        let mut claims = self.claims(subject, EVERY_SCOPE);
        claims["iat"] = json!(now() - 7200);
        claims["exp"] = json!(now() - 3600);
        self.sign(&claims)
    }
}
