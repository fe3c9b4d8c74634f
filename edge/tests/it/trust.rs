//! Whom we believe, over real TLS: the built-in issuer at one end, whoever verifies at the other.

use crate::house::Plan;
use axum::{Router, routing::post};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use interzone_edge::auth::{AuthOptions, Authenticator, Keys, Refusal};
use interzone_edge::clock::Clock;
use interzone_edge::egress::{Egress, EgressError, EgressLimits, EgressOptions};
use interzone_edge::issuer::{
    Clients, Grant, Issuer, IssuerOptions, Keep, MemoryKeep, NewClient, Scope,
};
use interzone_edge::tls::Trust;
use std::sync::Arc;

const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "https://zone.example";

#[tokio::test]
async fn a_token_from_the_issuer_is_believed_by_whoever_fetches_its_keys() {
    let keep: Arc<dyn Keep> = Arc::new(MemoryKeep::default());
    let scopes = vec![Scope::new("read", "see things")];
    let options = IssuerOptions::new(ISSUER, vec![AUDIENCE.to_owned()], scopes);
    let issuer = Issuer::open(Arc::clone(&keep), options).await.unwrap();
    let new = NewClient {
        name: "a program".to_owned(),
        scopes: vec!["read".to_owned()],
        grants: vec![Grant::ClientCredentials],
        ..NewClient::default()
    };
    let made = Clients::new(keep, Clock::machine()).add(new).await.unwrap();
    let house = Plan::new(issuer.router()).build().await;

    let client = house.client().build().unwrap();
    let asked = client
        .post(house.url("/oauth2/token"))
        .basic_auth(
            &made.client_id,
            made.secret.as_ref().map(|secret| secret.expose()),
        )
        .header("content-type", "application/x-www-form-urlencoded")
        .body("grant_type=client_credentials")
        .send()
        .await
        .unwrap();
    assert_eq!(asked.status(), StatusCode::OK);
    let answer: serde_json::Value = serde_json::from_slice(&asked.bytes().await.unwrap()).unwrap();
    let token = format!("Bearer {}", answer["access_token"].as_str().unwrap());
    let token = HeaderValue::from_str(&token).unwrap();

    let verify = async |trust: Trust| {
        let auth = Authenticator::new(AuthOptions {
            issuer: ISSUER.to_owned(),
            audience: vec![AUDIENCE.to_owned()],
            keys: Keys::Jwks(house.url("/oauth2/jwks")),
            introspection: None,
            leeway: AuthOptions::LEEWAY,
            trust,
            clock: Clock::machine(),
        });
        auth.unwrap().authenticate(Some(&token), None).await
    };
    let ours = Trust::system_and(std::slice::from_ref(&house.files.ca)).unwrap();
    let identity = verify(ours).await.unwrap();
    assert_eq!(*identity.principal, *made.client_id);
    assert!(identity.has_scope("read"));
    // Whoever does not know the CA cannot tell whose keys these are.
    let refused = verify(Trust::system()).await.unwrap_err();
    assert_eq!(refused, Refusal::Unavailable);
    house.end().await;
}

#[tokio::test]
async fn an_exception_from_the_guard_is_none_from_tls() {
    let app = Router::new().route("/hook", post(|body: Bytes| async move { body }));
    let house = Plan::new(app).build().await;
    let call = async |trust: Trust| {
        let egress = Egress::new(&EgressOptions {
            allow: vec![format!("localhost:{}", house.address.port())],
            trust,
            ..EgressOptions::default()
        });
        let body = Bytes::from_static(b"{}");
        let limits = EgressLimits::default();
        let egress = egress.unwrap();
        egress
            .post(&house.url("/hook"), HeaderMap::new(), body, limits)
            .await
    };
    let ours = Trust::system_and(std::slice::from_ref(&house.files.ca)).unwrap();
    let reply = call(ours).await.unwrap();
    assert_eq!((reply.status, &*reply.body), (StatusCode::OK, &b"{}"[..]));
    let refused = call(Trust::system()).await.unwrap_err();
    assert!(
        matches!(refused, EgressError::Unreachable(_)),
        "{refused:?}"
    );
    house.end().await;
}
