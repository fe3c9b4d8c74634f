//! Request signature: an HMAC over the timestamp and the body.

use hmac::{Hmac, KeyInit, Mac};
use interzone_edge::Secret;
use sha2::Sha256;
use std::fmt::Write;

/// Returns the value of `X-Slack-Signature`.
pub(crate) fn signature(secret: &Secret, timestamp: &str, body: &[u8]) -> String {
    let mut signature = "v0=".to_owned();
    // A key may have any length, so this always succeeds.
    if let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) {
        mac.update(b"v0:");
        mac.update(timestamp.as_bytes());
        mac.update(b":");
        mac.update(body);
        for byte in mac.finalize().into_bytes() {
            let _ = write!(signature, "{byte:02x}");
        }
    }
    signature
}

#[cfg(test)]
mod tests {
    use super::signature;
    use interzone_edge::Secret;

    /// The example from Slack's documentation.
    #[test]
    fn signature_matches_slack_example() {
        let secret = Secret::new("8f742231b10e8888abcd99yyyzzz85a5");
        let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow\
            &channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner\
            &command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands\
            %2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
            &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        assert_eq!(
            signature(&secret, "1531420618", body.as_bytes()),
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
        );
    }
}
