//! Events: content, signature and retries.

use crate::support::{TIMEOUT, TestApp, TestBot};
use axum::response::IntoResponse;
use http::StatusCode;
use interzone_playground::{EventFault, seed};
use serde_json::{Value, json};

#[tokio::test]
async fn mention_sends_two_signed_events() {
    let mut app = TestApp::start().await;
    let playground = app.playground().await;
    let ts = playground
        .post(seed::HANA, seed::GENERAL, "@interzone こんにちは")
        .unwrap();
    let first = app.next_request().await;
    assert_eq!(first.path, "/events");
    let stamp = first.header("x-slack-request-timestamp");
    assert!(stamp.parse::<u64>().is_ok());
    assert!(first.header("x-slack-signature").starts_with("v0="));
    assert_eq!(first.header("x-slack-retry-num"), "");
    let mut both = vec![first.json(), app.next_request().await.json()];
    both.sort_by_key(|event| event["event"]["type"].as_str().unwrap().to_owned());
    assert_eq!(both[0]["event"]["type"], "app_mention");
    assert_eq!(both[1]["event"]["type"], "message");
    assert_eq!(both[1]["event"]["channel_type"], "channel");
    assert_ne!(both[0]["event_id"], both[1]["event_id"]);
    for told in &both {
        assert_eq!(told["type"], "event_callback");
        assert_eq!(told["team_id"], seed::TEAM);
        assert_eq!(told["api_app_id"], seed::APP);
        assert_eq!(told["event"]["ts"], ts.as_str());
        assert_eq!(told["event"]["text"], "<@U0INTERZONE> こんにちは");
    }
}

#[tokio::test]
async fn events_cover_dms_replies_edits_and_own_posts() {
    let mut app = TestApp::start().await;
    let playground = app.playground().await;
    let bot = TestBot::new(&playground);
    let root = playground
        .post(seed::ALEX, seed::DM_ALEX, "@interzone hi")
        .unwrap();
    let event = app.next_request().await.json();
    assert_eq!(
        (&event["event"]["type"], &event["event"]["channel_type"]),
        (&json!("message"), &json!("im")),
        "a DM has no app_mention"
    );
    playground
        .broadcast(seed::ALEX, seed::DM_ALEX, &root, "again")
        .unwrap();
    let event = app.next_request().await.json();
    assert_eq!(event["event"]["subtype"], "thread_broadcast");
    assert_eq!(event["event"]["thread_ts"], root.as_str());
    playground
        .edit(seed::ALEX, seed::DM_ALEX, &root, "other")
        .unwrap();
    let event = app.next_request().await.json();
    assert_eq!(event["event"]["subtype"], "message_changed");
    assert_eq!(event["event"]["message"]["text"], "other");
    assert_eq!(event["event"]["hidden"], true);
    bot.call_ok(
        "chat.postMessage",
        &[
            ("channel", seed::DM_ALEX),
            ("text", "hello"),
            ("thread_ts", &root),
        ],
    )
    .await;
    let event = app.next_request().await.json();
    assert_eq!(event["event"]["bot_id"], seed::BOT);
    assert_eq!(event["event"]["app_id"], seed::APP);
    playground.delete(seed::ALEX, seed::DM_ALEX, &root).unwrap();
    let event = app.next_request().await.json();
    assert_eq!(event["event"]["subtype"], "message_deleted");
    // In a channel without the bot no event is sent; the DM after it is the next event.
    playground
        .post(seed::HANA, seed::LOBBY, "@interzone psst")
        .unwrap();
    playground.post(seed::HANA, seed::DM_HANA, "last").unwrap();
    assert_eq!(app.next_request().await.json()["event"]["text"], "last");
    assert!(app.has_no_request());
    for (user, channel) in [
        (seed::MALLORY, seed::PLANS),
        (seed::GONE, seed::GENERAL),
        (seed::HANA, seed::ATTIC),
    ] {
        assert!(playground.post(user, channel, "x").is_err());
    }
}

#[tokio::test]
async fn unacknowledged_event_is_retried_with_its_reason() {
    let mut app = TestApp::start().await;
    let playground = app.playground().await;
    app.queue_response(StatusCode::INTERNAL_SERVER_ERROR).await;
    app.queue_response(StatusCode::BAD_GATEWAY).await;
    playground.post(seed::HANA, seed::DM_HANA, "one").unwrap();
    let first = app.next_request().await;
    for number in ["1", "2"] {
        let retry = app.next_request().await;
        assert_eq!(retry.header("x-slack-retry-num"), number);
        assert_eq!(retry.header("x-slack-retry-reason"), "http_error");
        assert_eq!(retry.body, first.body);
    }
    let good = |d: &&interzone_playground::EventDelivery| d.outcome == "ok";
    let delivered = playground.wait_for(TIMEOUT, |w| w.deliveries().find(good).cloned());
    assert_eq!(delivered.await.unwrap().attempt, 2);

    let no_retry = (StatusCode::FORBIDDEN, [("X-Slack-No-Retry", "1")]);
    app.queue_response(no_retry.into_response()).await;
    playground.post(seed::HANA, seed::DM_HANA, "two").unwrap();
    assert_eq!(app.next_request().await.json()["event"]["text"], "two");
    playground.post(seed::HANA, seed::DM_HANA, "three").unwrap();
    assert_eq!(app.next_request().await.json()["event"]["text"], "three");
    assert!(app.has_no_request());
}

#[tokio::test]
async fn events_are_duplicated_delayed_and_reversed_on_request() {
    let mut app = TestApp::start().await;
    let playground = app.playground().await;
    let faults = playground.faults();
    faults.add_event_fault(EventFault::Duplicate {
        events: 1,
        copies: 3,
    });
    playground
        .post(seed::HANA, seed::DM_HANA, "thrice")
        .unwrap();
    let ids: Vec<Value> = app.next_events(3).await;
    assert!(
        ids.iter()
            .all(|told| told["event_id"] == ids[0]["event_id"])
    );
    faults.add_event_fault(EventFault::Reverse { events: 3 });
    for text in ["a", "b", "c"] {
        playground.post(seed::HANA, seed::DM_HANA, text).unwrap();
    }
    for text in ["c", "b", "a"] {
        assert_eq!(app.next_request().await.json()["event"]["text"], text);
    }
    let delay = std::time::Duration::from_secs(1);
    faults.add_event_fault(EventFault::Delay { events: 1, delay });
    playground.post(seed::HANA, seed::DM_HANA, "late").unwrap();
    playground.post(seed::HANA, seed::DM_HANA, "soon").unwrap();
    assert_eq!(app.next_request().await.json()["event"]["text"], "soon");
    assert_eq!(app.next_request().await.json()["event"]["text"], "late");
}

/// Parses the form of an interaction.
fn parse_interaction(body: &str) -> Value {
    let form = body.strip_prefix("payload=").unwrap();
    let url = reqwest::Url::parse(&format!("http://x/?p={form}")).unwrap();
    let payload = url.query_pairs().next().unwrap().1.into_owned();
    serde_json::from_str(&payload).unwrap()
}

#[tokio::test]
async fn button_press_is_sent_as_a_form() {
    let mut app = TestApp::start().await;
    let playground = app.playground().await;
    let bot = TestBot::new(&playground);
    let blocks = json!([
        {"type": "actions", "elements": [{"type": "button", "action_id": "stop", "value": "v",
            "text": {"type": "plain_text", "text": "Stop"}}]},
        {"type": "context_actions", "elements": [{"type": "feedback_buttons", "action_id": "f",
            "positive_button": {"text": {"type": "plain_text", "text": "+"}, "value": "good"},
            "negative_button": {"text": {"type": "plain_text", "text": "-"}, "value": "bad"}}]},
    ]);
    let blocks = blocks.to_string();
    let args = [
        ("channel", seed::DM_HANA),
        ("text", "t"),
        ("blocks", blocks.as_str()),
    ];
    let ts = bot.call_ok("chat.postMessage", &args).await;
    let ts = ts["ts"].as_str().unwrap();
    app.next_request().await;
    for (action, value, said) in [("stop", None, "v"), ("f", Some("bad"), "bad")] {
        playground
            .press(seed::HANA, seed::DM_HANA, ts, action, value)
            .unwrap();
        let request = app.next_request().await;
        assert_eq!(request.path, "/acts");
        let payload = parse_interaction(&request.body);
        assert_eq!(payload["type"], "block_actions");
        assert_eq!(payload["actions"][0]["action_id"], action);
        assert_eq!(payload["actions"][0]["value"], said);
        assert_eq!(payload["user"]["id"], seed::HANA);
        assert_eq!(payload["container"]["message_ts"], ts);
    }
    // An ephemeral message's button, and the response URL with which the app may delete the message.
    let ephemeral_args = [
        ("channel", seed::DM_HANA),
        ("user", seed::HANA),
        ("text", "w"),
        ("blocks", blocks.as_str()),
    ];
    let ephemeral = bot.call_ok("chat.postEphemeral", &ephemeral_args).await;
    let ephemeral_ts = ephemeral["message_ts"].as_str().unwrap();
    playground
        .press(seed::HANA, seed::DM_HANA, ephemeral_ts, "stop", None)
        .unwrap();
    let payload = parse_interaction(&app.next_request().await.body);
    assert_eq!(payload["container"]["is_ephemeral"], true);
    assert!(payload.get("message").is_none());
    let url = payload["response_url"].as_str().unwrap();
    for (response, left) in [
        (json!({"replace_original": true, "text": "stopped"}), 1),
        (json!({"delete_original": true}), 0),
    ] {
        let answer = bot.http.post(url).body(response.to_string()).send().await;
        assert_eq!(answer.unwrap().status(), 200);
        assert_eq!(playground.inspect(|w| w.ephemerals().count()), left);
    }
    let nowhere = bot.http.post(format!("{url}x")).body("{}").send().await;
    assert_eq!(nowhere.unwrap().status(), 404);
    let press = |user, action| playground.press(user, seed::DM_HANA, ts, action, None);
    assert!(press(seed::ALEX, "stop").is_err(), "not in this DM");
    assert!(press(seed::HANA, "go").is_err(), "no such button");
}

#[tokio::test]
async fn url_is_challenged_and_must_be_loopback() {
    let mut app = TestApp::start().await;
    let playground = app.playground().await;
    assert!(
        !playground.verify_url().await,
        "no challenge in the response"
    );
    let challenge = app.next_request().await.json();
    assert_eq!(challenge["type"], "url_verification");
    for url in ["https://example.com/x", "http://10.0.0.1/", "nothing"] {
        assert!(playground.send_to(url, url).is_err(), "{url}");
    }
}
