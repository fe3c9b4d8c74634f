//! Streamed messages, and the ways in which they end.

use crate::support::TestBot;
use interzone_edge::clock::Clock;
use interzone_playground::{Playground, PlaygroundOptions, StreamStatus, seed};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn stream_starts_appends_and_ends_once() {
    let clock = Clock::fixed(1_800_000_000);
    let options = PlaygroundOptions {
        clock: clock.clone(),
        ..PlaygroundOptions::default()
    };
    let playground = Playground::start(options).await.unwrap();
    let bot = TestBot::new(&playground);
    let root = playground
        .post(seed::ALEX, seed::GENERAL, "@interzone hi")
        .unwrap();
    let channel = ("channel", seed::GENERAL);
    let thread = ("thread_ts", root.as_str());
    let user = ("recipient_user_id", seed::ALEX);
    let team = ("recipient_team_id", seed::TEAM);
    for (args, word) in [
        (vec![channel, user, team], "invalid_arguments"),
        (vec![channel, thread, team], "missing_recipient_user_id"),
        (vec![channel, thread, user], "missing_recipient_team_id"),
        (
            vec![channel, thread, user, ("recipient_team_id", "{}")],
            "team_not_found",
        ),
    ] {
        assert_eq!(
            bot.call_err("chat.startStream", &args).await,
            word,
            "{args:?}"
        );
    }
    let started = bot
        .call_ok("chat.startStream", &[channel, thread, user, team])
        .await;
    let ts = ("ts", started["ts"].as_str().unwrap());
    let long = "x".repeat(12_001);
    assert_eq!(
        bot.call_err(
            "chat.appendStream",
            &[channel, ts, ("markdown_text", &long)]
        )
        .await,
        "msg_too_long"
    );
    assert_eq!(
        bot.call_err("chat.appendStream", &[channel, ts]).await,
        "no_text"
    );
    bot.call_ok(
        "chat.appendStream",
        &[channel, ts, ("markdown_text", "**a")],
    )
    .await;
    let chunks = json!([{"type": "markdown_text", "text": "b**"}]).to_string();
    bot.call_ok("chat.appendStream", &[channel, ts, ("chunks", &chunks)])
        .await;
    assert_eq!(
        bot.call_err("chat.update", &[channel, ts, ("text", "x")])
            .await,
        "streaming_state_conflict"
    );
    let blocks = json!([{"type": "context_actions", "elements": [{"type": "feedback_buttons",
        "action_id": "f",
        "positive_button": {"text": {"type": "plain_text", "text": "+"}, "value": "1"},
        "negative_button": {"text": {"type": "plain_text", "text": "-"}, "value": "0"}}]}]);
    let blocks = blocks.to_string();
    let metadata = json!({"event_type": "k", "event_payload": {"key": "1"}}).to_string();
    let end = [
        channel,
        ts,
        ("markdown_text", "!"),
        ("blocks", &blocks),
        ("metadata", &metadata),
    ];
    bot.call_ok("chat.stopStream", &end).await;
    let thread_now = playground.thread(seed::GENERAL, &root);
    assert_eq!(thread_now[1].text, "**ab**!");
    assert_eq!(thread_now[1].stream, Some(StreamStatus::Ended));
    assert_eq!(thread_now[1].blocks.len(), 2);
    assert!(thread_now[1].metadata.is_some());
    for method in ["chat.stopStream", "chat.appendStream"] {
        assert_eq!(
            bot.call_err(method, &end[..3]).await,
            "message_not_in_streaming_state"
        );
    }
    bot.call_ok("chat.update", &[channel, ts, ("text", "x")])
        .await;

    // A DM needs no recipient. The reader may stop it, and Slack ends it after a while.
    let root = playground.post(seed::HANA, seed::DM_HANA, "hi").unwrap();
    let dm = ("channel", seed::DM_HANA);
    let begin = [dm, ("thread_ts", root.as_str())];
    let first = bot.call_ok("chat.startStream", &begin).await;
    let first = first["ts"].as_str().unwrap();
    playground.stop_stream(seed::DM_HANA, first).unwrap();
    let append = [dm, ("ts", first), ("markdown_text", "a")];
    assert_eq!(
        bot.call_err("chat.appendStream", &append).await,
        "stopped_by_user"
    );
    let second = bot.call_ok("chat.startStream", &begin).await;
    clock.advance(Duration::from_secs(300));
    let append = [dm, ("ts", second["ts"].as_str().unwrap()), append[2]];
    assert_eq!(
        bot.call_err("chat.appendStream", &append).await,
        "message_not_in_streaming_state"
    );
    let theirs = [dm, ("ts", root.as_str()), append[2]];
    assert_eq!(
        bot.call_err("chat.appendStream", &theirs).await,
        "message_not_owned_by_app"
    );
}
