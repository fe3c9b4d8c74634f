//! Slack's Python SDK: its client for every method, and its verifier for signed events.

use super::PATIENCE;
use crate::journeys::peers::run_python;
use interzone_edge::Secret;
use interzone_playground::{Playground, PlaygroundOptions, seed};
use receiver::Receiver;
use serde_json::{Value, json};
use std::path::Path;

#[tokio::test(flavor = "multi_thread")]
async fn every_method_pleases_its_client() {
    let playground = Playground::start(PlaygroundOptions::default()).await;
    let playground = playground.unwrap();
    let thread = playground
        .post(seed::ALEX, seed::GENERAL, "@interzone hello")
        .unwrap();
    playground.faults().rate_limit("api.test", 1, 1);
    let (api, usual) = (playground.api_url(), PlaygroundOptions::default());
    let arguments = [api.as_str(), usual.bot_token.expose(), &thread];
    let said = run_python("slack_client.py", &arguments, Path::new("/dev/null"), "").await;
    assert_eq!(said.trim(), "all of it");
    let tests = playground.look(|workspace| {
        let calls = workspace.calls_of("api.test");
        let answers = calls.iter().map(|call| call.answer.clone());
        answers.collect::<Vec<_>>()
    });
    assert_eq!(tests, ["ratelimited", "ok"], "it came again");
}

/// A line for the verifier.
fn line(secret: &str, stamp: &str, signature: &str, body: &str) -> String {
    let line = json!({"secret": secret, "timestamp": stamp, "signature": signature, "body": body});
    format!("{line}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn its_verifier_believes_events_and_pressed_buttons_and_nothing_else() {
    let secret = "the secret of this test";
    let mut receiver = Receiver::start().await;
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
    for heard in [&own, &event, &pressed] {
        let (stamp, signature, body) = (&heard.stamp, &heard.signature, &heard.body);
        lines += &line(secret, stamp, signature, body);
        lines += &line(secret, stamp, signature, &format!("{body} "));
        lines += &line("another secret", stamp, signature, body);
        let later = (stamp.parse::<u64>().unwrap() + 1).to_string();
        lines += &line(secret, &later, signature, body);
        lines += &line(secret, stamp, &signature.replace("v0=", "v1="), body);
    }
    let said = run_python("slack_verify.py", &[], Path::new("/dev/null"), &lines).await;
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said.len(), 15);
    for (at, word) in said.iter().enumerate() {
        assert_eq!(*word, if at % 5 == 0 { "good" } else { "bad" }, "{at}");
    }
}

/// A place that takes requests and keeps what proves them.
mod receiver {
    use super::PATIENCE;
    use http_body_util::{BodyExt, Empty};
    use hyper::body::{Bytes, Incoming};
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use hyper_util::rt::TokioIo;
    use std::convert::Infallible;
    use tokio::sync::mpsc;

    pub(super) struct Signed {
        pub(super) stamp: String,
        pub(super) signature: String,
        pub(super) body: String,
    }

    pub(super) struct Receiver {
        pub(super) url: String,
        heard: mpsc::Receiver<Signed>,
    }

    impl Receiver {
        pub(super) async fn start() -> Self {
            let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/slack", socket.local_addr().unwrap());
            let (sender, heard) = mpsc::channel(16);
            tokio::spawn(async move {
                while let Ok((stream, _)) = socket.accept().await {
                    let sender = sender.clone();
                    let take = service_fn(move |request: Request<Incoming>| {
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
                            let signed = Signed {
                                stamp,
                                signature,
                                body,
                            };
                            sender.send(signed).await.unwrap();
                            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                        }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    tokio::spawn(http.serve_connection(TokioIo::new(stream), take));
                }
            });
            Self { url, heard }
        }

        pub(super) async fn next(&mut self) -> Signed {
            let next = tokio::time::timeout(PATIENCE, self.heard.recv()).await;
            next.expect("a request comes").unwrap()
        }
    }
}
