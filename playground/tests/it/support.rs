//! Test support: an API client, and an app that receives events.

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use interzone_playground::{Playground, PlaygroundOptions};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};

/// Timeout for anything that a test waits for.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// An HTTP client without a proxy.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap()
}

/// API client of the bot.
pub(crate) struct TestBot {
    pub(crate) api: String,
    pub(crate) token: String,
    pub(crate) http: reqwest::Client,
}

impl TestBot {
    pub(crate) fn new(playground: &Playground) -> Self {
        Self {
            api: playground.api_url(),
            token: "xoxb-playground-bot".to_owned(),
            http: client(),
        }
    }

    pub(crate) fn request(&self, method: &str, args: &[(&str, &str)]) -> reqwest::RequestBuilder {
        let mut form = String::new();
        for (name, value) in args {
            let value: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
            form.push_str(&format!("{name}={value}&"));
        }
        self.http
            .post(format!("{}{method}", self.api))
            .bearer_auth(&self.token)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form)
    }

    /// Calls a method with a form.
    pub(crate) async fn call(&self, method: &str, args: &[(&str, &str)]) -> Value {
        let response = self.request(method, args).send().await.unwrap();
        assert_eq!(response.status(), 200, "{method}");
        serde_json::from_str(&response.text().await.unwrap()).unwrap()
    }

    /// Calls a method that must succeed.
    pub(crate) async fn call_ok(&self, method: &str, args: &[(&str, &str)]) -> Value {
        let response = self.call(method, args).await;
        assert_eq!(response["ok"], true, "{method}: {response}");
        response
    }

    /// Calls a method that must fail; returns the error code.
    pub(crate) async fn call_err(&self, method: &str, args: &[(&str, &str)]) -> String {
        let response = self.call(method, args).await;
        assert_eq!(response["ok"], false, "{method}: {response}");
        response["error"].as_str().unwrap().to_owned()
    }
}

/// A request received by the app.
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default()
    }
}

/// Responses of the app, in order; then 200.
type QueuedResponses = Arc<Mutex<Vec<Response>>>;

/// An app on a loopback port.
pub(crate) struct TestApp {
    pub(crate) url: String,
    requests: mpsc::Receiver<ReceivedRequest>,
    responses: QueuedResponses,
}

impl TestApp {
    pub(crate) async fn start() -> Self {
        let (sender, requests) = mpsc::channel(1000);
        let responses = QueuedResponses::default();
        let queue = Arc::clone(&responses);
        let router = Router::new().fallback(move |request: Request| {
            let (sender, queue) = (sender.clone(), Arc::clone(&queue));
            async move {
                let (parts, body) = request.into_parts();
                let body = to_bytes(body, 1 << 20).await.unwrap();
                let body = String::from_utf8(body.to_vec()).unwrap();
                let received = ReceivedRequest {
                    path: parts.uri.path().to_owned(),
                    headers: parts.headers,
                    body,
                };
                sender.send(received).await.unwrap();
                let mut queue = queue.lock().await;
                if queue.is_empty() {
                    StatusCode::OK.into_response()
                } else {
                    queue.remove(0)
                }
            }
        });
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(socket, router).await });
        Self {
            url,
            requests,
            responses,
        }
    }

    /// Starts a playground that sends its events here and retries without delay.
    pub(crate) async fn playground(&self) -> Playground {
        let options = PlaygroundOptions {
            retry_delays: vec![Duration::ZERO; 3],
            ..PlaygroundOptions::default()
        };
        let playground = Playground::start(options).await.unwrap();
        let (events, actions) = (format!("{}/events", self.url), format!("{}/acts", self.url));
        playground.send_to(&events, &actions).unwrap();
        playground
    }

    pub(crate) async fn queue_response(&self, response: impl IntoResponse) {
        self.responses.lock().await.push(response.into_response());
    }

    pub(crate) async fn next_request(&mut self) -> ReceivedRequest {
        let request = tokio::time::timeout(TIMEOUT, self.requests.recv()).await;
        request.expect("no request was received").unwrap()
    }

    /// Returns the next events, sorted by id because deliveries may overtake each other.
    pub(crate) async fn next_events(&mut self, count: usize) -> Vec<Value> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.next_request().await.json());
        }
        all.sort_by_key(|event| event["event_id"].as_str().unwrap_or_default().to_owned());
        all
    }

    /// Returns true if no request is waiting.
    pub(crate) fn has_no_request(&mut self) -> bool {
        self.requests.try_recv().is_err()
    }
}
