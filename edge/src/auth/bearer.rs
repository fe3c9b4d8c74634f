//! Bearer token of the `Authorization` header (RFC 6750, 2.1).
//!
//! Tokens in a query string are not accepted, because they end up in logs.

use super::AuthFailure;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

/// Maximum length of a token. Real ones with many claims have about 4 KiB.
pub(super) const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Returns the single `Authorization` header of a request.
///
/// # Errors
///
/// [`AuthFailure::Malformed`] if there are several: two readers could disagree about which one counts.
pub fn single_authorization(headers: &HeaderMap) -> Result<Option<&HeaderValue>, AuthFailure> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    match (all.next(), all.next()) {
        (one, None) => Ok(one),
        _ => Err(AuthFailure::Malformed),
    }
}

/// Returns the token of a header value. Its characters are not checked yet: a cached token has been checked before.
pub(super) fn bearer_token(header: Option<&HeaderValue>) -> Result<&[u8], AuthFailure> {
    let value = header.ok_or(AuthFailure::Missing)?;
    let bytes = value.as_bytes();
    let (scheme, remainder) = bytes
        .split_at_checked("Bearer".len())
        .ok_or(AuthFailure::Missing)?;
    if !scheme.eq_ignore_ascii_case(b"Bearer") {
        return Err(AuthFailure::Missing);
    }
    match remainder.first() {
        // The header is only `Bearer`.
        None => return Err(AuthFailure::Malformed),
        Some(b' ') => {}
        // Another scheme whose name starts with `Bearer`.
        Some(_) => return Err(AuthFailure::Missing),
    }
    let token = remainder.trim_ascii();
    match (1..=MAX_TOKEN_BYTES).contains(&token.len()) {
        true => Ok(token),
        false => Err(AuthFailure::Malformed),
    }
}

/// Returns the token as text, if it has only allowed characters.
pub(super) fn token_text(token: &[u8]) -> Result<&str, AuthFailure> {
    let text = std::str::from_utf8(token).map_err(|_| AuthFailure::Malformed)?;
    match token.iter().all(is_token_byte) {
        true => Ok(text),
        false => Err(AuthFailure::Malformed),
    }
}

/// Returns true for the alphabet of RFC 6750, 2.1 (`b64token`).
const fn is_token_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
}

#[cfg(test)]
mod tests {
    use super::{AuthFailure, MAX_TOKEN_BYTES, bearer_token, single_authorization, token_text};
    use http::header::AUTHORIZATION;
    use http::{HeaderMap, HeaderValue};

    fn parse_token(value: &str) -> Result<String, AuthFailure> {
        let value = HeaderValue::from_str(value).unwrap();
        bearer_token(Some(&value))
            .and_then(token_text)
            .map(str::to_owned)
    }

    #[test]
    fn scheme_is_case_insensitive_token_is_not() {
        for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
            assert_eq!(
                parse_token(&format!("{scheme} aB.c-d_e~f+g/h=")).unwrap(),
                "aB.c-d_e~f+g/h="
            );
        }
        assert_eq!(parse_token("Bearer   spaced  ").unwrap(), "spaced");
    }

    #[test]
    fn missing_and_malformed_tokens_are_distinguished() {
        assert_eq!(bearer_token(None), Err(AuthFailure::Missing));
        for other in ["Basic dTpw", "Bear", "Bearerish x", "", "Bearer\tx"] {
            assert_eq!(parse_token(other), Err(AuthFailure::Missing), "{other}");
        }
        for bad in [
            "Bearer",
            "Bearer ",
            "Bearer a b",
            "Bearer a,b",
            "Bearer \"a\"",
        ] {
            assert_eq!(parse_token(bad), Err(AuthFailure::Malformed), "{bad}");
        }
        let raw = HeaderValue::from_bytes(b"Bearer \xc3\xa9").unwrap();
        assert_eq!(
            bearer_token(Some(&raw)).and_then(token_text),
            Err(AuthFailure::Malformed)
        );
    }

    #[test]
    fn token_over_max_length_is_malformed() {
        assert!(parse_token(&format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES))).is_ok());
        let long = format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES + 1));
        assert_eq!(parse_token(&long), Err(AuthFailure::Malformed));
    }

    #[test]
    fn two_authorization_headers_are_malformed() {
        let mut headers = HeaderMap::new();
        assert_eq!(single_authorization(&headers), Ok(None));
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        assert!(single_authorization(&headers).unwrap().is_some());
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        assert_eq!(single_authorization(&headers), Err(AuthFailure::Malformed));
    }
}
