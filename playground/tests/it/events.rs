//! What the app is told, how it is proved, and what happens when it does not answer.

use crate::house::{App, Bot, PATIENCE};
use axum::response::IntoResponse;
use http::StatusCode;
use interzone_playground::{EventFault, seed};
use serde_json::{Value, json};

#[tokio::test]
async fn a_mention_is_told_twice_and_signed() {
    let mut app = App::start().await;
    let playground = app.playground().await;
    let ts = playground
        .post(seed::HANA, seed::GENERAL, "@interzone こんにちは")
        .unwrap();
    let first = app.next().await;
    assert_eq!(first.path, "/events");
    let stamp = first.header("x-slack-request-timestamp");
    assert!(stamp.parse::<u64>().is_ok());
    assert!(first.header("x-slack-signature").starts_with("v0="));
    assert_eq!(first.header("x-slack-retry-num"), "");
    let mut both = vec![first.json(), app.next().await.json()];
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
async fn dms_replies_edits_and_own_posts_are_told_and_strange_rooms_are_not() {
    let mut app = App::start().await;
    let playground = app.playground().await;
    let bot = Bot::of(&playground);
    let root = playground
        .post(seed::ALEX, seed::DM_ALEX, "@interzone hi")
        .unwrap();
    let told = app.next().await.json();
    assert_eq!(
        (&told["event"]["type"], &told["event"]["channel_type"]),
        (&json!("message"), &json!("im")),
        "a DM has no app_mention"
    );
    playground
        .broadcast(seed::ALEX, seed::DM_ALEX, &root, "again")
        .unwrap();
    let told = app.next().await.json();
    assert_eq!(told["event"]["subtype"], "thread_broadcast");
    assert_eq!(told["event"]["thread_ts"], root.as_str());
    playground
        .edit(seed::ALEX, seed::DM_ALEX, &root, "other")
        .unwrap();
    let told = app.next().await.json();
    assert_eq!(told["event"]["subtype"], "message_changed");
    assert_eq!(told["event"]["message"]["text"], "other");
    assert_eq!(told["event"]["hidden"], true);
    bot.good(
        "chat.postMessage",
        &[
            ("channel", seed::DM_ALEX),
            ("text", "hello"),
            ("thread_ts", &root),
        ],
    )
    .await;
    let told = app.next().await.json();
    assert_eq!(told["event"]["bot_id"], seed::BOT);
    assert_eq!(told["event"]["app_id"], seed::APP);
    playground.delete(seed::ALEX, seed::DM_ALEX, &root).unwrap();
    let told = app.next().await.json();
    assert_eq!(told["event"]["subtype"], "message_deleted");
    // Where the bot is not, it hears nothing; the DM after it is the next thing that is heard.
    playground
        .post(seed::HANA, seed::LOBBY, "@interzone psst")
        .unwrap();
    playground.post(seed::HANA, seed::DM_HANA, "last").unwrap();
    assert_eq!(app.next().await.json()["event"]["text"], "last");
    assert!(app.is_quiet());
    for (user, channel) in [
        (seed::MALLORY, seed::PLANS),
        (seed::GONE, seed::GENERAL),
        (seed::HANA, seed::ATTIC),
    ] {
        assert!(playground.post(user, channel, "x").is_err());
    }
}

#[tokio::test]
async fn what_is_not_acknowledged_comes_again_with_its_reason() {
    let mut app = App::start().await;
    let playground = app.playground().await;
    app.answer(StatusCode::INTERNAL_SERVER_ERROR).await;
    app.answer(StatusCode::BAD_GATEWAY).await;
    playground.post(seed::HANA, seed::DM_HANA, "one").unwrap();
    let first = app.next().await;
    for number in ["1", "2"] {
        let again = app.next().await;
        assert_eq!(again.header("x-slack-retry-num"), number);
        assert_eq!(again.header("x-slack-retry-reason"), "http_error");
        assert_eq!(again.body, first.body);
    }
    let good = |d: &&interzone_playground::Delivery| d.outcome == "ok";
    let arrived = playground.wait(PATIENCE, |w| w.deliveries().find(good).cloned());
    assert_eq!(arrived.await.unwrap().attempt, 2);

    let no_retry = (StatusCode::FORBIDDEN, [("X-Slack-No-Retry", "1")]);
    app.answer(no_retry.into_response()).await;
    playground.post(seed::HANA, seed::DM_HANA, "two").unwrap();
    assert_eq!(app.next().await.json()["event"]["text"], "two");
    playground.post(seed::HANA, seed::DM_HANA, "three").unwrap();
    assert_eq!(app.next().await.json()["event"]["text"], "three");
    assert!(app.is_quiet());
}

#[tokio::test]
async fn events_come_twice_late_and_in_the_wrong_order_on_request() {
    let mut app = App::start().await;
    let playground = app.playground().await;
    let faults = playground.faults();
    faults.events(EventFault::Duplicate {
        events: 1,
        copies: 3,
    });
    playground
        .post(seed::HANA, seed::DM_HANA, "thrice")
        .unwrap();
    let ids: Vec<Value> = app.events(3).await;
    assert!(
        ids.iter()
            .all(|told| told["event_id"] == ids[0]["event_id"])
    );
    faults.events(EventFault::Reverse { events: 3 });
    for text in ["a", "b", "c"] {
        playground.post(seed::HANA, seed::DM_HANA, text).unwrap();
    }
    for text in ["c", "b", "a"] {
        assert_eq!(app.next().await.json()["event"]["text"], text);
    }
    let by = std::time::Duration::from_secs(1);
    faults.events(EventFault::Delay { events: 1, by });
    playground.post(seed::HANA, seed::DM_HANA, "late").unwrap();
    playground.post(seed::HANA, seed::DM_HANA, "soon").unwrap();
    assert_eq!(app.next().await.json()["event"]["text"], "soon");
    assert_eq!(app.next().await.json()["event"]["text"], "late");
}

/// What a form says of a pressed button.
fn pressed(body: &str) -> Value {
    let form = body.strip_prefix("payload=").unwrap();
    let url = reqwest::Url::parse(&format!("http://x/?p={form}")).unwrap();
    let payload = url.query_pairs().next().unwrap().1.into_owned();
    serde_json::from_str(&payload).unwrap()
}

#[tokio::test]
async fn a_pressed_button_is_told_as_a_form() {
    let mut app = App::start().await;
    let playground = app.playground().await;
    let bot = Bot::of(&playground);
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
    let ts = bot.good("chat.postMessage", &args).await;
    let ts = ts["ts"].as_str().unwrap();
    app.next().await;
    for (action, value, said) in [("stop", None, "v"), ("f", Some("bad"), "bad")] {
        playground
            .press(seed::HANA, seed::DM_HANA, ts, action, value)
            .unwrap();
        let heard = app.next().await;
        assert_eq!(heard.path, "/acts");
        let payload = pressed(&heard.body);
        assert_eq!(payload["type"], "block_actions");
        assert_eq!(payload["actions"][0]["action_id"], action);
        assert_eq!(payload["actions"][0]["value"], said);
        assert_eq!(payload["user"]["id"], seed::HANA);
        assert_eq!(payload["container"]["message_ts"], ts);
    }
    // A whisper's button, and the address at which the app may take the whisper away.
    let whisper = [
        ("channel", seed::DM_HANA),
        ("user", seed::HANA),
        ("text", "w"),
        ("blocks", blocks.as_str()),
    ];
    let whispered = bot.good("chat.postEphemeral", &whisper).await;
    let whispered = whispered["message_ts"].as_str().unwrap();
    playground
        .press(seed::HANA, seed::DM_HANA, whispered, "stop", None)
        .unwrap();
    let payload = pressed(&app.next().await.body);
    assert_eq!(payload["container"]["is_ephemeral"], true);
    assert!(payload.get("message").is_none());
    let url = payload["response_url"].as_str().unwrap();
    for (said, left) in [
        (json!({"replace_original": true, "text": "stopped"}), 1),
        (json!({"delete_original": true}), 0),
    ] {
        let answer = bot.http.post(url).body(said.to_string()).send().await;
        assert_eq!(answer.unwrap().status(), 200);
        assert_eq!(playground.look(|w| w.ephemerals().count()), left);
    }
    let nowhere = bot.http.post(format!("{url}x")).body("{}").send().await;
    assert_eq!(nowhere.unwrap().status(), 404);
    let press = |user, action| playground.press(user, seed::DM_HANA, ts, action, None);
    assert!(press(seed::ALEX, "stop").is_err(), "not in this DM");
    assert!(press(seed::HANA, "go").is_err(), "no such button");
}

#[tokio::test]
async fn a_url_is_challenged_and_must_be_on_this_machine() {
    let mut app = App::start().await;
    let playground = app.playground().await;
    assert!(!playground.verify_url().await, "it answers nothing");
    let asked = app.next().await.json();
    assert_eq!(asked["type"], "url_verification");
    for away in ["https://example.com/x", "http://10.0.0.1/", "nothing"] {
        assert!(playground.send_to(away, away).is_err(), "{away}");
    }
}
