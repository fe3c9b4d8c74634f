//! Forged tokens against the running zone.

use super::tokens::{self, EVERY_SCOPE, KID, base64url, now};
use super::zone_process::{ZoneBuilder, ZoneProcess};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

const AUTHENTICATION_FAILED: i64 = -40007;
const INSUFFICIENT_SCOPE: i64 = -40008;
const TOKEN_EXPIRED: i64 = -40009;

async fn assert_rejected(zone: &ZoneProcess, name: &str, token: &str, status: u16, code: i64) {
    let reply = zone
        .send_call(token, "tasks.get", json!({"taskId": "x"}))
        .await;
    assert_eq!(
        (reply.status, reply.code()),
        (status, code),
        "{name}: {reply:?}"
    );
    let challenge = reply.header("www-authenticate");
    assert!(challenge.starts_with("Bearer"), "{name}: {challenge}");
    assert!(
        !reply.text.contains(token),
        "{name}: the response contains the token"
    );
    if code != INSUFFICIENT_SCOPE {
        let data = &reply.json()["error"]["data"];
        assert_eq!(data["error"], "invalid_token", "{name}: {data}");
        assert!(data["error_description"].is_string(), "{name}: {data}");
    }
}

/// Builds a token from a header, claims and any signature.
fn build_token(header: &Value, claims: &Value, signature: &[u8]) -> String {
    let part = |value: &Value| base64url(value.to_string().as_bytes());
    format!("{}.{}.{}", part(header), part(claims), base64url(signature))
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_tokens_are_rejected() {
    let zone = ZoneBuilder::new().start().await;
    let issuer = &zone.env.issuer;
    let good = issuer.claims("anna", EVERY_SCOPE);
    let with_claim = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        issuer.sign(&claims)
    };
    let without_claim = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        issuer.sign(&claims)
    };
    // The base token must be valid, or the table would prove nothing.
    assert_eq!(
        zone.call_error(&issuer.sign(&good), "tasks.get", json!({"taskId": "x"}))
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
    foreign_kid.kid = Some("unknown-key".to_owned());
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
        let claims = base64url(more_scopes.to_string().as_bytes());
        format!("{head}.{claims}.{signature}")
    };
    let public = issuer.key.public_key_pem();
    let table = [
        ("no signature", build_token(&none, &good, b"")),
        (
            "no signature, in capitals",
            build_token(&none_in_capitals, &good, b""),
        ),
        (
            "no algorithm",
            build_token(&json!({"kid": KID}), &good, b"x"),
        ),
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
            tokens::sign_token(&issuer.header(), &good, &stranger),
        ),
        (
            "a foreign kid",
            tokens::sign_token(&foreign_kid, &good, &stranger),
        ),
        (
            "a key brought along",
            tokens::sign_token(&own_key, &good, &stranger),
        ),
        (
            "a key fetched elsewhere",
            tokens::sign_token(&far_key, &good, &stranger),
        ),
        ("the signature cut off", format!("{body}.")),
        ("two parts", body.to_owned()),
        ("another's claims", claims_of_another),
        (
            "for another audience",
            with_claim("aud", json!("https://elsewhere.test")),
        ),
        (
            "for a longer name",
            with_claim("aud", json!("https://acp.test.evil.test")),
        ),
        (
            "for others",
            with_claim("aud", json!(["https://a.test", "https://b.test"])),
        ),
        ("for no audience", without_claim("aud")),
        (
            "of another issuer",
            with_claim("iss", json!("https://evil.test/")),
        ),
        ("of no issuer", without_claim("iss")),
        ("without an end", without_claim("exp")),
        ("an end in words", with_claim("exp", json!("never"))),
        ("of no subject", without_claim("sub")),
        ("not yet", with_claim("nbf", json!(now() + 3600))),
        ("from the future", with_claim("iat", json!(now() + 3600))),
        ("rubbish", "rubbish".to_owned()),
        ("dots", "...".to_owned()),
        ("long", "a.".repeat(4_000)),
    ];
    for (name, token) in &table {
        assert_rejected(&zone, name, token, 401, AUTHENTICATION_FAILED).await;
    }
    assert_rejected(
        &zone,
        "expired",
        &issuer.expired_token("anna"),
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
        let token = issuer.token_with_scope("anna", scopes);
        assert_rejected(&zone, scopes, &token, 403, INSUFFICIENT_SCOPE).await;
    }
    // An unknown key id makes the zone fetch the keys again, but not once per token.
    for number in 0..20 {
        let mut header = issuer.header();
        header.kid = Some(format!("made-up-{number}"));
        let token = tokens::sign_token(&header, &good, &stranger);
        assert_rejected(&zone, "made up", &token, 401, AUTHENTICATION_FAILED).await;
    }
    let fetched = issuer.key_fetches.load(Ordering::SeqCst);
    assert!(fetched <= 4, "the keys were fetched {fetched} times");
    zone.assert_serving().await;
    assert!(!zone.log().contains(body), "a token is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn token_is_read_from_authorization_header_only() {
    let zone = ZoneBuilder::new().start().await;
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
        super::rpc::HttpReply::read(request.send().await.unwrap()).await
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
