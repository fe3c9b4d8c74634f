//! The chat page and what stands behind it.

use crate::house::{App, Bot, client};
use futures_util::StreamExt;
use interzone_playground::{Playground, PlaygroundOptions, seed};
use serde_json::{Value, json};

#[tokio::test]
async fn the_page_asks_nobody_else_and_only_its_own_origin_may_act() {
    let mut app = App::start().await;
    let playground = app.playground().await;
    for file in [
        "",
        "playground.css",
        "playground.js",
        "compose.js",
        "draw.js",
        "state.js",
        "words.js",
        "markdown.js",
    ] {
        let got = client().get(format!("{}{file}", playground.url())).send();
        let got = got.await.unwrap();
        assert_eq!(got.status(), 200, "{file}");
        let policy = got.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'"), "{policy}");
        let text = got.text().await.unwrap();
        assert!(!text.contains("https://"), "{file} names another host");
        for way in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ] {
            assert!(!text.contains(way), "{file} uses {way}");
        }
    }
    let acts = format!("{}playground/acts", playground.url());
    let act = json!({"act": "post", "user": seed::HANA, "channel": seed::DM_HANA, "text": "hi"});
    let send = |origin: Option<&str>| {
        let request = client().post(&acts).body(act.to_string());
        match origin {
            Some(origin) => request.header("origin", origin).send(),
            None => request.send(),
        }
    };
    let foreign = send(Some("https://example.com")).await.unwrap();
    assert_eq!(foreign.status(), 403);
    let own = playground.url();
    assert_eq!(
        send(Some(own.trim_end_matches('/')))
            .await
            .unwrap()
            .status(),
        200
    );
    assert_eq!(send(None).await.unwrap().status(), 200);
    assert_eq!(app.events(2).await.len(), 2);
    let rebound = client().get(&own).header("host", "evil.example");
    assert_eq!(rebound.send().await.unwrap().status(), 421);
}

#[tokio::test]
async fn changes_are_watched_as_they_happen() {
    let playground = Playground::start(PlaygroundOptions::default()).await;
    let playground = playground.unwrap();
    let bot = Bot::of(&playground);
    let root = playground.post(seed::HANA, seed::DM_HANA, "hi").unwrap();
    let state = format!("{}playground/state", playground.url());
    let state = client().get(state).send().await.unwrap();
    let state: Value = serde_json::from_str(&state.text().await.unwrap()).unwrap();
    assert_eq!(state["messages"][0]["text"], "hi");
    let from = state["revision"].as_u64().unwrap();
    let events = format!("{}playground/events?since={from}", playground.url());
    let watch = client().get(events).send().await.unwrap();
    assert_eq!(watch.headers()["content-type"], "text/event-stream");
    let mut pieces = watch.bytes_stream();
    let channel = ("channel", seed::DM_HANA);
    let begun = bot
        .good("chat.startStream", &[channel, ("thread_ts", &root)])
        .await;
    let ts = ("ts", begun["ts"].as_str().unwrap());
    bot.good(
        "chat.appendStream",
        &[channel, ts, ("markdown_text", "**growing**")],
    )
    .await;
    let mut text = String::new();
    while !text.contains("**growing**") {
        let piece = tokio::time::timeout(crate::house::PATIENCE, pieces.next()).await;
        let piece = piece.expect("it comes").expect("it goes on").unwrap();
        text.push_str(&String::from_utf8_lossy(&piece));
    }
    assert!(text.contains("\"streaming\":true"));
}

#[tokio::test]
async fn it_listens_on_this_machine_only() {
    for away in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        let options = PlaygroundOptions {
            listen: away.parse().unwrap(),
            ..PlaygroundOptions::default()
        };
        assert!(Playground::start(options).await.is_err(), "{away}");
    }
}
