//! Issuers behind a socket: what they are asked, how often, and what happens when they are down.

use super::{Forge, NOW, claims, json, options, show};
use crate::auth::{Authenticator, Introspection, Keys, Refusal, reason};
use crate::clock::Clock;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use http::{HeaderMap, StatusCode};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A small issuer that counts.
#[derive(Clone, Default)]
pub(super) struct Remote {
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    /// What the keys are; without it, it is down.
    keys: Option<String>,
    /// What is said of each token.
    tokens: HashMap<String, serde_json::Value>,
    /// Metadata by their path; what is not here is not found.
    metadata: HashMap<String, serde_json::Value>,
    asked: usize,
    authorization: Option<String>,
}

impl Remote {
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

    pub(super) fn keys(&self, keys: &[serde_json::Value]) {
        self.inside.lock().unwrap().keys = Some(json!({ "keys": keys }).to_string());
    }

    pub(super) fn raw(&self, keys: Option<String>) {
        self.inside.lock().unwrap().keys = keys;
    }

    pub(super) fn asked(&self) -> usize {
        self.inside.lock().unwrap().asked
    }
}

async fn jwks(State(remote): State<Remote>) -> Result<String, StatusCode> {
    let mut inside = remote.inside.lock().unwrap();
    inside.asked += 1;
    inside.keys.clone().ok_or(StatusCode::INTERNAL_SERVER_ERROR)
}

async fn metadata(State(remote): State<Remote>, uri: http::Uri) -> Result<String, StatusCode> {
    let inside = remote.inside.lock().unwrap();
    let found = inside.metadata.get(uri.path()).map(ToString::to_string);
    found.ok_or(StatusCode::NOT_FOUND)
}

async fn introspect(
    State(remote): State<Remote>,
    headers: HeaderMap,
    body: String,
) -> Result<String, StatusCode> {
    let mut inside = remote.inside.lock().unwrap();
    inside.asked += 1;
    let authorization = headers[http::header::AUTHORIZATION].to_str().unwrap();
    inside.authorization = Some(authorization.to_owned());
    let form: HashMap<_, _> = url::form_urlencoded::parse(body.as_bytes()).collect();
    let said = inside.tokens.get(&*form["token"]);
    let said = said.cloned().unwrap_or_else(|| json!({"active": false}));
    match said.is_null() {
        true => Err(StatusCode::BAD_GATEWAY),
        false => Ok(said.to_string()),
    }
}

pub(super) fn by_jwks(url: &str, clock: &Clock) -> Authenticator {
    Authenticator::new(options(Keys::Jwks(format!("{url}/jwks")), clock)).unwrap()
}

#[tokio::test]
async fn made_up_key_ids_hardly_reach_the_issuer() {
    let (remote, url) = Remote::start().await;
    let (clock, forge) = (Clock::set(NOW), Forge::ed());
    remote.keys(&[forge.jwk("k")]);
    let auth = by_jwks(&url, &clock);
    assert!(show(&auth, &forge.token("k", &claims())).await.is_ok());
    assert_eq!(remote.asked(), 1);
    let forged = async |from: usize| {
        for number in from..from + 50 {
            let token = forge.token(&format!("made-up-{number}"), &claims());
            let refusal = show(&auth, &token).await.unwrap_err();
            assert_eq!(refusal, Refusal::Invalid(reason::KEY));
        }
    };
    // The first may be a new key, so the issuer is asked; then not for a while.
    forged(0).await;
    assert_eq!(remote.asked(), 2);
    clock.advance(Duration::from_secs(10));
    forged(50).await;
    assert_eq!(remote.asked(), 3);
}

#[tokio::test]
async fn a_new_key_is_found_by_its_id() {
    let (remote, url) = Remote::start().await;
    let clock = Clock::set(NOW);
    let (old, new) = (Forge::ed(), Forge::ec());
    remote.keys(&[old.jwk("old")]);
    let auth = by_jwks(&url, &clock);
    assert!(show(&auth, &old.token("old", &claims())).await.is_ok());
    remote.keys(&[old.jwk("old"), new.jwk("new")]);
    assert!(show(&auth, &new.token("new", &claims())).await.is_ok());
    assert_eq!(remote.asked(), 2);
}

#[tokio::test]
async fn many_callers_fetch_the_keys_once() {
    let (remote, url) = Remote::start().await;
    let (clock, forge) = (Clock::set(NOW), Forge::ed());
    remote.keys(&[forge.jwk("k")]);
    let auth = Arc::new(by_jwks(&url, &clock));
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..50 {
        let mut claims = claims();
        claims["sub"] = json!(format!("caller-{number}"));
        let token = forge.token("k", &claims);
        let auth = Arc::clone(&auth);
        callers.spawn(async move { show(&auth, &token).await.is_ok() });
    }
    assert!(callers.join_all().await.into_iter().all(|good| good));
    assert_eq!(remote.asked(), 1);
}

#[tokio::test]
async fn keys_age_and_outlive_an_issuer_that_is_down() {
    let (remote, url) = Remote::start().await;
    let (clock, forge) = (Clock::set(NOW), Forge::ed());
    let auth = by_jwks(&url, &clock);
    let fresh = |number: u64| {
        let mut claims = claims();
        claims["jti"] = json!(format!("t-{number}"));
        claims["exp"] = json!(NOW + 90_000);
        forge.token("k", &claims)
    };
    // Down from the start: nobody can be believed, and it is asked again after a second.
    assert_eq!(
        show(&auth, &fresh(0)).await.unwrap_err(),
        Refusal::Unavailable
    );
    assert_eq!(
        show(&auth, &fresh(0)).await.unwrap_err(),
        Refusal::Unavailable
    );
    assert_eq!(remote.asked(), 1);
    remote.keys(&[forge.jwk("k")]);
    clock.advance(Duration::from_secs(1));
    assert!(show(&auth, &fresh(1)).await.is_ok());
    assert_eq!(remote.asked(), 2);
    // Old keys are fetched again; a failure leaves them in force.
    remote.raw(None);
    clock.advance(Duration::from_secs(300));
    for number in 2..10 {
        assert!(show(&auth, &fresh(number)).await.is_ok());
    }
    assert_eq!(remote.asked(), 3);
    // Rubbish, an empty set and a flood are failures too.
    let flood = format!("{{\"keys\":[],\"pad\":\"{}\"}}", "x".repeat(600 << 10));
    for (number, rubbish) in ["<html>", "{\"keys\":[]}", &flood].into_iter().enumerate() {
        remote.raw(Some(rubbish.to_owned()));
        clock.advance(Duration::from_secs(10));
        assert!(show(&auth, &fresh(10 + number as u64)).await.is_ok());
    }
    assert_eq!(remote.asked(), 6);
    // But not for ever.
    clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(
        show(&auth, &fresh(20)).await.unwrap_err(),
        Refusal::Unavailable
    );
}

#[tokio::test]
async fn a_key_that_was_taken_back_ends_with_the_next_fetch() {
    let (remote, url) = Remote::start().await;
    let clock = Clock::set(NOW);
    let (old, new) = (Forge::ed(), Forge::ed());
    remote.keys(&[old.jwk("old"), new.jwk("new")]);
    let auth = by_jwks(&url, &clock);
    assert!(show(&auth, &new.token("new", &claims())).await.is_ok());
    remote.keys(&[new.jwk("new")]);
    clock.advance(Duration::from_secs(300));
    let refusal = show(&auth, &old.token("old", &claims())).await.unwrap_err();
    assert_eq!(refusal, Refusal::Invalid(reason::KEY));
}

fn asking(url: &str, clock: &Clock) -> Authenticator {
    let mut options = options(Keys::Jwks(format!("{url}/jwks")), clock);
    options.introspection = Some(Introspection {
        url: format!("{url}/introspect"),
        client_id: "a:b c".to_owned(),
        secret: "s%/é".into(),
    });
    Authenticator::new(options).unwrap()
}

#[tokio::test]
async fn opaque_tokens_are_asked_about_and_remembered_for_a_minute() {
    let (remote, url) = Remote::start().await;
    let clock = Clock::set(NOW);
    let auth = asking(&url, &clock);
    let told = json!({"active": true, "sub": "ada", "client_id": "app", "scope": "a b",
        "exp": NOW + 600, "iss": super::ISSUER, "aud": [super::AUDIENCE]});
    remote
        .inside
        .lock()
        .unwrap()
        .tokens
        .insert("opaque".into(), told);
    let identity = show(&auth, "opaque").await.unwrap();
    assert_eq!((&*identity.principal, &*identity.client), ("ada", "app"));
    assert!(identity.has_scope("a") && identity.has_scope("b"));
    assert!(show(&auth, "opaque").await.is_ok());
    assert_eq!(remote.asked(), 1);
    // RFC 6749, 2.3.1: encoded as in a form, then joined.
    let authorization = remote.inside.lock().unwrap().authorization.clone();
    // base64 of a%3Ab+c:s%25%2F%C3%A9
    assert_eq!(authorization.unwrap(), "Basic YSUzQWIrYzpzJTI1JTJGJUMzJUE5");
    // Taken back: seen within a minute.
    remote.inside.lock().unwrap().tokens.clear();
    clock.advance(Duration::from_secs(59));
    assert!(show(&auth, "opaque").await.is_ok());
    clock.advance(Duration::from_secs(1));
    let inactive = Refusal::Invalid(reason::INACTIVE);
    assert_eq!(show(&auth, "opaque").await.unwrap_err(), inactive);
    assert_eq!(remote.asked(), 2);
    // A bad token is bad for a while without asking.
    for _ in 0..20 {
        assert_eq!(show(&auth, "opaque").await.unwrap_err(), inactive);
    }
    assert_eq!(remote.asked(), 2);
    clock.advance(Duration::from_secs(10));
    assert_eq!(show(&auth, "opaque").await.unwrap_err(), inactive);
    assert_eq!(remote.asked(), 3);
}

#[tokio::test]
async fn many_requests_with_one_token_ask_once() {
    let (remote, url) = Remote::start().await;
    let auth = Arc::new(asking(&url, &Clock::set(NOW)));
    let told = json!({"active": true, "sub": "ada"});
    remote
        .inside
        .lock()
        .unwrap()
        .tokens
        .insert("opaque".into(), told);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let auth = Arc::clone(&auth);
        callers.spawn(async move { show(&auth, "opaque").await.is_ok() });
    }
    assert!(callers.join_all().await.into_iter().all(|good| good));
    assert_eq!(remote.asked(), 1);
}

#[tokio::test]
async fn what_the_issuer_says_of_an_opaque_token_is_judged() {
    let (remote, url) = Remote::start().await;
    let auth = asking(&url, &Clock::set(NOW));
    let invalid = Refusal::Invalid;
    for (name, told, expected) in [
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
            Err(Refusal::Expired),
        ),
        (
            "nbf",
            json!({"active": true, "sub": "a", "nbf": NOW + 31}),
            Err(invalid(reason::NOT_YET)),
        ),
        (
            "nobody",
            json!({"active": true}),
            Err(invalid(reason::SUBJECT)),
        ),
        ("client", json!({"active": true, "client_id": "c"}), Ok("c")),
        ("endless", json!({"active": true, "sub": "a"}), Ok("a")),
        ("down", json!(null), Err(Refusal::Unavailable)),
        (
            "rubbish",
            json!({"active": "yes"}),
            Err(Refusal::Unavailable),
        ),
    ] {
        remote
            .inside
            .lock()
            .unwrap()
            .tokens
            .insert(name.into(), told);
        let got = show(&auth, name)
            .await
            .map(|identity| identity.principal.to_string());
        assert_eq!(got, expected.map(str::to_owned), "{name}");
    }
}

#[tokio::test]
async fn that_the_issuer_is_down_is_not_remembered_against_a_token() {
    let (remote, url) = Remote::start().await;
    let auth = asking(&url, &Clock::set(NOW));
    let tell = |told| {
        remote
            .inside
            .lock()
            .unwrap()
            .tokens
            .insert("t".into(), told)
    };
    tell(json!(null));
    assert_eq!(show(&auth, "t").await.unwrap_err(), Refusal::Unavailable);
    tell(json!({"active": true, "sub": "ada"}));
    assert!(show(&auth, "t").await.is_ok());
}

/// An issuer that answers one question on a connection, and closes it when the next one comes.
async fn one_answer_a_connection() -> String {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut socket = BufReader::new(socket);
                let (mut line, mut length) = (String::new(), 0);
                while socket.read_line(&mut line).await.unwrap() > 2 {
                    let told = line.to_ascii_lowercase();
                    if let Some(told) = told.strip_prefix("content-length:") {
                        length = told.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                socket.read_exact(&mut body).await.unwrap();
                let said = json!({"active": true, "sub": "ada"}).to_string();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", said.len());
                socket.write_all((head + &said).as_bytes()).await.unwrap();
                socket.read_u8().await.unwrap();
            });
        }
    });
    url
}

#[tokio::test]
async fn an_issuer_that_closes_a_connection_as_it_is_used_is_asked_again() {
    let url = one_answer_a_connection().await;
    let auth = asking(&url, &Clock::set(NOW));
    for token in ["first", "second", "third"] {
        let known = show(&auth, token).await.map(|_| ());
        assert_eq!(known, Ok(()), "{token}");
    }
}

#[tokio::test]
async fn keys_are_found_by_the_issuers_metadata() {
    let (remote, url) = Remote::start().await;
    let forge = Forge::ed();
    remote.keys(&[forge.jwk("k")]);
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
            let place = HashMap::from([(path.to_owned(), metadata)]);
            remote.inside.lock().unwrap().metadata = place;
            let mut options = options(Keys::Discovered, &Clock::set(NOW));
            options.issuer = issuer.clone();
            let auth = Authenticator::new(options).unwrap();
            let mut claims = claims();
            claims["iss"] = json!(issuer);
            show(&auth, &forge.token("k", &claims)).await.map(|_| ())
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
                Err(Refusal::Unavailable),
                "{bad}"
            );
        }
    }
}
