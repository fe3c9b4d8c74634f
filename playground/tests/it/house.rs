//! What the tests share: a caller of the API, and an app that hears events. No test is in here.

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

/// How long anything may take before a test says that it never comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A client that meets no proxy.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap()
}

/// The bot of a playground.
pub(crate) struct Bot {
    pub(crate) api: String,
    pub(crate) token: String,
    pub(crate) http: reqwest::Client,
}

impl Bot {
    pub(crate) fn of(playground: &Playground) -> Self {
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

    /// Calls a method by a form.
    pub(crate) async fn call(&self, method: &str, args: &[(&str, &str)]) -> Value {
        let answer = self.request(method, args).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{method}");
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }

    /// Calls one that must work.
    pub(crate) async fn good(&self, method: &str, args: &[(&str, &str)]) -> Value {
        let answer = self.call(method, args).await;
        assert_eq!(answer["ok"], true, "{method}: {answer}");
        answer
    }

    /// Calls one that must not, and gives the word.
    pub(crate) async fn bad(&self, method: &str, args: &[(&str, &str)]) -> String {
        let answer = self.call(method, args).await;
        assert_eq!(answer["ok"], false, "{method}: {answer}");
        answer["error"].as_str().unwrap().to_owned()
    }
}

/// A request that the app got.
pub(crate) struct Heard {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Heard {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default()
    }
}

/// What the app answers, in turn; then 200.
type Answers = Arc<Mutex<Vec<Response>>>;

/// An app on a loopback port.
pub(crate) struct App {
    pub(crate) url: String,
    heard: mpsc::Receiver<Heard>,
    answers: Answers,
}

impl App {
    pub(crate) async fn start() -> Self {
        let (sender, heard) = mpsc::channel(1000);
        let answers = Answers::default();
        let queue = Arc::clone(&answers);
        let router = Router::new().fallback(move |request: Request| {
            let (sender, queue) = (sender.clone(), Arc::clone(&queue));
            async move {
                let (parts, body) = request.into_parts();
                let body = to_bytes(body, 1 << 20).await.unwrap();
                let body = String::from_utf8(body.to_vec()).unwrap();
                let heard = Heard {
                    path: parts.uri.path().to_owned(),
                    headers: parts.headers,
                    body,
                };
                sender.send(heard).await.unwrap();
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
            heard,
            answers,
        }
    }

    /// A playground that sends its events here, trying again without waiting.
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

    pub(crate) async fn answer(&self, response: impl IntoResponse) {
        self.answers.lock().await.push(response.into_response());
    }

    pub(crate) async fn next(&mut self) -> Heard {
        let next = tokio::time::timeout(PATIENCE, self.heard.recv()).await;
        next.expect("the app hears something").unwrap()
    }

    /// The next events, sorted by their ids, for deliveries overtake each other.
    pub(crate) async fn events(&mut self, count: usize) -> Vec<Value> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.next().await.json());
        }
        all.sort_by_key(|event| event["event_id"].as_str().unwrap_or_default().to_owned());
        all
    }

    /// Nothing is waiting to be looked at.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.heard.try_recv().is_err()
    }
}
