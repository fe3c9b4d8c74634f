//! Signatures of webhooks: HMAC-SHA256 over the exact bytes of the body.
//!
//! Two headers say the same, because receivers look for either. A third signs the moment of sending
//! along with the body: a receiver that checks it, and that the moment is recent, cannot be fooled with
//! a body that was overheard.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use hmac::{Hmac, KeyInit, Mac};
use interzone_edge::Secret;
use sha2::Sha256;
use std::fmt::Write as _;

const SIGNATURE: HeaderName = HeaderName::from_static("x-webhook-signature");
const ACP_SIGNATURE: HeaderName = HeaderName::from_static("x-acp-signature");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-webhook-timestamp");
const TIMED_SIGNATURE: HeaderName = HeaderName::from_static("x-webhook-signature-timestamp");

/// Adds the moment of sending, in seconds since 1970, and the signatures if there is a secret.
pub(super) fn sign(headers: &mut HeaderMap, secret: Option<&Secret>, seconds: i64, body: &[u8]) {
    let moment = seconds.to_string();
    put(headers, TIMESTAMP, &moment);
    let Some(secret) = secret else {
        return;
    };
    let plain = mac(secret, &[body]);
    let timed = mac(secret, &[moment.as_bytes(), b".", body]);
    put(headers, SIGNATURE, &format!("sha256={plain}"));
    put(headers, ACP_SIGNATURE, &plain);
    put(headers, TIMED_SIGNATURE, &format!("sha256={timed}"));
}

/// Adds a header, if its value can be one.
pub(super) fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn mac(secret: &Secret, pieces: &[&[u8]]) -> String {
    // HMAC takes keys of every length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) else {
        return String::new();
    };
    pieces.iter().for_each(|piece| mac.update(piece));
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
    fn signatures_are_those_that_receivers_compute() {
        let mut headers = HeaderMap::new();
        let secret = Secret::new("key".to_owned());
        let body = b"The quick brown fox jumps over the lazy dog";
        sign(&mut headers, Some(&secret), 1_700_000_000, body);
        // The best known example of HMAC-SHA256.
        let known = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
        assert_eq!(headers["x-webhook-signature"], format!("sha256={known}"));
        assert_eq!(headers["x-acp-signature"], known);
        assert_eq!(headers["x-webhook-timestamp"], "1700000000");
        let timed = mac(&secret, &[b"1700000000.", body]);
        assert_ne!(timed, known);
        assert_eq!(
            headers["x-webhook-signature-timestamp"],
            format!("sha256={timed}")
        );
    }

    #[test]
    fn without_a_secret_nothing_is_signed() {
        let mut headers = HeaderMap::new();
        sign(&mut headers, None, 7, b"x");
        assert_eq!(headers.len(), 1);
    }
}
