//! Crashes: the zone is killed in mid-task and restarted. Tasks finish, watches resume where they stopped, and events
//! that were sent stay valid.

use super::agents::wait_for_file;
use super::nodes::TaskCreator;
#[cfg(target_os = "linux")]
use super::peers::{peer_path, python};
use super::sse::ReceivedSseEvent;
use super::watches::{assert_in_order, non_text_events, text_by_run};
use super::within_timeout;
use super::zone_process::{ZoneBuilder, ZoneProcess};
use interzone_client::{Client, Credentials, WatchEvent};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
#[cfg(target_os = "linux")]
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

/// Far longer than a test may last: with its own SQLite file, a restarted zone does not wait for leases.
const LONG_LEASE: &str = "10m";

fn open_gate(gate: &Path, number: u32) {
    fs::write(gate.join(number.to_string()), "").unwrap();
}

async fn check_kill_in_mid_task(mut zone: ZoneProcess) {
    let token = zone.token("anna");
    let gate = tempfile::tempdir().unwrap();
    let id = zone
        .create_task(
            &token,
            "worker",
            &format!("gate {} 4", gate.path().display()),
        )
        .await;
    let subject = format!("tasks/{id}");
    let mut watch = zone.watch(&token, &subject, None).await;
    let mut events = watch
        .until(|event| event.name == "interzone.task.status")
        .await;
    open_gate(gate.path(), 1);
    events.extend(
        watch
            .until(|event| event.name == "interzone.task.text")
            .await,
    );
    // More tasks that are not started yet, and an open stream.
    let queued: Vec<String> = {
        let mut ids = Vec::new();
        for number in 0..5 {
            ids.push(
                zone.create_task(&token, "demo", &format!("echo number {number}"))
                    .await,
            );
        }
        ids
    };
    let started = zone
        .call(&token, "stream.start", json!({"participants": ["demo"]}))
        .await;
    let stream = started["stream"]["streamId"].as_str().unwrap().to_owned();

    zone.kill();
    // Events in transit still arrive, then the connection breaks.
    while let Some(event) = watch.next().await {
        events.push(event);
    }
    for number in 2..=4 {
        open_gate(gate.path(), number);
    }
    zone.start().await;

    let remaining = zone
        .watch(&token, &subject, watch.last_event_id)
        .await
        .remaining()
        .await;
    events.extend(remaining);
    assert_in_order(&events);
    let task = zone.task(&token, &id).await;
    assert_eq!(task["status"], "COMPLETED", "{task}");
    let replay = zone
        .watch(&token, &subject, Some(0))
        .await
        .remaining()
        .await;
    let with_id = |events| -> Vec<_> {
        non_text_events(events)
            .into_iter()
            .filter(|event| event.id.is_some())
            .cloned()
            .collect()
    };
    assert_eq!(with_id(&events), with_id(&replay), "no gap, no duplicate");
    // Some text of the first run may not have been stored, but all stored text was sent live.
    let (live, stored) = (text_by_run(&events), text_by_run(&replay));
    for (run, text) in &stored {
        assert!(
            live[run].starts_with(text.as_str()),
            "{run}: {live:?} {stored:?}"
        );
    }
    let full_text = "piece 1;piece 2;piece 3;piece 4;";
    assert!(stored.values().any(|text| text == full_text), "{stored:?}");
    let answers = task["messages"].as_array().unwrap();
    let answers: Vec<_> = answers
        .iter()
        .filter(|message| message["role"] == "agent")
        .collect();
    assert_eq!(answers.len(), 1, "one answer: {task}");
    assert_eq!(answers[0]["parts"][0]["content"], full_text);
    let run_starts = fs::read_dir(gate.path()).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("began-")
    });
    assert_eq!(run_starts.count(), 2, "started twice, once by each process");

    for id in queued {
        assert_eq!(zone.wait_for_task(&token, &id).await["status"], "COMPLETED");
    }
    let message = super::zone_process::user_message("echo after the cut");
    zone.call(
        &token,
        "stream.message",
        json!({"streamId": stream, "message": message}),
    )
    .await;
    zone.watch(&token, &format!("streams/{stream}"), None)
        .await
        .until(|event| {
            event.params()["chunk"]["role"] == "agent" && event.params()["isLast"] == true
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_survives_crash_on_sqlite() {
    let zone = ZoneBuilder::new()
        .with_worker()
        .set("work.lease", LONG_LEASE)
        .start()
        .await;
    check_kill_in_mid_task(zone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_survives_crash_on_postgres() {
    let zone = super::nodes::on_postgres(ZoneBuilder::new().with_worker(), "cut")
        .start()
        .await;
    check_kill_in_mid_task(zone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_that_crashes_its_zone_fails_after_last_attempt() {
    let mut zone = ZoneBuilder::new()
        .with_worker()
        .set("work.lease", LONG_LEASE)
        .set("work.attempts", 2)
        .start()
        .await;
    let token = zone.token("anna");
    let id = zone
        .create_task(
            &token,
            "worker",
            &format!("hang {}", zone.env.path("first").display()),
        )
        .await;
    wait_for_file(&zone.env.path("first")).await;
    zone.kill();
    fs::remove_file(zone.env.path("first")).unwrap();
    zone.start().await;
    wait_for_file(&zone.env.path("first")).await;
    zone.kill();
    zone.start().await;
    let task = zone.wait_for_task(&token, &id).await;
    assert_eq!(task["status"], "FAILED", "{task}");
    zone.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sdk_watch_survives_zone_crash() {
    let mut zone = ZoneBuilder::new()
        .with_worker()
        .set("work.lease", LONG_LEASE)
        .start()
        .await;
    let token = zone.token("anna");
    let gate = tempfile::tempdir().unwrap();
    let id = zone
        .create_task(
            &token,
            "worker",
            &format!("gate {} 3", gate.path().display()),
        )
        .await;
    let client = Client::builder(&zone.url)
        .ca_file(zone.env.ca())
        .credentials(Credentials::Bearer(token.clone().into()))
        .build()
        .unwrap();
    let mut watch = client.watch_task(&id, None);
    let (events_tx, mut events_rx) = mpsc::unbounded_channel();
    let watching = tokio::spawn(async move {
        while let Some(event) = watch.next().await {
            events_tx
                .send(event.expect("the SDK reconnects after a disconnect"))
                .unwrap();
        }
    });
    open_gate(gate.path(), 1);
    let mut events = Vec::new();
    while !matches!(events.last(), Some(WatchEvent::Text { .. })) {
        events.push(
            within_timeout("the first piece", events_rx.recv())
                .await
                .unwrap(),
        );
    }
    zone.kill();
    open_gate(gate.path(), 2);
    open_gate(gate.path(), 3);
    zone.start().await;
    within_timeout("the watch to end", watching).await.unwrap();
    while let Ok(event) = events_rx.try_recv() {
        events.push(event);
    }
    assert!(
        matches!(events.last(), Some(WatchEvent::Completed(_))),
        "{events:#?}"
    );
    // The text of each run arrives once and without a gap.
    let mut runs: BTreeMap<u64, String> = BTreeMap::new();
    for event in &events {
        if let WatchEvent::Text { run, offset, delta } = event {
            let text = runs.entry(*run).or_default();
            assert_eq!(usize::try_from(*offset).unwrap(), text.len(), "{events:#?}");
            text.push_str(delta);
        }
    }
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!(runs.values().last().unwrap(), "piece 1;piece 2;piece 3;");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_answer_survives_crash() {
    let mut zone = ZoneBuilder::new()
        .with_worker()
        .set("work.lease", LONG_LEASE)
        .start()
        .await;
    let token = zone.token("anna");
    let gate = tempfile::tempdir().unwrap();
    let started = zone
        .call(&token, "stream.start", json!({"participants": ["worker"]}))
        .await;
    let stream = started["stream"]["streamId"].as_str().unwrap().to_owned();
    let subject = format!("streams/{stream}");
    let mut watch = zone.watch(&token, &subject, None).await;
    let message = super::zone_process::user_message(&format!("gate {} 3", gate.path().display()));
    zone.call(
        &token,
        "stream.message",
        json!({"streamId": stream, "message": message}),
    )
    .await;
    open_gate(gate.path(), 1);
    let by_agent = |event: &ReceivedSseEvent| event.params()["chunk"]["role"] == "agent";
    let mut events = watch.until(by_agent).await;
    zone.kill();
    while let Some(event) = watch.next().await {
        events.push(event);
    }
    open_gate(gate.path(), 2);
    open_gate(gate.path(), 3);
    zone.start().await;
    let mut again = zone.watch(&token, &subject, watch.last_event_id).await;
    events.extend(
        again
            .until(|event| by_agent(event) && event.params()["isLast"] == true)
            .await,
    );
    assert_in_order(&events);
    let chunks: Vec<&ReceivedSseEvent> =
        events.iter().filter(|e| e.name == "stream.chunk").collect();
    let numbers: Vec<u64> = chunks
        .iter()
        .map(|event| event.params()["sequence"].as_u64().unwrap())
        .collect();
    let expect: Vec<u64> = (1..).take(numbers.len()).collect();
    assert_eq!(numbers, expect, "no gap, no duplicate");
    let agent_text: String = chunks
        .iter()
        .filter(|event| by_agent(event))
        .map(|event| {
            event.params()["chunk"]["parts"][0]["content"]
                .as_str()
                .unwrap_or_default()
        })
        .collect();
    // The second run starts over; the text of the first one remains.
    assert!(
        agent_text.ends_with("piece 1;piece 2;piece 3;"),
        "{agent_text}"
    );
    zone.call(&token, "stream.end", json!({"streamId": stream}))
        .await;
    let replay = zone
        .watch(&token, &subject, Some(0))
        .await
        .remaining()
        .await;
    assert_eq!(replay[..events.len()], events, "replayed as received");
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_tasks_survive_crash_under_load() {
    let mut zone = ZoneBuilder::new()
        .set("work.lease", LONG_LEASE)
        .start()
        .await;
    let (created_tx, mut created_rx) = mpsc::unbounded_channel();
    let mut callers = Vec::new();
    for caller in 0..8 {
        let creator = TaskCreator::new(&zone.env, zone.address.port());
        let created_tx = created_tx.clone();
        callers.push(tokio::spawn(async move {
            // Until the zone is gone.
            while let Some(id) = creator.create(&format!("echo {caller}")).await {
                created_tx.send(id).unwrap();
            }
        }));
    }
    drop(created_tx);
    let mut ids = Vec::new();
    while ids.len() < 200 {
        ids.push(within_timeout("load", created_rx.recv()).await.unwrap());
    }
    zone.kill();
    for caller in callers {
        caller.await.unwrap();
    }
    while let Some(id) = created_rx.recv().await {
        ids.push(id);
    }
    zone.start().await;
    let token = zone.token("anna");
    for id in ids {
        let task = zone.wait_for_task(&token, &id).await;
        assert_eq!(task["status"], "COMPLETED", "{task}");
        assert_eq!(task["messages"].as_array().unwrap().len(), 2, "{task}");
    }
}

/// A process that an agent starts in its own session ends with the zone, however the zone ends.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn agent_child_processes_end_with_the_zone() {
    for killed in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let alive = folder.path().join("alive");
        let made = std::process::Command::new("mkfifo").arg(&alive).status();
        assert!(made.unwrap().success());
        let mut alive_end = tokio::net::unix::pipe::OpenOptions::new()
            .open_receiver(&alive)
            .unwrap();
        // The agent and a process that leaves its group both hold the pipe open.
        let script = format!(
            "exec 3>'{}'; setsid sh -c 'trap \"\" TERM HUP; sleep 600; sleep 601' & exec '{}' '{}'",
            alive.display(),
            python(),
            peer_path("agent.py").display(),
        );
        let command = vec!["sh".to_owned(), "-c".to_owned(), script];
        let setup = ZoneBuilder::new()
            .with_worker()
            .set_worker("command", command);
        let mut zone = setup.start().await;
        let token = zone.token("anna");
        let id = zone.create_task(&token, "worker", "echo hello").await;
        zone.wait_for_task(&token, &id).await;
        if killed {
            zone.kill();
        } else {
            zone.terminate();
            assert!(zone.wait_for_exit().await.success());
        }
        let mut nothing = Vec::new();
        let ended = alive_end.read_to_end(&mut nothing);
        within_timeout("the end of all processes", ended)
            .await
            .unwrap();
    }
}
