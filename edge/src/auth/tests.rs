//! Good tokens pass, forged ones do not, and the issuer is left in peace.

mod forge;
mod remote;
mod removed_keys;

use super::{
    AuthError, AuthOptions, Authenticator, Identity, KeySet, Keys, LocalKeys, Refusal, reason,
};
use crate::clock::Clock;
use crate::listener::Peer;
use crate::tls::Trust;
use async_trait::async_trait;
use forge::{Forge, encode};
use http::HeaderValue;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

pub(super) const NOW: u64 = 1_800_000_000;
pub(super) const ISSUER: &str = "https://issuer.example/";
pub(super) const AUDIENCE: &str = "https://acp.example";

static RSA: LazyLock<Forge> = LazyLock::new(Forge::rsa);

/// Keys that are simply there.
struct Fixed {
    keys: Arc<KeySet>,
    revoked: AtomicBool,
}

#[async_trait]
impl LocalKeys for Fixed {
    fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.keys)
    }
    async fn look_again(&self) {}
    fn is_revoked(&self, identity: &Identity) -> bool {
        identity.token_id.as_deref() == Some("t-1") && self.revoked.load(Ordering::SeqCst)
    }
}

fn fixed(keys: &[Value]) -> Arc<Fixed> {
    let set = json!({ "keys": keys }).to_string();
    Arc::new(Fixed {
        keys: Arc::new(KeySet::parse(set.as_bytes()).unwrap()),
        revoked: AtomicBool::new(false),
    })
}

pub(super) fn options(keys: Keys, clock: &Clock) -> AuthOptions {
    AuthOptions {
        issuer: ISSUER.to_owned(),
        audience: vec!["https://other.example".to_owned(), AUDIENCE.to_owned()],
        keys,
        introspection: None,
        leeway: AuthOptions::LEEWAY,
        trust: Trust::system(),
        clock: clock.clone(),
    }
}

fn with_keys(keys: &[Value], clock: &Clock) -> Authenticator {
    Authenticator::new(options(Keys::Local(fixed(keys)), clock)).unwrap()
}

pub(super) fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "ada", "aud": AUDIENCE, "exp": NOW + 600, "iat": NOW - 1,
        "client_id": "agent-7", "scope": "tasks:write tasks:read", "jti": "t-1",
    })
}

fn with(member: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[member] = value;
    claims
}

fn without(member: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(member);
    claims
}

pub(super) async fn show(auth: &Authenticator, token: &str) -> Result<Arc<Identity>, Refusal> {
    let header = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    auth.authenticate(Some(&header), None).await
}

#[tokio::test]
async fn each_allowed_algorithm_proves_who_calls() {
    let clock = Clock::set(NOW);
    for forge in [Forge::rsa(), Forge::ec(), Forge::ed()] {
        let auth = with_keys(&[forge.jwk("k")], &clock);
        let token = forge.token("k", &claims());
        let identity = show(&auth, &token).await.unwrap();
        assert_eq!(
            (&*identity.principal, &*identity.client),
            ("ada", "agent-7")
        );
        assert_eq!(
            identity.scopes().collect::<Vec<_>>(),
            ["tasks:read", "tasks:write"]
        );
        assert!(identity.has_scope("tasks:read"));
        assert!(!identity.has_scope("tasks:*") && !identity.has_scope("tasks:rea"));
        assert_eq!(identity.expires_at(), NOW + 600);
        // The second time it is the same identity, from memory.
        assert!(Arc::ptr_eq(&identity, &show(&auth, &token).await.unwrap()));
    }
}

#[tokio::test]
async fn forged_headers_are_refused() {
    let auth = with_keys(&[RSA.jwk("k")], &Clock::set(NOW));
    let body = claims().to_string();
    let refused = |header: Value| {
        let (auth, token) = (&auth, RSA.sign(&header.to_string(), &body));
        async move { show(auth, &token).await.unwrap_err() }
    };
    for alg in [
        "none", "None", "HS256", "HS512", "RS384", "PS256", "ES384", "ES512", "",
    ] {
        let refusal = refused(json!({"alg": alg, "kid": "k"})).await;
        assert_eq!(refusal, Refusal::Invalid(reason::ALGORITHM), "{alg}");
    }
    // The key is for RSA, whatever the token says.
    for alg in ["ES256", "EdDSA"] {
        let refusal = refused(json!({"alg": alg, "kid": "k"})).await;
        assert_eq!(refusal, Refusal::Invalid(reason::KEY), "{alg}");
    }
    for (header, why) in [
        (json!({"alg": "RS256", "kid": "foreign"}), reason::KEY),
        (
            json!({"alg": "RS256", "kid": "k", "crit": ["b64"]}),
            reason::MALFORMED,
        ),
        (
            json!({"alg": "RS256", "kid": "k", "crit": []}),
            reason::MALFORMED,
        ),
        (
            json!({"alg": "RS256", "kid": "k", "typ": "id+jwt"}),
            reason::KIND,
        ),
        (
            json!({"alg": "RS256", "kid": "k", "typ": "logout+jwt"}),
            reason::KIND,
        ),
        (json!({"kid": "k"}), reason::MALFORMED),
        (json!(["RS256"]), reason::MALFORMED),
    ] {
        assert_eq!(
            refused(header.clone()).await,
            Refusal::Invalid(why),
            "{header}"
        );
    }
    let twice = r#"{"alg":"RS256","alg":"RS256","kid":"k"}"#;
    let refusal = show(&auth, &RSA.sign(twice, &body)).await.unwrap_err();
    assert_eq!(refusal, Refusal::Invalid(reason::MALFORMED));
    for typ in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
        let header = json!({"alg": "RS256", "kid": "k", "typ": typ}).to_string();
        assert!(
            show(&auth, &RSA.sign(&header, &body)).await.is_ok(),
            "{typ}"
        );
    }
}

#[tokio::test]
async fn a_public_key_is_no_secret_to_sign_with() {
    let auth = with_keys(&[RSA.jwk("k")], &Clock::set(NOW));
    let public = RSA.jwk("k").to_string();
    let header = encode(json!({"alg": "HS256", "kid": "k"}).to_string().as_bytes());
    let message = format!("{header}.{}", encode(claims().to_string().as_bytes()));
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, public.as_bytes());
    let signature = aws_lc_rs::hmac::sign(&key, message.as_bytes());
    let token = format!("{message}.{}", encode(signature.as_ref()));
    let refusal = show(&auth, &token).await.unwrap_err();
    assert_eq!(refusal, Refusal::Invalid(reason::ALGORITHM));
    // Nor does a symmetric key in the set become one.
    let set = json!({"keys": [{"kty": "oct", "kid": "k", "k": "c2VjcmV0", "alg": "HS256"}]});
    assert!(
        KeySet::parse(set.to_string().as_bytes())
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_changed_token_does_not_pass() {
    let auth = with_keys(&[RSA.jwk("k"), Forge::ec().jwk("ec")], &Clock::set(NOW));
    let good = RSA.token("k", &claims());
    let parts: Vec<&str> = good.split('.').collect();
    let [header, body, signature] = parts[..] else {
        panic!("three parts")
    };
    let other = encode(with("sub", json!("eve")).to_string().as_bytes());
    let stranger = Forge::rsa().token("k", &claims());
    let none = encode(br#"{"alg":"none","kid":"k"}"#);
    let ec_header = encode(br#"{"alg":"ES256","kid":"ec"}"#);
    for (token, why) in [
        (format!("{header}.{other}.{signature}"), reason::SIGNATURE),
        (format!("{header}.{body}."), reason::SIGNATURE),
        (
            format!("{header}.{body}.{}", &signature[4..]),
            reason::SIGNATURE,
        ),
        // ECDSA's infamous zero signature.
        (
            format!("{ec_header}.{body}.{}", encode(&[0; 64])),
            reason::SIGNATURE,
        ),
        (stranger, reason::SIGNATURE),
        (format!("{none}.{body}."), reason::ALGORITHM),
        (format!("{none}.{body}.{signature}"), reason::ALGORITHM),
        (format!("x{header}.{body}.{signature}"), reason::MALFORMED),
        (format!(".{body}.{signature}"), reason::MALFORMED),
        ("a.b.c".to_owned(), reason::MALFORMED),
        ("..".to_owned(), reason::MALFORMED),
        (format!("{header}.{body}"), reason::OPAQUE),
        (format!("{good}.more"), reason::OPAQUE),
        (format!("{good}=="), reason::OPAQUE),
    ] {
        assert_eq!(
            show(&auth, &token).await.unwrap_err(),
            Refusal::Invalid(why),
            "{token}"
        );
    }
    assert!(show(&auth, &good).await.is_ok());
}

#[tokio::test]
async fn claims_that_do_not_fit_are_refused() {
    let auth = with_keys(&[RSA.jwk("k")], &Clock::set(NOW));
    let invalid = Refusal::Invalid;
    for (claims, refusal) in [
        (
            with("iss", json!("https://issuer.example")),
            invalid(reason::ISSUER),
        ),
        (without("iss"), invalid(reason::ISSUER)),
        (
            with("aud", json!("https://elsewhere.example")),
            invalid(reason::AUDIENCE),
        ),
        (with("aud", json!([])), invalid(reason::AUDIENCE)),
        (without("aud"), invalid(reason::AUDIENCE)),
        (without("exp"), invalid(reason::MALFORMED)),
        (with("exp", json!("soon")), invalid(reason::MALFORMED)),
        (with("exp", json!(-1)), invalid(reason::MALFORMED)),
        (with("exp", json!(NOW - 30)), Refusal::Expired),
        (with("exp", json!(0)), Refusal::Expired),
        (without("iat"), invalid(reason::MALFORMED)),
        (with("iat", json!(NOW + 31)), invalid(reason::NOT_YET)),
        (with("nbf", json!(NOW + 31)), invalid(reason::NOT_YET)),
        (without("sub"), invalid(reason::SUBJECT)),
        (with("sub", json!("")), invalid(reason::SUBJECT)),
        (with("sub", json!(7)), invalid(reason::MALFORMED)),
        (with("sub", json!("a\nb")), invalid(reason::SUBJECT)),
        (
            with("client_id", json!("a".repeat(256))),
            invalid(reason::SUBJECT),
        ),
        (
            with("cnf", json!({"x5t#S256": "short"})),
            invalid(reason::BINDING),
        ),
        (with("cnf", json!({"jkt": "abc"})), invalid(reason::BINDING)),
    ] {
        let token = RSA.token("k", &claims);
        assert_eq!(show(&auth, &token).await.unwrap_err(), refusal, "{claims}");
    }
    let once = claims().to_string();
    for member in [
        r#""sub":"eve""#,
        r#""exp":1900000000"#,
        r#""scope":"admin""#,
        r#""aud":"x""#,
    ] {
        let twice = format!("{},{member}}}", once.trim_end_matches('}'));
        let header = json!({"alg": "RS256", "kid": "k"}).to_string();
        let refusal = show(&auth, &RSA.sign(&header, &twice)).await.unwrap_err();
        assert_eq!(refusal, invalid(reason::MALFORMED), "{member} twice");
    }
}

#[tokio::test]
async fn claims_at_the_edge_pass() {
    let auth = with_keys(&[RSA.jwk("k")], &Clock::set(NOW));
    for claims in [
        with("exp", json!(NOW - 29)),
        with("exp", json!(1_800_000_600.75)),
        with("iat", json!(NOW + 30)),
        with("nbf", json!(NOW + 30)),
        with("aud", json!(["https://elsewhere.example", AUDIENCE])),
        with("unknown", json!({"deep": [1, 2]})),
    ] {
        assert!(
            show(&auth, &RSA.token("k", &claims)).await.is_ok(),
            "{claims}"
        );
    }
}

#[tokio::test]
async fn clients_and_scopes_come_from_where_issuers_put_them() {
    let auth = with_keys(&[RSA.jwk("k")], &Clock::set(NOW));
    let bare = json!({"iss": ISSUER, "sub": "ada", "aud": AUDIENCE, "exp": NOW + 60, "iat": NOW});
    for (more, client, scopes) in [
        (json!({}), "ada", vec![]),
        (json!({"azp": "b", "agent_id": "c"}), "b", vec![]),
        (
            json!({"agent_id": "c", "scp": ["x", "y"]}),
            "c",
            vec!["x", "y"],
        ),
        (
            json!({"client_id": "a", "azp": "b", "scp": "y x"}),
            "a",
            vec!["x", "y"],
        ),
        (json!({"permissions": ["p"]}), "ada", vec!["p"]),
        (
            json!({"scope": "s", "scp": ["t"], "permissions": ["p"]}),
            "ada",
            vec!["s"],
        ),
        (json!({"scope": ["s", "t"]}), "ada", vec!["s", "t"]),
    ] {
        let mut claims = bare.clone();
        claims
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let identity = show(&auth, &RSA.token("k", &claims)).await.unwrap();
        assert_eq!(&*identity.client, client, "{claims}");
        assert_eq!(identity.scopes().collect::<Vec<_>>(), scopes, "{claims}");
    }
}

#[tokio::test]
async fn a_token_without_a_key_id_needs_a_set_without_doubt() {
    let clock = Clock::set(NOW);
    let header = json!({"alg": "RS256"}).to_string();
    let token = RSA.sign(&header, &claims().to_string());
    let others = [RSA.jwk("k"), Forge::ec().jwk("e")];
    assert!(show(&with_keys(&others, &clock), &token).await.is_ok());
    let two = [RSA.jwk("k"), Forge::rsa().jwk("l")];
    let refusal = show(&with_keys(&two, &clock), &token).await.unwrap_err();
    assert_eq!(refusal, Refusal::Invalid(reason::KEY));
    let none = [Forge::ec().jwk("e")];
    let refusal = show(&with_keys(&none, &clock), &token).await.unwrap_err();
    assert_eq!(refusal, Refusal::Invalid(reason::KEY));
}

#[test]
fn keys_for_other_purposes_are_left_out() {
    let with = |member: &str, value: Value| {
        let mut jwk = RSA.jwk("k");
        jwk[member] = value;
        let set = json!({"keys": [jwk, {"kty": "EC", "crv": "P-521"}, "rubbish", 7]});
        KeySet::parse(set.to_string().as_bytes()).unwrap().len()
    };
    assert_eq!(with("use", json!("sig")), 1);
    assert_eq!(with("alg", json!("RS256")), 1);
    assert_eq!(with("key_ops", json!(["verify"])), 1);
    assert_eq!(with("use", json!("enc")), 0);
    assert_eq!(with("alg", json!("PS256")), 0);
    assert_eq!(with("alg", json!("HS256")), 0);
    assert_eq!(with("key_ops", json!(["encrypt"])), 0);
    assert_eq!(with("n", json!("not base64!")), 0);
    let many = json!({"keys": vec![RSA.jwk("k"); 1000]}).to_string();
    assert_eq!(KeySet::parse(many.as_bytes()).unwrap().len(), 64);
    assert!(KeySet::parse(b"[]").is_err());
}

#[tokio::test]
async fn what_is_known_still_expires_and_can_be_taken_back() {
    let clock = Clock::set(NOW);
    let local = fixed(&[RSA.jwk("k")]);
    let keys = Keys::Local(Arc::clone(&local) as Arc<dyn LocalKeys>);
    let auth = Authenticator::new(options(keys, &clock)).unwrap();
    let token = RSA.token("k", &claims());
    assert!(show(&auth, &token).await.is_ok());
    local.revoked.store(true, Ordering::SeqCst);
    let refusal = show(&auth, &token).await.unwrap_err();
    assert_eq!(refusal, Refusal::Invalid(reason::REVOKED));
    local.revoked.store(false, Ordering::SeqCst);
    clock.advance(Duration::from_secs(629));
    assert!(show(&auth, &token).await.is_ok());
    clock.advance(Duration::from_secs(1));
    assert_eq!(show(&auth, &token).await.unwrap_err(), Refusal::Expired);
}

#[tokio::test]
async fn a_bound_token_needs_its_certificate() {
    let auth = with_keys(&[RSA.jwk("k")], &Clock::set(NOW));
    let hash = [7; 32];
    let token = RSA.token("k", &with("cnf", json!({"x5t#S256": encode(&hash)})));
    let header = HeaderValue::from_str(&format!("bearer {token}")).unwrap();
    let peer = |certificate| Peer {
        address: ([127, 0, 0, 1], 1).into(),
        certificate,
        vouched: None,
    };
    // Twice, for the second time it comes from memory.
    for _ in 0..2 {
        let good = auth
            .authenticate(Some(&header), Some(&peer(Some(hash))))
            .await;
        assert!(good.is_ok());
        for other in [None, Some(peer(None)), Some(peer(Some([8; 32])))] {
            let refusal = auth.authenticate(Some(&header), other.as_ref()).await;
            assert_eq!(refusal.unwrap_err(), Refusal::Invalid(reason::BINDING));
        }
    }
}

#[test]
fn unsafe_options_are_refused() {
    let clock = Clock::set(NOW);
    for url in [
        "http://issuer.example/jwks",
        "ftp://127.0.0.1/",
        "https://u@issuer.example",
        "x",
    ] {
        let made = Authenticator::new(options(Keys::Jwks(url.to_owned()), &clock));
        assert!(matches!(made, Err(AuthError::Url(_))), "{url}");
    }
    let mut nobody = options(Keys::Local(fixed(&[])), &clock);
    nobody.audience.clear();
    assert!(matches!(
        Authenticator::new(nobody),
        Err(AuthError::Audience)
    ));
}
