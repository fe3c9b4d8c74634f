//! Tokens of the issuer, verified with keys that are fetched over real TLS.

use http::{HeaderValue, StatusCode};
use interzone_edge::auth::{AuthFailure, AuthOptions, Authenticator, KeyConfig};
use interzone_edge::clock::Clock;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{DevCa, ServerTls, TlsFiles, TrustRoots};
use interzone_hub::ports::{MemoryRecordStore, RecordStore};
use interzone_issuer::{
    GrantType, Issuer, IssuerOptions, NewOAuthClient, OAuthClients, ScopeDefinition,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "https://zone.example";
const GRACE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn issuer_token_verifies_with_fetched_keys() {
    let store: Arc<dyn RecordStore> = Arc::new(MemoryRecordStore::default());
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

    interzone_edge::tls::install_provider();
    let folder = tempfile::tempdir().unwrap();
    let files = DevCa::open_or_create(folder.path(), &[]).unwrap();
    let tls = ServerTls::load(&TlsFiles {
        cert: files.cert.clone(),
        key: files.key.clone(),
        client_ca: None,
    })
    .unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind(any, tls, HttpLimits::default(), Arc::new(Metrics::new()));
    let listener = listener.await.unwrap();
    let url = |path: &str| format!("https://localhost:{}{path}", listener.local_addr().port());
    let (token_url, jwks_url) = (url("/oauth2/token"), url("/oauth2/jwks"));
    let stop = CancellationToken::new();
    let serving = tokio::spawn(listener.serve(issuer.router(), stop.clone(), GRACE));

    let ours = TrustRoots::system_and_files(std::slice::from_ref(&files.ca)).unwrap();
    let client = ours.client().build().unwrap();
    let response = client
        .post(token_url)
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
            keys: KeyConfig::Jwks(jwks_url.clone()),
            introspection: None,
            leeway: AuthOptions::DEFAULT_LEEWAY,
            trust,
            clock: Clock::system(),
        });
        auth.unwrap().authenticate(Some(&token), None).await
    };
    let identity = verify(ours).await.unwrap();
    assert_eq!(*identity.principal, *oauth_client.client_id);
    assert!(identity.has_scope("read"));
    // Without the CA the keys cannot be fetched.
    let refused = verify(TrustRoots::system()).await.unwrap_err();
    assert_eq!(refused, AuthFailure::Unavailable);
    stop.cancel();
    serving.await.unwrap();
}
