//! Client credentials grant, introspection, revocation and client accounts.

use super::{AUDIENCE, GrantType, IssuerFixture, NOW, URL, authenticate, form_request, secret};
use crate::{AccountError, NewOAuthClient};
use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Request;
use http::header::AUTHORIZATION;
use interzone_edge::auth::{AuthFailure, reason};
use interzone_protocol::vocab::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

const CLIENT_CREDENTIALS: &[GrantType] = &[GrantType::ClientCredentials];

#[tokio::test]
async fn client_credentials_grant_issues_valid_token() {
    let fixture = IssuerFixture::new().await;
    let client = fixture.add_client(CLIENT_CREDENTIALS, false).await;
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
    let reply = fixture.send(request).await;
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
    // RFC 9068, 2: every claim, and nothing else.
    let part = |index: usize| -> Value {
        let part = token.split('.').nth(index).unwrap();
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
    let auth = fixture.authenticator();
    let identity = authenticate(&auth, token).await.unwrap();
    assert_eq!(&*identity.principal, client.client_id);
    assert_eq!(identity.scopes().collect::<Vec<_>>(), ["read"]);
    fixture.clock.advance(Duration::from_secs(930));
    assert_eq!(
        authenticate(&auth, token).await.unwrap_err(),
        AuthFailure::Expired
    );
}

#[tokio::test]
async fn scopes_outside_the_client_are_rejected() {
    let fixture = IssuerFixture::new().await;
    let client = fixture.add_client(CLIENT_CREDENTIALS, false).await;
    let request_token = async |scope: Option<&str>| {
        let mut form = vec![
            ("grant_type", "client_credentials"),
            ("client_id", client.client_id.as_str()),
            ("client_secret", secret(&client)),
        ];
        form.extend(scope.map(|scope| ("scope", scope)));
        fixture.post("/oauth2/token", &form).await
    };
    assert_eq!(request_token(None).await.json()["scope"], "read write");
    assert_eq!(
        request_token(Some("write read write")).await.json()["scope"],
        "read write"
    );
    // `admin` is defined but not allowed for this client; `other` is undefined.
    for scope in ["admin", "read admin", "other", "re", "READ", "*", "read:*"] {
        assert_eq!(
            request_token(Some(scope)).await.error(),
            (400, "invalid_scope".into()),
            "{scope}"
        );
    }
}

#[tokio::test]
async fn failed_client_auth_responses_are_identical() {
    let fixture = IssuerFixture::new().await;
    let client = fixture.add_client(CLIENT_CREDENTIALS, false).await;
    let id = client.client_id.as_str();
    let mut responses = Vec::new();
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
        let reply = fixture.post("/oauth2/token", &form).await;
        assert_eq!(reply.error(), (401, "invalid_client".into()), "{id}");
        assert!(reply.header("www-authenticate").starts_with("Basic realm="));
        responses.push(reply.text);
    }
    responses.dedup();
    assert_eq!(responses.len(), 1, "all error responses are the same");
    let mut both_methods = form_request(
        "/oauth2/token",
        &[
            ("grant_type", "client_credentials"),
            ("client_id", id),
            ("client_secret", secret(&client)),
        ],
    );
    let basic = STANDARD.encode(format!("{id}:{}", secret(&client)));
    both_methods
        .headers_mut()
        .insert(AUTHORIZATION, format!("Basic {basic}").parse().unwrap());
    assert_eq!(
        fixture.send(both_methods).await.error(),
        (400, "invalid_request".into())
    );
}

#[tokio::test]
async fn malformed_token_request_returns_oauth_error() {
    let fixture = IssuerFixture::new().await;
    let client = fixture.add_client(CLIENT_CREDENTIALS, false).await;
    let credentials = [
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
        let form: Vec<_> = credentials.iter().chain(more).copied().collect();
        assert_eq!(
            fixture.post("/oauth2/token", &form).await.error(),
            (400, error.into()),
            "{more:?}"
        );
    }
    let json = Request::post("/oauth2/token").header("content-type", "application/json");
    assert_eq!(
        fixture
            .send(json.body(Body::from("{}")).unwrap())
            .await
            .status,
        415
    );
    let form =
        Request::post("/oauth2/token").header("content-type", "application/x-www-form-urlencoded");
    let large = form.body(Body::from(vec![b'a'; (64 << 10) + 1])).unwrap();
    assert_eq!(fixture.send(large).await.status, 413);
    assert_eq!(fixture.get("/oauth2/token").await.status, 405);
}

#[tokio::test]
async fn token_can_be_introspected_and_revoked() {
    let fixture = IssuerFixture::new().await;
    let (client, other) = (
        fixture.add_client(CLIENT_CREDENTIALS, false).await,
        fixture.add_client(CLIENT_CREDENTIALS, false).await,
    );
    let token = fixture.client_token(&client).await;
    let auth = fixture.authenticator();
    assert!(authenticate(&auth, &token).await.is_ok());
    let call = async |path: &str, client: &super::NewClientCredentials, token: &str| {
        let form = [
            ("client_id", client.client_id.as_str()),
            ("client_secret", secret(client)),
            ("token", token),
        ];
        fixture.post(path, &form).await
    };
    let introspection = call("/oauth2/introspect", &other, &token).await.json();
    assert_eq!(
        (&introspection["active"], &introspection["scope"]),
        (&json!(true), &json!("read write"))
    );
    assert_eq!(
        (&introspection["sub"], &introspection["exp"]),
        (&json!(client.client_id), &json!(NOW + 900))
    );
    for unknown in ["rubbish", "a.b.c", &token[..token.len() - 4]] {
        let introspection = call("/oauth2/introspect", &other, unknown).await.json();
        assert_eq!(introspection, json!({"active": false}), "{unknown}");
    }
    // Another client cannot revoke it…
    let rejected = call("/oauth2/revoke", &other, &token).await;
    assert_eq!(rejected.error(), (400, "invalid_grant".into()));
    assert!(authenticate(&auth, &token).await.is_ok());
    // …its own client can, repeatedly.
    for _ in 0..2 {
        assert_eq!(call("/oauth2/revoke", &client, &token).await.status, 200);
    }
    assert_eq!(call("/oauth2/revoke", &client, "unknown").await.status, 200);
    assert_eq!(
        authenticate(&auth, &token).await.unwrap_err(),
        AuthFailure::Invalid(reason::REVOKED)
    );
    assert_eq!(
        call("/oauth2/introspect", &other, &token).await.json(),
        json!({"active": false})
    );
    let anonymous = fixture
        .post("/oauth2/introspect", &[("token", &token)])
        .await;
    assert_eq!(anonymous.error(), (401, "invalid_client".into()));
    let public = fixture
        .add_client(&[GrantType::AuthorizationCode], true)
        .await;
    let form = [("client_id", public.client_id.as_str()), ("token", &token)];
    assert_eq!(fixture.post("/oauth2/introspect", &form).await.status, 401);
}

#[tokio::test]
async fn removing_a_client_revokes_its_tokens() {
    let fixture = IssuerFixture::new().await;
    let client = fixture.add_client(CLIENT_CREDENTIALS, false).await;
    let token = fixture.client_token(&client).await;
    let auth = fixture.authenticator();
    assert!(authenticate(&auth, &token).await.is_ok());
    assert!(fixture.clients.remove(&client.client_id).await.unwrap());
    assert!(!fixture.clients.remove(&client.client_id).await.unwrap());
    fixture.issuer.reload().await.unwrap();
    assert_eq!(
        authenticate(&auth, &token).await.unwrap_err(),
        AuthFailure::Invalid(reason::REVOKED)
    );
    // A new client with the same id is not affected.
    fixture.clock.advance(Duration::from_secs(1));
    let new = NewOAuthClient {
        id: Some(client.client_id.clone()),
        name: "again".into(),
        scopes: vec!["read".into()],
        grants: CLIENT_CREDENTIALS.to_vec(),
        ..NewOAuthClient::default()
    };
    let again = fixture.clients.add(new.clone()).await.unwrap();
    assert!(matches!(
        fixture.clients.add(new).await,
        Err(AccountError::Taken)
    ));
    assert!(
        authenticate(&auth, &fixture.client_token(&again).await)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn invalid_client_parameters_are_rejected() {
    let fixture = IssuerFixture::new().await;
    let valid = NewOAuthClient {
        name: "n".into(),
        scopes: vec!["read".into()],
        grants: CLIENT_CREDENTIALS.to_vec(),
        ..NewOAuthClient::default()
    };
    let add = async |change: fn(&mut NewOAuthClient)| {
        let mut new = valid.clone();
        change(&mut new);
        fixture
            .clients
            .add(new)
            .await
            .err()
            .map(|error| error.to_string())
    };
    assert_eq!(add(|_| {}).await, None);
    let invalid: [fn(&mut NewOAuthClient); 11] = [
        |new| new.name.clear(),
        |new| new.name = "a\nb".into(),
        |new| new.name = "safe\u{202e}evil".into(),
        |new| new.id = Some("Upper".into()),
        |new| new.id = Some("user:ada".into()),
        |new| new.scopes.clear(),
        |new| new.scopes = vec!["two words".into()],
        |new| new.redirect_uris = vec!["http://a.example/".into()],
        |new| new.grants.clear(),
        |new| new.grants = vec![GrantType::AuthorizationCode],
        |new| new.public = true,
    ];
    for change in invalid {
        assert!(add(change).await.is_some());
    }
    let listed = fixture.clients.list().await.unwrap();
    assert_eq!(listed.len(), 1);
}

#[tokio::test]
async fn secrets_are_not_stored_or_printed() {
    let fixture = IssuerFixture::new().await;
    let client = fixture.add_client(CLIENT_CREDENTIALS, false).await;
    let passphrase = fixture.users.add("ada").await.unwrap();
    let mut all = format!(
        "{client:?} {passphrase:?} {:?} {:?}",
        fixture.issuer,
        fixture.clients.list().await
    );
    for kind in ["oauth.client", "oauth.person"] {
        let now = Timestamp::from_millis(0);
        for (_, record) in fixture.store.records(kind, now).await.unwrap() {
            all.push_str(&record.value);
            assert!(!format!("{record:?}").contains("sha256"));
        }
    }
    assert!(!all.contains(secret(&client)) && !all.contains(passphrase.expose()));
}
