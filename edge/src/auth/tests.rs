//! Authentication tests: valid, forged, expired, revoked and certificate-bound tokens, and the key set.

mod remote_issuer;
mod removed_keys;
mod signer;

use super::{
    AuthConfigError, AuthFailure, AuthOptions, Authenticator, Identity, KeyConfig, KeySet,
    LocalKeys, reason,
};
use crate::clock::Clock;
use crate::listener::{ConnectionHandle, Peer};
use crate::tls::TrustRoots;
use async_trait::async_trait;
use http::HeaderValue;
use serde_json::{Value, json};
use signer::{TestSigner, encode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

pub(super) const NOW: u64 = 1_800_000_000;
pub(super) const ISSUER: &str = "https://issuer.example/";
pub(super) const AUDIENCE: &str = "https://acp.example";

static RSA: LazyLock<TestSigner> = LazyLock::new(TestSigner::rsa);

/// A fixed key set.
struct FixedKeys {
    keys: Arc<KeySet>,
    revoked: AtomicBool,
}

#[async_trait]
impl LocalKeys for FixedKeys {
    fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.keys)
    }
    async fn refresh(&self) {}
    fn is_revoked(&self, identity: &Identity) -> bool {
        identity.token_id.as_deref() == Some("t-1") && self.revoked.load(Ordering::SeqCst)
    }
}

fn fixed_keys(keys: &[Value]) -> Arc<FixedKeys> {
    let set = json!({ "keys": keys }).to_string();
    Arc::new(FixedKeys {
        keys: Arc::new(KeySet::parse(set.as_bytes()).unwrap()),
        revoked: AtomicBool::new(false),
    })
}

pub(super) fn options(keys: KeyConfig, clock: &Clock) -> AuthOptions {
    AuthOptions {
        issuer: ISSUER.to_owned(),
        audience: vec!["https://other.example".to_owned(), AUDIENCE.to_owned()],
        keys,
        introspection: None,
        leeway: AuthOptions::DEFAULT_LEEWAY,
        trust: TrustRoots::system(),
        clock: clock.clone(),
    }
}

fn authenticator_with_keys(keys: &[Value], clock: &Clock) -> Authenticator {
    Authenticator::new(options(KeyConfig::Local(fixed_keys(keys)), clock)).unwrap()
}

pub(super) fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "ada", "aud": AUDIENCE, "exp": NOW + 600, "iat": NOW - 1,
        "client_id": "agent-7", "scope": "tasks:write tasks:read", "jti": "t-1",
    })
}

fn claims_with(member: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[member] = value;
    claims
}

fn claims_without(member: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(member);
    claims
}

pub(super) async fn authenticate(
    auth: &Authenticator,
    token: &str,
) -> Result<Arc<Identity>, AuthFailure> {
    let header = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    auth.authenticate(Some(&header), None).await
}

#[tokio::test]
async fn each_allowed_algorithm_authenticates() {
    let clock = Clock::fixed(NOW);
    for signer in [TestSigner::rsa(), TestSigner::ec(), TestSigner::ed()] {
        let auth = authenticator_with_keys(&[signer.jwk("k")], &clock);
        let token = signer.token("k", &claims());
        let identity = authenticate(&auth, &token).await.unwrap();
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
        // The second call returns the cached identity.
        assert!(Arc::ptr_eq(
            &identity,
            &authenticate(&auth, &token).await.unwrap()
        ));
    }
}

#[tokio::test]
async fn forged_headers_are_rejected() {
    let auth = authenticator_with_keys(&[RSA.jwk("k")], &Clock::fixed(NOW));
    let body = claims().to_string();
    let failure_of = |header: Value| {
        let (auth, token) = (&auth, RSA.sign(&header.to_string(), &body));
        async move { authenticate(auth, &token).await.unwrap_err() }
    };
    for alg in [
        "none", "None", "HS256", "HS512", "RS384", "PS256", "ES384", "ES512", "",
    ] {
        let failure = failure_of(json!({"alg": alg, "kid": "k"})).await;
        assert_eq!(failure, AuthFailure::Invalid(reason::ALGORITHM), "{alg}");
    }
    // The key is for RSA, so the `alg` of the token must match.
    for alg in ["ES256", "EdDSA"] {
        let failure = failure_of(json!({"alg": alg, "kid": "k"})).await;
        assert_eq!(failure, AuthFailure::Invalid(reason::KEY), "{alg}");
    }
    for (header, reason) in [
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
            reason::TOKEN_TYPE,
        ),
        (
            json!({"alg": "RS256", "kid": "k", "typ": "logout+jwt"}),
            reason::TOKEN_TYPE,
        ),
        (json!({"kid": "k"}), reason::MALFORMED),
        (json!(["RS256"]), reason::MALFORMED),
    ] {
        assert_eq!(
            failure_of(header.clone()).await,
            AuthFailure::Invalid(reason),
            "{header}"
        );
    }
    let duplicate = r#"{"alg":"RS256","alg":"RS256","kid":"k"}"#;
    let failure = authenticate(&auth, &RSA.sign(duplicate, &body))
        .await
        .unwrap_err();
    assert_eq!(failure, AuthFailure::Invalid(reason::MALFORMED));
    for typ in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
        let header = json!({"alg": "RS256", "kid": "k", "typ": typ}).to_string();
        assert!(
            authenticate(&auth, &RSA.sign(&header, &body)).await.is_ok(),
            "{typ}"
        );
    }
}

#[tokio::test]
async fn public_key_is_not_accepted_as_hmac_secret() {
    let auth = authenticator_with_keys(&[RSA.jwk("k")], &Clock::fixed(NOW));
    let public = RSA.jwk("k").to_string();
    let header = encode(json!({"alg": "HS256", "kid": "k"}).to_string().as_bytes());
    let message = format!("{header}.{}", encode(claims().to_string().as_bytes()));
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, public.as_bytes());
    let signature = aws_lc_rs::hmac::sign(&key, message.as_bytes());
    let token = format!("{message}.{}", encode(signature.as_ref()));
    let failure = authenticate(&auth, &token).await.unwrap_err();
    assert_eq!(failure, AuthFailure::Invalid(reason::ALGORITHM));
    // A symmetric key in the set is skipped as well.
    let set = json!({"keys": [{"kty": "oct", "kid": "k", "k": "c2VjcmV0", "alg": "HS256"}]});
    assert!(
        KeySet::parse(set.to_string().as_bytes())
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn modified_token_is_rejected() {
    let auth = authenticator_with_keys(
        &[RSA.jwk("k"), TestSigner::ec().jwk("ec")],
        &Clock::fixed(NOW),
    );
    let good = RSA.token("k", &claims());
    let parts: Vec<&str> = good.split('.').collect();
    let [header, body, signature] = parts[..] else {
        panic!("three parts")
    };
    let other = encode(claims_with("sub", json!("eve")).to_string().as_bytes());
    let other_key = TestSigner::rsa().token("k", &claims());
    let none = encode(br#"{"alg":"none","kid":"k"}"#);
    let ec_header = encode(br#"{"alg":"ES256","kid":"ec"}"#);
    for (token, reason) in [
        (format!("{header}.{other}.{signature}"), reason::SIGNATURE),
        (format!("{header}.{body}."), reason::SIGNATURE),
        (
            format!("{header}.{body}.{}", &signature[4..]),
            reason::SIGNATURE,
        ),
        // The all-zero ECDSA signature.
        (
            format!("{ec_header}.{body}.{}", encode(&[0; 64])),
            reason::SIGNATURE,
        ),
        (other_key, reason::SIGNATURE),
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
            authenticate(&auth, &token).await.unwrap_err(),
            AuthFailure::Invalid(reason),
            "{token}"
        );
    }
    assert!(authenticate(&auth, &good).await.is_ok());
}

#[tokio::test]
async fn wrong_claims_are_rejected() {
    let auth = authenticator_with_keys(&[RSA.jwk("k")], &Clock::fixed(NOW));
    let invalid = AuthFailure::Invalid;
    for (claims, failure) in [
        (
            claims_with("iss", json!("https://issuer.example")),
            invalid(reason::ISSUER),
        ),
        (claims_without("iss"), invalid(reason::ISSUER)),
        (
            claims_with("aud", json!("https://unrelated.example")),
            invalid(reason::AUDIENCE),
        ),
        (claims_with("aud", json!([])), invalid(reason::AUDIENCE)),
        (claims_without("aud"), invalid(reason::AUDIENCE)),
        (claims_without("exp"), invalid(reason::MALFORMED)),
        (
            claims_with("exp", json!("soon")),
            invalid(reason::MALFORMED),
        ),
        (claims_with("exp", json!(-1)), invalid(reason::MALFORMED)),
        (claims_with("exp", json!(NOW - 30)), AuthFailure::Expired),
        (claims_with("exp", json!(0)), AuthFailure::Expired),
        (claims_without("iat"), invalid(reason::MALFORMED)),
        (
            claims_with("iat", json!(NOW + 31)),
            invalid(reason::NOT_YET),
        ),
        (
            claims_with("nbf", json!(NOW + 31)),
            invalid(reason::NOT_YET),
        ),
        (claims_without("sub"), invalid(reason::SUBJECT)),
        (claims_with("sub", json!("")), invalid(reason::SUBJECT)),
        (claims_with("sub", json!(7)), invalid(reason::MALFORMED)),
        (claims_with("sub", json!("a\nb")), invalid(reason::SUBJECT)),
        (
            claims_with("client_id", json!("a".repeat(256))),
            invalid(reason::SUBJECT),
        ),
        (
            claims_with("cnf", json!({"x5t#S256": "short"})),
            invalid(reason::BINDING),
        ),
        (
            claims_with("cnf", json!({"jkt": "abc"})),
            invalid(reason::BINDING),
        ),
    ] {
        let token = RSA.token("k", &claims);
        assert_eq!(
            authenticate(&auth, &token).await.unwrap_err(),
            failure,
            "{claims}"
        );
    }
    let valid_claims = claims().to_string();
    for member in [
        r#""sub":"eve""#,
        r#""exp":1900000000"#,
        r#""scope":"admin""#,
        r#""aud":"x""#,
    ] {
        let duplicate = format!("{},{member}}}", valid_claims.trim_end_matches('}'));
        let header = json!({"alg": "RS256", "kid": "k"}).to_string();
        let failure = authenticate(&auth, &RSA.sign(&header, &duplicate))
            .await
            .unwrap_err();
        assert_eq!(failure, invalid(reason::MALFORMED), "duplicate {member}");
    }
}

#[tokio::test]
async fn claims_within_leeway_are_accepted() {
    let auth = authenticator_with_keys(&[RSA.jwk("k")], &Clock::fixed(NOW));
    for claims in [
        claims_with("exp", json!(NOW - 29)),
        claims_with("exp", json!(1_800_000_600.75)),
        claims_with("iat", json!(NOW + 30)),
        claims_with("nbf", json!(NOW + 30)),
        claims_with("aud", json!(["https://unrelated.example", AUDIENCE])),
        claims_with("unknown", json!({"deep": [1, 2]})),
    ] {
        assert!(
            authenticate(&auth, &RSA.token("k", &claims)).await.is_ok(),
            "{claims}"
        );
    }
}

#[tokio::test]
async fn client_and_scopes_are_read_from_known_claims() {
    let auth = authenticator_with_keys(&[RSA.jwk("k")], &Clock::fixed(NOW));
    let bare = json!({"iss": ISSUER, "sub": "ada", "aud": AUDIENCE, "exp": NOW + 60, "iat": NOW});
    for (additional, client, scopes) in [
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
            .extend(additional.as_object().unwrap().clone());
        let identity = authenticate(&auth, &RSA.token("k", &claims)).await.unwrap();
        assert_eq!(&*identity.client, client, "{claims}");
        assert_eq!(identity.scopes().collect::<Vec<_>>(), scopes, "{claims}");
    }
}

#[tokio::test]
async fn token_without_kid_needs_exactly_one_matching_key() {
    let clock = Clock::fixed(NOW);
    let header = json!({"alg": "RS256"}).to_string();
    let token = RSA.sign(&header, &claims().to_string());
    let others = [RSA.jwk("k"), TestSigner::ec().jwk("e")];
    assert!(
        authenticate(&authenticator_with_keys(&others, &clock), &token)
            .await
            .is_ok()
    );
    let two = [RSA.jwk("k"), TestSigner::rsa().jwk("l")];
    let failure = authenticate(&authenticator_with_keys(&two, &clock), &token)
        .await
        .unwrap_err();
    assert_eq!(failure, AuthFailure::Invalid(reason::KEY));
    let none = [TestSigner::ec().jwk("e")];
    let failure = authenticate(&authenticator_with_keys(&none, &clock), &token)
        .await
        .unwrap_err();
    assert_eq!(failure, AuthFailure::Invalid(reason::KEY));
}

#[test]
fn keys_for_other_purposes_are_skipped() {
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
async fn cached_token_expires_and_can_be_revoked() {
    let clock = Clock::fixed(NOW);
    let local = fixed_keys(&[RSA.jwk("k")]);
    let keys = KeyConfig::Local(Arc::clone(&local) as Arc<dyn LocalKeys>);
    let auth = Authenticator::new(options(keys, &clock)).unwrap();
    let token = RSA.token("k", &claims());
    assert!(authenticate(&auth, &token).await.is_ok());
    local.revoked.store(true, Ordering::SeqCst);
    let failure = authenticate(&auth, &token).await.unwrap_err();
    assert_eq!(failure, AuthFailure::Invalid(reason::REVOKED));
    local.revoked.store(false, Ordering::SeqCst);
    clock.advance(Duration::from_secs(629));
    assert!(authenticate(&auth, &token).await.is_ok());
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        authenticate(&auth, &token).await.unwrap_err(),
        AuthFailure::Expired
    );
}

#[tokio::test]
async fn bound_token_requires_its_certificate() {
    let auth = authenticator_with_keys(&[RSA.jwk("k")], &Clock::fixed(NOW));
    let hash = [7; 32];
    let token = RSA.token("k", &claims_with("cnf", json!({"x5t#S256": encode(&hash)})));
    let header = HeaderValue::from_str(&format!("bearer {token}")).unwrap();
    let peer = |certificate| Peer {
        address: ([127, 0, 0, 1], 1).into(),
        certificate,
        platform_identity: None,
        connection: ConnectionHandle::default(),
    };
    // The second round uses the cache.
    for _ in 0..2 {
        let good = auth
            .authenticate(Some(&header), Some(&peer(Some(hash))))
            .await;
        assert!(good.is_ok());
        for other in [None, Some(peer(None)), Some(peer(Some([8; 32])))] {
            let failure = auth.authenticate(Some(&header), other.as_ref()).await;
            assert_eq!(failure.unwrap_err(), AuthFailure::Invalid(reason::BINDING));
        }
    }
}

#[test]
fn unsafe_options_are_rejected() {
    let clock = Clock::fixed(NOW);
    for url in [
        "http://issuer.example/jwks",
        "ftp://127.0.0.1/",
        "https://u@issuer.example",
        "x",
    ] {
        let result = Authenticator::new(options(KeyConfig::Jwks(url.to_owned()), &clock));
        assert!(matches!(result, Err(AuthConfigError::Url(_))), "{url}");
    }
    let mut no_audience = options(KeyConfig::Local(fixed_keys(&[])), &clock);
    no_audience.audience.clear();
    assert!(matches!(
        Authenticator::new(no_audience),
        Err(AuthConfigError::Audience)
    ));
}
