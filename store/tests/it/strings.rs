//! Values with every character, every size and every timestamp.

use crate::builders::{
    all_tasks, claim_key, commit, commit_at, create, create_stream, delivery_id, enqueue,
    enqueue_work, entry, event, json, long_after, outbox_claim, owner, push, put_push, stream,
    sub_id, subscribe, subscription, task, task_id, task_subject, time_at, user_message,
    work_claim,
};
use crate::engine::Engine;
use crate::snapshot::event_log;
use interzone_hub::ports::{EventRow, Op};
use interzone_hub::{
    DeliveryResult, EventBody, Offloaded, OutboxEntry, PushSubscription, Rate, Signal, SignalBody,
    Stream, Subject, Subscription, Task,
};
use interzone_protocol::vocab::{
    AgentId, Artifact, ArtifactId, ContextId, Message, Metadata, Part, PrincipalId, TaskId,
    Timestamp, Topic, VerbatimJson,
};
use std::collections::HashMap;
use std::time::Duration;

contract_tests!(
    ids_of_every_script_are_stored,
    text_with_nul_is_stored,
    free_text_is_stored_in_every_field,
    json_is_stored_byte_for_byte,
    huge_values_are_stored,
    empty_values_are_stored,
    similar_strings_are_different,
    extreme_timestamps_are_stored,
);

/// Ids: printable, and as unusual as that allows.
const IDS: &[&str] = &[
    "日本語の課題",
    "مهمة عبرية",
    "עברית",
    "🦀👩‍👩‍👧‍👦🏳️",
    "e\u{301}\u{302}\u{303}",
    "\u{10ffff}",
    "𝒳𝓎𝓏",
    "'; DROP TABLE tasks; --",
    "a/b\\c\"d'e`f",
    "%_?*[]",
    " leading and trailing ",
    "NULL",
    "0",
    "$1",
    "null",
];

/// Free texts, in addition.
const TEXTS: &[&str] = &[
    "",
    "\0",
    "a\0b",
    "\0\0",
    "line\nbreak\r\n\ttab",
    "\u{202e}turned around\u{202c}",
    "\u{feff}mark",
    "\\u0000",
    "\\x00",
    "\\",
    "\u{1}\u{7f}\u{85}\u{2028}",
];

fn printable(id: &&&str) -> bool {
    TaskId::new(**id).is_ok()
}

async fn ids_of_every_script_are_stored(on: Engine) {
    let store = on.node().await;
    let ids: Vec<&str> = IDS.iter().filter(printable).copied().collect();
    assert!(ids.len() > 10);
    for id in &ids {
        let stored = Task {
            context_id: ContextId::new(id).unwrap(),
            owner: owner(id),
            agent: AgentId::new(id).unwrap(),
            status_message: Some(user_message(id)),
            metadata: Some(
                Metadata::new(VerbatimJson::from_value(&HashMap::from([(id, id)])).unwrap())
                    .unwrap(),
            ),
            ..task(id)
        };
        let artifact = Artifact::new(ArtifactId::new(id).unwrap(), *id).with_part(Part::text(id));
        let ops = vec![
            create(&stored),
            create_stream(&stream(id)),
            Op::PutArtifact {
                task_id: task_id(id),
                artifact_id: ArtifactId::new(id).unwrap(),
                artifact: Offloaded::offload(artifact.clone()).0,
            },
            event(task_subject(id), 1),
            event(Subject::Stream(stream(id).id), 1),
            put_push(&push(id, id)),
            subscribe(&subscription(id)),
            enqueue(&entry(id)),
            enqueue_work(id),
        ];
        store.commit(commit(ops)).await.unwrap();
        assert_eq!(store.task(&stored.id).await.unwrap(), Some(stored.clone()));
        let artifacts = store.artifacts(&stored.id).await.unwrap();
        assert_eq!(artifacts[0].inline(), &artifact);
        assert_eq!(
            store.push_subscriptions(&stored.id).await.unwrap(),
            [push(id, id)]
        );
        let read = store.stream(&stream(id).id).await.unwrap();
        assert_eq!(read, Some(stream(id)));
        let read = store.subscription(&sub_id(id)).await.unwrap();
        assert_eq!(read, Some(subscription(id)));
        assert_eq!(event_log(&*store, &task_subject(id)).await.len(), 1);
        let query = interzone_hub::TaskQuery {
            owner: Some(owner(id)),
            agent: Some(stored.agent.clone()),
            context_id: Some(stored.context_id.clone()),
            ..all_tasks()
        };
        assert_eq!(store.tasks(&query).await.unwrap(), [stored]);
    }
    let items = store
        .claim_work(&work_claim("n", 99, time_at(0)))
        .await
        .unwrap();
    let claimed: Vec<_> = items.iter().map(|item| item.task_id.as_str()).collect();
    assert_eq!(claimed, ids);
}

async fn text_with_nul_is_stored(on: Engine) {
    let store = on.node().await;
    let message = Offloaded::offload(Message::user_text("a\0b")).0;
    let stored = Task {
        status_message: Some(message.clone()),
        metadata: Some(Metadata::new(json(r#"{"\u0000":"\u0000"}"#)).unwrap()),
        ..task("t")
    };
    let body = EventBody::Text {
        run: u64::MAX >> 1,
        answers: Some(u32::MAX),
        offset: 0,
        delta: "\0".to_owned(),
    };
    let ops = vec![
        create(&stored),
        Op::AddMessage {
            task_id: stored.id.clone(),
            index: 0,
            message: message.clone(),
        },
        Op::AppendEvent(EventRow {
            subject: task_subject("t"),
            seq: 1,
            generation: None,
            body: body.clone(),
        }),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.task(&stored.id).await.unwrap(), Some(stored.clone()));
    assert_eq!(store.messages(&stored.id, 0..9).await.unwrap(), [message]);
    assert_eq!(event_log(&*store, &task_subject("t")).await[0].body, body);
}

async fn free_text_is_stored_in_every_field(on: Engine) {
    let store = on.node().await;
    let rate = Rate {
        limit: 1,
        window: Duration::from_secs(1),
    };
    for (number, text) in TEXTS.iter().chain(IDS).enumerate() {
        let text = (*text).to_owned();
        let id = format!("x{number}");
        let stream = Stream {
            participants: vec![text.clone(), text.clone()],
            ..stream(&id)
        };
        let push = PushSubscription {
            channel: text.clone(),
            events: vec![text.clone()],
            format: text.clone(),
            secrets: Some(interzone_hub::SealedSecrets::new(&text)),
            ..push(&id, &id)
        };
        let entry = OutboxEntry {
            channel: text.clone(),
            key: text.clone(),
            group: Some(text.clone()),
            ..entry(&id)
        };
        let ops = vec![
            create(&task(&id)),
            create_stream(&stream),
            put_push(&push),
            enqueue(&entry),
            claim_key(&text, &text, time_at(10)),
            enqueue_work(&id),
        ];
        store.commit(commit(ops)).await.unwrap();
        let read = store.stream(&stream.id).await.unwrap();
        assert_eq!(read, Some(stream), "{text:?}");
        assert_eq!(
            store.push_subscriptions(&task_id(&id)).await.unwrap(),
            [push]
        );
        let taken = store.claimed_value(&text, time_at(0)).await.unwrap();
        assert_eq!(taken.as_ref(), Some(&text));
        let again = store
            .commit(commit(vec![claim_key(&text, "", time_at(10))]))
            .await;
        match again {
            Err(interzone_hub::ports::StoreError::KeyTaken { key, value }) => {
                assert_eq!((&key, &value), (&text, &text));
            }
            other => panic!("{text:?}: {other:?}"),
        }
        // The node's name is part of the fence, and the error of an attempt is returned with the next.
        let items = store
            .claim_work(&work_claim(&text, 9, time_at(0)))
            .await
            .unwrap();
        assert_eq!(items.len(), 1, "{text:?}");
        let fenced = interzone_hub::ports::Commit {
            fence: Some(crate::builders::fence(&items[0], &text)),
            ..commit(Vec::new())
        };
        store.commit(fenced).await.unwrap();
        let channels = [text.clone()];
        let claimed = store
            .claim_outbox(&outbox_claim(&channels, time_at(0), time_at(9), 9))
            .await
            .unwrap();
        assert_eq!(claimed.len(), 1, "{text:?}");
        assert_eq!(claimed[0].key, text);
        assert_eq!(claimed[0].group.as_ref(), Some(&text));
        let dead = DeliveryResult::Dead {
            error: text.clone(),
        };
        assert!(
            store
                .settle_outbox(&delivery_id(&id), 1, &dead, time_at(1))
                .await
                .unwrap()
        );
        let query = interzone_hub::ports::DeadLetterQuery {
            channel: Some(text.clone()),
            owner: None,
            limit: 9,
        };
        let dead_entries = store.dead_letters(&query).await.unwrap();
        assert_eq!(dead_entries.len(), 1, "{text:?}");
        assert_eq!(dead_entries[0].error.as_ref(), Some(&text));
        store.charge(&text, rate, 1, time_at(0)).await.unwrap();
    }
}

async fn json_is_stored_byte_for_byte(on: Engine) {
    let store = on.node().await;
    let texts = [
        r#"{ "a" : 1.0e+05 ,"a":2,  "b":[ ] }"#,
        r#"{"n":123456789012345678901234567890.000000000000000000001}"#,
        r#"{"n":1e9999}"#,
        r#"{"\ud83e\udd80":"\u00e9\/\b","lone":"\ud800"}"#,
        "{\n\t\"a\":\r\n null }",
    ];
    let ops = vec![create(&task("t")), subscribe(&subscription("s"))];
    store.commit(commit(ops)).await.unwrap();
    for (number, text) in texts.into_iter().enumerate() {
        let id = format!("x{number}");
        let value = json(text);
        let metadata = Some(Metadata::new(value.clone()).unwrap());
        let stored = Task {
            metadata: metadata.clone(),
            ..task(&id)
        };
        let stream = Stream {
            metadata,
            ..stream(&id)
        };
        let push = PushSubscription {
            target: value.clone(),
            ..push("t", &id)
        };
        let entry = OutboxEntry {
            payload: value.clone(),
            ..entry(&id)
        };
        let about = Subscription {
            dialect_data: Some(value.clone()),
            ..subscription(&id)
        };
        let signal = Signal {
            body: SignalBody::Sent(value.clone()),
            ..crate::builders::signal(&id)
        };
        let part = Message::single(
            interzone_protocol::vocab::Role::User,
            Part::data(value.clone()),
        );
        let part = Offloaded::offload(part).0;
        let ops = vec![
            create(&stored),
            create_stream(&stream),
            put_push(&push),
            enqueue(&entry),
            subscribe(&about),
            Op::AddMessage {
                task_id: stored.id.clone(),
                index: 0,
                message: part.clone(),
            },
            Op::Publish {
                signal: Box::new(signal.clone()),
                to: vec![sub_id("s")],
            },
        ];
        store.commit(commit(ops)).await.unwrap();
        assert_eq!(store.task(&stored.id).await.unwrap(), Some(stored.clone()));
        assert_eq!(store.stream(&stream.id).await.unwrap(), Some(stream));
        let pushes = store.push_subscriptions(&task_id("t")).await.unwrap();
        assert!(pushes.contains(&push), "{text}");
        let claimed = store
            .claim_outbox(&outbox_claim(
                &crate::builders::web_channel(),
                time_at(0),
                time_at(9),
                9,
            ))
            .await;
        assert_eq!(claimed.unwrap()[0].payload, value, "{text}");
        assert_eq!(store.subscription(&about.id).await.unwrap(), Some(about));
        assert_eq!(store.messages(&stored.id, 0..1).await.unwrap(), [part]);
        let after = u64::try_from(number).unwrap();
        let signals = store.unacked_signals(&sub_id("s"), after, 9).await.unwrap();
        assert_eq!(signals[0].signal, signal);
    }
}

async fn huge_values_are_stored(on: Engine) {
    let store = on.node().await;
    let long = "é".repeat(128);
    assert_eq!(long.len(), 256);
    let million = "🦀".repeat(250_000);
    let value = VerbatimJson::from_value(&million).unwrap();
    let object = json(&format!("{{\"m\":{}}}", value.as_str()));
    let stored = Task {
        context_id: ContextId::new(&long).unwrap(),
        owner: PrincipalId::new(&long).unwrap(),
        metadata: Some(Metadata::new(object).unwrap()),
        ..task(&long)
    };
    let entry = OutboxEntry {
        payload: value.clone(),
        ..entry(&long)
    };
    let body = EventBody::Status {
        text: million.clone(),
    };
    let ops = vec![
        create(&stored),
        enqueue(&entry),
        subscribe(&subscription(&long)),
        Op::AppendEvent(EventRow {
            subject: task_subject(&long),
            seq: 1,
            generation: None,
            body: body.clone(),
        }),
        Op::Publish {
            signal: Box::new(Signal {
                topic: Topic::new("a".repeat(255)).unwrap(),
                body: SignalBody::Sent(value.clone()),
                ..crate::builders::signal(&long)
            }),
            to: vec![sub_id(&long)],
        },
        // Callers choose these: an idempotency key may have any length.
        claim_key(&"k".repeat(10_000), &million, time_at(10)),
        enqueue_work(&long),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert!(store.task(&stored.id).await.unwrap() == Some(stored));
    assert!(event_log(&*store, &task_subject(&long)).await[0].body == body);
    let claimed = store
        .claim_outbox(&outbox_claim(
            &crate::builders::web_channel(),
            time_at(0),
            time_at(9),
            9,
        ))
        .await;
    assert!(claimed.unwrap()[0].payload == value);
    let signals = store.unacked_signals(&sub_id(&long), 0, 9).await.unwrap();
    assert!(signals[0].signal.body == SignalBody::Sent(value));
    let taken = store
        .claimed_value(&"k".repeat(10_000), time_at(0))
        .await
        .unwrap();
    assert!(taken == Some(million.clone()));
    let other = store
        .claimed_value(&"k".repeat(9_999), time_at(0))
        .await
        .unwrap();
    assert_eq!(other, None);
    let dead = DeliveryResult::Dead { error: million };
    let id = delivery_id(&long);
    assert!(
        store
            .settle_outbox(&id, 1, &dead, time_at(1))
            .await
            .unwrap()
    );
}

async fn empty_values_are_stored(on: Engine) {
    let store = on.node().await;
    let nothing = Offloaded::offload(Message::user_text("")).0;
    let entry = OutboxEntry {
        channel: String::new(),
        key: String::new(),
        group: Some(String::new()),
        payload: json("\"\""),
        ..entry("e")
    };
    let ops = vec![
        create(&task("t")),
        Op::AddMessage {
            task_id: task_id("t"),
            index: 0,
            message: nothing.clone(),
        },
        enqueue(&entry),
        claim_key("", "", time_at(10)),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(
        store.messages(&task_id("t"), 0..9).await.unwrap(),
        [nothing]
    );
    let taken = store.claimed_value("", time_at(0)).await.unwrap();
    assert_eq!(taken.as_deref(), Some(""), "an empty value is a value");
    let channels = [String::new()];
    let claimed = store
        .claim_outbox(&outbox_claim(&channels, time_at(0), time_at(9), 9))
        .await
        .unwrap();
    assert_eq!(claimed[0].group.as_deref(), Some(""));
    let retry = DeliveryResult::Retry {
        due_at: time_at(20),
        error: String::new(),
    };
    assert!(
        store
            .settle_outbox(&delivery_id("e"), 1, &retry, time_at(1))
            .await
            .unwrap()
    );
    let claimed = store
        .claim_outbox(&outbox_claim(&channels, time_at(20), time_at(29), 9))
        .await
        .unwrap();
    assert_eq!(
        claimed[0].error.as_deref(),
        Some(""),
        "an empty error is one"
    );
}

async fn similar_strings_are_different(on: Engine) {
    let store = on.node().await;
    let alike = [
        "é", "e\u{301}", "E", "e", "e ", " e", "É", "ｅ", "ß", "ss", "ﬁ", "fi",
    ];
    let ops = alike.iter().map(|id| create(&task(id))).collect();
    store.commit(commit(ops)).await.unwrap();
    let ops = alike
        .iter()
        .map(|id| claim_key(id, id, time_at(10)))
        .collect();
    store.commit(commit(ops)).await.unwrap();
    for id in alike {
        let read = store.task(&task_id(id)).await.unwrap();
        assert_eq!(read, Some(task(id)));
        let taken = store.claimed_value(id, time_at(0)).await.unwrap();
        assert_eq!(taken.as_deref(), Some(id));
    }
    assert_eq!(store.count_tasks(&all_tasks()).await.unwrap(), 12);
}

async fn extreme_timestamps_are_stored(on: Engine) {
    let store = on.node().await;
    let first = Timestamp::from_millis(i64::MIN);
    let last = Timestamp::from_millis(i64::MAX);
    let timestamps = [
        first,
        Timestamp::from_millis(-1),
        Timestamp::from_millis(0),
        Timestamp::from_millis(i64::from(i32::MAX) + 1),
        last,
    ];
    for (number, timestamp) in timestamps.into_iter().enumerate() {
        let id = format!("t{number}");
        let stored = Task {
            created_at: timestamp,
            updated_at: timestamp,
            finished_at: Some(timestamp),
            ..task(&id)
        };
        let entry = OutboxEntry {
            created_at: timestamp,
            due_at: timestamp,
            ..entry(&id)
        };
        let ops = vec![
            create(&stored),
            enqueue(&entry),
            event(task_subject(&id), 1),
            claim_key(&id, "v", timestamp),
        ];
        store.commit(commit_at(timestamp, ops)).await.unwrap();
        assert_eq!(store.task(&stored.id).await.unwrap(), Some(stored));
        assert_eq!(
            event_log(&*store, &task_subject(&id)).await[0].at,
            timestamp
        );
    }
    let listed = store.tasks(&all_tasks()).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["t4", "t3", "t2", "t1", "t0"]);
    let due = store
        .claim_outbox(&outbox_claim(
            &crate::builders::web_channel(),
            time_at(0),
            last,
            9,
        ))
        .await
        .unwrap();
    assert_eq!(due.len(), 4, "the last is not due before the end");
    let due = store
        .claim_outbox(&outbox_claim(
            &crate::builders::web_channel(),
            long_after(),
            last,
            9,
        ))
        .await;
    assert_eq!(due.unwrap(), [], "leased until the end of time");
    let claim = interzone_hub::ports::WorkClaim {
        lease: last.duration_since(first),
        ..work_claim("n", 9, first)
    };
    let ops = vec![crate::builders::enqueue_work_for(
        "t0",
        "agent",
        interzone_protocol::vocab::Priority::Normal,
        first,
    )];
    store.commit(commit_at(first, ops)).await.unwrap();
    assert_eq!(store.claim_work(&claim).await.unwrap().len(), 1);
    let rate = Rate {
        limit: u32::MAX,
        window: Duration::MAX,
    };
    for timestamp in timestamps {
        store.charge("k", rate, u32::MAX, timestamp).await.unwrap();
    }
}
