//! Streams: the task first, then its updates as they are in the log.

use super::{A2aZone, error_of, refused, send_params, send_params_v03};
use serde_json::{Value, json};

/// Concatenates the text of the artifact updates of a 1.0 stream.
fn streamed_text(events: &[(Option<u64>, Value)]) -> String {
    let updates = events.iter().map(|(_, event)| &event["artifactUpdate"]);
    let texts = updates.filter_map(|update| update["artifact"]["parts"][0]["text"].as_str());
    texts.collect()
}

#[tokio::test]
async fn stream_sends_the_task_first_and_then_the_text_of_the_log() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let method = "SendStreamingMessage";
    let events = zone
        .stream(&token, "/a2a", method, send_params("stream 5"))
        .await;
    let (first_id, first) = &events[0];
    assert_eq!(
        (*first_id, &first["task"]["status"]["state"]),
        (Some(1), &json!("TASK_STATE_SUBMITTED"))
    );
    assert_eq!(first["task"]["history"][0]["messageId"], "m");
    assert_eq!(
        events[1].1["statusUpdate"]["status"]["state"],
        "TASK_STATE_WORKING"
    );
    let ids: Vec<_> = events.iter().map(|(id, _)| id.unwrap()).collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    let updates: Vec<_> = events
        .iter()
        .filter(|(_, event)| event.get("artifactUpdate").is_some())
        .collect();
    for (number, (_, event)) in updates.iter().enumerate() {
        let update = &event["artifactUpdate"];
        assert_eq!(update["artifact"]["artifactId"], "answer-1");
        assert_eq!(update.get("append"), (number > 0).then_some(&json!(true)));
    }
    let (_, last) = events.last().unwrap();
    assert_eq!(
        last["statusUpdate"]["status"]["state"],
        "TASK_STATE_COMPLETED"
    );
    assert!(last["statusUpdate"]["status"].get("message").is_none());

    let id = &first["task"]["id"];
    let task = zone.call(&token, "GetTask", json!({"id": id})).await;
    assert_eq!(
        task["artifacts"][0]["parts"][0]["text"],
        streamed_text(&events)
    );
    let subscribed = zone
        .call_error(&token, "SubscribeToTask", json!({"id": id}))
        .await;
    assert_eq!(subscribed, refused(-32004, "UNSUPPORTED_OPERATION"));
    let old = zone
        .stream(&token, "/a2a", "tasks/resubscribe", json!({"id": id}))
        .await;
    assert_eq!(
        (old.len(), &old[0].1["status"]["state"]),
        (1, &json!("completed"))
    );
}

#[tokio::test]
async fn direct_answer_is_the_only_event_of_a_stream() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let events = zone
        .stream(
            &token,
            "/a2a",
            "SendStreamingMessage",
            send_params("echo hi"),
        )
        .await;
    assert_eq!((events.len(), events[0].0), (1, None));
    assert_eq!(events[0].1["message"]["parts"], json!([{"text": "hi"}]));
}

#[tokio::test]
async fn stream_of_a_send_ends_with_a_question() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let path = "/agents/asker/a2a";
    let events = zone
        .stream(&token, path, "message/stream", send_params_v03("love"))
        .await;
    let kinds: Vec<_> = events
        .iter()
        .map(|(_, event)| event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["task", "status-update", "status-update", "status-update"]
    );
    let finals: Vec<_> = events[1..]
        .iter()
        .map(|(_, event)| event["final"].as_bool().unwrap())
        .collect();
    assert_eq!(finals, [false, false, true]);
    let progress = &events[2].1["status"];
    assert_eq!(
        (&progress["state"], &progress["message"]["parts"][0]["text"]),
        (&json!("working"), &json!("thinking"))
    );
    let asked = &events[3].1["status"];
    assert_eq!(asked["state"], "input-required");
    let id = &events[0].1["id"];
    let task = zone.call(&token, "tasks/get", json!({"id": id})).await;
    assert_eq!(
        task["status"], *asked,
        "the same message id for all readers"
    );
}

#[tokio::test]
async fn artifacts_and_unstreamed_answer_come_before_the_end() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let path = "/agents/maker/a2a";
    let events = zone
        .stream(&token, path, "SendStreamingMessage", send_params("go"))
        .await;
    let updates: Vec<_> = events
        .iter()
        .map(|(_, event)| &event["artifactUpdate"])
        .collect();
    let ids: Vec<_> = updates
        .iter()
        .filter_map(|update| update["artifact"]["artifactId"].as_str())
        .collect();
    assert_eq!(ids, ["report", "answer-1"]);
    assert!(events.last().unwrap().1.get("statusUpdate").is_some());
}

#[tokio::test]
async fn subscription_opens_with_the_task_and_ends_with_it() {
    let zone = A2aZone::new().await;
    let (token, other) = (zone.zone.token("anna").await, zone.zone.token("bert").await);
    let id = zone.start(&token, "gate", "one").await["id"].take();
    let params = json!({"id": id});
    let hidden = zone
        .call_error(&other, "SubscribeToTask", params.clone())
        .await;
    assert_eq!(hidden, refused(-32001, "TASK_NOT_FOUND"));
    zone.gate.add_permits(1);
    let read = zone.stream(&token, "/a2a", "tasks/resubscribe", params);
    let events = read.await;
    assert_eq!(events[0].1["kind"], "task");
    let tasks = events.iter().filter(|(_, event)| event["kind"] == "task");
    assert_eq!(tasks.count(), 1);
    let (_, last) = events.last().unwrap();
    assert_eq!(last["status"]["state"], "completed");
}

#[tokio::test]
async fn stream_is_refused_without_a_valid_message() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let body = zone
        .call_at(&token, "/a2a", "SendStreamingMessage", json!({}))
        .await;
    assert_eq!(error_of(&body), refused(-32602, "INVALID_PARAMS"));
}
