//! Cached tokens are rejected when the issuer removes their key.

use super::remote_issuer::{TestIssuer, jwks_authenticator};
use super::{NOW, TestSigner, authenticate, claims, json};
use crate::auth::{AuthFailure, reason};
use crate::clock::Clock;
use std::time::Duration;

/// Returns claims of a token that outlives every test.
fn long_lived() -> serde_json::Value {
    let mut claims = claims();
    claims["exp"] = json!(NOW + 90_000);
    claims
}

#[tokio::test]
async fn cached_token_is_rejected_after_its_key_was_removed() {
    let (remote, url) = TestIssuer::start().await;
    let clock = Clock::fixed(NOW);
    let (removed, remaining) = (TestSigner::ed(), TestSigner::ed());
    remote.set_keys(&[removed.jwk("removed"), remaining.jwk("kept")]);
    let auth = jwks_authenticator(&url, &clock);
    let token = removed.token("removed", &long_lived());
    let other = remaining.token("kept", &long_lived());
    let identity = authenticate(&auth, &token).await.unwrap();
    assert!(authenticate(&auth, &other).await.is_ok());
    assert_eq!(remote.requests(), 1);
    remote.set_keys(&[remaining.jwk("kept")]);
    // Cached tokens cause no fetch until the keys are stale.
    clock.advance(Duration::from_secs(299));
    assert!(authenticate(&auth, &token).await.is_ok());
    assert_eq!(remote.requests(), 1);
    // Then they cause a refetch, although every token is cached.
    clock.advance(Duration::from_secs(1));
    let failure = authenticate(&auth, &token).await.unwrap_err();
    assert_eq!(failure, AuthFailure::Invalid(reason::KEY));
    assert!(authenticate(&auth, &other).await.is_ok());
    // A recheck, as of a watch, fails too.
    let failure = auth.recheck(&identity, None).unwrap_err();
    assert_eq!(failure, AuthFailure::Invalid(reason::KEY));
}

#[tokio::test]
async fn cached_token_is_rejected_when_its_kid_is_reused() {
    let (remote, url) = TestIssuer::start().await;
    let clock = Clock::fixed(NOW);
    let (old, new) = (TestSigner::ed(), TestSigner::ed());
    remote.set_keys(&[old.jwk("k")]);
    let auth = jwks_authenticator(&url, &clock);
    let token = old.token("k", &long_lived());
    assert!(authenticate(&auth, &token).await.is_ok());
    remote.set_keys(&[new.jwk("k")]);
    clock.advance(Duration::from_secs(300));
    let failure = authenticate(&auth, &token).await.unwrap_err();
    assert_eq!(failure, AuthFailure::Invalid(reason::SIGNATURE));
    assert!(
        authenticate(&auth, &new.token("k", &long_lived()))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn cached_tokens_are_valid_one_day_while_issuer_is_down() {
    let (remote, url) = TestIssuer::start().await;
    let (clock, forge) = (Clock::fixed(NOW), TestSigner::ed());
    remote.set_keys(&[forge.jwk("k")]);
    let auth = jwks_authenticator(&url, &clock);
    let token = forge.token("k", &long_lived());
    let identity = authenticate(&auth, &token).await.unwrap();
    remote.set_raw_keys(None);
    clock.advance(Duration::from_secs(300));
    for _ in 0..10 {
        assert!(authenticate(&auth, &token).await.is_ok());
        assert!(auth.recheck(&identity, None).is_ok());
    }
    assert_eq!(remote.requests(), 2, "one fetch in ten seconds");
    clock.advance(Duration::from_secs(24 * 3600 - 300));
    assert_eq!(
        authenticate(&auth, &token).await.unwrap_err(),
        AuthFailure::Unavailable
    );
    let failure = auth.recheck(&identity, None).unwrap_err();
    assert_eq!(failure, AuthFailure::Unavailable);
}

#[tokio::test]
async fn recheck_refetches_stale_keys_in_the_background() {
    let (remote, url) = TestIssuer::start().await;
    let (clock, forge) = (Clock::fixed(NOW), TestSigner::ed());
    remote.set_keys(&[forge.jwk("k")]);
    let auth = jwks_authenticator(&url, &clock);
    let identity = authenticate(&auth, &forge.token("k", &long_lived()))
        .await
        .unwrap();
    remote.set_keys(&[TestSigner::ed().jwk("other")]);
    clock.advance(Duration::from_secs(300));
    let rejected = async {
        while auth.recheck(&identity, None).is_ok() {
            tokio::task::yield_now().await;
        }
    };
    let rejected = tokio::time::timeout(Duration::from_secs(20), rejected).await;
    assert!(rejected.is_ok(), "the removed key is still accepted");
    assert_eq!(remote.requests(), 2);
}
