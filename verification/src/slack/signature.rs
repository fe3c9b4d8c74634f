//! Slack signature check: verifies the HMAC-SHA256 of the raw body and the timestamp. A request must not be trusted
//! before it is verified.

use hmac::{Hmac, KeyInit, Mac};
use interzone_edge::Secret;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Maximum clock skew in seconds, in both directions.
const MAX_CLOCK_SKEW_SECS: u64 = 300;
const SIGNATURE_VERSION: &str = "v0";
/// Number of hex digits of a signature: two per byte of SHA-256.
const SIGNATURE_DIGITS: usize = 64;
const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Signature header.
pub const SIGNATURE_HEADER: &str = "x-slack-signature";
/// Timestamp header.
pub const TIMESTAMP_HEADER: &str = "x-slack-request-timestamp";

/// Signature verification error. Only for the log; the sender gets no details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// No signing secret is configured.
    #[error("there is no signing secret: write it into `signing_secret_file`")]
    NoSecret,
    /// A header is missing or repeated.
    #[error("the signature or its time is missing")]
    Missing,
    /// The timestamp is not a number of seconds.
    #[error("the time of the signature is not a number")]
    InvalidTimestamp,
    /// The timestamp is outside the allowed clock skew.
    #[error("the signature is {seconds} s off: it may be a replay, or a clock is wrong")]
    ClockSkew {
        /// The difference in seconds.
        seconds: u64,
    },
    /// The signature does not match: another secret, or a changed body.
    #[error("the signature is not that of this body")]
    Mismatch,
}

/// Checks the headers before the body is read: timestamp within the allowed skew, and a well-formed signature.
///
/// # Errors
/// The request cannot be from Slack, whatever its body.
pub fn check_headers(
    secret: &Secret,
    timestamp: Option<&str>,
    signature: Option<&str>,
    now: u64,
) -> Result<(), SignatureError> {
    let signature = SignatureParts::parse(secret, timestamp, signature, now)?.signature;
    let digits = signature.strip_prefix(SIGNATURE_VERSION);
    let digits = digits.and_then(|rest| rest.strip_prefix('='));
    let digits = digits.filter(|digits| digits.len() == SIGNATURE_DIGITS);
    match digits.is_some_and(|digits| digits.bytes().all(|byte| HEX_DIGITS.contains(&byte))) {
        true => Ok(()),
        false => Err(SignatureError::Mismatch),
    }
}

/// Verifies a request.
///
/// `now` is Unix time in seconds. The signature is compared in constant time.
///
/// # Errors
/// The signature is missing, expired or wrong.
pub fn verify(
    secret: &Secret,
    timestamp: Option<&str>,
    signature: Option<&str>,
    body: &[u8],
    now: u64,
) -> Result<(), SignatureError> {
    let SignatureParts {
        secret,
        timestamp,
        signature,
    } = SignatureParts::parse(secret, timestamp, signature, now)?;
    let expected = sign(secret.as_bytes(), timestamp, body).ok_or(SignatureError::Mismatch)?;
    let matches: bool = expected.as_bytes().ct_eq(signature.as_bytes()).into();
    if matches {
        Ok(())
    } else {
        Err(SignatureError::Mismatch)
    }
}

/// Signature inputs with a valid timestamp.
struct SignatureParts<'s> {
    secret: &'s str,
    timestamp: &'s str,
    signature: &'s str,
}

impl<'s> SignatureParts<'s> {
    fn parse(
        secret: &'s Secret,
        timestamp: Option<&'s str>,
        signature: Option<&'s str>,
        now: u64,
    ) -> Result<Self, SignatureError> {
        let secret = Some(secret.expose().trim()).filter(|secret| !secret.is_empty());
        let secret = secret.ok_or(SignatureError::NoSecret)?;
        let is_present = |header: Option<&'_ str>| header.is_some_and(|text| !text.is_empty());
        if !is_present(timestamp) || !is_present(signature) {
            return Err(SignatureError::Missing);
        }
        let (timestamp, signature) = (timestamp.unwrap_or_default(), signature.unwrap_or_default());
        // `parse` would also take a plus sign.
        let is_digits = timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let sent_at: u64 = timestamp
            .parse()
            .map_err(|_| SignatureError::InvalidTimestamp)?;
        if !is_digits {
            return Err(SignatureError::InvalidTimestamp);
        }
        let seconds = now.abs_diff(sent_at);
        if seconds > MAX_CLOCK_SKEW_SECS {
            return Err(SignatureError::ClockSkew { seconds });
        }
        Ok(Self {
            secret,
            timestamp,
            signature,
        })
    }
}

/// Computes the signature that Slack would send.
pub(crate) fn sign(secret: &[u8], timestamp: &str, body: &[u8]) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    for part in [
        SIGNATURE_VERSION.as_bytes(),
        b":",
        timestamp.as_bytes(),
        b":",
        body,
    ] {
        mac.update(part);
    }
    let mac_bytes = mac.finalize().into_bytes();
    let nibbles = mac_bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = nibbles.filter_map(|nibble| HEX_DIGITS.get(usize::from(nibble)).copied());
    let hex: String = digits.map(char::from).collect();
    Some(format!("{SIGNATURE_VERSION}={hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of Slack's own documentation ("Verifying requests from Slack").
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const TIME: &str = "1531420618";
    const NOW: u64 = 1_531_420_618;
    const BODY: &[u8] = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";

    fn check(
        secret: &str,
        time: Option<&str>,
        signature: Option<&str>,
    ) -> Result<(), SignatureError> {
        verify(&Secret::new(secret), time, signature, BODY, NOW)
    }

    fn check_time(time: &str) -> Result<(), SignatureError> {
        let signature = sign(SECRET.as_bytes(), time, BODY).unwrap();
        check(SECRET, Some(time), Some(&signature))
    }

    #[test]
    fn documentation_example_is_verified() {
        assert_eq!(check(SECRET, Some(TIME), Some(SIGNATURE)), Ok(()));
        assert_eq!(
            check(&format!("{SECRET}\n"), Some(TIME), Some(SIGNATURE)),
            Ok(()),
            "a file ends with a line break"
        );
    }

    #[test]
    fn headers_are_checked_before_body() {
        let check = |time, signature| {
            let secret = Secret::new(SECRET);
            check_headers(&secret, Some(time), Some(signature), NOW)
        };
        let other = "v0=0000000000000000000000000000000000000000000000000000000000000000";
        assert_eq!(check(TIME, SIGNATURE), Ok(()));
        assert_eq!(check(TIME, other), Ok(()), "the mismatch needs the body");
        assert_eq!(check("x", other), Err(SignatureError::InvalidTimestamp));
        let off = NOW - 1;
        assert_eq!(
            check("1", other),
            Err(SignatureError::ClockSkew { seconds: off })
        );
        for malformed in ["v0=", "v1=00", "x", &other[1..], &other[..66]] {
            assert_eq!(
                check(TIME, malformed),
                Err(SignatureError::Mismatch),
                "{malformed}"
            );
        }
        assert_eq!(
            check(TIME, &SIGNATURE.to_uppercase()),
            Err(SignatureError::Mismatch)
        );
    }

    #[test]
    fn any_body_bytes_can_be_signed() {
        for body in [&b""[..], b"{}", "質問です".as_bytes(), &[0, 255, 10, 13]] {
            let signature = sign(SECRET.as_bytes(), TIME, body).unwrap();
            let secret = Secret::new(SECRET);
            let checked = verify(&secret, Some(TIME), Some(&signature), body, NOW);
            assert_eq!(checked, Ok(()));
        }
    }

    #[test]
    fn clock_skew_over_five_minutes_is_rejected() {
        assert_eq!(check_time(&(NOW - 300).to_string()), Ok(()));
        assert_eq!(check_time(&(NOW + 300).to_string()), Ok(()));
        let skew = |off| Err(SignatureError::ClockSkew { seconds: off });
        assert_eq!(check_time(&(NOW - 301).to_string()), skew(301), "stale");
        assert_eq!(check_time(&(NOW + 301).to_string()), skew(301), "future");
        assert_eq!(check_time("0"), skew(NOW));
        assert_eq!(check_time(&u64::MAX.to_string()), skew(u64::MAX - NOW));
    }

    #[test]
    fn signed_non_numeric_timestamp_is_rejected() {
        for time in [
            "abc",
            "-1531420618",
            "+1531420618",
            "1531420618.0",
            "1531420618 ",
            " 1531420618",
            "1.5e9",
            "18446744073709551616",
            "１５３１",
        ] {
            assert_eq!(
                check_time(time),
                Err(SignatureError::InvalidTimestamp),
                "{time}"
            );
        }
    }

    #[test]
    fn missing_or_empty_header_or_secret_is_rejected() {
        for (time, signature) in [
            (None, None),
            (None, Some(SIGNATURE)),
            (Some(TIME), None),
            (Some(""), Some(SIGNATURE)),
            (Some(TIME), Some("")),
        ] {
            assert_eq!(check(SECRET, time, signature), Err(SignatureError::Missing));
        }
        for empty in ["", " \n"] {
            let signature = sign(b"", TIME, BODY).unwrap();
            let checked = check(empty, Some(TIME), Some(&signature));
            assert_eq!(checked, Err(SignatureError::NoSecret));
        }
    }

    #[test]
    fn changed_body_is_rejected() {
        let secret = Secret::new(SECRET);
        let mut body = BODY.to_vec();
        body[20] ^= 1;
        let mut longer = BODY.to_vec();
        longer.push(b'\n');
        for body in [&body[..], &longer, &BODY[1..], b""] {
            let checked = verify(&secret, Some(TIME), Some(SIGNATURE), body, NOW);
            assert_eq!(checked, Err(SignatureError::Mismatch));
        }
    }

    #[test]
    fn wrong_secret_time_or_format_is_rejected() {
        let assert_mismatch = |signature: &str| {
            assert_eq!(
                check(SECRET, Some(TIME), Some(signature)),
                Err(SignatureError::Mismatch),
                "{signature}"
            );
        };
        assert_eq!(
            check("another", Some(TIME), Some(SIGNATURE)),
            Err(SignatureError::Mismatch)
        );
        assert_eq!(
            check(SECRET, Some("1531420619"), Some(SIGNATURE)),
            Err(SignatureError::Mismatch)
        );
        let digits = SIGNATURE.trim_start_matches("v0=");
        assert_mismatch(digits);
        assert_mismatch(&format!("v1={digits}"));
        assert_mismatch(&format!("V0={digits}"));
        assert_mismatch(&format!("v0={}", digits.to_uppercase()));
        assert_mismatch(&SIGNATURE.to_uppercase());
        assert_mismatch("v0=");
        assert_mismatch(&SIGNATURE[..SIGNATURE.len() - 1]);
        assert_mismatch(&format!("{SIGNATURE}0"));
        assert_mismatch(&format!("{SIGNATURE} "));
        for position in 3..SIGNATURE.len() {
            let mut bytes = SIGNATURE.as_bytes().to_vec();
            bytes[position] = if bytes[position] == b'0' { b'1' } else { b'0' };
            assert_mismatch(&String::from_utf8(bytes).unwrap());
        }
    }
}
