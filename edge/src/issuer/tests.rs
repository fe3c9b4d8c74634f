//! The issuer through its doors: what programs and people send, and what they get.

mod browser;
mod consent;
mod keys;
mod programs;
mod races;

use super::{
    Clients, Grant, Issuer, IssuerOptions, Keep, MemoryKeep, NewClient, NewSecret, People, Scope,
};
use crate::auth::{AuthOptions, Authenticator, Identity, Keys, LocalKeys, Refusal};
use crate::clock::Clock;
use crate::tls::Trust;
use axum::body::Body;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use tower::ServiceExt;
use url::form_urlencoded::Serializer;

const NOW: u64 = 1_800_000_000;
const URL: &str = "https://zone.example:8443";
const AUDIENCE: &str = "https://acp.example";
const REDIRECT: &str = "https://app.example/cb?tenant=1";

/// An installation with its records, its clock and one node.
struct House {
    keep: Arc<dyn Keep>,
    clock: Clock,
    issuer: Issuer,
    clients: Clients,
    people: People,
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Status and OAuth's word for what is wrong.
    fn error(&self) -> (u16, String) {
        let body = self.json();
        (
            self.status.as_u16(),
            body["error"].as_str().unwrap_or_default().to_owned(),
        )
    }
}

impl House {
    async fn build() -> Self {
        let clock = Clock::set(NOW);
        let keep: Arc<dyn Keep> = Arc::new(MemoryKeep::new(clock.clone()));
        let issuer = node(&keep, &clock).await;
        Self {
            clients: Clients::new(Arc::clone(&keep), clock.clone()),
            people: People::new(Arc::clone(&keep), clock.clone()),
            keep,
            clock,
            issuer,
        }
    }

    async fn client(&self, grants: &[Grant], public: bool) -> NewSecret {
        let new = NewClient {
            name: "The <App> & \"Co\"".to_owned(),
            scopes: vec!["read".to_owned(), "write".to_owned()],
            redirect_uris: vec![REDIRECT.to_owned(), "http://127.0.0.1/cb".to_owned()],
            grants: grants.to_vec(),
            public,
            ..NewClient::default()
        };
        self.clients.add(new).await.unwrap()
    }

    async fn send(&self, request: Request<Body>) -> Reply {
        let answer = self.issuer.router().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        Reply {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> Reply {
        self.send(Request::get(path).body(Body::empty()).unwrap())
            .await
    }

    async fn post(&self, path: &str, form: &[(&str, &str)]) -> Reply {
        self.send(form_request(path, form)).await
    }

    /// A token by the client's own secret.
    async fn own_token(&self, client: &NewSecret) -> String {
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

async fn node(keep: &Arc<dyn Keep>, clock: &Clock) -> Issuer {
    let scopes = vec![
        Scope::new("read", "see your <tasks>"),
        Scope::new("write", "change your tasks"),
        Scope::new("admin", ""),
    ];
    let mut options = IssuerOptions::new(format!("{URL}/"), vec![AUDIENCE.to_owned()], scopes);
    options.clock = clock.clone();
    Issuer::open(Arc::clone(keep), options).await.unwrap()
}

fn authenticator(issuer: &Issuer, clock: &Clock) -> Authenticator {
    Authenticator::new(AuthOptions {
        issuer: issuer.url().to_owned(),
        audience: vec![AUDIENCE.to_owned()],
        keys: Keys::Local(Arc::new(issuer.clone()) as Arc<dyn LocalKeys>),
        introspection: None,
        leeway: AuthOptions::LEEWAY,
        trust: Trust::system(),
        clock: clock.clone(),
    })
    .unwrap()
}

async fn show(auth: &Authenticator, token: &str) -> Result<Arc<Identity>, Refusal> {
    let header = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    auth.authenticate(Some(&header), None).await
}

fn secret(client: &NewSecret) -> &str {
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
