//! Tests of the issuer through its HTTP endpoints.

mod browser;
mod consent;
mod keys;
mod programs;
mod races;

use super::{
    GrantType, Issuer, IssuerOptions, NewClientCredentials, NewOAuthClient, OAuthClients,
    OAuthUsers, ScopeDefinition,
};
use axum::body::Body;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use interzone_edge::auth::{
    AuthFailure, AuthOptions, Authenticator, Identity, KeyConfig, LocalKeys,
};
use interzone_edge::clock::Clock;
use interzone_edge::tls::TrustRoots;
use interzone_hub::ports::{MemoryRecordStore, RecordStore};
use serde_json::Value;
use std::sync::Arc;
use tower::ServiceExt;
use url::form_urlencoded::Serializer;

const NOW: u64 = 1_800_000_000;
const URL: &str = "https://zone.example:8443";
const AUDIENCE: &str = "https://acp.example";
const REDIRECT: &str = "https://app.example/cb?tenant=1";

/// An installation: record store, clock and one node.
struct IssuerFixture {
    store: Arc<dyn RecordStore>,
    clock: Clock,
    issuer: Issuer,
    clients: OAuthClients,
    users: OAuthUsers,
}

struct IssuerReply {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl IssuerReply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the status and the OAuth error code.
    fn error(&self) -> (u16, String) {
        let body = self.json();
        (
            self.status.as_u16(),
            body["error"].as_str().unwrap_or_default().to_owned(),
        )
    }
}

impl IssuerFixture {
    async fn new() -> Self {
        let clock = Clock::fixed(NOW);
        let store: Arc<dyn RecordStore> = Arc::new(MemoryRecordStore::default());
        let issuer = open_node(&store, &clock).await;
        Self {
            clients: OAuthClients::new(Arc::clone(&store), clock.clone()),
            users: OAuthUsers::new(Arc::clone(&store), clock.clone()),
            store,
            clock,
            issuer,
        }
    }

    async fn add_client(&self, grants: &[GrantType], public: bool) -> NewClientCredentials {
        let new = NewOAuthClient {
            name: "The <App> & \"Co\"".to_owned(),
            scopes: vec!["read".to_owned(), "write".to_owned()],
            redirect_uris: vec![REDIRECT.to_owned(), "http://127.0.0.1/cb".to_owned()],
            grants: grants.to_vec(),
            public,
            ..NewOAuthClient::default()
        };
        self.clients.add(new).await.unwrap()
    }

    async fn send(&self, request: Request<Body>) -> IssuerReply {
        let response = self.issuer.router().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        IssuerReply {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> IssuerReply {
        self.send(Request::get(path).body(Body::empty()).unwrap())
            .await
    }

    async fn post(&self, path: &str, form: &[(&str, &str)]) -> IssuerReply {
        self.send(form_request(path, form)).await
    }

    /// Gets a token with the client credentials grant.
    async fn client_token(&self, client: &NewClientCredentials) -> String {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", &client.client_id),
            ("client_secret", secret(client)),
        ];
        let reply = self.post("/oauth2/token", &form).await;
        reply.json()["access_token"].as_str().unwrap().to_owned()
    }

    fn authenticator(&self) -> Authenticator {
        authenticator(&self.issuer, &self.clock)
    }
}

async fn open_node(store: &Arc<dyn RecordStore>, clock: &Clock) -> Issuer {
    let scopes = vec![
        ScopeDefinition::new("read", "see your <tasks>"),
        ScopeDefinition::new("write", "change your tasks"),
        ScopeDefinition::new("admin", ""),
    ];
    let mut options = IssuerOptions::new(format!("{URL}/"), vec![AUDIENCE.to_owned()], scopes);
    options.clock = clock.clone();
    Issuer::open(Arc::clone(store), options).await.unwrap()
}

fn authenticator(issuer: &Issuer, clock: &Clock) -> Authenticator {
    Authenticator::new(AuthOptions {
        issuer: issuer.url().to_owned(),
        audience: vec![AUDIENCE.to_owned()],
        keys: KeyConfig::Local(Arc::new(issuer.clone()) as Arc<dyn LocalKeys>),
        introspection: None,
        leeway: AuthOptions::DEFAULT_LEEWAY,
        trust: TrustRoots::system(),
        clock: clock.clone(),
    })
    .unwrap()
}

async fn authenticate(auth: &Authenticator, token: &str) -> Result<Arc<Identity>, AuthFailure> {
    let header = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    auth.authenticate(Some(&header), None).await
}

fn secret(client: &NewClientCredentials) -> &str {
    client.secret.as_ref().unwrap().expose()
}

fn form_request(path: &str, form: &[(&str, &str)]) -> Request<Body> {
    let body = Serializer::new(String::new()).extend_pairs(form).finish();
    Request::post(path)
        .header(
            "content-type",
            "application/x-www-form-urlencoded; charset=UTF-8",
        )
        .body(Body::from(body))
        .unwrap()
}
