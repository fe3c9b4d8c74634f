//! Tokens that were verified before, when the issuer removes the key that verified them.

use super::remote::{Remote, by_jwks};
use super::{Forge, NOW, claims, json, show};
use crate::auth::{Refusal, reason};
use crate::clock::Clock;
use std::time::Duration;

/// Claims of a token that outlives every test.
fn long_lived() -> serde_json::Value {
    let mut claims = claims();
    claims["exp"] = json!(NOW + 90_000);
    claims
}

#[tokio::test]
async fn a_known_token_is_refused_after_its_key_was_removed() {
    let (remote, url) = Remote::start().await;
    let clock = Clock::set(NOW);
    let (removed, kept) = (Forge::ed(), Forge::ed());
    remote.keys(&[removed.jwk("removed"), kept.jwk("kept")]);
    let auth = by_jwks(&url, &clock);
    let token = removed.token("removed", &long_lived());
    let other = kept.token("kept", &long_lived());
    let identity = show(&auth, &token).await.unwrap();
    assert!(show(&auth, &other).await.is_ok());
    assert_eq!(remote.asked(), 1);
    remote.keys(&[kept.jwk("kept")]);
    // Known tokens cost the issuer nothing until its keys are old.
    clock.advance(Duration::from_secs(299));
    assert!(show(&auth, &token).await.is_ok());
    assert_eq!(remote.asked(), 1);
    // Then they have the keys fetched again, although every token is known.
    clock.advance(Duration::from_secs(1));
    let refusal = show(&auth, &token).await.unwrap_err();
    assert_eq!(refusal, Refusal::Invalid(reason::KEY));
    assert!(show(&auth, &other).await.is_ok());
    // What goes on for longer than a request ends too.
    let refusal = auth.recheck(&identity, None).unwrap_err();
    assert_eq!(refusal, Refusal::Invalid(reason::KEY));
}

#[tokio::test]
async fn a_known_token_is_refused_after_its_key_id_went_to_another_key() {
    let (remote, url) = Remote::start().await;
    let clock = Clock::set(NOW);
    let (old, new) = (Forge::ed(), Forge::ed());
    remote.keys(&[old.jwk("k")]);
    let auth = by_jwks(&url, &clock);
    let token = old.token("k", &long_lived());
    assert!(show(&auth, &token).await.is_ok());
    remote.keys(&[new.jwk("k")]);
    clock.advance(Duration::from_secs(300));
    let refusal = show(&auth, &token).await.unwrap_err();
    assert_eq!(refusal, Refusal::Invalid(reason::SIGNATURE));
    assert!(show(&auth, &new.token("k", &long_lived())).await.is_ok());
}

#[tokio::test]
async fn known_tokens_outlive_an_issuer_that_is_down_by_a_day_at_most() {
    let (remote, url) = Remote::start().await;
    let (clock, forge) = (Clock::set(NOW), Forge::ed());
    remote.keys(&[forge.jwk("k")]);
    let auth = by_jwks(&url, &clock);
    let token = forge.token("k", &long_lived());
    let identity = show(&auth, &token).await.unwrap();
    remote.raw(None);
    clock.advance(Duration::from_secs(300));
    for _ in 0..10 {
        assert!(show(&auth, &token).await.is_ok());
        assert!(auth.recheck(&identity, None).is_ok());
    }
    assert_eq!(remote.asked(), 2, "one fetch in ten seconds");
    clock.advance(Duration::from_secs(24 * 3600 - 300));
    assert_eq!(show(&auth, &token).await.unwrap_err(), Refusal::Unavailable);
    let refusal = auth.recheck(&identity, None).unwrap_err();
    assert_eq!(refusal, Refusal::Unavailable);
}

#[tokio::test]
async fn a_recheck_has_old_keys_fetched_in_the_background() {
    let (remote, url) = Remote::start().await;
    let (clock, forge) = (Clock::set(NOW), Forge::ed());
    remote.keys(&[forge.jwk("k")]);
    let auth = by_jwks(&url, &clock);
    let identity = show(&auth, &forge.token("k", &long_lived())).await.unwrap();
    remote.keys(&[Forge::ed().jwk("other")]);
    clock.advance(Duration::from_secs(300));
    let refused = async {
        while auth.recheck(&identity, None).is_ok() {
            tokio::task::yield_now().await;
        }
    };
    let refused = tokio::time::timeout(Duration::from_secs(20), refused).await;
    assert!(refused.is_ok(), "the removed key is still accepted");
    assert_eq!(remote.asked(), 2);
}
