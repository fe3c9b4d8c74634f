//! Watching: streams by WebSocket and SSE from Python, tasks by SSE with every place to resume from.

use super::peers::run_python;
use super::watching::Event;
use super::zone::Setup;
use std::collections::BTreeMap;

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_watched_by_websocket_and_sse() {
    let zone = Setup::new().start().await;
    let issuer = &zone.world.issuer;
    let blind = "acp:agent:identify acp:streams:write";
    let arguments = [
        zone.url.clone(),
        issuer.token("anna"),
        issuer.token("bert"),
        issuer.scoped("anna", blind),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let told = run_python("watcher.py", &arguments, &zone.world.ca(), "").await;
    assert!(told.contains("watched"), "{told}");
}

/// The text of each run as its events tell it. Pieces may come again after a reconnect, but they must
/// say the same, and there must be nothing missing between them.
pub(crate) fn told(events: &[Event]) -> BTreeMap<String, String> {
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
        let known = text.len().min(offset + delta.len()) - offset;
        assert_eq!(text[offset..offset + known], delta[..known], "two stories");
        text.push_str(&delta[known..]);
    }
    runs
}

/// Events that are in the log, without text, whose pieces may be cut otherwise.
pub(crate) fn logged(events: &[Event]) -> Vec<&Event> {
    events
        .iter()
        .filter(|event| event.name != "interzone.task.text")
        .collect()
}

/// Places only grow, and none comes twice.
pub(crate) fn in_order(events: &[Event]) {
    let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_watched_live_and_replayed_from_everywhere() {
    let zone = Setup::new().start().await;
    let token = zone.token("anna");
    let id = zone.create(&token, "demo", "stream 30").await;
    let subject = format!("tasks/{id}");
    let live = zone.watch(&token, &subject, None).await.rest().await;
    in_order(&live);
    let replay = zone.watch(&token, &subject, Some(0)).await.rest().await;
    in_order(&replay);
    assert_eq!(logged(&live), logged(&replay), "live and replayed");
    assert_eq!(told(&live), told(&replay));
    assert_eq!(told(&live).len(), 1, "one run");
    // On one connection nothing is told twice.
    let mut length = 0;
    for event in live.iter().filter(|e| e.name == "interzone.task.text") {
        let delta = event.params()["delta"].as_str().unwrap();
        // A piece that was shown before it was in the log comes again empty, for its place.
        if !delta.is_empty() {
            assert_eq!(event.params()["offset"], length, "{event:?}");
        }
        length += delta.len();
    }
    let kinds: Vec<&str> = live
        .iter()
        .map(Event::kind)
        .filter(|kind| !kind.is_empty())
        .collect();
    assert_eq!(kinds.last(), Some(&"COMPLETED"), "{kinds:?}");
    assert!(kinds.contains(&"NEW_MESSAGE"), "{kinds:?}");
    let last = live.last().unwrap();
    assert_eq!(last.params()["data"]["taskId"], id.as_str());
    assert_eq!(last.params()["data"]["status"], "COMPLETED");

    for (at, event) in replay.iter().enumerate() {
        let Some(place) = event.id else { continue };
        let rest = zone.watch(&token, &subject, Some(place)).await.rest().await;
        assert_eq!(rest, replay[at + 1..], "after {place}");
    }

    // Somebody else's task is no task, and a token that may not read sees nothing.
    let other = zone.token("bert");
    let refusal = zone
        .try_watch(&other, &subject, None)
        .await
        .err()
        .flatten()
        .unwrap();
    assert_eq!((refusal.status, refusal.code()), (404, -40001));
    let weak = zone
        .world
        .issuer
        .scoped("anna", "acp:agent:identify acp:tasks:write");
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
async fn a_watch_ends_with_the_token_that_opened_it() {
    // Little leeway, so that the end is near where the token says.
    let zone = Setup::new().set("oauth.leeway", "1s").start().await;
    let issuer = &zone.world.issuer;
    let token = issuer.token("anna");
    let id = zone.create(&token, "demo", "wait 30").await;
    let mut claims = issuer.claims("anna", super::tokens::EVERY_SCOPE);
    claims["exp"] = serde_json::json!(super::tokens::now() + 2);
    let short = issuer.sign(&claims);
    let events = zone
        .watch(&short, &format!("tasks/{id}"), None)
        .await
        .rest()
        .await;
    assert!(
        events.iter().all(|event| event.kind() != "COMPLETED"),
        "{events:#?}"
    );
    let task = zone.task(&token, &id).await;
    assert_eq!(task["status"], "WORKING", "the task goes on");
}
