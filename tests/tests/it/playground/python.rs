//! Slack's Python SDK: its client for every method, and its verifier for signed events.

use super::WAIT_TIMEOUT;
use crate::journeys::peers::run_python;
use interzone_edge::Secret;
use interzone_playground::{Playground, PlaygroundOptions, seed};
use receiver::RequestRecorder;
use serde_json::{Value, json};
use std::path::Path;

#[tokio::test(flavor = "multi_thread")]
async fn python_client_accepts_every_method() {
    let playground = Playground::start(PlaygroundOptions::default()).await;
    let playground = playground.unwrap();
    let thread = playground
        .post(seed::ALEX, seed::GENERAL, "@interzone hello")
        .unwrap();
    playground.faults().rate_limit("api.test", 1, 1);
    let (api, defaults) = (playground.api_url(), PlaygroundOptions::default());
    let arguments = [api.as_str(), defaults.bot_token.expose(), &thread];
    let output = run_python("slack_client.py", &arguments, Path::new("/dev/null"), "").await;
    assert_eq!(output.trim(), "all methods passed");
    let tests = playground.inspect(|workspace| {
        let calls = workspace.calls_of("api.test");
        let answers = calls.iter().map(|call| call.outcome.clone());
        answers.collect::<Vec<_>>()
    });
    assert_eq!(tests, ["ratelimited", "ok"], "the client retried");
}

/// Input line for the verifier.
fn verifier_line(secret: &str, stamp: &str, signature: &str, body: &str) -> String {
    let line = json!({"secret": secret, "timestamp": stamp, "signature": signature, "body": body});
    format!("{line}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn python_verifier_accepts_only_signed_requests() {
    let secret = "the secret of this test";
    let mut receiver = RequestRecorder::start().await;
    let options = PlaygroundOptions {
        signing_secret: Secret::new(secret),
        events_url: Some(receiver.url.clone()),
        interactions_url: Some(receiver.url.clone()),
        ..PlaygroundOptions::default()
    };
    let playground = Playground::start(options).await.unwrap();
    let bot = reqwest::Client::builder().no_proxy().build().unwrap();
    let blocks = json!([{"type": "actions", "elements": [{"type": "button", "action_id": "stop",
        "value": "1", "text": {"type": "plain_text", "text": "止める"}}]}]);
    let message = json!({"channel": seed::DM_HANA, "text": "t", "blocks": blocks});
    let posted = bot
        .post(format!("{}chat.postMessage", playground.api_url()))
        .bearer_auth(PlaygroundOptions::default().bot_token.expose())
        .header("content-type", "application/json; charset=utf-8")
        .body(message.to_string())
        .send();
    let posted: Value = serde_json::from_str(&posted.await.unwrap().text().await.unwrap()).unwrap();
    let ts = posted["ts"].as_str().unwrap();
    let own = receiver.next().await;
    playground
        .post(seed::HANA, seed::DM_HANA, "こんにちは & <b>")
        .unwrap();
    let event = receiver.next().await;
    playground
        .press(seed::HANA, seed::DM_HANA, ts, "stop", None)
        .unwrap();
    let pressed = receiver.next().await;
    assert!(pressed.body.starts_with("payload="));

    let mut lines = String::new();
    for request in [&own, &event, &pressed] {
        let (stamp, signature, body) = (&request.stamp, &request.signature, &request.body);
        lines += &verifier_line(secret, stamp, signature, body);
        lines += &verifier_line(secret, stamp, signature, &format!("{body} "));
        lines += &verifier_line("another secret", stamp, signature, body);
        let later = (stamp.parse::<u64>().unwrap() + 1).to_string();
        lines += &verifier_line(secret, &later, signature, body);
        lines += &verifier_line(secret, stamp, &signature.replace("v0=", "v1="), body);
    }
    let output = run_python("slack_verify.py", &[], Path::new("/dev/null"), &lines).await;
    let verdicts: Vec<&str> = output.lines().collect();
    assert_eq!(verdicts.len(), 15);
    for (index, verdict) in verdicts.iter().enumerate() {
        assert_eq!(
            *verdict,
            if index % 5 == 0 { "good" } else { "bad" },
            "{index}"
        );
    }
}

/// HTTP server that records requests with their signature headers.
mod receiver {
    use super::WAIT_TIMEOUT;
    use http_body_util::{BodyExt, Empty};
    use hyper::body::{Bytes, Incoming};
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use hyper_util::rt::TokioIo;
    use std::convert::Infallible;
    use tokio::sync::mpsc;

    pub(super) struct SignedRequest {
        pub(super) stamp: String,
        pub(super) signature: String,
        pub(super) body: String,
    }

    pub(super) struct RequestRecorder {
        pub(super) url: String,
        requests: mpsc::Receiver<SignedRequest>,
    }

    impl RequestRecorder {
        pub(super) async fn start() -> Self {
            let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/slack", socket.local_addr().unwrap());
            let (sender, requests) = mpsc::channel(16);
            tokio::spawn(async move {
                while let Ok((stream, _)) = socket.accept().await {
                    let sender = sender.clone();
                    let record = service_fn(move |request: Request<Incoming>| {
                        let sender = sender.clone();
                        async move {
                            let header = |name: &str| {
                                let value = request.headers()[name].to_str().unwrap();
                                value.to_owned()
                            };
                            let stamp = header("x-slack-request-timestamp");
                            let signature = header("x-slack-signature");
                            let body = request.into_body().collect().await.unwrap();
                            let body = String::from_utf8(body.to_bytes().to_vec()).unwrap();
                            let signed = SignedRequest {
                                stamp,
                                signature,
                                body,
                            };
                            sender.send(signed).await.unwrap();
                            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                        }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    tokio::spawn(http.serve_connection(TokioIo::new(stream), record));
                }
            });
            Self { url, requests }
        }

        pub(super) async fn next(&mut self) -> SignedRequest {
            let next = tokio::time::timeout(WAIT_TIMEOUT, self.requests.recv()).await;
            next.expect("a request before the timeout").unwrap()
        }
    }
}
