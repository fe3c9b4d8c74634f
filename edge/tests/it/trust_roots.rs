//! Trust roots over real TLS: tokens of the built-in issuer and egress.

use crate::fixture::ListenerSetup;
use axum::{Router, routing::post};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use interzone_edge::auth::{AuthFailure, AuthOptions, Authenticator, KeyConfig};
use interzone_edge::clock::Clock;
use interzone_edge::egress::{Egress, EgressError, EgressLimits, EgressOptions};
use interzone_edge::issuer::{
    GrantType, Issuer, IssuerOptions, IssuerStore, MemoryIssuerStore, NewOAuthClient, OAuthClients,
    ScopeDefinition,
};
use interzone_edge::tls::TrustRoots;
use std::sync::Arc;

const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "https://zone.example";

#[tokio::test]
async fn issuer_token_verifies_with_fetched_keys() {
    let store: Arc<dyn IssuerStore> = Arc::new(MemoryIssuerStore::default());
    let scopes = vec![ScopeDefinition::new("read", "see things")];
    let options = IssuerOptions::new(ISSUER, vec![AUDIENCE.to_owned()], scopes);
    let issuer = Issuer::open(Arc::clone(&store), options).await.unwrap();
    let new = NewOAuthClient {
        name: "a program".to_owned(),
        scopes: vec!["read".to_owned()],
        grants: vec![GrantType::ClientCredentials],
        ..NewOAuthClient::default()
    };
    let oauth_client = OAuthClients::new(store, Clock::system())
        .add(new)
        .await
        .unwrap();
    let server = ListenerSetup::new(issuer.router()).start().await;

    let client = server.client().build().unwrap();
    let response = client
        .post(server.url("/oauth2/token"))
        .basic_auth(
            &oauth_client.client_id,
            oauth_client.secret.as_ref().map(|secret| secret.expose()),
        )
        .header("content-type", "application/x-www-form-urlencoded")
        .body("grant_type=client_credentials")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let answer: serde_json::Value =
        serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    let token = format!("Bearer {}", answer["access_token"].as_str().unwrap());
    let token = HeaderValue::from_str(&token).unwrap();

    let verify = async |trust: TrustRoots| {
        let auth = Authenticator::new(AuthOptions {
            issuer: ISSUER.to_owned(),
            audience: vec![AUDIENCE.to_owned()],
            keys: KeyConfig::Jwks(server.url("/oauth2/jwks")),
            introspection: None,
            leeway: AuthOptions::DEFAULT_LEEWAY,
            trust,
            clock: Clock::system(),
        });
        auth.unwrap().authenticate(Some(&token), None).await
    };
    let ours = TrustRoots::system_and_files(std::slice::from_ref(&server.files.ca)).unwrap();
    let identity = verify(ours).await.unwrap();
    assert_eq!(*identity.principal, *oauth_client.client_id);
    assert!(identity.has_scope("read"));
    // Without the CA the keys cannot be fetched.
    let refused = verify(TrustRoots::system()).await.unwrap_err();
    assert_eq!(refused, AuthFailure::Unavailable);
    server.shut_down().await;
}

#[tokio::test]
async fn egress_allow_list_does_not_bypass_tls() {
    let app = Router::new().route("/hook", post(|body: Bytes| async move { body }));
    let server = ListenerSetup::new(app).start().await;
    let call = async |trust: TrustRoots| {
        let egress = Egress::new(&EgressOptions {
            allow: vec![format!("localhost:{}", server.address.port())],
            trust,
            ..EgressOptions::default()
        });
        let body = Bytes::from_static(b"{}");
        let limits = EgressLimits::default();
        let egress = egress.unwrap();
        egress
            .post(&server.url("/hook"), HeaderMap::new(), body, limits)
            .await
    };
    let ours = TrustRoots::system_and_files(std::slice::from_ref(&server.files.ca)).unwrap();
    let reply = call(ours).await.unwrap();
    assert_eq!((reply.status, &*reply.body), (StatusCode::OK, &b"{}"[..]));
    let refused = call(TrustRoots::system()).await.unwrap_err();
    assert!(
        matches!(refused, EgressError::Unreachable(_)),
        "{refused:?}"
    );
    server.shut_down().await;
}
