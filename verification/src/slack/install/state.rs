//! CSRF protection of the OAuth flow: binds the redirect to the browser that started it, for a limited time. The URL
//! carries one half and a cookie the other, so an attacker cannot make a victim's browser submit a foreign code. All
//! nodes create and verify it with the app's secret; single use is enforced by the caller.

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use http::header::COOKIE;
use interzone_edge::Secret;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// The `__Host-` prefix binds the cookie to this origin.
const COOKIE_NAME: &str = "__Host-interzone-install";
/// Lifetime in seconds.
const STATE_TTL_SECS: i64 = 600;
/// Domain separation: prevents confusion with other MACs made with the same secret.
const MAC_CONTEXT: &[u8] = b"interzone slack install v1";

/// OAuth state and its cookie.
pub(super) struct OauthState {
    cookie: String,
    /// The `state` query parameter.
    pub(super) state: String,
}

impl OauthState {
    /// Creates a state at `now` (Unix time in milliseconds); `None` if no random bytes are available.
    pub(super) fn new(secret: &Secret, now: i64) -> Option<Self> {
        let mut random = [0; 32];
        rand::fill(&mut random).ok()?;
        let cookie = URL_SAFE_NO_PAD.encode(random);
        let expires_at = now.saturating_add(STATE_TTL_SECS * 1000);
        let mac = compute_mac(secret, &cookie, expires_at)?;
        let state = format!("{expires_at}.{mac}");
        Some(Self { cookie, state })
    }

    /// `SameSite=Lax`, since the user returns by a cross-site link.
    pub(super) fn set_cookie(&self) -> String {
        let cookie = &self.cookie;
        format!(
            "{COOKIE_NAME}={cookie}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={STATE_TTL_SECS}"
        )
    }
}

/// `Set-Cookie` value that deletes the cookie.
pub(super) fn clear_cookie() -> String {
    format!("{COOKIE_NAME}=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0")
}

/// Returns the expiry time if the state matches the cookie and has not expired.
pub(super) fn verify_state(
    secret: &Secret,
    headers: &HeaderMap,
    state: &str,
    now: i64,
) -> Option<i64> {
    let (expires_at, mac) = state.split_once('.')?;
    let expires_at = expires_at.parse::<i64>().ok()?;
    let expected = compute_mac(secret, install_cookie(headers)?, expires_at)?;
    let matches: bool = expected.as_bytes().ct_eq(mac.as_bytes()).into();
    (matches && now < expires_at).then_some(expires_at)
}

fn compute_mac(secret: &Secret, cookie: &str, expires_at: i64) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).ok()?;
    for part in [MAC_CONTEXT, &expires_at.to_be_bytes(), cookie.as_bytes()] {
        mac.update(part);
    }
    Some(URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

fn install_cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(COOKIE).iter();
    let mut pairs = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(name, _)| name.trim() == COOKIE_NAME)?;
    Some(found.1.trim()).filter(|cookie| !cookie.is_empty())
}
