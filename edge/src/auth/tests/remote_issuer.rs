//! Remote issuers: requests, their number, and behaviour when the issuer is down.

use super::{NOW, TestSigner, authenticate, claims, json, options};
use crate::auth::{AuthFailure, Authenticator, Introspection, KeyConfig, reason};
use crate::clock::Clock;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use http::{HeaderMap, StatusCode};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A small issuer that counts requests.
#[derive(Clone, Default)]
pub(super) struct TestIssuer {
    state: Arc<Mutex<TestIssuerState>>,
}

#[derive(Default)]
struct TestIssuerState {
    /// JWKS document; without it, the issuer is down.
    keys: Option<String>,
    /// Introspection response of each token.
    tokens: HashMap<String, serde_json::Value>,
    /// Metadata by path; other paths are not found.
    metadata: HashMap<String, serde_json::Value>,
    requests: usize,
    authorization: Option<String>,
}

impl TestIssuer {
    pub(super) async fn start() -> (Self, String) {
        let remote = Self::default();
        let app = Router::new()
            .route("/jwks", get(jwks))
            .route("/introspect", post(introspect))
            .route("/.well-known/{*rest}", get(metadata))
            .route("/tenant/.well-known/{*rest}", get(metadata))
            .with_state(remote.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        (remote, url)
    }

    pub(super) fn set_keys(&self, keys: &[serde_json::Value]) {
        self.state.lock().unwrap().keys = Some(json!({ "keys": keys }).to_string());
    }

    pub(super) fn set_raw_keys(&self, keys: Option<String>) {
        self.state.lock().unwrap().keys = keys;
    }

    pub(super) fn requests(&self) -> usize {
        self.state.lock().unwrap().requests
    }
}

async fn jwks(State(remote): State<TestIssuer>) -> Result<String, StatusCode> {
    let mut inside = remote.state.lock().unwrap();
    inside.requests += 1;
    inside.keys.clone().ok_or(StatusCode::INTERNAL_SERVER_ERROR)
}

async fn metadata(State(remote): State<TestIssuer>, uri: http::Uri) -> Result<String, StatusCode> {
    let inside = remote.state.lock().unwrap();
    let found = inside.metadata.get(uri.path()).map(ToString::to_string);
    found.ok_or(StatusCode::NOT_FOUND)
}

async fn introspect(
    State(remote): State<TestIssuer>,
    headers: HeaderMap,
    body: String,
) -> Result<String, StatusCode> {
    let mut inside = remote.state.lock().unwrap();
    inside.requests += 1;
    let authorization = headers[http::header::AUTHORIZATION].to_str().unwrap();
    inside.authorization = Some(authorization.to_owned());
    let form: HashMap<_, _> = url::form_urlencoded::parse(body.as_bytes()).collect();
    let response = inside.tokens.get(&*form["token"]);
    let response = response
        .cloned()
        .unwrap_or_else(|| json!({"active": false}));
    match response.is_null() {
        true => Err(StatusCode::BAD_GATEWAY),
        false => Ok(response.to_string()),
    }
}

pub(super) fn jwks_authenticator(url: &str, clock: &Clock) -> Authenticator {
    Authenticator::new(options(KeyConfig::Jwks(format!("{url}/jwks")), clock)).unwrap()
}

#[tokio::test]
async fn unknown_key_ids_cause_few_fetches() {
    let (remote, url) = TestIssuer::start().await;
    let (clock, forge) = (Clock::fixed(NOW), TestSigner::ed());
    remote.set_keys(&[forge.jwk("k")]);
    let auth = jwks_authenticator(&url, &clock);
    assert!(
        authenticate(&auth, &forge.token("k", &claims()))
            .await
            .is_ok()
    );
    assert_eq!(remote.requests(), 1);
    let send_forged = async |from: usize| {
        for number in from..from + 50 {
            let token = forge.token(&format!("made-up-{number}"), &claims());
            let failure = authenticate(&auth, &token).await.unwrap_err();
            assert_eq!(failure, AuthFailure::Invalid(reason::KEY));
        }
    };
    // The first may be a new key, so the keys are fetched; then not for a while.
    send_forged(0).await;
    assert_eq!(remote.requests(), 2);
    clock.advance(Duration::from_secs(10));
    send_forged(50).await;
    assert_eq!(remote.requests(), 3);
}

#[tokio::test]
async fn new_key_is_fetched_by_its_id() {
    let (remote, url) = TestIssuer::start().await;
    let clock = Clock::fixed(NOW);
    let (old, new) = (TestSigner::ed(), TestSigner::ec());
    remote.set_keys(&[old.jwk("old")]);
    let auth = jwks_authenticator(&url, &clock);
    assert!(
        authenticate(&auth, &old.token("old", &claims()))
            .await
            .is_ok()
    );
    remote.set_keys(&[old.jwk("old"), new.jwk("new")]);
    assert!(
        authenticate(&auth, &new.token("new", &claims()))
            .await
            .is_ok()
    );
    assert_eq!(remote.requests(), 2);
}

#[tokio::test]
async fn concurrent_callers_fetch_keys_once() {
    let (remote, url) = TestIssuer::start().await;
    let (clock, forge) = (Clock::fixed(NOW), TestSigner::ed());
    remote.set_keys(&[forge.jwk("k")]);
    let auth = Arc::new(jwks_authenticator(&url, &clock));
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..50 {
        let mut claims = claims();
        claims["sub"] = json!(format!("caller-{number}"));
        let token = forge.token("k", &claims);
        let auth = Arc::clone(&auth);
        callers.spawn(async move { authenticate(&auth, &token).await.is_ok() });
    }
    assert!(callers.join_all().await.into_iter().all(|good| good));
    assert_eq!(remote.requests(), 1);
}

#[tokio::test]
async fn stale_keys_stay_valid_while_issuer_is_down() {
    let (remote, url) = TestIssuer::start().await;
    let (clock, forge) = (Clock::fixed(NOW), TestSigner::ed());
    let auth = jwks_authenticator(&url, &clock);
    let new_token = |number: u64| {
        let mut claims = claims();
        claims["jti"] = json!(format!("t-{number}"));
        claims["exp"] = json!(NOW + 90_000);
        forge.token("k", &claims)
    };
    // Down from the start: no token can be verified, and the keys are fetched again after a second.
    assert_eq!(
        authenticate(&auth, &new_token(0)).await.unwrap_err(),
        AuthFailure::Unavailable
    );
    assert_eq!(
        authenticate(&auth, &new_token(0)).await.unwrap_err(),
        AuthFailure::Unavailable
    );
    assert_eq!(remote.requests(), 1);
    remote.set_keys(&[forge.jwk("k")]);
    clock.advance(Duration::from_secs(1));
    assert!(authenticate(&auth, &new_token(1)).await.is_ok());
    assert_eq!(remote.requests(), 2);
    // Stale keys are fetched again; a failure leaves them valid.
    remote.set_raw_keys(None);
    clock.advance(Duration::from_secs(300));
    for number in 2..10 {
        assert!(authenticate(&auth, &new_token(number)).await.is_ok());
    }
    assert_eq!(remote.requests(), 3);
    // An invalid, an empty and an oversized key set are failures too.
    let flood = format!("{{\"keys\":[],\"pad\":\"{}\"}}", "x".repeat(600 << 10));
    for (number, rubbish) in ["<html>", "{\"keys\":[]}", &flood].into_iter().enumerate() {
        remote.set_raw_keys(Some(rubbish.to_owned()));
        clock.advance(Duration::from_secs(10));
        assert!(
            authenticate(&auth, &new_token(10 + number as u64))
                .await
                .is_ok()
        );
    }
    assert_eq!(remote.requests(), 6);
    // But not for ever.
    clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(
        authenticate(&auth, &new_token(20)).await.unwrap_err(),
        AuthFailure::Unavailable
    );
}

#[tokio::test]
async fn removed_key_is_rejected_after_the_next_fetch() {
    let (remote, url) = TestIssuer::start().await;
    let clock = Clock::fixed(NOW);
    let (old, new) = (TestSigner::ed(), TestSigner::ed());
    remote.set_keys(&[old.jwk("old"), new.jwk("new")]);
    let auth = jwks_authenticator(&url, &clock);
    assert!(
        authenticate(&auth, &new.token("new", &claims()))
            .await
            .is_ok()
    );
    remote.set_keys(&[new.jwk("new")]);
    clock.advance(Duration::from_secs(300));
    let failure = authenticate(&auth, &old.token("old", &claims()))
        .await
        .unwrap_err();
    assert_eq!(failure, AuthFailure::Invalid(reason::KEY));
}

fn introspecting_authenticator(url: &str, clock: &Clock) -> Authenticator {
    let mut options = options(KeyConfig::Jwks(format!("{url}/jwks")), clock);
    options.introspection = Some(Introspection {
        url: format!("{url}/introspect"),
        client_id: "a:b c".to_owned(),
        secret: "s%/é".into(),
    });
    Authenticator::new(options).unwrap()
}

#[tokio::test]
async fn opaque_token_is_introspected_and_cached_for_a_minute() {
    let (remote, url) = TestIssuer::start().await;
    let clock = Clock::fixed(NOW);
    let auth = introspecting_authenticator(&url, &clock);
    let response = json!({"active": true, "sub": "ada", "client_id": "app", "scope": "a b",
        "exp": NOW + 600, "iss": super::ISSUER, "aud": [super::AUDIENCE]});
    remote
        .state
        .lock()
        .unwrap()
        .tokens
        .insert("opaque".into(), response);
    let identity = authenticate(&auth, "opaque").await.unwrap();
    assert_eq!((&*identity.principal, &*identity.client), ("ada", "app"));
    assert!(identity.has_scope("a") && identity.has_scope("b"));
    assert!(authenticate(&auth, "opaque").await.is_ok());
    assert_eq!(remote.requests(), 1);
    // RFC 6749, 2.3.1: form-encoded, then joined.
    let authorization = remote.state.lock().unwrap().authorization.clone();
    // base64 of a%3Ab+c:s%25%2F%C3%A9
    assert_eq!(authorization.unwrap(), "Basic YSUzQWIrYzpzJTI1JTJGJUMzJUE5");
    // A revocation takes effect within a minute.
    remote.state.lock().unwrap().tokens.clear();
    clock.advance(Duration::from_secs(59));
    assert!(authenticate(&auth, "opaque").await.is_ok());
    clock.advance(Duration::from_secs(1));
    let inactive = AuthFailure::Invalid(reason::INACTIVE);
    assert_eq!(authenticate(&auth, "opaque").await.unwrap_err(), inactive);
    assert_eq!(remote.requests(), 2);
    // A rejected token is cached for a while.
    for _ in 0..20 {
        assert_eq!(authenticate(&auth, "opaque").await.unwrap_err(), inactive);
    }
    assert_eq!(remote.requests(), 2);
    clock.advance(Duration::from_secs(10));
    assert_eq!(authenticate(&auth, "opaque").await.unwrap_err(), inactive);
    assert_eq!(remote.requests(), 3);
}

#[tokio::test]
async fn concurrent_requests_introspect_a_token_once() {
    let (remote, url) = TestIssuer::start().await;
    let auth = Arc::new(introspecting_authenticator(&url, &Clock::fixed(NOW)));
    let response = json!({"active": true, "sub": "ada"});
    remote
        .state
        .lock()
        .unwrap()
        .tokens
        .insert("opaque".into(), response);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let auth = Arc::clone(&auth);
        callers.spawn(async move { authenticate(&auth, "opaque").await.is_ok() });
    }
    assert!(callers.join_all().await.into_iter().all(|good| good));
    assert_eq!(remote.requests(), 1);
}

#[tokio::test]
async fn introspection_claims_are_verified() {
    let (remote, url) = TestIssuer::start().await;
    let auth = introspecting_authenticator(&url, &Clock::fixed(NOW));
    let invalid = AuthFailure::Invalid;
    for (name, response, expected) in [
        (
            "inactive",
            json!({"active": false, "sub": "ada"}),
            Err(invalid(reason::INACTIVE)),
        ),
        (
            "iss",
            json!({"active": true, "sub": "a", "iss": "x"}),
            Err(invalid(reason::ISSUER)),
        ),
        (
            "aud",
            json!({"active": true, "sub": "a", "aud": "x"}),
            Err(invalid(reason::AUDIENCE)),
        ),
        (
            "exp",
            json!({"active": true, "sub": "a", "exp": NOW - 30}),
            Err(AuthFailure::Expired),
        ),
        (
            "nbf",
            json!({"active": true, "sub": "a", "nbf": NOW + 31}),
            Err(invalid(reason::NOT_YET)),
        ),
        (
            "no-subject",
            json!({"active": true}),
            Err(invalid(reason::SUBJECT)),
        ),
        ("client", json!({"active": true, "client_id": "c"}), Ok("c")),
        ("endless", json!({"active": true, "sub": "a"}), Ok("a")),
        ("down", json!(null), Err(AuthFailure::Unavailable)),
        (
            "rubbish",
            json!({"active": "yes"}),
            Err(AuthFailure::Unavailable),
        ),
    ] {
        remote
            .state
            .lock()
            .unwrap()
            .tokens
            .insert(name.into(), response);
        let authenticated = authenticate(&auth, name)
            .await
            .map(|identity| identity.principal.to_string());
        assert_eq!(authenticated, expected.map(str::to_owned), "{name}");
    }
}

#[tokio::test]
async fn unreachable_issuer_is_not_cached_as_rejection() {
    let (remote, url) = TestIssuer::start().await;
    let auth = introspecting_authenticator(&url, &Clock::fixed(NOW));
    let set_response = |response| {
        remote
            .state
            .lock()
            .unwrap()
            .tokens
            .insert("t".into(), response)
    };
    set_response(json!(null));
    assert_eq!(
        authenticate(&auth, "t").await.unwrap_err(),
        AuthFailure::Unavailable
    );
    set_response(json!({"active": true, "sub": "ada"}));
    assert!(authenticate(&auth, "t").await.is_ok());
}

/// Starts an issuer that answers one request per connection, and closes it when the next one arrives.
async fn start_single_response_issuer() -> String {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut socket = BufReader::new(socket);
                let (mut line, mut length) = (String::new(), 0);
                while socket.read_line(&mut line).await.unwrap() > 2 {
                    let header = line.to_ascii_lowercase();
                    if let Some(value) = header.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                socket.read_exact(&mut body).await.unwrap();
                let body = json!({"active": true, "sub": "ada"}).to_string();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                socket.write_all((head + &body).as_bytes()).await.unwrap();
                socket.read_u8().await.unwrap();
            });
        }
    });
    url
}

#[tokio::test]
async fn request_is_retried_when_issuer_closes_connection() {
    let url = start_single_response_issuer().await;
    let auth = introspecting_authenticator(&url, &Clock::fixed(NOW));
    for token in ["first", "second", "third"] {
        let result = authenticate(&auth, token).await.map(|_| ());
        assert_eq!(result, Ok(()), "{token}");
    }
}

#[tokio::test]
async fn keys_are_discovered_by_issuer_metadata() {
    let (remote, url) = TestIssuer::start().await;
    let forge = TestSigner::ed();
    remote.set_keys(&[forge.jwk("k")]);
    for (issuer, path) in [
        (format!("{url}/"), "/.well-known/openid-configuration"),
        (url.clone(), "/.well-known/oauth-authorization-server"),
        (
            format!("{url}/tenant"),
            "/tenant/.well-known/openid-configuration",
        ),
        (
            format!("{url}/tenant"),
            "/.well-known/oauth-authorization-server/tenant",
        ),
    ] {
        let jwks = format!("{url}/jwks");
        let try_with = async |metadata: serde_json::Value| {
            let documents = HashMap::from([(path.to_owned(), metadata)]);
            remote.state.lock().unwrap().metadata = documents;
            let mut options = options(KeyConfig::Discovered, &Clock::fixed(NOW));
            options.issuer = issuer.clone();
            let auth = Authenticator::new(options).unwrap();
            let mut claims = claims();
            claims["iss"] = json!(issuer);
            authenticate(&auth, &forge.token("k", &claims))
                .await
                .map(|_| ())
        };
        let good = try_with(json!({"issuer": issuer, "jwks_uri": jwks})).await;
        assert_eq!(good, Ok(()), "{path}");
        for bad in [
            json!({"issuer": "https://evil.example", "jwks_uri": jwks}),
            json!({"issuer": issuer, "jwks_uri": "http://evil.example/jwks"}),
            json!({"issuer": issuer}),
        ] {
            assert_eq!(
                try_with(bad.clone()).await,
                Err(AuthFailure::Unavailable),
                "{bad}"
            );
        }
    }
}
