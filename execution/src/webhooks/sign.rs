//! Signatures of webhooks: HMAC-SHA256 over the exact bytes of the body.
//!
//! Two headers contain the same signature because receivers look for either. A third covers the time of sending
//! and the body: a receiver that checks it and rejects old timestamps is protected against replays.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use hmac::{Hmac, KeyInit, Mac};
use interzone_edge::Secret;
use sha2::Sha256;
use std::fmt::Write as _;

const SIGNATURE: HeaderName = HeaderName::from_static("x-webhook-signature");
const ACP_SIGNATURE: HeaderName = HeaderName::from_static("x-acp-signature");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-webhook-timestamp");
const TIMED_SIGNATURE: HeaderName = HeaderName::from_static("x-webhook-signature-timestamp");

/// Adds the timestamp, in seconds since 1970, and the signatures if there is a secret.
pub(super) fn sign(headers: &mut HeaderMap, secret: Option<&Secret>, seconds: i64, body: &[u8]) {
    let timestamp = seconds.to_string();
    insert_header(headers, TIMESTAMP, &timestamp);
    let Some(secret) = secret else {
        return;
    };
    let body_mac = hmac_hex(secret, &[body]);
    let timed_mac = hmac_hex(secret, &[timestamp.as_bytes(), b".", body]);
    insert_header(headers, SIGNATURE, &format!("sha256={body_mac}"));
    insert_header(headers, ACP_SIGNATURE, &body_mac);
    insert_header(headers, TIMED_SIGNATURE, &format!("sha256={timed_mac}"));
}

/// Adds a header if its value is valid.
pub(super) fn insert_header(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn hmac_hex(secret: &Secret, parts: &[&[u8]]) -> String {
    // HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) else {
        return String::new();
    };
    parts.iter().for_each(|piece| mac.update(piece));
    let mut hex = String::with_capacity(64);
    for byte in mac.finalize().into_bytes() {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_match_hmac_sha256_test_vector() {
        let mut headers = HeaderMap::new();
        let secret = Secret::new("key".to_owned());
        let body = b"The quick brown fox jumps over the lazy dog";
        sign(&mut headers, Some(&secret), 1_700_000_000, body);
        // Well-known test vector of HMAC-SHA256.
        let expected = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
        assert_eq!(headers["x-webhook-signature"], format!("sha256={expected}"));
        assert_eq!(headers["x-acp-signature"], expected);
        assert_eq!(headers["x-webhook-timestamp"], "1700000000");
        let timed = hmac_hex(&secret, &[b"1700000000.", body]);
        assert_ne!(timed, expected);
        assert_eq!(
            headers["x-webhook-signature-timestamp"],
            format!("sha256={timed}")
        );
    }

    #[test]
    fn webhook_without_secret_has_no_signature() {
        let mut headers = HeaderMap::new();
        sign(&mut headers, None, 7, b"x");
        assert_eq!(headers.len(), 1);
    }
}
