//! Watches: streams by WebSocket and SSE from Python, tasks by SSE with every event id to resume from.

use super::peers::run_python;
use super::sse::ReceivedSseEvent;
use super::zone_process::ZoneBuilder;
use std::collections::BTreeMap;

#[tokio::test(flavor = "multi_thread")]
async fn streams_can_be_watched_by_websocket_and_sse() {
    let zone = ZoneBuilder::new().start().await;
    let issuer = &zone.env.issuer;
    let write_only = "acp:agent:identify acp:streams:write";
    let arguments = [
        zone.url.clone(),
        issuer.token("anna"),
        issuer.token("bert"),
        issuer.token_with_scope("anna", write_only),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = run_python("watcher.py", &arguments, &zone.env.ca(), "").await;
    assert!(output.contains("watched"), "{output}");
}

/// Assembles the text of each run from its events. Deltas may be repeated after a reconnect, but they must agree and
/// leave no gap.
pub(crate) fn text_by_run(events: &[ReceivedSseEvent]) -> BTreeMap<String, String> {
    let mut runs: BTreeMap<String, String> = BTreeMap::new();
    for event in events.iter().filter(|e| e.name == "interzone.task.text") {
        let params = event.params();
        let text = runs.entry(params["run"].to_string()).or_default();
        let offset = usize::try_from(params["offset"].as_u64().unwrap()).unwrap();
        let delta = params["delta"].as_str().unwrap();
        assert!(
            offset <= text.len(),
            "a gap before {offset}: {text:?} {delta:?}"
        );
        let overlap = text.len().min(offset + delta.len()) - offset;
        assert_eq!(
            text[offset..offset + overlap],
            delta[..overlap],
            "conflicting text"
        );
        text.push_str(&delta[overlap..]);
    }
    runs
}

/// Logged events without text, whose deltas may be split differently.
pub(crate) fn non_text_events(events: &[ReceivedSseEvent]) -> Vec<&ReceivedSseEvent> {
    events
        .iter()
        .filter(|event| event.name != "interzone.task.text")
        .collect()
}

/// Asserts that event ids strictly increase.
pub(crate) fn assert_in_order(events: &[ReceivedSseEvent]) {
    let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn task_watch_replays_from_every_event_id() {
    let zone = ZoneBuilder::new().start().await;
    let token = zone.token("anna");
    let id = zone.create_task(&token, "demo", "stream 30").await;
    let subject = format!("tasks/{id}");
    let live = zone.watch(&token, &subject, None).await.remaining().await;
    assert_in_order(&live);
    let replay = zone
        .watch(&token, &subject, Some(0))
        .await
        .remaining()
        .await;
    assert_in_order(&replay);
    assert_eq!(
        non_text_events(&live),
        non_text_events(&replay),
        "live and replayed"
    );
    assert_eq!(text_by_run(&live), text_by_run(&replay));
    assert_eq!(text_by_run(&live).len(), 1, "one run");
    // On one connection no text is sent twice.
    let mut length = 0;
    for event in live.iter().filter(|e| e.name == "interzone.task.text") {
        let delta = event.params()["delta"].as_str().unwrap();
        // Text that was shown before it was logged is sent again with an empty delta, for its event id.
        if !delta.is_empty() {
            assert_eq!(event.params()["offset"], length, "{event:?}");
        }
        length += delta.len();
    }
    let kinds: Vec<&str> = live
        .iter()
        .map(ReceivedSseEvent::kind)
        .filter(|kind| !kind.is_empty())
        .collect();
    assert_eq!(kinds.last(), Some(&"COMPLETED"), "{kinds:?}");
    assert!(kinds.contains(&"NEW_MESSAGE"), "{kinds:?}");
    let last = live.last().unwrap();
    assert_eq!(last.params()["data"]["taskId"], id.as_str());
    assert_eq!(last.params()["data"]["status"], "COMPLETED");

    for (index, event) in replay.iter().enumerate() {
        let Some(event_id) = event.id else { continue };
        let remaining = zone
            .watch(&token, &subject, Some(event_id))
            .await
            .remaining()
            .await;
        assert_eq!(remaining, replay[index + 1..], "after {event_id}");
    }

    // Another caller's task is not found, and a token without the read scope is rejected.
    let other = zone.token("bert");
    let refusal = zone
        .try_watch(&other, &subject, None)
        .await
        .err()
        .flatten()
        .unwrap();
    assert_eq!((refusal.status, refusal.code()), (404, -40001));
    let weak = zone
        .env
        .issuer
        .token_with_scope("anna", "acp:agent:identify acp:tasks:write");
    let refusal = zone
        .try_watch(&weak, &subject, None)
        .await
        .err()
        .flatten()
        .unwrap();
    assert_eq!((refusal.status, refusal.code()), (403, -40008));
    let refusal = zone
        .try_watch("rubbish", &subject, None)
        .await
        .err()
        .flatten()
        .unwrap();
    assert_eq!((refusal.status, refusal.code()), (401, -40007));
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_ends_when_its_token_expires() {
    // Small leeway, so that the watch ends close to the token's expiry.
    let zone = ZoneBuilder::new().set("oauth.leeway", "1s").start().await;
    let issuer = &zone.env.issuer;
    let token = issuer.token("anna");
    let id = zone.create_task(&token, "demo", "wait 30").await;
    let mut claims = issuer.claims("anna", super::tokens::EVERY_SCOPE);
    claims["exp"] = serde_json::json!(super::tokens::now() + 2);
    let short = issuer.sign(&claims);
    let events = zone
        .watch(&short, &format!("tasks/{id}"), None)
        .await
        .remaining()
        .await;
    assert!(
        events.iter().all(|event| event.kind() != "COMPLETED"),
        "{events:#?}"
    );
    let task = zone.task(&token, &id).await;
    assert_eq!(task["status"], "WORKING", "the task goes on");
}
