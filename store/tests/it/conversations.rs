//! Conversations: questions by thread, the latest first, and user feedback.

use crate::builders::{commit, commit_at, create, next_revision, task, task_id, time_at, update};
use crate::engine::Engine;
use interzone_hub::ports::{Op, Store, StoreError};
use interzone_hub::{
    Conversation, ConversationQuery, Feedback, Retention, ThreadKey, ThreadOrigin, ThreadTask,
};
use interzone_protocol::vocab::TaskState;
use std::time::Duration;

contract_tests!(
    conversation_is_read_back_unchanged,
    conversations_are_listed_once_by_latest_question,
    conversations_are_filtered_by_user,
    conversations_behind_a_long_thread_are_listed,
    thread_is_recorded_once_per_task,
    thread_is_recorded_atomically_with_its_task,
    feedback_replaces_earlier_of_same_user,
    older_feedback_is_ignored,
    feedback_for_unknown_task_is_rejected,
    feedback_per_task_is_limited,
    feedback_is_counted_per_thread,
    conversation_is_purged_with_its_task,
);

fn thread_origin(thread: &str, user: &str) -> ThreadOrigin {
    ThreadOrigin::new("T1", "C1", thread, user).unwrap()
}

/// Creates a task that was asked in a thread.
async fn create_thread_task(store: &dyn Store, id: &str, thread: &str, user: &str) {
    let record_thread = Op::RecordThread {
        task_id: task_id(id),
        origin: Box::new(thread_origin(thread, user)),
    };
    let ops = vec![create(&task(id)), record_thread];
    store.commit(commit_at(time_at(7), ops)).await.unwrap();
}

fn first_page(limit: usize) -> ConversationQuery {
    ConversationQuery {
        limit,
        ..ConversationQuery::default()
    }
}

fn feedback(id: &str, author: &str, is_positive: bool, when: i64) -> Feedback {
    Feedback {
        task_id: task_id(id),
        author: author.to_owned(),
        is_positive,
        comment: None,
        given_at: time_at(when),
    }
}

/// Task ids of the latest questions, page by page.
async fn pages(store: &dyn Store, mut query: ConversationQuery) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    loop {
        let page = store.conversations(&query).await.unwrap();
        let last = |one: &Conversation| one.last_task.task_id.to_string();
        pages.push(page.conversations.iter().map(last).collect());
        match page.next {
            Some(next) => query.before = Some(next),
            None => return pages,
        }
    }
}

async fn conversation_is_read_back_unchanged(on: Engine) {
    let [one, two] = on.two_nodes().await;
    let empty = two.conversations(&first_page(10)).await.unwrap();
    assert_eq!((empty.conversations.len(), empty.next), (0, None));
    assert_eq!(two.thread_task(&task_id("a")).await.unwrap(), None);
    create_thread_task(&*one, "a", "1.2", "U1").await;
    let found = two.thread_task(&task_id("a")).await.unwrap().unwrap();
    let expected = ThreadTask {
        number: found.number,
        task_id: task_id("a"),
        origin: thread_origin("1.2", "U1"),
        created_at: time_at(7),
        state: TaskState::Submitted,
        agent: task("a").agent,
    };
    assert_eq!(found, expected);
    let thread = &expected.origin.thread;
    let questions = two.thread_tasks(thread, &first_page(10)).await.unwrap();
    assert_eq!(questions, std::slice::from_ref(&expected));
    let other = ThreadKey {
        team: "T2".to_owned(),
        ..thread.clone()
    };
    assert_eq!(two.thread_tasks(&other, &first_page(10)).await.unwrap(), []);
    let listed = two.conversations(&first_page(10)).await.unwrap();
    let listed = listed.conversations;
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (
            listed[0].task_count,
            listed[0].positive_feedback,
            listed[0].negative_feedback
        ),
        (1, 0, 0)
    );
    assert_eq!(listed[0].last_task, expected);
    let mut working = next_revision(&task("a"));
    working.state = TaskState::Working;
    one.commit(commit(vec![update(&working)])).await.unwrap();
    let found = two.thread_task(&task_id("a")).await.unwrap().unwrap();
    assert_eq!(found.state, TaskState::Working);
}

async fn conversations_are_listed_once_by_latest_question(on: Engine) {
    let store = on.node().await;
    for (id, thread) in [
        ("a", "1"),
        ("b", "2"),
        ("c", "1"),
        ("d", "3"),
        ("e", "2"),
        ("f", "4"),
    ] {
        create_thread_task(&*store, id, thread, "U1").await;
    }
    let two = pages(&*store, first_page(2)).await;
    assert_eq!(two.concat(), ["f", "e", "d", "c"]);
    assert_eq!(pages(&*store, first_page(10)).await, [["f", "e", "d", "c"]]);
    let thread = thread_origin("1", "").thread;
    let questions = store.thread_tasks(&thread, &first_page(10)).await.unwrap();
    let ids: Vec<_> = questions.iter().map(|one| one.task_id.as_str()).collect();
    assert_eq!(ids, ["c", "a"]);
    let older = ConversationQuery {
        before: Some(questions[0].number),
        ..first_page(10)
    };
    let older = store.thread_tasks(&thread, &older).await.unwrap();
    assert_eq!(older, questions[1..]);
}

async fn conversations_are_filtered_by_user(on: Engine) {
    let store = on.node().await;
    for (id, thread, user) in [
        ("a", "1", "U1"),
        ("b", "1", "U2"),
        ("c", "2", "U2"),
        ("d", "2", "U1"),
        ("e", "3", "U1"),
    ] {
        create_thread_task(&*store, id, thread, user).await;
    }
    let by_user = |user: &str| ConversationQuery {
        user: Some(user.to_owned()),
        ..first_page(1)
    };
    assert_eq!(pages(&*store, by_user("U2")).await.concat(), ["c", "b"]);
    assert_eq!(
        pages(&*store, by_user("U1")).await.concat(),
        ["e", "d", "a"]
    );
    assert_eq!(pages(&*store, by_user("U3")).await.concat(), [""; 0]);
}

/// One thread has more questions than are scanned for a page; older threads are still found.
async fn conversations_behind_a_long_thread_are_listed(on: Engine) {
    let store = on.node().await;
    create_thread_task(&*store, "before", "1", "U1").await;
    let many: Vec<String> = (0..2_100).map(|number| format!("m{number}")).collect();
    for some in many.chunks(300) {
        let ops = some.iter().flat_map(|id| {
            let record_thread = Op::RecordThread {
                task_id: task_id(id),
                origin: Box::new(thread_origin("2", "U2")),
            };
            [create(&task(id)), record_thread]
        });
        store.commit(commit(ops.collect())).await.unwrap();
    }
    let listed = pages(&*store, first_page(10)).await;
    assert_eq!(listed.concat(), ["m2099", "before"]);
    let listed = store.conversations(&first_page(1)).await.unwrap();
    assert_eq!(
        listed.conversations[0].task_count,
        Conversation::MAX_COUNTED_TASKS
    );
}

async fn thread_is_recorded_once_per_task(on: Engine) {
    let store = on.node().await;
    create_thread_task(&*store, "a", "1", "U1").await;
    let again = Op::RecordThread {
        task_id: task_id("a"),
        origin: Box::new(thread_origin("2", "U1")),
    };
    let refused = store.commit(commit(vec![again])).await;
    assert!(matches!(refused, Err(StoreError::Conflict)), "{refused:?}");
}

async fn thread_is_recorded_atomically_with_its_task(on: Engine) {
    let store = on.node().await;
    create_thread_task(&*store, "a", "1", "U1").await;
    let record_thread = Op::RecordThread {
        task_id: task_id("b"),
        origin: Box::new(thread_origin("1", "U1")),
    };
    let ops = vec![record_thread, create(&task("b")), create(&task("a"))];
    assert!(store.commit(commit(ops)).await.is_err());
    assert_eq!(store.thread_task(&task_id("b")).await.unwrap(), None);
}

async fn feedback_replaces_earlier_of_same_user(on: Engine) {
    let [one, two] = on.two_nodes().await;
    create_thread_task(&*one, "a", "1", "U1").await;
    let ids = [task_id("a"), task_id("b")];
    assert_eq!(two.feedback(&ids).await.unwrap(), []);
    assert_eq!(two.feedback(&[]).await.unwrap(), []);
    let up = feedback("a", "U1", true, 1);
    let down = Feedback {
        comment: Some("no \0 \u{1} \"'\u{10ffff}".to_owned()),
        ..feedback("a", "U1", false, 2)
    };
    let other = feedback("a", "U2", true, 1);
    for given in [&up, &other, &down, &down] {
        assert!(one.put_feedback(given).await.unwrap());
    }
    assert_eq!(two.feedback(&ids).await.unwrap(), [down, other.clone()]);
    let again = feedback("a", "U1", true, 3);
    assert!(two.put_feedback(&again).await.unwrap());
    assert_eq!(one.feedback(&ids).await.unwrap(), [again, other]);
}

async fn older_feedback_is_ignored(on: Engine) {
    let store = on.node().await;
    create_thread_task(&*store, "a", "1", "U1").await;
    let down = feedback("a", "U1", false, 5);
    assert!(store.put_feedback(&down).await.unwrap());
    let late = feedback("a", "U1", true, 4);
    assert!(store.put_feedback(&late).await.unwrap());
    assert_eq!(store.feedback(&[task_id("a")]).await.unwrap(), [down]);
    // Of the same time, the one stored last.
    let up = feedback("a", "U1", true, 5);
    assert!(store.put_feedback(&up).await.unwrap());
    assert_eq!(store.feedback(&[task_id("a")]).await.unwrap(), [up]);
}

async fn feedback_for_unknown_task_is_rejected(on: Engine) {
    let store = on.node().await;
    let nowhere = feedback("a", "U1", true, 1);
    assert!(!store.put_feedback(&nowhere).await.unwrap());
    assert_eq!(store.feedback(&[task_id("a")]).await.unwrap(), []);
}

async fn feedback_per_task_is_limited(on: Engine) {
    let store = on.node().await;
    create_thread_task(&*store, "a", "1", "U1").await;
    for number in 0..Feedback::MAX_PER_TASK {
        let given = feedback("a", &format!("U{number}"), true, 1);
        assert!(store.put_feedback(&given).await.unwrap());
    }
    let more = feedback("a", "one more", true, 1);
    assert!(!store.put_feedback(&more).await.unwrap());
    let replacing = feedback("a", "U0", false, 2);
    assert!(store.put_feedback(&replacing).await.unwrap());
    let stored = store.feedback(&[task_id("a")]).await.unwrap();
    assert_eq!(stored.len(), Feedback::MAX_PER_TASK);
    assert_eq!(stored[0], replacing);
}

async fn feedback_is_counted_per_thread(on: Engine) {
    let store = on.node().await;
    create_thread_task(&*store, "a", "1", "U1").await;
    create_thread_task(&*store, "b", "1", "U2").await;
    create_thread_task(&*store, "c", "2", "U1").await;
    for given in [
        feedback("a", "U1", true, 1),
        feedback("a", "U2", false, 1),
        feedback("b", "U1", true, 1),
    ] {
        store.put_feedback(&given).await.unwrap();
    }
    let listed = store.conversations(&first_page(10)).await.unwrap();
    let counted =
        |one: &Conversation| (one.task_count, one.positive_feedback, one.negative_feedback);
    let counted: Vec<_> = listed.conversations.iter().map(counted).collect();
    assert_eq!(counted, [(1, 0, 0), (2, 2, 1)]);
}

async fn conversation_is_purged_with_its_task(on: Engine) {
    let store = on.node().await;
    create_thread_task(&*store, "a", "1", "U1").await;
    create_thread_task(&*store, "b", "1", "U1").await;
    for id in ["a", "b"] {
        let given = feedback(id, "U1", true, 1);
        store.put_feedback(&given).await.unwrap();
    }
    let mut ended = next_revision(&task("a"));
    ended.state = TaskState::Completed;
    ended.finished_at = Some(time_at(1));
    store.commit(commit(vec![update(&ended)])).await.unwrap();
    let retention = Retention {
        finished: Duration::from_secs(1),
        events: Duration::from_secs(1),
        ..Retention::default()
    };
    while store
        .purge(&retention, time_at(10_000), 100)
        .await
        .unwrap()
        .total()
        > 0
    {}
    assert_eq!(store.task(&task_id("a")).await.unwrap(), None);
    assert_eq!(store.thread_task(&task_id("a")).await.unwrap(), None);
    assert_eq!(store.feedback(&[task_id("a")]).await.unwrap(), []);
    let remaining = store.conversations(&first_page(10)).await.unwrap();
    assert_eq!(
        (
            remaining.conversations[0].task_count,
            remaining.conversations[0].positive_feedback
        ),
        (1, 1)
    );
}
