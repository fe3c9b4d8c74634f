//! Tokens for programs, by their secrets.

use super::{AUDIENCE, Grant, House, NOW, URL, form_request, secret, show};
use crate::auth::{Refusal, reason};
use crate::issuer::{AccountError, NewClient};
use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Request;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use std::time::Duration;

const OWN: &[Grant] = &[Grant::ClientCredentials];

#[tokio::test]
async fn a_secret_buys_a_token_that_the_zone_believes() {
    let house = House::build().await;
    let client = house.client(OWN, false).await;
    let basic = format!("{}:{}", client.client_id, secret(&client));
    let mut request = form_request(
        "/oauth2/token",
        &[
            ("grant_type", "client_credentials"),
            ("scope", "read"),
            ("audience", AUDIENCE),
        ],
    );
    let basic = format!("basic {}", STANDARD.encode(basic));
    request
        .headers_mut()
        .insert(AUTHORIZATION, basic.parse().unwrap());
    let reply = house.send(request).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("cache-control"), "no-store");
    let body = reply.json();
    assert_eq!(
        (&body["token_type"], &body["expires_in"]),
        (&json!("Bearer"), &json!(900))
    );
    assert_eq!(
        (&body["scope"], &body["refresh_token"]),
        (&json!("read"), &Value::Null)
    );
    let token = body["access_token"].as_str().unwrap();
    // RFC 9068, 2: every member, and nothing else.
    let part = |at: usize| -> Value {
        let part = token.split('.').nth(at).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    };
    let (header, claims) = (part(0), part(1));
    assert_eq!(
        (&header["typ"], &header["alg"]),
        (&json!("at+jwt"), &json!("ES256"))
    );
    assert_eq!(claims["iss"], URL);
    assert_eq!(claims["aud"], AUDIENCE);
    assert_eq!(
        (&claims["sub"], &claims["client_id"]),
        (&json!(client.client_id), &json!(client.client_id))
    );
    assert_eq!(
        (&claims["iat"], &claims["exp"]),
        (&json!(NOW), &json!(NOW + 900))
    );
    assert_eq!(claims.as_object().unwrap().len(), 8);
    let auth = house.authenticator();
    let identity = show(&auth, token).await.unwrap();
    assert_eq!(&*identity.principal, client.client_id);
    assert_eq!(identity.scopes().collect::<Vec<_>>(), ["read"]);
    house.clock.advance(Duration::from_secs(930));
    assert_eq!(show(&auth, token).await.unwrap_err(), Refusal::Expired);
}

#[tokio::test]
async fn scopes_are_exactly_those_of_the_client() {
    let house = House::build().await;
    let client = house.client(OWN, false).await;
    let ask = async |scope: Option<&str>| {
        let mut form = vec![
            ("grant_type", "client_credentials"),
            ("client_id", client.client_id.as_str()),
            ("client_secret", secret(&client)),
        ];
        form.extend(scope.map(|scope| ("scope", scope)));
        house.post("/oauth2/token", &form).await
    };
    assert_eq!(ask(None).await.json()["scope"], "read write");
    assert_eq!(
        ask(Some("write read write")).await.json()["scope"],
        "read write"
    );
    // `admin` may be granted, but not to this client; `other` to nobody.
    for scope in ["admin", "read admin", "other", "re", "READ", "*", "read:*"] {
        assert_eq!(
            ask(Some(scope)).await.error(),
            (400, "invalid_scope".into()),
            "{scope}"
        );
    }
}

#[tokio::test]
async fn whoever_is_not_the_client_learns_nothing() {
    let house = House::build().await;
    let client = house.client(OWN, false).await;
    let id = client.client_id.as_str();
    let mut seen = Vec::new();
    for (id, secret) in [
        (id, "wrong"),
        (id, ""),
        ("unknown", secret(&client)),
        ("unknown", "wrong"),
        ("../../etc", "x"),
        ("", ""),
    ] {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", id),
            ("client_secret", secret),
        ];
        let reply = house.post("/oauth2/token", &form).await;
        assert_eq!(reply.error(), (401, "invalid_client".into()), "{id}");
        assert!(reply.header("www-authenticate").starts_with("Basic realm="));
        seen.push(reply.text);
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "all refusals read the same");
    let mut twice = form_request(
        "/oauth2/token",
        &[
            ("grant_type", "client_credentials"),
            ("client_id", id),
            ("client_secret", secret(&client)),
        ],
    );
    let basic = STANDARD.encode(format!("{id}:{}", secret(&client)));
    twice
        .headers_mut()
        .insert(AUTHORIZATION, format!("Basic {basic}").parse().unwrap());
    assert_eq!(
        house.send(twice).await.error(),
        (400, "invalid_request".into())
    );
}

#[tokio::test]
async fn malformed_requests_are_told_what_is_wrong() {
    let house = House::build().await;
    let client = house.client(OWN, false).await;
    let known = [
        ("client_id", client.client_id.as_str()),
        ("client_secret", secret(&client)),
    ];
    for (more, error) in [
        (&[][..], "invalid_request"),
        (&[("grant_type", "password")], "unsupported_grant_type"),
        (
            &[("grant_type", "authorization_code")],
            "unauthorized_client",
        ),
        (&[("grant_type", "refresh_token")], "unauthorized_client"),
        (
            &[
                ("grant_type", "client_credentials"),
                ("scope", "read"),
                ("scope", "write"),
            ],
            "invalid_request",
        ),
        (
            &[
                ("grant_type", "client_credentials"),
                ("audience", "https://else.example"),
            ],
            "invalid_target",
        ),
        (
            &[
                ("grant_type", "client_credentials"),
                ("resource", "https://else.example"),
            ],
            "invalid_target",
        ),
    ] {
        let form: Vec<_> = known.iter().chain(more).copied().collect();
        assert_eq!(
            house.post("/oauth2/token", &form).await.error(),
            (400, error.into()),
            "{more:?}"
        );
    }
    let json = Request::post("/oauth2/token").header("content-type", "application/json");
    assert_eq!(
        house
            .send(json.body(Body::from("{}")).unwrap())
            .await
            .status,
        415
    );
    let form =
        Request::post("/oauth2/token").header("content-type", "application/x-www-form-urlencoded");
    let large = form.body(Body::from(vec![b'a'; (64 << 10) + 1])).unwrap();
    assert_eq!(house.send(large).await.status, 413);
    assert_eq!(house.get("/oauth2/token").await.status, 405);
}

#[tokio::test]
async fn a_token_can_be_asked_about_and_taken_back() {
    let house = House::build().await;
    let (client, other) = (
        house.client(OWN, false).await,
        house.client(OWN, false).await,
    );
    let token = house.own_token(&client).await;
    let auth = house.authenticator();
    assert!(show(&auth, &token).await.is_ok());
    let call = async |path: &str, by: &super::NewSecret, token: &str| {
        let form = [
            ("client_id", by.client_id.as_str()),
            ("client_secret", secret(by)),
            ("token", token),
        ];
        house.post(path, &form).await
    };
    let told = call("/oauth2/introspect", &other, &token).await.json();
    assert_eq!(
        (&told["active"], &told["scope"]),
        (&json!(true), &json!("read write"))
    );
    assert_eq!(
        (&told["sub"], &told["exp"]),
        (&json!(client.client_id), &json!(NOW + 900))
    );
    for unknown in ["rubbish", "a.b.c", &token[..token.len() - 4]] {
        let told = call("/oauth2/introspect", &other, unknown).await.json();
        assert_eq!(told, json!({"active": false}), "{unknown}");
    }
    // Not by somebody else…
    let refused = call("/oauth2/revoke", &other, &token).await;
    assert_eq!(refused.error(), (400, "invalid_grant".into()));
    assert!(show(&auth, &token).await.is_ok());
    // …but by its holder, and it may try twice.
    for _ in 0..2 {
        assert_eq!(call("/oauth2/revoke", &client, &token).await.status, 200);
    }
    assert_eq!(call("/oauth2/revoke", &client, "unknown").await.status, 200);
    assert_eq!(
        show(&auth, &token).await.unwrap_err(),
        Refusal::Invalid(reason::REVOKED)
    );
    assert_eq!(
        call("/oauth2/introspect", &other, &token).await.json(),
        json!({"active": false})
    );
    let anonymous = house.post("/oauth2/introspect", &[("token", &token)]).await;
    assert_eq!(anonymous.error(), (401, "invalid_client".into()));
    let public = house.client(&[Grant::AuthorizationCode], true).await;
    let form = [("client_id", public.client_id.as_str()), ("token", &token)];
    assert_eq!(house.post("/oauth2/introspect", &form).await.status, 401);
}

#[tokio::test]
async fn a_removed_client_has_no_tokens_any_more() {
    let house = House::build().await;
    let client = house.client(OWN, false).await;
    let token = house.own_token(&client).await;
    let auth = house.authenticator();
    assert!(show(&auth, &token).await.is_ok());
    assert!(house.clients.remove(&client.client_id).await.unwrap());
    assert!(!house.clients.remove(&client.client_id).await.unwrap());
    house.issuer.refresh().await.unwrap();
    assert_eq!(
        show(&auth, &token).await.unwrap_err(),
        Refusal::Invalid(reason::REVOKED)
    );
    // The next one of that name starts anew.
    house.clock.advance(Duration::from_secs(1));
    let new = NewClient {
        id: Some(client.client_id.clone()),
        name: "again".into(),
        scopes: vec!["read".into()],
        grants: OWN.to_vec(),
        ..NewClient::default()
    };
    let again = house.clients.add(new.clone()).await.unwrap();
    assert!(matches!(
        house.clients.add(new).await,
        Err(AccountError::Taken)
    ));
    assert!(show(&auth, &house.own_token(&again).await).await.is_ok());
}

#[tokio::test]
async fn what_cannot_be_a_client_is_refused() {
    let house = House::build().await;
    let good = NewClient {
        name: "n".into(),
        scopes: vec!["read".into()],
        grants: OWN.to_vec(),
        ..NewClient::default()
    };
    let add = async |change: fn(&mut NewClient)| {
        let mut new = good.clone();
        change(&mut new);
        house
            .clients
            .add(new)
            .await
            .err()
            .map(|error| error.to_string())
    };
    assert_eq!(add(|_| {}).await, None);
    let bad: [fn(&mut NewClient); 11] = [
        |new| new.name.clear(),
        |new| new.name = "a\nb".into(),
        |new| new.name = "safe\u{202e}evil".into(),
        |new| new.id = Some("Upper".into()),
        |new| new.id = Some("person:ada".into()),
        |new| new.scopes.clear(),
        |new| new.scopes = vec!["two words".into()],
        |new| new.redirect_uris = vec!["http://a.example/".into()],
        |new| new.grants.clear(),
        |new| new.grants = vec![Grant::AuthorizationCode],
        |new| new.public = true,
    ];
    for change in bad {
        assert!(add(change).await.is_some());
    }
    let listed = house.clients.list().await.unwrap();
    assert_eq!(listed.len(), 1);
}

#[tokio::test]
async fn what_is_kept_and_shown_holds_no_secret() {
    let house = House::build().await;
    let client = house.client(OWN, false).await;
    let passphrase = house.people.add("ada").await.unwrap();
    let mut all = format!(
        "{client:?} {passphrase:?} {:?} {:?}",
        house.issuer,
        house.clients.list().await
    );
    for kind in ["oauth.client", "oauth.person"] {
        for kept in house.keep.list(kind).await.unwrap() {
            all.push_str(&kept.value);
            assert!(!format!("{kept:?}").contains("sha256"));
        }
    }
    assert!(!all.contains(secret(&client)) && !all.contains(passphrase.expose()));
}
