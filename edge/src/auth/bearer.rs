//! The token out of the `Authorization` header (RFC 6750, 2.1), and out of nowhere else.
//!
//! A token in a query string ends in logs, so no other place is looked at.

use super::Refusal;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

/// The longest token that is looked at. Real ones with many claims have about 4 KiB.
pub(super) const LONGEST: usize = 16 << 10;

/// The one `Authorization` header of a request.
///
/// # Errors
///
/// [`Refusal::Malformed`] if there are several: two readers could disagree about which one counts.
pub fn sole_authorization(headers: &HeaderMap) -> Result<Option<&HeaderValue>, Refusal> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    match (all.next(), all.next()) {
        (one, None) => Ok(one),
        _ => Err(Refusal::Malformed),
    }
}

/// The token in a header's value. Its letters are not looked at yet: a token that is known has been
/// looked at before.
pub(super) fn token(header: Option<&HeaderValue>) -> Result<&[u8], Refusal> {
    let value = header.ok_or(Refusal::Missing)?;
    let bytes = value.as_bytes();
    let (scheme, rest) = bytes
        .split_at_checked("Bearer".len())
        .ok_or(Refusal::Missing)?;
    if !scheme.eq_ignore_ascii_case(b"Bearer") {
        return Err(Refusal::Missing);
    }
    match rest.first() {
        // A header that says no more than `Bearer`.
        None => return Err(Refusal::Malformed),
        Some(b' ') => {}
        // Another scheme whose name begins like ours.
        Some(_) => return Err(Refusal::Missing),
    }
    let token = rest.trim_ascii();
    match (1..=LONGEST).contains(&token.len()) {
        true => Ok(token),
        false => Err(Refusal::Malformed),
    }
}

/// The token as text, if it has only the letters that a token may have.
pub(super) fn text(token: &[u8]) -> Result<&str, Refusal> {
    let text = std::str::from_utf8(token).map_err(|_| Refusal::Malformed)?;
    match token.iter().all(is_token_byte) {
        true => Ok(text),
        false => Err(Refusal::Malformed),
    }
}

/// The alphabet of RFC 6750, 2.1 (`b64token`).
const fn is_token_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Refusal, sole_authorization, text, token};
    use http::header::AUTHORIZATION;
    use http::{HeaderMap, HeaderValue};

    fn read(value: &str) -> Result<String, Refusal> {
        let value = HeaderValue::from_str(value).unwrap();
        token(Some(&value)).and_then(text).map(str::to_owned)
    }

    #[test]
    fn the_scheme_has_no_case_and_the_token_has() {
        for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
            assert_eq!(
                read(&format!("{scheme} aB.c-d_e~f+g/h=")).unwrap(),
                "aB.c-d_e~f+g/h="
            );
        }
        assert_eq!(read("Bearer   spaced  ").unwrap(), "spaced");
    }

    #[test]
    fn what_is_not_a_bearer_token_is_told_apart() {
        assert_eq!(token(None), Err(Refusal::Missing));
        for other in ["Basic dTpw", "Bear", "Bearerish x", "", "Bearer\tx"] {
            assert_eq!(read(other), Err(Refusal::Missing), "{other}");
        }
        for bad in [
            "Bearer",
            "Bearer ",
            "Bearer a b",
            "Bearer a,b",
            "Bearer \"a\"",
        ] {
            assert_eq!(read(bad), Err(Refusal::Malformed), "{bad}");
        }
        let raw = HeaderValue::from_bytes(b"Bearer \xc3\xa9").unwrap();
        assert_eq!(token(Some(&raw)).and_then(text), Err(Refusal::Malformed));
    }

    #[test]
    fn the_longest_token_passes_and_one_more_byte_does_not() {
        assert!(read(&format!("Bearer {}", "a".repeat(LONGEST))).is_ok());
        let long = format!("Bearer {}", "a".repeat(LONGEST + 1));
        assert_eq!(read(&long), Err(Refusal::Malformed));
    }

    #[test]
    fn two_headers_are_one_too_many() {
        let mut headers = HeaderMap::new();
        assert_eq!(sole_authorization(&headers), Ok(None));
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        assert!(sole_authorization(&headers).unwrap().is_some());
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        assert_eq!(sole_authorization(&headers), Err(Refusal::Malformed));
    }
}
