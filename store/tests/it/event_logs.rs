//! Event logs: numbered without a gap, and replayed without a gap during writes.

use crate::builders::{
    commit, commit_at, create, create_stream, event, next_revision, owner, stream, stream_subject,
    task, task_id, task_subject, time_at, update, user_message,
};
use crate::engine::Engine;
use crate::snapshot::event_log;
use interzone_hub::ports::{EventRow, Op, Store, StoreError};
use interzone_hub::{Event, EventBody, FETCH_URL_FIELD, Offloaded, Subject, Task};
use interzone_protocol::vocab::{Artifact, ArtifactId, StreamState, TaskState};
use std::sync::Arc;

contract_tests!(
    every_event_kind_is_read_back,
    event_message_is_stored_independently_of_messages,
    events_are_read_from_any_position,
    events_of_subjects_are_separate,
    duplicate_event_seq_is_rejected,
    log_is_followed_without_gap_or_duplicate,
);

async fn every_event_kind_is_read_back(on: Engine) {
    let store = on.node().await;
    let artifact = Artifact::new(ArtifactId::new("a").unwrap(), "name");
    let bodies = vec![
        EventBody::Created {
            message: user_message("do it"),
        },
        EventBody::State {
            from: TaskState::Submitted,
            to: TaskState::InputRequired,
            message: Some(user_message("what?")),
        },
        EventBody::State {
            from: TaskState::InputRequired,
            to: TaskState::Completed,
            message: None,
        },
        EventBody::Message {
            index: u32::MAX,
            message: user_message("more"),
            direct: false,
        },
        EventBody::Message {
            index: 0,
            message: user_message("enough"),
            direct: true,
        },
        EventBody::Artifact {
            artifact: Offloaded::offload(artifact).0,
            append: true,
            last: false,
        },
        EventBody::Text {
            run: 7,
            answers: Some(2),
            offset: 1 << 40,
            delta: "…and".to_owned(),
        },
        EventBody::Status {
            text: String::new(),
        },
        EventBody::Chunk {
            from: owner("participant"),
            chunk: user_message("hm"),
            last: true,
        },
        EventBody::StreamState {
            from: None,
            to: StreamState::Active,
            reason: None,
        },
        EventBody::StreamState {
            from: Some(StreamState::Active),
            to: StreamState::Closed,
            reason: Some("enough".to_owned()),
        },
    ];
    for subject in [task_subject("x"), stream_subject("x")] {
        let mut expected = Vec::new();
        for (seq, body) in (1..).zip(&bodies) {
            let at = time_at(i64::try_from(seq).unwrap() * 10);
            // Every other event has none.
            let generation = (seq % 2 == 1).then_some(seq / 2 + 1);
            let row = EventRow {
                subject: subject.clone(),
                seq,
                generation,
                body: body.clone(),
            };
            let ops = vec![Op::AppendEvent(row)];
            store.commit(commit_at(at, ops)).await.unwrap();
            expected.push(Event {
                subject: subject.clone(),
                seq,
                generation,
                at,
                body: body.clone(),
            });
        }
        assert_eq!(event_log(&*store, &subject).await, expected);
    }
}

fn seqs(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

/// A commit has the message of a new task twice: as a message and in the `created` event. Whether both are the same
/// makes no difference.
async fn event_message_is_stored_independently_of_messages(on: Engine) {
    let store = on.node().await;
    let message_json = r#"{"role":"user","parts":[{"type":"FilePart","content":"","fetch":{"url":"https://a/b"}}]}"#;
    let secret = Offloaded::offload(serde_json::from_str(message_json).unwrap()).0;
    let plain = user_message("plain");
    let cases = [
        ("shared", vec![plain.clone()], plain.clone()),
        ("alike", vec![plain.clone()], user_message("plain")),
        ("earlier", vec![plain.clone(), user_message("other")], plain),
        (
            "secret",
            vec![secret.clone()],
            secret.without_field(FETCH_URL_FIELD),
        ),
    ];
    for (id, messages, event_message) in cases {
        let mut ops = vec![create(&task(id))];
        let added = (0..).zip(&messages).map(|(index, message)| Op::AddMessage {
            task_id: task_id(id),
            index,
            message: message.clone(),
        });
        ops.extend(added);
        ops.push(Op::AppendEvent(EventRow {
            subject: task_subject(id),
            seq: 1,
            generation: None,
            body: EventBody::Created {
                message: event_message.clone(),
            },
        }));
        store.commit(commit(ops)).await.unwrap();
        let stored = store.messages(&task_id(id), 0..9).await.unwrap();
        assert_eq!(stored, messages, "{id}");
        let log = event_log(&*store, &task_subject(id)).await;
        let created = EventBody::Created {
            message: event_message,
        };
        assert!(matches!(&log[..], [one] if one.body == created), "{log:?}");
    }
}

async fn events_are_read_from_any_position(on: Engine) {
    let store = on.node().await;
    let subject = task_subject("t");
    let ops = (1..=30).map(|seq| event(subject.clone(), seq)).collect();
    store.commit(commit(ops)).await.unwrap();
    for (after, limit, expected) in [
        (0, 100, 1..=30),
        (0, 1, 1..=1),
        (9, 5, 10..=14),
        (28, 5, 29..=30),
        (29, 1, 30..=30),
    ] {
        let events = store.events(&subject, after, limit).await.unwrap();
        assert_eq!(seqs(&events), expected.collect::<Vec<_>>(), "{after}");
    }
    for (after, limit) in [
        (30, 9),
        (31, 9),
        (i64::MAX as u64, 9),
        (u64::MAX, 9),
        (0, 0),
    ] {
        let events = store.events(&subject, after, limit).await.unwrap();
        assert_eq!(events, [], "{after} {limit}");
    }
    let events = store.events(&subject, 0, usize::MAX).await.unwrap();
    assert_eq!(events.len(), 30);
}

async fn events_of_subjects_are_separate(on: Engine) {
    let store = on.node().await;
    // One id is a prefix of the other, and a task and a stream may have the same id.
    let subjects = [
        task_subject("a"),
        task_subject("ab"),
        task_subject("A"),
        task_subject("t/a"),
        stream_subject("a"),
        stream_subject("s/a"),
    ];
    for (count, subject) in (1..).zip(&subjects) {
        let ops = (1..=count).map(|seq| event(subject.clone(), seq)).collect();
        store.commit(commit(ops)).await.unwrap();
    }
    for (count, subject) in (1..).zip(&subjects) {
        let events = event_log(&*store, subject).await;
        assert_eq!(seqs(&events), (1..=count).collect::<Vec<u64>>());
        assert!(events.iter().all(|event| event.subject == *subject));
    }
    assert_eq!(event_log(&*store, &task_subject("none")).await, []);
}

async fn duplicate_event_seq_is_rejected(on: Engine) {
    let store = on.node().await;
    let ops = vec![event(task_subject("t"), 1), event(task_subject("t"), 2)];
    store.commit(commit(ops)).await.unwrap();
    for seq in [1, 2] {
        let again = store
            .commit(commit(vec![event(task_subject("t"), seq)]))
            .await;
        assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    }
    assert_eq!(event_log(&*store, &task_subject("t")).await.len(), 2);
}

const WRITERS: u64 = 6;
const EVENTS_PER_WRITER: u64 = 40;

/// Appends events to a task that others write as well, by its revision. Returns the number of conflicts.
async fn write(store: Arc<dyn Store>, id: &str, name: u64) -> u64 {
    let id = task_id(id);
    let (mut written, mut conflicts) = (0, 0);
    while written < EVENTS_PER_WRITER {
        let read = store.task(&id).await.unwrap().unwrap();
        let count = 1 + (written + name) % 3;
        let task = Task {
            seq: read.seq + count,
            ..next_revision(&read)
        };
        let mut ops = vec![update(&task)];
        for seq in read.seq + 1..=task.seq {
            ops.push(Op::AppendEvent(EventRow {
                subject: Subject::Task(id.clone()),
                seq,
                generation: None,
                body: EventBody::Status {
                    text: format!("{name} wrote {seq}"),
                },
            }));
        }
        match store.commit(commit_at(time_at(1), ops)).await {
            Ok(()) => written += 1,
            Err(StoreError::Conflict) => conflicts += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    conflicts
}

/// Follows a log until it has `until` events.
async fn follow(store: Arc<dyn Store>, subject: Subject, page: usize, until: u64) -> Vec<u64> {
    let (mut seqs, mut after) = (Vec::new(), 0);
    while after < until {
        let events = store.events(&subject, after, page).await.unwrap();
        for event in &events {
            assert_eq!(event.seq, after + 1, "no gap and no duplicate");
            after = event.seq;
            seqs.push(event.seq);
        }
        if events.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    seqs
}

async fn log_is_followed_without_gap_or_duplicate(on: Engine) {
    let nodes = on.two_nodes().await;
    let first = vec![create(&task("t")), create_stream(&stream("t"))];
    nodes[0].commit(commit(first)).await.unwrap();
    let total: u64 = (0..WRITERS)
        .flat_map(|name| (0..EVENTS_PER_WRITER).map(move |written| 1 + (written + name) % 3))
        .sum();
    let mut readers = tokio::task::JoinSet::new();
    for (index, page) in [1, 7, 1_000, 3].into_iter().enumerate() {
        readers.spawn(follow(
            nodes[index % 2].clone(),
            task_subject("t"),
            page,
            total,
        ));
    }
    let mut writers = tokio::task::JoinSet::new();
    for (name, node) in (0..WRITERS).zip(nodes.iter().cycle()) {
        let node = node.clone();
        writers.spawn(async move { write(node, "t", name).await });
    }
    let conflicts: u64 = writers.join_all().await.iter().sum();
    for seqs in readers.join_all().await {
        assert_eq!(seqs, (1..=total).collect::<Vec<_>>());
    }
    let last = nodes[0].task(&task_id("t")).await.unwrap().unwrap();
    assert_eq!(last.seq, total);
    assert_eq!(last.revision, 1 + WRITERS * EVENTS_PER_WRITER);
    assert!(
        conflicts > 0,
        "the writers never conflicted: this tests nothing"
    );
    assert_eq!(event_log(&*nodes[0], &stream_subject("t")).await, []);
}
