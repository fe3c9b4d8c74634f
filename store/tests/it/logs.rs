//! Logs of events: numbered without a gap, and replayed without a gap while others write.

use crate::engine::Engine;
use crate::make::{
    at, commit, commit_at, create, create_stream, event, next, of_stream, of_task, owner, said,
    stream, task, task_id, update,
};
use crate::snapshot::log;
use interzone_hub::ports::{EventRow, Op, Store, StoreError};
use interzone_hub::{Event, EventBody, FETCH, Packed, Subject, Task};
use interzone_protocol::vocab::{Artifact, ArtifactId, StreamState, TaskState};
use std::sync::Arc;

contract!(
    give_back_every_kind_of_event,
    say_of_a_message_what_they_are_told_of_it,
    are_read_from_any_place,
    keep_subjects_apart,
    refuse_a_number_that_is_taken,
    are_followed_without_gap_or_double,
);

async fn give_back_every_kind_of_event(on: Engine) {
    let store = on.node().await;
    let artifact = Artifact::new(ArtifactId::new("a").unwrap(), "name");
    let bodies = vec![
        EventBody::Created {
            message: said("do it"),
        },
        EventBody::State {
            from: TaskState::Submitted,
            to: TaskState::InputRequired,
            message: Some(said("what?")),
        },
        EventBody::State {
            from: TaskState::InputRequired,
            to: TaskState::Completed,
            message: None,
        },
        EventBody::Message {
            index: u32::MAX,
            message: said("more"),
        },
        EventBody::Artifact {
            artifact: Packed::pack(artifact).0,
            append: true,
            last: false,
        },
        EventBody::Text {
            run: 7,
            offset: 1 << 40,
            delta: "…and".to_owned(),
        },
        EventBody::Status {
            text: String::new(),
        },
        EventBody::Chunk {
            from: owner("somebody"),
            chunk: said("hm"),
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
    for subject in [of_task("x"), of_stream("x")] {
        let mut expected = Vec::new();
        for (seq, body) in (1..).zip(&bodies) {
            let at = at(i64::try_from(seq).unwrap() * 10);
            let row = EventRow {
                subject: subject.clone(),
                seq,
                body: body.clone(),
            };
            let ops = vec![Op::AppendEvent(row)];
            store.commit(commit_at(at, ops)).await.unwrap();
            expected.push(Event {
                subject: subject.clone(),
                seq,
                at,
                body: body.clone(),
            });
        }
        assert_eq!(log(&*store, &subject).await, expected);
    }
}

fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

/// A commit has the message of a new task twice: as what was said, and as what happened. Which of it is one and the same
/// makes no difference.
async fn say_of_a_message_what_they_are_told_of_it(on: Engine) {
    let store = on.node().await;
    let whole = r#"{"role":"user","parts":[{"type":"FilePart","content":"","fetch":{"url":"https://a/b"}}]}"#;
    let secret = Packed::pack(serde_json::from_str(whole).unwrap()).0;
    let plain = said("plain");
    let cases = [
        ("shared", vec![plain.clone()], plain.clone()),
        ("alike", vec![plain.clone()], said("plain")),
        ("earlier", vec![plain.clone(), said("other")], plain),
        ("secret", vec![secret.clone()], secret.without_member(FETCH)),
    ];
    for (id, messages, told) in cases {
        let mut ops = vec![create(&task(id))];
        let added = (0..).zip(&messages).map(|(index, message)| Op::AddMessage {
            task_id: task_id(id),
            index,
            message: message.clone(),
        });
        ops.extend(added);
        ops.push(Op::AppendEvent(EventRow {
            subject: of_task(id),
            seq: 1,
            body: EventBody::Created {
                message: told.clone(),
            },
        }));
        store.commit(commit(ops)).await.unwrap();
        let kept = store.messages(&task_id(id), 0..9).await.unwrap();
        assert_eq!(kept, messages, "{id}");
        let log = log(&*store, &of_task(id)).await;
        let created = EventBody::Created { message: told };
        assert!(matches!(&log[..], [one] if one.body == created), "{log:?}");
    }
}

async fn are_read_from_any_place(on: Engine) {
    let store = on.node().await;
    let subject = of_task("t");
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
        assert_eq!(numbers(&events), expected.collect::<Vec<_>>(), "{after}");
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

async fn keep_subjects_apart(on: Engine) {
    let store = on.node().await;
    // One is the beginning of the other, and a task and a stream may have the same id.
    let subjects = [
        of_task("a"),
        of_task("ab"),
        of_task("A"),
        of_task("t/a"),
        of_stream("a"),
        of_stream("s/a"),
    ];
    for (count, subject) in (1..).zip(&subjects) {
        let ops = (1..=count).map(|seq| event(subject.clone(), seq)).collect();
        store.commit(commit(ops)).await.unwrap();
    }
    for (count, subject) in (1..).zip(&subjects) {
        let events = log(&*store, subject).await;
        assert_eq!(numbers(&events), (1..=count).collect::<Vec<u64>>());
        assert!(events.iter().all(|event| event.subject == *subject));
    }
    assert_eq!(log(&*store, &of_task("none")).await, []);
}

async fn refuse_a_number_that_is_taken(on: Engine) {
    let store = on.node().await;
    let ops = vec![event(of_task("t"), 1), event(of_task("t"), 2)];
    store.commit(commit(ops)).await.unwrap();
    for seq in [1, 2] {
        let again = store.commit(commit(vec![event(of_task("t"), seq)])).await;
        assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    }
    assert_eq!(log(&*store, &of_task("t")).await.len(), 2);
}

const WRITERS: u64 = 6;
const EACH: u64 = 40;

/// Adds events to a task that others write as well, by its revision. Answers how many conflicts
/// it met.
async fn write(store: Arc<dyn Store>, id: &str, name: u64) -> u64 {
    let id = task_id(id);
    let (mut written, mut conflicts) = (0, 0);
    while written < EACH {
        let read = store.task(&id).await.unwrap().unwrap();
        let count = 1 + (written + name) % 3;
        let task = Task {
            seq: read.seq + count,
            ..next(&read)
        };
        let mut ops = vec![update(&task)];
        for seq in read.seq + 1..=task.seq {
            ops.push(Op::AppendEvent(EventRow {
                subject: Subject::Task(id.clone()),
                seq,
                body: EventBody::Status {
                    text: format!("{name} wrote {seq}"),
                },
            }));
        }
        match store.commit(commit_at(at(1), ops)).await {
            Ok(()) => written += 1,
            Err(StoreError::Conflict) => conflicts += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    conflicts
}

/// Follows a log from `after` until it has `until` events.
async fn follow(store: Arc<dyn Store>, subject: Subject, page: usize, until: u64) -> Vec<u64> {
    let (mut seen, mut after) = (Vec::new(), 0);
    while after < until {
        let events = store.events(&subject, after, page).await.unwrap();
        for event in &events {
            assert_eq!(event.seq, after + 1, "no gap and no double");
            after = event.seq;
            seen.push(event.seq);
        }
        if events.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    seen
}

async fn are_followed_without_gap_or_double(on: Engine) {
    let nodes = on.two_nodes().await;
    let first = vec![create(&task("t")), create_stream(&stream("t"))];
    nodes[0].commit(commit(first)).await.unwrap();
    let total: u64 = (0..WRITERS)
        .flat_map(|name| (0..EACH).map(move |written| 1 + (written + name) % 3))
        .sum();
    let mut readers = tokio::task::JoinSet::new();
    for (index, page) in [1, 7, 1_000, 3].into_iter().enumerate() {
        readers.spawn(follow(nodes[index % 2].clone(), of_task("t"), page, total));
    }
    let mut writers = tokio::task::JoinSet::new();
    for (name, node) in (0..WRITERS).zip(nodes.iter().cycle()) {
        let node = node.clone();
        writers.spawn(async move { write(node, "t", name).await });
    }
    let conflicts: u64 = writers.join_all().await.iter().sum();
    for seen in readers.join_all().await {
        assert_eq!(seen, (1..=total).collect::<Vec<_>>());
    }
    let last = nodes[0].task(&task_id("t")).await.unwrap().unwrap();
    assert_eq!(last.seq, total);
    assert_eq!(last.revision, 1 + WRITERS * EACH);
    assert!(conflicts > 0, "the writers never met: this tests nothing");
    assert_eq!(log(&*nodes[0], &of_stream("t")).await, []);
}
