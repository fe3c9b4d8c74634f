//! Tasks with their messages, artifacts and push subscriptions: reads return what was written.

use crate::builders::{
    agent, artifact, commit, commit_at, create, json, message, next_revision, owner, push,
    put_push, report_artifact, sub_id, task, task_id, time_at, update, user_message,
};
use crate::engine::Engine;
use interzone_hub::ports::{Op, StoreError, TaskRead};
use interzone_hub::{BlobId, Offloaded, PushSubscription, SealedSecrets, Subject, Task};
use interzone_protocol::vocab::{
    Artifact, ArtifactId, ContextId, Message, Metadata, Part, Priority, Role, TaskState,
};

contract_tests!(
    tasks_are_read_back_unchanged,
    task_update_replaces_all_fields,
    unknown_task_has_no_data,
    messages_are_read_by_index_range,
    artifacts_are_ordered_by_first_put,
    push_subscriptions_are_listed_oldest_first,
    tasks_do_not_share_data,
    task_snapshot_has_latest_messages_and_artifacts,
    task_snapshot_is_current_after_each_commit,
    task_snapshot_respects_byte_limit,
    blob_sizes_are_read_without_content,
);

/// Task with every field set.
fn full(id: &str, state: TaskState, priority: Priority) -> Task {
    Task {
        id: task_id(id),
        context_id: ContextId::new("another context").unwrap(),
        owner: owner("other-owner"),
        agent: agent("writer"),
        state,
        priority,
        metadata: Some(Metadata::new(json("{ \"b\" : 1.0,\n\"a\":[ ] , \"b\":2}")).unwrap()),
        status_message: Some(user_message("what do you mean?")),
        created_at: time_at(-5),
        status_at: time_at(6),
        updated_at: time_at(7),
        finished_at: Some(time_at(9)),
        revision: 41,
        seq: 17,
        generation: 12,
        is_direct: true,
        message_count: 3,
        artifact_count: 2,
        push_count: 1,
    }
}

async fn tasks_are_read_back_unchanged(on: Engine) {
    let store = on.node().await;
    let mut tasks = vec![task("plain")];
    for state in TaskState::ALL {
        for priority in Priority::ALL {
            let id = format!("{}-{}", state.name(), priority.name());
            tasks.push(full(&id, state, priority));
        }
    }
    let large = Message::user_text("x".repeat(100_000));
    tasks.push(Task {
        status_message: Some(Offloaded::offload(large).0),
        ..full("large", TaskState::Working, Priority::Normal)
    });
    store
        .commit(commit(tasks.iter().map(create).collect()))
        .await
        .unwrap();
    for task in tasks {
        assert_eq!(store.task(&task.id).await.unwrap(), Some(task));
    }
}

async fn task_update_replaces_all_fields(on: Engine) {
    let store = on.node().await;
    let first = task("t");
    store.commit(commit(vec![create(&first)])).await.unwrap();
    let second = Task {
        revision: 2,
        ..full("t", TaskState::Failed, Priority::Urgent)
    };
    store.commit(commit(vec![update(&second)])).await.unwrap();
    assert_eq!(store.task(&first.id).await.unwrap(), Some(second));
    // And back: cleared fields are cleared.
    let third = Task {
        revision: 3,
        ..first.clone()
    };
    store.commit(commit(vec![update(&third)])).await.unwrap();
    assert_eq!(store.task(&first.id).await.unwrap(), Some(third));
}

async fn unknown_task_has_no_data(on: Engine) {
    let store = on.node().await;
    let id = task_id("none");
    assert_eq!(store.task(&id).await.unwrap(), None);
    assert_eq!(store.messages(&id, 0..9).await.unwrap(), []);
    assert_eq!(store.artifacts(&id).await.unwrap(), []);
    assert_eq!(store.push_subscriptions(&id).await.unwrap(), []);
}

async fn messages_are_read_by_index_range(on: Engine) {
    let store = on.node().await;
    let id = task_id("t");
    // Other tasks have messages as well, and the write order is not the index order.
    let mut ops = vec![create(&task("t")), create(&task("other"))];
    for index in (0..12).rev() {
        ops.push(message("t", index, &format!("number {index}")));
        ops.push(message("other", index, "not this"));
    }
    store.commit(commit(ops)).await.unwrap();
    let numbers = |range: std::ops::Range<u32>| range.map(|i| user_message(&format!("number {i}")));
    for (from, to, expected) in [
        (0, 12, 0..12),
        (0, 0, 0..0),
        (0, 1, 0..1),
        (11, 12, 11..12),
        (3, 7, 3..7),
        (10, 90, 10..12),
        (12, 20, 0..0),
        (0, u32::MAX, 0..12),
        (u32::MAX, u32::MAX, 0..0),
    ] {
        let read = store.messages(&id, from..to).await.unwrap();
        let expected: Vec<_> = numbers(expected).collect();
        assert_eq!(read, expected, "{from}..{to}");
    }
    #[expect(clippy::reversed_empty_ranges, reason = "a caller may be wrong")]
    let backwards = store.messages(&id, 7..3).await.unwrap();
    assert_eq!(backwards, []);
    let complete = Message::new(Role::Agent, vec![Part::text("a"), Part::file("YQ==")]).unwrap();
    let complete = Offloaded::offload(complete.with_metadata(Metadata::new(json("{}")).unwrap())).0;
    let op = Op::AddMessage {
        task_id: id.clone(),
        index: 12,
        message: complete.clone(),
    };
    store.commit(commit(vec![op])).await.unwrap();
    assert_eq!(store.messages(&id, 12..13).await.unwrap(), [complete]);
    let other = Offloaded::offload(Message::user_text("other")).0;
    let replace = |index| Op::ReplaceMessage {
        task_id: id.clone(),
        index,
        message: other.clone(),
    };
    store.commit(commit(vec![replace(12)])).await.unwrap();
    let read = store.messages(&id, 12..14).await.unwrap();
    assert_eq!(read, std::slice::from_ref(&other));
    let nowhere = store.commit(commit(vec![replace(13)])).await;
    assert!(matches!(nowhere, Err(StoreError::Conflict)), "{nowhere:?}");
}

async fn artifacts_are_ordered_by_first_put(on: Engine) {
    let store = on.node().await;
    let id = task_id("t");
    let ops = vec![create(&task("t")), artifact("t", "z", "1")];
    store.commit(commit(ops)).await.unwrap();
    let ops = vec![artifact("t", "m", "2"), artifact("t", "a", "3")];
    store.commit(commit_at(time_at(1), ops)).await.unwrap();
    let three = [
        report_artifact("z", "1"),
        report_artifact("m", "2"),
        report_artifact("a", "3"),
    ];
    assert_eq!(store.artifacts(&id).await.unwrap(), three);
    let ops = vec![
        artifact("t", "m", "new"),
        artifact("t", "z", "new"),
        artifact("t", "b", "4"),
    ];
    store.commit(commit_at(time_at(2), ops)).await.unwrap();
    let four = [
        report_artifact("z", "new"),
        report_artifact("m", "new"),
        report_artifact("a", "3"),
        report_artifact("b", "4"),
    ];
    assert_eq!(store.artifacts(&id).await.unwrap(), four);
    let empty = Offloaded::offload(Artifact::new(ArtifactId::new("a").unwrap(), "")).0;
    let op = Op::PutArtifact {
        task_id: id.clone(),
        artifact_id: ArtifactId::new("a").unwrap(),
        artifact: empty.clone(),
    };
    store.commit(commit(vec![op])).await.unwrap();
    assert_eq!(store.artifacts(&id).await.unwrap()[2], empty);
}

async fn push_subscriptions_are_listed_oldest_first(on: Engine) {
    let store = on.node().await;
    let id = task_id("t");
    let late = PushSubscription {
        created_at: time_at(30),
        ..push("t", "a")
    };
    let early = PushSubscription {
        created_at: time_at(10),
        ..push("t", "z")
    };
    let middle = PushSubscription {
        events: Vec::new(),
        format: "a2a-1.0".to_owned(),
        target: json("null"),
        secrets: Some(SealedSecrets::new("v1.sealed")),
        channel: "other".to_owned(),
        owner: owner("other-owner"),
        created_at: time_at(20),
        ..push("t", "m")
    };
    let ops = vec![create(&task("t")), put_push(&early)];
    store.commit(commit_at(time_at(10), ops)).await.unwrap();
    for push in [&middle, &late] {
        let at = push.created_at;
        store
            .commit(commit_at(at, vec![put_push(push)]))
            .await
            .unwrap();
    }
    let pushes = store.push_subscriptions(&id).await.unwrap();
    assert_eq!(pushes, [early.clone(), middle.clone(), late.clone()]);

    let other = PushSubscription {
        events: vec!["state".to_owned(), "message".to_owned()],
        format: "a2a-0.3".to_owned(),
        target: json(r#"{"url":"elsewhere"}"#),
        secrets: None,
        ..middle.clone()
    };
    store.commit(commit(vec![put_push(&other)])).await.unwrap();
    let pushes = store.push_subscriptions(&id).await.unwrap();
    assert_eq!(pushes, [early.clone(), other, late.clone()]);

    let remove = |id: &str| Op::RemovePushSubscription {
        task_id: task_id("t"),
        id: sub_id(id),
    };
    let ops = vec![remove("m"), remove("not there")];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.push_subscriptions(&id).await.unwrap(), [early, late]);
}

async fn tasks_do_not_share_data(on: Engine) {
    let store = on.node().await;
    let ops = vec![
        create(&task("a")),
        create(&task("b")),
        message("a", 0, "of a"),
        artifact("a", "x", "of a"),
        artifact("b", "x", "of b"),
        put_push(&push("a", "p")),
    ];
    store.commit(commit(ops)).await.unwrap();
    let b = task_id("b");
    assert_eq!(store.messages(&b, 0..9).await.unwrap(), []);
    assert_eq!(
        store.artifacts(&b).await.unwrap(),
        [report_artifact("x", "of b")]
    );
    assert_eq!(store.push_subscriptions(&b).await.unwrap(), []);
    let changed = next_revision(&task("a"));
    let ops = vec![
        update(&changed),
        Op::RemovePushSubscription {
            task_id: b.clone(),
            id: sub_id("p"),
        },
    ];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.task(&b).await.unwrap(), Some(task("b")));
    let pushes = store.push_subscriptions(&task_id("a")).await.unwrap();
    assert_eq!(pushes.len(), 1, "the other task's stays");
}

async fn task_snapshot_has_latest_messages_and_artifacts(on: Engine) {
    let store = on.node().await;
    let large = |id: &str, messages: u32| Task {
        message_count: messages,
        artifact_count: 2,
        ..task(id)
    };
    for (id, count) in [("small", 3), ("long", 100)] {
        let mut ops = vec![create(&large(id, count))];
        ops.extend((0..count).map(|index| message(id, index, &format!("{index}"))));
        ops.extend([artifact(id, "b", "1"), artifact(id, "a", "2")]);
        store.commit(commit(ops)).await.unwrap();
        // Twice: the second read may come from the cache.
        for latest in [0, 1, 2, 3, 50, 100, u32::MAX, 0, 1] {
            for wanted in [true, false] {
                let task = task_id(id);
                let found = store.task_snapshot(&task, latest, wanted, usize::MAX);
                let found = found.await.unwrap().and_then(TaskRead::into_task).unwrap();
                assert_eq!(found.task, large(id, count));
                let texts = |packed: &Offloaded<Message>| packed.inline().text();
                let texts: Vec<String> = found.messages.iter().map(texts).collect();
                assert!(texts.len() >= usize::try_from(latest.min(count)).unwrap());
                let first = count - u32::try_from(texts.len()).unwrap();
                let expected: Vec<String> = (first..count).map(|n| n.to_string()).collect();
                assert_eq!(texts, expected, "{id} {latest}");
                if wanted || !found.artifacts.is_empty() {
                    let ids =
                        |packed: &Offloaded<Artifact>| packed.inline().artifact_id().to_string();
                    let ids: Vec<String> = found.artifacts.iter().map(ids).collect();
                    assert_eq!(ids, ["b", "a"], "{id}");
                }
            }
        }
    }
    let unknown = task_id("unknown");
    let missing = store.task_snapshot(&unknown, 1, true, usize::MAX).await;
    assert_eq!(missing.unwrap(), None);
}

async fn task_snapshot_respects_byte_limit(on: Engine) {
    let store = on.node().await;
    let head = Task {
        message_count: 5,
        artifact_count: 1,
        ..task("t")
    };
    let mut ops = vec![create(&head)];
    let long = "x".repeat(10_000);
    ops.extend((0..5).map(|index| message("t", index, &long)));
    ops.push(artifact("t", "a", &long));
    store.commit(commit(ops)).await.unwrap();
    let read = |max_bytes| store.task_snapshot(&head.id, u32::MAX, true, max_bytes);
    let bytes = match read(20_000).await.unwrap() {
        Some(TaskRead::TooLarge(bytes)) => bytes,
        other => panic!("{other:?}"),
    };
    assert!((60_000..70_000).contains(&bytes), "{bytes}");
    let less = read(bytes - 1).await.unwrap();
    assert_eq!(less, Some(TaskRead::TooLarge(bytes)));
    let found = read(bytes).await.unwrap().and_then(TaskRead::into_task);
    let found = found.unwrap();
    assert_eq!((found.messages.len(), found.artifacts.len()), (5, 1));
}

async fn blob_sizes_are_read_without_content(on: Engine) {
    let store = on.node().await;
    let parts = [20_000, 300_000].map(|length| Part::text("x".repeat(length)));
    let large = Message::new(Role::User, parts.to_vec()).unwrap();
    let (packed, blobs) = Offloaded::offload(large);
    let mut ops = vec![create(&task("t"))];
    let subject = Subject::Task(task_id("t"));
    ops.extend(blobs.into_iter().map(|blob| Op::PutBlob {
        subject: subject.clone(),
        blob,
    }));
    store.commit(commit(ops)).await.unwrap();
    let mut ids: Vec<_> = packed.blob_ids().collect();
    ids.push(BlobId::for_content(b"unknown"));
    let sizes = store.blob_sizes(&ids).await.unwrap();
    let found: Vec<_> = ids.iter().map(|id| sizes.get(id).copied()).collect();
    assert_eq!(found, [Some(20_002), Some(300_002), None]);
}

async fn task_snapshot_is_current_after_each_commit(on: Engine) {
    let [one, two] = on.two_nodes().await;
    let mut head = task("t");
    head.message_count = 0;
    for round in 0..20 {
        let ops = if round == 0 {
            vec![create(&head)]
        } else {
            head.message_count += 1;
            head.artifact_count = 1;
            head = next_revision(&head);
            let text = round.to_string();
            vec![
                update(&head),
                message("t", head.message_count - 1, &text),
                artifact("t", "a", &text),
            ]
        };
        one.commit(commit(ops)).await.unwrap();
        for _ in 0..2 {
            for store in [&one, &two] {
                let found = store.task_snapshot(&head.id, 100, true, usize::MAX).await;
                let found = found.unwrap().and_then(TaskRead::into_task).unwrap();
                assert_eq!(found.task, head);
                let last = found.messages.last().map(|m| m.inline().text());
                assert_eq!(last, (round > 0).then(|| round.to_string()));
                let parts = found.artifacts.first();
                let parts = parts.map(|a| a.inline().parts().to_vec());
                assert_eq!(
                    parts,
                    (round > 0).then(|| vec![Part::text(round.to_string())])
                );
                assert_eq!(store.task(&head.id).await.unwrap().as_ref(), Some(&head));
            }
        }
    }
}
