//! Every character, every size and every moment that a value may have.

use crate::engine::Engine;
use crate::make::{
    all_tasks, at, carry_wish, commit, commit_at, create, create_stream, delivery_id, enqueue,
    entry, event, json, key, long_after, of_task, owner, push, put_push, queue, said, stream,
    sub_id, subscribe, subscription, task, task_id, wish,
};
use crate::snapshot::log;
use interzone_hub::ports::{EventRow, Op};
use interzone_hub::{
    EventBody, OutboxEntry, Packed, Push, Rate, Settlement, Signal, SignalBody, Stream, Subject,
    Subscription, Task,
};
use interzone_protocol::vocab::{
    AgentId, Artifact, ArtifactId, ContextId, Json, Message, Metadata, Part, PrincipalId, TaskId,
    Timestamp, Topic,
};
use std::collections::HashMap;
use std::time::Duration;

contract!(
    of_every_script_are_kept,
    with_nul_are_kept,
    of_free_text_are_kept_wherever_they_stand,
    of_json_are_kept_letter_for_letter,
    that_are_huge_are_kept,
    that_are_empty_are_kept,
    that_look_alike_are_different,
    of_the_first_and_last_moment_are_kept,
);

/// What an id may be: printable, and as strange as that allows.
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

/// What free text may be, on top of that.
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

async fn of_every_script_are_kept(on: Engine) {
    let store = on.node().await;
    let ids: Vec<&str> = IDS.iter().filter(printable).copied().collect();
    assert!(ids.len() > 10);
    for id in &ids {
        let whole = Task {
            context_id: ContextId::new(id).unwrap(),
            owner: owner(id),
            agent: AgentId::new(id).unwrap(),
            status: Some(said(id)),
            metadata: Some(Metadata::new(Json::of(&HashMap::from([(id, id)])).unwrap()).unwrap()),
            ..task(id)
        };
        let artifact = Artifact::new(ArtifactId::new(id).unwrap(), *id).with_part(Part::text(id));
        let ops = vec![
            create(&whole),
            create_stream(&stream(id)),
            Op::PutArtifact {
                task_id: task_id(id),
                artifact_id: ArtifactId::new(id).unwrap(),
                artifact: Packed::pack(artifact.clone()).0,
            },
            event(of_task(id), 1),
            event(Subject::Stream(stream(id).id), 1),
            put_push(&push(id, id)),
            subscribe(&subscription(id)),
            enqueue(&entry(id)),
            queue(id),
        ];
        store.commit(commit(ops)).await.unwrap();
        assert_eq!(store.task(&whole.id).await.unwrap(), Some(whole.clone()));
        let artifacts = store.artifacts(&whole.id).await.unwrap();
        assert_eq!(artifacts[0].without_large(), &artifact);
        assert_eq!(store.pushes(&whole.id).await.unwrap(), [push(id, id)]);
        let read = store.stream(&stream(id).id).await.unwrap();
        assert_eq!(read, Some(stream(id)));
        let read = store.subscription(&sub_id(id)).await.unwrap();
        assert_eq!(read, Some(subscription(id)));
        assert_eq!(log(&*store, &of_task(id)).await.len(), 1);
        let query = interzone_hub::TaskQuery {
            owner: Some(owner(id)),
            agent: Some(whole.agent.clone()),
            context_id: Some(whole.context_id.clone()),
            ..all_tasks()
        };
        assert_eq!(store.tasks(&query).await.unwrap(), [whole]);
    }
    let items = store.claim_work(&wish("n", 99, at(0))).await.unwrap();
    let claimed: Vec<_> = items.iter().map(|item| item.task_id.as_str()).collect();
    assert_eq!(claimed, ids);
}

async fn with_nul_are_kept(on: Engine) {
    let store = on.node().await;
    let said = Packed::pack(Message::user_text("a\0b")).0;
    let whole = Task {
        status: Some(said.clone()),
        metadata: Some(Metadata::new(json(r#"{"\u0000":"\u0000"}"#)).unwrap()),
        ..task("t")
    };
    let body = EventBody::Text {
        run: u64::MAX >> 1,
        offset: 0,
        delta: "\0".to_owned(),
    };
    let ops = vec![
        create(&whole),
        Op::AddMessage {
            task_id: whole.id.clone(),
            index: 0,
            message: said.clone(),
        },
        Op::AppendEvent(EventRow {
            subject: of_task("t"),
            seq: 1,
            body: body.clone(),
        }),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.task(&whole.id).await.unwrap(), Some(whole.clone()));
    assert_eq!(store.messages(&whole.id, 0..9).await.unwrap(), [said]);
    assert_eq!(log(&*store, &of_task("t")).await[0].body, body);
}

async fn of_free_text_are_kept_wherever_they_stand(on: Engine) {
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
        let push = Push {
            channel: text.clone(),
            events: vec![text.clone()],
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
            key(&text, &text, at(10)),
            queue(&id),
        ];
        store.commit(commit(ops)).await.unwrap();
        let read = store.stream(&stream.id).await.unwrap();
        assert_eq!(read, Some(stream), "{text:?}");
        assert_eq!(store.pushes(&task_id(&id)).await.unwrap(), [push]);
        let taken = store.claimed(&text, at(0)).await.unwrap();
        assert_eq!(taken.as_ref(), Some(&text));
        let again = store.commit(commit(vec![key(&text, "", at(10))])).await;
        match again {
            Err(interzone_hub::ports::StoreError::Claimed { key, value }) => {
                assert_eq!((&key, &value), (&text, &text));
            }
            other => panic!("{text:?}: {other:?}"),
        }
        // The node's name proves a claim, and the error of an attempt is told with the next.
        let items = store.claim_work(&wish(&text, 9, at(0))).await.unwrap();
        assert_eq!(items.len(), 1, "{text:?}");
        let fenced = interzone_hub::ports::Commit {
            fence: Some(crate::make::fence(&items[0], &text)),
            ..commit(Vec::new())
        };
        store.commit(fenced).await.unwrap();
        let channels = [text.clone()];
        let claimed = store
            .claim_outbox(&carry_wish(&channels, at(0), at(9), 9))
            .await
            .unwrap();
        assert_eq!(claimed.len(), 1, "{text:?}");
        assert_eq!(claimed[0].key, text);
        assert_eq!(claimed[0].group.as_ref(), Some(&text));
        let dead = Settlement::Dead {
            error: text.clone(),
        };
        assert!(
            store
                .settle_outbox(&delivery_id(&id), 1, &dead, at(1))
                .await
                .unwrap()
        );
        let query = interzone_hub::ports::DeadLetterQuery {
            channel: Some(text.clone()),
            owner: None,
            limit: 9,
        };
        let letters = store.dead_letters(&query).await.unwrap();
        assert_eq!(letters.len(), 1, "{text:?}");
        assert_eq!(letters[0].error.as_ref(), Some(&text));
        store.charge(&text, rate, 1, at(0)).await.unwrap();
    }
}

async fn of_json_are_kept_letter_for_letter(on: Engine) {
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
        let push = Push {
            target: value.clone(),
            ..push("t", &id)
        };
        let entry = OutboxEntry {
            payload: value.clone(),
            ..entry(&id)
        };
        let about = Subscription {
            about: Some(value.clone()),
            ..subscription(&id)
        };
        let signal = Signal {
            body: SignalBody::Sent(value.clone()),
            ..crate::make::signal(&id)
        };
        let part = Message::single(
            interzone_protocol::vocab::Role::User,
            Part::data(value.clone()),
        );
        let part = Packed::pack(part).0;
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
        let pushes = store.pushes(&task_id("t")).await.unwrap();
        assert!(pushes.contains(&push), "{text}");
        let claimed = store
            .claim_outbox(&carry_wish(&crate::make::web(), at(0), at(9), 9))
            .await;
        assert_eq!(claimed.unwrap()[0].payload, value, "{text}");
        assert_eq!(store.subscription(&about.id).await.unwrap(), Some(about));
        assert_eq!(store.messages(&stored.id, 0..1).await.unwrap(), [part]);
        let after = u64::try_from(number).unwrap();
        let signals = store.unacked_signals(&sub_id("s"), after, 9).await.unwrap();
        assert_eq!(signals[0].signal, signal);
    }
}

async fn that_are_huge_are_kept(on: Engine) {
    let store = on.node().await;
    let long = "é".repeat(128);
    assert_eq!(long.len(), 256);
    let million = "🦀".repeat(250_000);
    let value = Json::of(&million).unwrap();
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
            subject: of_task(&long),
            seq: 1,
            body: body.clone(),
        }),
        Op::Publish {
            signal: Box::new(Signal {
                topic: Topic::new("a".repeat(255)).unwrap(),
                body: SignalBody::Sent(value.clone()),
                ..crate::make::signal(&long)
            }),
            to: vec![sub_id(&long)],
        },
        // Callers make these: a key of idempotency may be as long as they like.
        key(&"k".repeat(10_000), &million, at(10)),
        queue(&long),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert!(store.task(&stored.id).await.unwrap() == Some(stored));
    assert!(log(&*store, &of_task(&long)).await[0].body == body);
    let claimed = store
        .claim_outbox(&carry_wish(&crate::make::web(), at(0), at(9), 9))
        .await;
    assert!(claimed.unwrap()[0].payload == value);
    let signals = store.unacked_signals(&sub_id(&long), 0, 9).await.unwrap();
    assert!(signals[0].signal.body == SignalBody::Sent(value));
    let taken = store.claimed(&"k".repeat(10_000), at(0)).await.unwrap();
    assert!(taken == Some(million.clone()));
    let other = store.claimed(&"k".repeat(9_999), at(0)).await.unwrap();
    assert_eq!(other, None);
    let dead = Settlement::Dead { error: million };
    let id = delivery_id(&long);
    assert!(store.settle_outbox(&id, 1, &dead, at(1)).await.unwrap());
}

async fn that_are_empty_are_kept(on: Engine) {
    let store = on.node().await;
    let nothing = Packed::pack(Message::user_text("")).0;
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
        key("", "", at(10)),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(
        store.messages(&task_id("t"), 0..9).await.unwrap(),
        [nothing]
    );
    let taken = store.claimed("", at(0)).await.unwrap();
    assert_eq!(taken.as_deref(), Some(""), "taken for nothing is taken");
    let channels = [String::new()];
    let claimed = store
        .claim_outbox(&carry_wish(&channels, at(0), at(9), 9))
        .await
        .unwrap();
    assert_eq!(claimed[0].group.as_deref(), Some(""));
    let retry = Settlement::Retry {
        due_at: at(20),
        error: String::new(),
    };
    assert!(
        store
            .settle_outbox(&delivery_id("e"), 1, &retry, at(1))
            .await
            .unwrap()
    );
    let claimed = store
        .claim_outbox(&carry_wish(&channels, at(20), at(29), 9))
        .await
        .unwrap();
    assert_eq!(
        claimed[0].error.as_deref(),
        Some(""),
        "an empty error is one"
    );
}

async fn that_look_alike_are_different(on: Engine) {
    let store = on.node().await;
    let alike = [
        "é", "e\u{301}", "E", "e", "e ", " e", "É", "ｅ", "ß", "ss", "ﬁ", "fi",
    ];
    let ops = alike.iter().map(|id| create(&task(id))).collect();
    store.commit(commit(ops)).await.unwrap();
    let ops = alike.iter().map(|id| key(id, id, at(10))).collect();
    store.commit(commit(ops)).await.unwrap();
    for id in alike {
        let read = store.task(&task_id(id)).await.unwrap();
        assert_eq!(read, Some(task(id)));
        let taken = store.claimed(id, at(0)).await.unwrap();
        assert_eq!(taken.as_deref(), Some(id));
    }
    assert_eq!(store.count_tasks(&all_tasks()).await.unwrap(), 12);
}

async fn of_the_first_and_last_moment_are_kept(on: Engine) {
    let store = on.node().await;
    let first = Timestamp::from_millis(i64::MIN);
    let last = Timestamp::from_millis(i64::MAX);
    let moments = [
        first,
        Timestamp::from_millis(-1),
        Timestamp::from_millis(0),
        Timestamp::from_millis(i64::from(i32::MAX) + 1),
        last,
    ];
    for (number, moment) in moments.into_iter().enumerate() {
        let id = format!("t{number}");
        let stored = Task {
            created_at: moment,
            updated_at: moment,
            finished_at: Some(moment),
            ..task(&id)
        };
        let entry = OutboxEntry {
            created_at: moment,
            due_at: moment,
            ..entry(&id)
        };
        let ops = vec![
            create(&stored),
            enqueue(&entry),
            event(of_task(&id), 1),
            key(&id, "v", moment),
        ];
        store.commit(commit_at(moment, ops)).await.unwrap();
        assert_eq!(store.task(&stored.id).await.unwrap(), Some(stored));
        assert_eq!(log(&*store, &of_task(&id)).await[0].at, moment);
    }
    let listed = store.tasks(&all_tasks()).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["t4", "t3", "t2", "t1", "t0"]);
    let due = store
        .claim_outbox(&carry_wish(&crate::make::web(), at(0), last, 9))
        .await
        .unwrap();
    assert_eq!(due.len(), 4, "the last is not due before the end");
    let due = store
        .claim_outbox(&carry_wish(&crate::make::web(), long_after(), last, 9))
        .await;
    assert_eq!(due.unwrap(), [], "held until the end of time");
    let wish = interzone_hub::ports::WorkClaim {
        lease: last.since(first),
        ..wish("n", 9, first)
    };
    let ops = vec![crate::make::queue_for(
        "t0",
        "agent",
        interzone_protocol::vocab::Priority::Normal,
        first,
    )];
    store.commit(commit_at(first, ops)).await.unwrap();
    assert_eq!(store.claim_work(&wish).await.unwrap().len(), 1);
    let rate = Rate {
        limit: u32::MAX,
        window: Duration::MAX,
    };
    for moment in moments {
        store.charge("k", rate, u32::MAX, moment).await.unwrap();
    }
}
