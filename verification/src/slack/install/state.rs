//! Proof that whoever comes back from Slack is the browser that we sent there, and not long ago. The
//! address holds one half and a cookie the other, so that nobody can be sent here with a code that is not
//! their own. All nodes make and check it with the app's secret; that it is good once is seen to by whoever
//! asks.

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use http::header::COOKIE;
use interzone_edge::Secret;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// `__Host-` binds it to this very origin.
const COOKIE_NAME: &str = "__Host-interzone-install";
/// How long somebody may think about it.
const SECONDS: i64 = 600;
/// So that what is signed here can never be taken for something else that the same secret signs.
const PURPOSE: &[u8] = b"interzone slack install v1";

/// Both halves.
pub(super) struct Ticket {
    cookie: String,
    /// What goes along to Slack and comes back.
    pub(super) state: String,
}

impl Ticket {
    /// A new one at `now`, in milliseconds since 1970; none if the machine has no randomness.
    pub(super) fn new(secret: &Secret, now: i64) -> Option<Self> {
        let mut random = [0; 32];
        rand::fill(&mut random).ok()?;
        let cookie = URL_SAFE_NO_PAD.encode(random);
        let until = now.saturating_add(SECONDS * 1000);
        let proof = seal(secret, &cookie, until)?;
        let state = format!("{until}.{proof}");
        Some(Self { cookie, state })
    }

    /// `Lax`, for the person comes back by a link of Slack's.
    pub(super) fn set_cookie(&self) -> String {
        let cookie = &self.cookie;
        format!("{COOKIE_NAME}={cookie}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={SECONDS}")
    }
}

/// Takes the cookie away.
pub(super) fn no_cookie() -> String {
    format!("{COOKIE_NAME}=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0")
}

/// Until when the state is good, if both halves belong together and are not too old.
pub(super) fn good_until(
    secret: &Secret,
    headers: &HeaderMap,
    state: &str,
    now: i64,
) -> Option<i64> {
    let (until, given) = state.split_once('.')?;
    let until = until.parse::<i64>().ok()?;
    let expected = seal(secret, cookie_of(headers)?, until)?;
    let same: bool = expected.as_bytes().ct_eq(given.as_bytes()).into();
    (same && now < until).then_some(until)
}

fn seal(secret: &Secret, cookie: &str, until: i64) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).ok()?;
    for part in [PURPOSE, &until.to_be_bytes(), cookie.as_bytes()] {
        mac.update(part);
    }
    Some(URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

fn cookie_of(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(COOKIE).iter();
    let mut pairs = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(name, _)| name.trim() == COOKIE_NAME)?;
    Some(found.1.trim()).filter(|cookie| !cookie.is_empty())
}
