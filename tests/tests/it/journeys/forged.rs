//! Tokens that somebody made up, against the running zone.

use super::tokens::{self, EVERY_SCOPE, KID, encoded, now};
use super::zone::{Setup, Zone};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

const AUTHENTICATION_FAILED: i64 = -40007;
const INSUFFICIENT_SCOPE: i64 = -40008;
const TOKEN_EXPIRED: i64 = -40009;

async fn check(zone: &Zone, name: &str, token: &str, status: u16, code: i64) {
    let reply = zone.ask(token, "tasks.get", json!({"taskId": "x"})).await;
    assert_eq!(
        (reply.status, reply.code()),
        (status, code),
        "{name}: {reply:?}"
    );
    let challenge = reply.header("www-authenticate");
    assert!(challenge.starts_with("Bearer"), "{name}: {challenge}");
    assert!(!reply.text.contains(token), "{name}: the token comes back");
    if code != INSUFFICIENT_SCOPE {
        let data = &reply.json()["error"]["data"];
        assert_eq!(data["error"], "invalid_token", "{name}: {data}");
        assert!(data["error_description"].is_string(), "{name}: {data}");
    }
}

/// Header and claims by hand, with any signature.
fn by_hand(header: &Value, claims: &Value, signature: &[u8]) -> String {
    let part = |value: &Value| encoded(value.to_string().as_bytes());
    format!("{}.{}.{}", part(header), part(claims), encoded(signature))
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_tokens_are_refused() {
    let zone = Setup::new().start().await;
    let issuer = &zone.world.issuer;
    let good = issuer.claims("anna", EVERY_SCOPE);
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        issuer.sign(&claims)
    };
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        issuer.sign(&claims)
    };
    // The table means something only if the token that it spoils is good.
    assert_eq!(
        zone.refused(&issuer.sign(&good), "tasks.get", json!({"taskId": "x"}))
            .await
            .0,
        -40001
    );

    let none = json!({"alg": "none", "typ": "at+jwt", "kid": KID});
    let none_in_capitals = json!({"alg": "NONE", "kid": KID});
    let mut hmac = Header::new(Algorithm::HS256);
    hmac.kid = Some(KID.to_owned());
    let with_hmac = |secret: &[u8]| {
        jsonwebtoken::encode(&hmac, &good, &EncodingKey::from_secret(secret)).unwrap()
    };
    let stranger = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let mut foreign_kid = issuer.header();
    foreign_kid.kid = Some("somebody-elses-key".to_owned());
    let mut own_key = issuer.header();
    own_key.jwk = serde_json::from_value(tokens::jwk(&stranger, KID)).unwrap();
    let mut far_key = issuer.header();
    far_key.jku = Some("http://127.0.0.1:1/jwks.json".to_owned());
    let signed = issuer.sign(&good);
    let (body, _) = signed.rsplit_once('.').unwrap();
    let mut more_scopes = good.clone();
    more_scopes["sub"] = json!("operator");
    let claims_of_another = {
        let (_, signature) = signed.rsplit_once('.').unwrap();
        let (head, _) = body.split_once('.').unwrap();
        let claims = encoded(more_scopes.to_string().as_bytes());
        format!("{head}.{claims}.{signature}")
    };
    let public = issuer.key.public_key_pem();
    let table = [
        ("no signature", by_hand(&none, &good, b"")),
        (
            "no signature, in capitals",
            by_hand(&none_in_capitals, &good, b""),
        ),
        ("no algorithm", by_hand(&json!({"kid": KID}), &good, b"x")),
        ("HMAC with the public key", with_hmac(public.as_bytes())),
        (
            "HMAC with the trimmed key",
            with_hmac(public.trim().as_bytes()),
        ),
        (
            "HMAC with the raw key",
            with_hmac(issuer.key.public_key_raw()),
        ),
        ("HMAC with nothing", with_hmac(b"")),
        (
            "another's key",
            tokens::sign(&issuer.header(), &good, &stranger),
        ),
        (
            "a foreign kid",
            tokens::sign(&foreign_kid, &good, &stranger),
        ),
        (
            "a key brought along",
            tokens::sign(&own_key, &good, &stranger),
        ),
        (
            "a key fetched elsewhere",
            tokens::sign(&far_key, &good, &stranger),
        ),
        ("the signature cut off", format!("{body}.")),
        ("two parts", body.to_owned()),
        ("another's claims", claims_of_another),
        (
            "for somebody else",
            with("aud", json!("https://elsewhere.test")),
        ),
        (
            "for a longer name",
            with("aud", json!("https://acp.test.evil.test")),
        ),
        (
            "for others",
            with("aud", json!(["https://a.test", "https://b.test"])),
        ),
        ("for nobody", without("aud")),
        (
            "of another issuer",
            with("iss", json!("https://evil.test/")),
        ),
        ("of no issuer", without("iss")),
        ("without an end", without("exp")),
        ("an end in words", with("exp", json!("never"))),
        ("of nobody", without("sub")),
        ("not yet", with("nbf", json!(now() + 3600))),
        ("from the future", with("iat", json!(now() + 3600))),
        ("rubbish", "rubbish".to_owned()),
        ("dots", "...".to_owned()),
        ("long", "a.".repeat(4_000)),
    ];
    for (name, token) in &table {
        check(&zone, name, token, 401, AUTHENTICATION_FAILED).await;
    }
    check(
        &zone,
        "expired",
        &issuer.expired("anna"),
        401,
        TOKEN_EXPIRED,
    )
    .await;
    for scopes in [
        "",
        "acp:*",
        "acp:tasks:read",
        "acp:agent:identify acp:tasks:*",
        "acp:agent:identify ACP:TASKS:READ",
    ] {
        let token = issuer.scoped("anna", scopes);
        check(&zone, scopes, &token, 403, INSUFFICIENT_SCOPE).await;
    }
    // A name that nobody knows makes the zone ask for the keys again, but not as often as it is told one.
    for number in 0..20 {
        let mut header = issuer.header();
        header.kid = Some(format!("made-up-{number}"));
        let token = tokens::sign(&header, &good, &stranger);
        check(&zone, "made up", &token, 401, AUTHENTICATION_FAILED).await;
    }
    let fetched = issuer.fetched.load(Ordering::SeqCst);
    assert!(fetched <= 4, "the keys were fetched {fetched} times");
    zone.serves().await;
    assert!(!zone.log().contains(body), "a token is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_only_taken_from_the_header() {
    let zone = Setup::new().start().await;
    let token = zone.token("anna");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks.get", "params": {"taskId": "x"}});
    let send = async |path: String, authorization: Option<String>| {
        let mut request = zone
            .http
            .post(format!("{}{path}", zone.url))
            .header("content-type", "application/json")
            .body(body.to_string());
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        super::wire::Reply::read(request.send().await.unwrap()).await
    };
    for (path, authorization) in [
        ("/jsonrpc".to_owned(), None),
        (format!("/jsonrpc?access_token={token}"), None),
        ("/jsonrpc".to_owned(), Some(format!("Basic {token}"))),
        ("/jsonrpc".to_owned(), Some("Bearer".to_owned())),
        (
            "/jsonrpc".to_owned(),
            Some(format!("Bearer {token} {token}")),
        ),
        ("/jsonrpc".to_owned(), Some(token.clone())),
    ] {
        let reply = send(path, authorization).await;
        assert_eq!((reply.status, reply.code()), (401, AUTHENTICATION_FAILED));
    }
    // The scheme's case does not matter (RFC 9110, 11.1).
    let reply = send("/jsonrpc".to_owned(), Some(format!("bearer {token}"))).await;
    assert_eq!(reply.code(), -40001);
}
