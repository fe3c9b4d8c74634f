//! The chat page and its control API.

use crate::support::{TestApp, TestBot, client};
use futures_util::StreamExt;
use interzone_playground::{Playground, PlaygroundOptions, seed};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

#[tokio::test]
async fn page_loads_nothing_external_and_checks_the_origin() {
    let mut app = TestApp::start().await;
    let playground = app.playground().await;
    for file in [
        "",
        "playground.css",
        "playground.js",
        "composer.js",
        "favicon.ico",
        "icon.svg",
        "icons.js",
        "layout.js",
        "markdown.js",
        "message.js",
        "preview.js",
        "scan.js",
        "state.js",
        "texts.js",
        "theme.js",
        "welcome.js",
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
    let own = playground.url();
    let origin = own.trim_end_matches('/');
    for (status, headers) in [
        (403, &[("origin", "https://example.com")][..]),
        (403, &[("origin", "null")]),
        // Another port of this machine is another origin.
        (403, &[("origin", "http://127.0.0.1:1")]),
        (403, &[("sec-fetch-site", "cross-site")]),
        (403, &[("sec-fetch-site", "same-site")]),
        (403, &[("origin", origin), ("sec-fetch-site", "cross-site")]),
        (
            200,
            &[("origin", origin), ("sec-fetch-site", "same-origin")],
        ),
        (200, &[]),
    ] {
        let request = client().post(&acts).body(act.to_string());
        let sent = with_headers(request, headers).send().await.unwrap();
        assert_eq!(sent.status(), status, "{headers:?}");
    }
    assert_eq!(app.next_events(2).await.len(), 2);
    let rebound = client().get(&own).header("host", "evil.example");
    assert_eq!(rebound.send().await.unwrap().status(), 421);
}

fn with_headers(mut request: RequestBuilder, headers: &[(&str, &str)]) -> RequestBuilder {
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request
}

#[tokio::test]
async fn cross_site_requests_reach_only_linkable_pages() {
    let playground = Playground::start(PlaygroundOptions::default()).await;
    let playground = playground.unwrap();
    let token = "token=xoxb-playground-bot";
    let post_path = format!("api/chat.postMessage?{token}&channel=C0GENERAL&text=hi");
    let authorize_path =
        "oauth/v2/authorize?client_id=x&scope=chat:write&redirect_uri=http://127.0.0.1:1/";
    for (path, closed) in [
        (post_path.as_str(), true),
        ("playground/state", true),
        ("playground/events", true),
        ("playground/files/F1", true),
        ("files-pri/T0PLAY-F1/x", true),
        ("link?ticket=x", true),
        ("", false),
        ("playground.css", false),
        (authorize_path, false),
    ] {
        let url = format!("{}{path}", playground.url());
        let request = with_headers(client().get(&url), &[("sec-fetch-site", "cross-site")]);
        let status = request.send().await.unwrap().status();
        assert_eq!(status == 403, closed, "GET {path}: {status}");
    }
    for path in [
        post_path.as_str(),
        "playground/acts",
        "playground/upload",
        "playground/faults",
        "upload/v1/F1/x",
        "actions/T0PLAY/x",
        authorize_path,
    ] {
        for headers in [
            &[("sec-fetch-site", "cross-site")],
            &[("origin", "https://example.com")],
        ] {
            let url = format!("{}{path}", playground.url());
            let request = with_headers(client().post(&url), headers).body("decision=allow");
            let status = request.send().await.unwrap().status();
            assert_eq!(status, 403, "POST {path} {headers:?}");
        }
    }
    let calls = playground.inspect(|workspace| workspace.calls().count());
    assert_eq!(calls, 0, "none of them reached the API");
    // Other clients send no fetch metadata and are allowed.
    let args = [("channel", seed::GENERAL), ("text", "hi")];
    TestBot::new(&playground)
        .call_ok("chat.postMessage", &args)
        .await;
}

#[tokio::test]
async fn user_input_is_limited() {
    let playground = Playground::start(PlaygroundOptions::default()).await;
    let playground = playground.unwrap();
    let (user, channel) = (seed::HANA, seed::DM_HANA);
    let ts = playground.post(user, channel, "hi").unwrap();
    let acts = format!("{}playground/acts", playground.url());
    let act = async |act: Value| {
        let sent = client().post(&acts).body(act.to_string()).send();
        let answer = sent.await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.text().await.unwrap())
    };
    let long = "長".repeat(40_001);
    let most = "長".repeat(40_000);
    for (text, wanted) in [(&most, 200), (&long, 409)] {
        for one in [
            json!({"act": "post", "user": user, "channel": channel, "text": text}),
            json!({"act": "edit", "user": user, "channel": channel, "ts": ts, "text": text}),
        ] {
            let (status, body) = act(one).await;
            assert_eq!(status, wanted, "{body}");
            assert_eq!(body.contains("40000 characters"), wanted == 409, "{body}");
        }
    }
    let react = |name: &str| json!({"act": "react", "user": user, "channel": channel, "ts": ts, "name": name});
    let long = "x".repeat(101);
    for name in ["", "Smile", ":smile:", "<b>", "笑", "a b", &long] {
        let (status, body) = act(react(name)).await;
        assert_eq!(status, 409, "{name}");
        assert!(body.contains("an emoji is named by"), "{body}");
    }
    for number in 0..50 {
        assert_eq!(act(react(&format!("x{number}"))).await.0, 200);
    }
    let (status, body) = act(react("one-more")).await;
    assert_eq!(status, 409);
    assert!(body.contains("50 different emoji"), "{body}");
    // An existing reaction can be removed, which makes space.
    assert_eq!(act(react("x0")).await.0, 200);
    assert_eq!(act(react("+1")).await.0, 200);
    let reactions = playground.thread(channel, &ts).remove(0).reactions;
    assert_eq!(reactions.len(), 50);
    let bot = TestBot::new(&playground);
    let args = [("channel", channel), ("timestamp", &ts), ("name", "eyes")];
    assert_eq!(bot.call_err("reactions.add", &args).await, "too_many_emoji");
    let upload = interzone_playground::FileShare {
        user,
        channel,
        files: vec![("x".repeat(256), "1".into())],
        ..interzone_playground::FileShare::default()
    };
    let refused = playground.upload(&upload).unwrap_err();
    assert!(refused.to_string().contains("255 characters"), "{refused}");
}

#[tokio::test]
async fn messages_need_text_and_have_few_files() {
    let playground = Playground::start(PlaygroundOptions::default()).await;
    let playground = playground.unwrap();
    let (user, channel) = (seed::HANA, seed::DM_HANA);
    let ts = playground.post(user, channel, "hi").unwrap();
    let acts = format!("{}playground/acts", playground.url());
    let edit = async |ts: &str, text: &str| {
        let act = json!({"act": "edit", "user": user, "channel": channel, "ts": ts, "text": text});
        let sent = client().post(&acts).body(act.to_string()).send();
        let answer = sent.await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    for text in ["", " \n\u{3000}"] {
        let (status, body) = edit(&ts, text).await;
        assert_eq!(status, 409, "{body}");
        assert!(body.contains("no_text"), "{body}");
        let refused = playground.post(user, channel, text).unwrap_err();
        assert!(refused.to_string().contains("no_text"), "{refused}");
    }
    assert_eq!(playground.thread(channel, &ts).remove(0).text, "hi");

    let upload = |files: usize| {
        playground.upload(&interzone_playground::FileShare {
            user,
            channel,
            files: vec![("a.txt".to_owned(), "1".into()); files],
            ..interzone_playground::FileShare::default()
        })
    };
    for many in [11, 300] {
        let refused = upload(many).unwrap_err();
        assert!(refused.to_string().contains("10 files"), "{refused}");
    }
    let ts = upload(10).unwrap();
    assert_eq!(playground.thread(channel, &ts).remove(0).files.len(), 10);
    // A message with files may have no text.
    assert_eq!(edit(&ts, "see these").await.0, 200);
    assert_eq!(edit(&ts, "").await.0, 200);
}

#[tokio::test]
async fn locale_change_sends_user_change_event() {
    let mut app = TestApp::start().await;
    let playground = app.playground().await;
    let acts = format!("{}playground/acts", playground.url());
    let speak = |user: &str, locale: &str| {
        let act = json!({"act": "speak", "user": user, "locale": locale});
        client().post(&acts).body(act.to_string()).send()
    };
    assert_eq!(speak(seed::ALEX, "ja-JP").await.unwrap().status(), 200);
    for (user, locale) in [
        (seed::ALEX, "tlh"),
        (seed::GONE, "ja-JP"),
        (seed::BOT_USER, "ja-JP"),
        ("U0UNKNOWN", "ja-JP"),
    ] {
        let refused = speak(user, locale).await.unwrap();
        assert_eq!(refused.status(), 409, "{user} {locale}");
    }
    let events = app.next_events(1).await;
    assert_eq!(events[0]["event"]["type"], "user_change");
    assert_eq!(events[0]["event"]["user"]["id"], seed::ALEX);
    assert_eq!(events[0]["event"]["user"]["locale"], "ja-JP");
    let bot = TestBot::new(&playground);
    let args = [("user", seed::ALEX), ("include_locale", "true")];
    assert_eq!(
        bot.call_ok("users.info", &args).await["user"]["locale"],
        "ja-JP"
    );
}

#[tokio::test]
async fn user_can_stop_the_answer_in_a_thread() {
    let mut app = TestApp::start().await;
    let playground = app.playground().await;
    let root = playground.post(seed::ALEX, seed::DM_ALEX, "hi").unwrap();
    assert_eq!(app.next_events(1).await.len(), 1);
    let bot = TestBot::new(&playground);
    let channel = ("channel", seed::DM_ALEX);
    let started = bot
        .call_ok("chat.startStream", &[channel, ("thread_ts", &root)])
        .await;
    let acts = format!("{}playground/acts", playground.url());
    let stop = |user: &str, thread: &str| {
        let act =
            json!({"act": "stop", "user": user, "channel": seed::DM_ALEX, "thread_ts": thread});
        client().post(&acts).body(act.to_string()).send()
    };
    assert_eq!(stop(seed::HANA, &root).await.unwrap().status(), 409);
    assert_eq!(stop(seed::ALEX, "1.5").await.unwrap().status(), 409);
    assert_eq!(stop(seed::ALEX, &root).await.unwrap().status(), 200);
    let stop_event = loop {
        let event = app.next_events(1).await.remove(0)["event"].clone();
        if event["type"] != "message" {
            break event;
        }
    };
    assert_eq!(stop_event["type"], "agent_session_stopped");
    assert_eq!(stop_event["thread_ts"], root);
    assert_eq!(stop_event["streaming_message_ts"], json!([started["ts"]]));
}

#[tokio::test]
async fn changes_are_streamed_to_the_page() {
    let playground = Playground::start(PlaygroundOptions::default()).await;
    let playground = playground.unwrap();
    let bot = TestBot::new(&playground);
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
    let started = bot
        .call_ok("chat.startStream", &[channel, ("thread_ts", &root)])
        .await;
    let ts = ("ts", started["ts"].as_str().unwrap());
    bot.call_ok(
        "chat.appendStream",
        &[channel, ts, ("markdown_text", "**growing**")],
    )
    .await;
    let mut text = String::new();
    while !text.contains("**growing**") {
        let piece = tokio::time::timeout(crate::support::TIMEOUT, pieces.next()).await;
        let piece = piece.expect("it comes").expect("it goes on").unwrap();
        text.push_str(&String::from_utf8_lossy(&piece));
    }
    assert!(text.contains("\"streaming\":true"));
}

#[tokio::test]
async fn playground_listens_on_loopback_only() {
    for away in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        let options = PlaygroundOptions {
            listen: away.parse().unwrap(),
            ..PlaygroundOptions::default()
        };
        assert!(Playground::start(options).await.is_err(), "{away}");
    }
}
