//! Power cuts: the zone is killed in mid-task and started again. Tasks finish, watchers go on where
//! they were, nothing that was said is unsaid.

use super::agents::file_appears;
use super::nodes::Reach;
#[cfg(target_os = "linux")]
use super::peers::{program, python};
use super::soon;
use super::streams::{in_order, logged, told};
use super::watching::Event;
use super::zone::{Setup, Zone};
use interzone_client::{Client, Credentials, Watched};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
#[cfg(target_os = "linux")]
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

/// Far longer than a test may last: on a file of its own, a zone that comes back waits for no lease.
const LEASE: &str = "10m";

fn open(gate: &Path, number: u32) {
    fs::write(gate.join(number.to_string()), "").unwrap();
}

async fn killed_in_mid_task(mut zone: Zone) {
    let token = zone.token("anna");
    let gate = tempfile::tempdir().unwrap();
    let id = zone
        .create(
            &token,
            "worker",
            &format!("gate {} 4", gate.path().display()),
        )
        .await;
    let subject = format!("tasks/{id}");
    let mut watch = zone.watch(&token, &subject, None).await;
    let mut seen = watch
        .until(|event| event.name == "interzone.task.status")
        .await;
    open(gate.path(), 1);
    seen.extend(
        watch
            .until(|event| event.name == "interzone.task.text")
            .await,
    );
    // More that nobody has begun yet, and a stream that is open.
    let waiting: Vec<String> = {
        let mut ids = Vec::new();
        for number in 0..5 {
            ids.push(
                zone.create(&token, "demo", &format!("echo number {number}"))
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
    // What was on its way still arrives, then the connection is gone.
    while let Some(event) = watch.next().await {
        seen.push(event);
    }
    for number in 2..=4 {
        open(gate.path(), number);
    }
    zone.begin().await;

    let rest = zone.watch(&token, &subject, watch.last).await.rest().await;
    seen.extend(rest);
    in_order(&seen);
    let task = zone.task(&token, &id).await;
    assert_eq!(task["status"], "COMPLETED", "{task}");
    let replay = zone.watch(&token, &subject, Some(0)).await.rest().await;
    let with_place = |events| -> Vec<_> {
        logged(events)
            .into_iter()
            .filter(|event| event.id.is_some())
            .cloned()
            .collect()
    };
    assert_eq!(with_place(&seen), with_place(&replay), "no gap, no double");
    // What the first run said may not all have been kept, but no more was kept than was said.
    let (live, kept) = (told(&seen), told(&replay));
    for (run, text) in &kept {
        assert!(
            live[run].starts_with(text.as_str()),
            "{run}: {live:?} {kept:?}"
        );
    }
    let whole = "piece 1;piece 2;piece 3;piece 4;";
    assert!(kept.values().any(|text| text == whole), "{kept:?}");
    let answers = task["messages"].as_array().unwrap();
    let answers: Vec<_> = answers
        .iter()
        .filter(|message| message["role"] == "agent")
        .collect();
    assert_eq!(answers.len(), 1, "one answer: {task}");
    assert_eq!(answers[0]["parts"][0]["content"], whole);
    let begun = fs::read_dir(gate.path()).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("began-")
    });
    assert_eq!(begun.count(), 2, "begun twice, once by each process");

    for id in waiting {
        assert_eq!(zone.finished(&token, &id).await["status"], "COMPLETED");
    }
    let message = super::zone::said("echo after the cut");
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
async fn a_task_survives_a_power_cut() {
    let zone = Setup::new()
        .with_worker()
        .set("work.lease", LEASE)
        .start()
        .await;
    killed_in_mid_task(zone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_survives_a_power_cut_on_postgres() {
    let zone = super::nodes::on_postgres(Setup::new().with_worker(), "cut")
        .start()
        .await;
    killed_in_mid_task(zone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_takes_its_zone_along_is_given_up() {
    let mut zone = Setup::new()
        .with_worker()
        .set("work.lease", LEASE)
        .set("work.attempts", 2)
        .start()
        .await;
    let token = zone.token("anna");
    let id = zone
        .create(
            &token,
            "worker",
            &format!("hang {}", zone.world.path("first").display()),
        )
        .await;
    file_appears(&zone.world.path("first")).await;
    zone.kill();
    fs::remove_file(zone.world.path("first")).unwrap();
    zone.begin().await;
    file_appears(&zone.world.path("first")).await;
    zone.kill();
    zone.begin().await;
    let task = zone.finished(&token, &id).await;
    assert_eq!(task["status"], "FAILED", "{task}");
    zone.serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_watches_through_a_power_cut() {
    let mut zone = Setup::new()
        .with_worker()
        .set("work.lease", LEASE)
        .start()
        .await;
    let token = zone.token("anna");
    let gate = tempfile::tempdir().unwrap();
    let id = zone
        .create(
            &token,
            "worker",
            &format!("gate {} 3", gate.path().display()),
        )
        .await;
    let client = Client::builder(&zone.url)
        .ca_file(zone.world.ca())
        .credentials(Credentials::Bearer(token.clone().into()))
        .build()
        .unwrap();
    let mut watch = client.watch_task(&id, None);
    let (tell, mut told) = mpsc::unbounded_channel();
    let watching = tokio::spawn(async move {
        while let Some(event) = watch.next().await {
            tell.send(event.expect("a break on the way is mended"))
                .unwrap();
        }
    });
    open(gate.path(), 1);
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(Watched::Text { .. })) {
        seen.push(soon("the first piece", told.recv()).await.unwrap());
    }
    zone.kill();
    open(gate.path(), 2);
    open(gate.path(), 3);
    zone.begin().await;
    soon("the watch to end", watching).await.unwrap();
    while let Ok(event) = told.try_recv() {
        seen.push(event);
    }
    assert!(
        matches!(seen.last(), Some(Watched::Completed(_))),
        "{seen:#?}"
    );
    // The text of each run is told once and without a gap.
    let mut runs: BTreeMap<u64, String> = BTreeMap::new();
    for event in &seen {
        if let Watched::Text { run, offset, delta } = event {
            let text = runs.entry(*run).or_default();
            assert_eq!(usize::try_from(*offset).unwrap(), text.len(), "{seen:#?}");
            text.push_str(delta);
        }
    }
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!(runs.values().last().unwrap(), "piece 1;piece 2;piece 3;");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_on_a_stream_survives_a_power_cut() {
    let mut zone = Setup::new()
        .with_worker()
        .set("work.lease", LEASE)
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
    let message = super::zone::said(&format!("gate {} 3", gate.path().display()));
    zone.call(
        &token,
        "stream.message",
        json!({"streamId": stream, "message": message}),
    )
    .await;
    open(gate.path(), 1);
    let by_agent = |event: &Event| event.params()["chunk"]["role"] == "agent";
    let mut seen = watch.until(by_agent).await;
    zone.kill();
    while let Some(event) = watch.next().await {
        seen.push(event);
    }
    open(gate.path(), 2);
    open(gate.path(), 3);
    zone.begin().await;
    let mut again = zone.watch(&token, &subject, watch.last).await;
    seen.extend(
        again
            .until(|event| by_agent(event) && event.params()["isLast"] == true)
            .await,
    );
    in_order(&seen);
    let chunks: Vec<&Event> = seen.iter().filter(|e| e.name == "stream.chunk").collect();
    let numbers: Vec<u64> = chunks
        .iter()
        .map(|event| event.params()["sequence"].as_u64().unwrap())
        .collect();
    let expect: Vec<u64> = (1..).take(numbers.len()).collect();
    assert_eq!(numbers, expect, "no gap, no double");
    let said: String = chunks
        .iter()
        .filter(|event| by_agent(event))
        .map(|event| {
            event.params()["chunk"]["parts"][0]["content"]
                .as_str()
                .unwrap_or_default()
        })
        .collect();
    // The second run begins anew; what the first had said stays said.
    assert!(said.ends_with("piece 1;piece 2;piece 3;"), "{said}");
    zone.call(&token, "stream.end", json!({"streamId": stream}))
        .await;
    let replay = zone.watch(&token, &subject, Some(0)).await.rest().await;
    assert_eq!(replay[..seen.len()], seen, "replayed as it was seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_power_cut_under_load() {
    let mut zone = Setup::new().set("work.lease", LEASE).start().await;
    let (acknowledged, mut made) = mpsc::unbounded_channel();
    let mut callers = Vec::new();
    for caller in 0..8 {
        let reach = Reach::new(&zone.world, zone.address.port());
        let acknowledged = acknowledged.clone();
        callers.push(tokio::spawn(async move {
            // Until the zone is gone.
            while let Some(id) = reach.create(&format!("echo {caller}")).await {
                acknowledged.send(id).unwrap();
            }
        }));
    }
    drop(acknowledged);
    let mut ids = Vec::new();
    while ids.len() < 200 {
        ids.push(soon("load", made.recv()).await.unwrap());
    }
    zone.kill();
    for caller in callers {
        caller.await.unwrap();
    }
    while let Some(id) = made.recv().await {
        ids.push(id);
    }
    zone.begin().await;
    let token = zone.token("anna");
    for id in ids {
        let task = zone.finished(&token, &id).await;
        assert_eq!(task["status"], "COMPLETED", "{task}");
        assert_eq!(task["messages"].as_array().unwrap().len(), 2, "{task}");
    }
}

/// A process that a program starts in a session of its own ends with the zone, however that ends.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn what_programs_have_started_ends_with_the_zone() {
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
            program("agent.py").display(),
        );
        let command = vec!["sh".to_owned(), "-c".to_owned(), script];
        let setup = Setup::new().with_worker().set_worker("command", command);
        let mut zone = setup.start().await;
        let token = zone.token("anna");
        let id = zone.create(&token, "worker", "echo hello").await;
        zone.finished(&token, &id).await;
        if killed {
            zone.kill();
        } else {
            zone.ask_to_stop();
            assert!(zone.ended().await.success());
        }
        let mut nothing = Vec::new();
        let ended = alive_end.read_to_end(&mut nothing);
        soon("the end of all processes", ended).await.unwrap();
    }
}
