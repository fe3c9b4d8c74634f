//! Whether Slack sent a request: its signature over the very bytes that came, and its time. Nothing of a
//! request may be believed before this says yes. What is in the body is not looked at here.

use hmac::{Hmac, KeyInit, Mac};
use interzone_edge::Secret;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// How far Slack's clock and ours may be apart, in seconds, either way.
const WINDOW: u64 = 300;
const VERSION: &str = "v0";
/// How many digits a signature has: two for each byte of SHA-256.
const SIGNATURE_DIGITS: usize = 64;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The header with the signature.
pub const SIGNATURE_HEADER: &str = "x-slack-signature";
/// The header with the time.
pub const TIMESTAMP_HEADER: &str = "x-slack-request-timestamp";

/// Why a request is not believed. For the log alone: whoever sent it learns nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    /// We have no secret to check with.
    #[error("there is no signing secret: write it into `signing_secret_file`")]
    NoSecret,
    /// A header is not there, or is there twice.
    #[error("the signature or its time is missing")]
    Missing,
    /// The time is not a number of seconds.
    #[error("the time of the signature is not a number")]
    BadTime,
    /// The request is too old, or from the future.
    #[error("the signature is {off} s off: it may be a repetition, or a clock is wrong")]
    WrongTime {
        /// By how many seconds.
        off: u64,
    },
    /// It was signed with another secret, or changed on its way.
    #[error("the signature is not that of this body")]
    Wrong,
}

/// Checks what can be checked of a request before its body is read: that there is a time, not too far from
/// ours, and something that could be a signature.
///
/// # Errors
/// The request is not Slack's, whatever its body says.
pub fn check_headers(
    secret: &Secret,
    timestamp: Option<&str>,
    signature: Option<&str>,
    now: u64,
) -> Result<(), Unsigned> {
    let signature = Signed::read(secret, timestamp, signature, now)?.signature;
    let digits = signature.strip_prefix(VERSION);
    let digits = digits.and_then(|rest| rest.strip_prefix('='));
    let digits = digits.filter(|digits| digits.len() == SIGNATURE_DIGITS);
    match digits.is_some_and(|digits| digits.bytes().all(|byte| DIGITS.contains(&byte))) {
        true => Ok(()),
        false => Err(Unsigned::Wrong),
    }
}

/// Checks that a request is Slack's.
///
/// `now` is in seconds since 1970. The signature is compared in a time that does not depend on where it
/// differs.
///
/// # Errors
/// It is not, or cannot be told.
pub fn verify(
    secret: &Secret,
    timestamp: Option<&str>,
    signature: Option<&str>,
    body: &[u8],
    now: u64,
) -> Result<(), Unsigned> {
    let Signed {
        secret,
        timestamp,
        signature,
    } = Signed::read(secret, timestamp, signature, now)?;
    let expected = sign(secret.as_bytes(), timestamp, body).ok_or(Unsigned::Wrong)?;
    let same: bool = expected.as_bytes().ct_eq(signature.as_bytes()).into();
    if same { Ok(()) } else { Err(Unsigned::Wrong) }
}

/// What a signature is checked with: all of it is there, and its time is good.
struct Signed<'s> {
    secret: &'s str,
    timestamp: &'s str,
    signature: &'s str,
}

impl<'s> Signed<'s> {
    fn read(
        secret: &'s Secret,
        timestamp: Option<&'s str>,
        signature: Option<&'s str>,
        now: u64,
    ) -> Result<Self, Unsigned> {
        let secret = Some(secret.expose().trim()).filter(|secret| !secret.is_empty());
        let secret = secret.ok_or(Unsigned::NoSecret)?;
        let present = |header: Option<&'_ str>| header.is_some_and(|text| !text.is_empty());
        if !present(timestamp) || !present(signature) {
            return Err(Unsigned::Missing);
        }
        let (timestamp, signature) = (timestamp.unwrap_or_default(), signature.unwrap_or_default());
        // `parse` would also take a plus sign.
        let digits = timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let sent: u64 = timestamp.parse().map_err(|_| Unsigned::BadTime)?;
        if !digits {
            return Err(Unsigned::BadTime);
        }
        let off = now.abs_diff(sent);
        if off > WINDOW {
            return Err(Unsigned::WrongTime { off });
        }
        Ok(Self {
            secret,
            timestamp,
            signature,
        })
    }
}

/// The signature that Slack would send.
pub(crate) fn sign(secret: &[u8], timestamp: &str, body: &[u8]) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    for part in [VERSION.as_bytes(), b":", timestamp.as_bytes(), b":", body] {
        mac.update(part);
    }
    let code = mac.finalize().into_bytes();
    let halves = code.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let letters = halves.filter_map(|half| DIGITS.get(usize::from(half)).copied());
    let hex: String = letters.map(char::from).collect();
    Some(format!("{VERSION}={hex}"))
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

    fn check(secret: &str, time: Option<&str>, signature: Option<&str>) -> Result<(), Unsigned> {
        verify(&Secret::new(secret), time, signature, BODY, NOW)
    }

    fn at(time: &str) -> Result<(), Unsigned> {
        let signature = sign(SECRET.as_bytes(), time, BODY).unwrap();
        check(SECRET, Some(time), Some(&signature))
    }

    #[test]
    fn slacks_own_example_is_believed() {
        assert_eq!(check(SECRET, Some(TIME), Some(SIGNATURE)), Ok(()));
        assert_eq!(
            check(&format!("{SECRET}\n"), Some(TIME), Some(SIGNATURE)),
            Ok(()),
            "a file ends with a line break"
        );
    }

    #[test]
    fn headers_are_checked_without_the_body() {
        let check = |time, signature| {
            let secret = Secret::new(SECRET);
            check_headers(&secret, Some(time), Some(signature), NOW)
        };
        let other = "v0=0000000000000000000000000000000000000000000000000000000000000000";
        assert_eq!(check(TIME, SIGNATURE), Ok(()));
        assert_eq!(check(TIME, other), Ok(()), "only the body can tell");
        assert_eq!(check("x", other), Err(Unsigned::BadTime));
        let off = NOW - 1;
        assert_eq!(check("1", other), Err(Unsigned::WrongTime { off }));
        for malformed in ["v0=", "v1=00", "x", &other[1..], &other[..66]] {
            assert_eq!(check(TIME, malformed), Err(Unsigned::Wrong), "{malformed}");
        }
        assert_eq!(check(TIME, &SIGNATURE.to_uppercase()), Err(Unsigned::Wrong));
    }

    #[test]
    fn a_body_of_any_bytes_can_be_signed() {
        for body in [&b""[..], b"{}", "質問です".as_bytes(), &[0, 255, 10, 13]] {
            let signature = sign(SECRET.as_bytes(), TIME, body).unwrap();
            let secret = Secret::new(SECRET);
            let checked = verify(&secret, Some(TIME), Some(&signature), body, NOW);
            assert_eq!(checked, Ok(()));
        }
    }

    #[test]
    fn the_time_may_be_five_minutes_off_either_way_and_no_more() {
        assert_eq!(at(&(NOW - 300).to_string()), Ok(()));
        assert_eq!(at(&(NOW + 300).to_string()), Ok(()));
        let off = |off| Err(Unsigned::WrongTime { off });
        assert_eq!(at(&(NOW - 301).to_string()), off(301), "stale");
        assert_eq!(at(&(NOW + 301).to_string()), off(301), "future");
        assert_eq!(at("0"), off(NOW));
        assert_eq!(at(&u64::MAX.to_string()), off(u64::MAX - NOW));
    }

    #[test]
    fn a_time_that_is_no_number_is_refused_even_if_it_is_signed() {
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
            assert_eq!(at(time), Err(Unsigned::BadTime), "{time}");
        }
    }

    #[test]
    fn nothing_may_be_missing_or_empty() {
        for (time, signature) in [
            (None, None),
            (None, Some(SIGNATURE)),
            (Some(TIME), None),
            (Some(""), Some(SIGNATURE)),
            (Some(TIME), Some("")),
        ] {
            assert_eq!(check(SECRET, time, signature), Err(Unsigned::Missing));
        }
        for empty in ["", " \n"] {
            let signature = sign(b"", TIME, BODY).unwrap();
            let checked = check(empty, Some(TIME), Some(&signature));
            assert_eq!(checked, Err(Unsigned::NoSecret));
        }
    }

    #[test]
    fn a_changed_body_is_refused() {
        let secret = Secret::new(SECRET);
        let mut body = BODY.to_vec();
        body[20] ^= 1;
        let mut longer = BODY.to_vec();
        longer.push(b'\n');
        for body in [&body[..], &longer, &BODY[1..], b""] {
            let checked = verify(&secret, Some(TIME), Some(SIGNATURE), body, NOW);
            assert_eq!(checked, Err(Unsigned::Wrong));
        }
    }

    #[test]
    fn another_secret_another_time_or_another_form_is_refused() {
        let wrong = |signature: &str| {
            assert_eq!(
                check(SECRET, Some(TIME), Some(signature)),
                Err(Unsigned::Wrong),
                "{signature}"
            );
        };
        assert_eq!(
            check("another", Some(TIME), Some(SIGNATURE)),
            Err(Unsigned::Wrong)
        );
        assert_eq!(
            check(SECRET, Some("1531420619"), Some(SIGNATURE)),
            Err(Unsigned::Wrong)
        );
        let bare = SIGNATURE.trim_start_matches("v0=");
        wrong(bare);
        wrong(&format!("v1={bare}"));
        wrong(&format!("V0={bare}"));
        wrong(&format!("v0={}", bare.to_uppercase()));
        wrong(&SIGNATURE.to_uppercase());
        wrong("v0=");
        wrong(&SIGNATURE[..SIGNATURE.len() - 1]);
        wrong(&format!("{SIGNATURE}0"));
        wrong(&format!("{SIGNATURE} "));
        for place in 3..SIGNATURE.len() {
            let mut letters = SIGNATURE.as_bytes().to_vec();
            letters[place] = if letters[place] == b'0' { b'1' } else { b'0' };
            wrong(&String::from_utf8(letters).unwrap());
        }
    }
}
