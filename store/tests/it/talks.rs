//! Talks: who asked what in which thread, the latest first, and what people think of it.

use crate::engine::Engine;
use crate::make::{at, commit, commit_at, create, next, task, task_id, update};
use interzone_hub::ports::{Op, Store, StoreError};
use interzone_hub::{Asking, Conversation, Feedback, Question, Retention, TalkQuery, Thread};
use interzone_protocol::vocab::TaskState;
use std::time::Duration;

contract!(
    come_back_as_they_were,
    are_listed_by_their_last_question_each_once,
    are_listed_by_who_asked,
    are_listed_on_however_many_questions_one_has,
    are_noted_once_for_a_task,
    are_written_with_the_task_or_not_at_all,
    feedback_takes_the_place_of_what_was_before,
    feedback_that_comes_late_takes_no_place,
    feedback_is_for_tasks_that_are_there,
    feedback_of_one_task_has_an_end,
    feedback_is_counted_with_the_thread,
    go_with_their_task,
);

fn asking(thread: &str, user: &str) -> Asking {
    Asking::new("T1", "C1", thread, user).unwrap()
}

/// Has a task asked for in a thread.
async fn ask(store: &dyn Store, id: &str, thread: &str, user: &str) {
    let note = Op::NoteQuestion {
        task_id: task_id(id),
        asking: Box::new(asking(thread, user)),
    };
    let ops = vec![create(&task(id)), note];
    store.commit(commit_at(at(7), ops)).await.unwrap();
}

fn first(limit: usize) -> TalkQuery {
    TalkQuery {
        limit,
        ..TalkQuery::default()
    }
}

fn feedback(id: &str, who: &str, good: bool, when: i64) -> Feedback {
    Feedback {
        task_id: task_id(id),
        who: who.to_owned(),
        good,
        comment: None,
        at: at(when),
    }
}

/// The tasks of the last questions, page by page.
async fn pages(store: &dyn Store, mut query: TalkQuery) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    loop {
        let page = store.conversations(&query).await.unwrap();
        let last = |one: &Conversation| one.last.task_id.to_string();
        pages.push(page.found.iter().map(last).collect());
        match page.next {
            Some(next) => query.before = Some(next),
            None => return pages,
        }
    }
}

async fn come_back_as_they_were(on: Engine) {
    let [one, two] = on.two_nodes().await;
    let empty = two.conversations(&first(10)).await.unwrap();
    assert_eq!((empty.found.len(), empty.next), (0, None));
    assert_eq!(two.question(&task_id("a")).await.unwrap(), None);
    ask(&*one, "a", "1.2", "U1").await;
    let found = two.question(&task_id("a")).await.unwrap().unwrap();
    let expected = Question {
        number: found.number,
        task_id: task_id("a"),
        asking: asking("1.2", "U1"),
        at: at(7),
        state: TaskState::Submitted,
        agent: task("a").agent,
    };
    assert_eq!(found, expected);
    let thread = &expected.asking.thread;
    let questions = two.questions(thread, &first(10)).await.unwrap();
    assert_eq!(questions, std::slice::from_ref(&expected));
    let other = Thread {
        team: "T2".to_owned(),
        ..thread.clone()
    };
    assert_eq!(two.questions(&other, &first(10)).await.unwrap(), []);
    let listed = two.conversations(&first(10)).await.unwrap();
    let listed = listed.found;
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].questions, listed[0].good, listed[0].bad),
        (1, 0, 0)
    );
    assert_eq!(listed[0].last, expected);
    let mut working = next(&task("a"));
    working.state = TaskState::Working;
    one.commit(commit(vec![update(&working)])).await.unwrap();
    let found = two.question(&task_id("a")).await.unwrap().unwrap();
    assert_eq!(found.state, TaskState::Working);
}

async fn are_listed_by_their_last_question_each_once(on: Engine) {
    let store = on.node().await;
    for (id, thread) in [
        ("a", "1"),
        ("b", "2"),
        ("c", "1"),
        ("d", "3"),
        ("e", "2"),
        ("f", "4"),
    ] {
        ask(&*store, id, thread, "U1").await;
    }
    let two = pages(&*store, first(2)).await;
    assert_eq!(two.concat(), ["f", "e", "d", "c"]);
    assert_eq!(pages(&*store, first(10)).await, [["f", "e", "d", "c"]]);
    let thread = asking("1", "").thread;
    let questions = store.questions(&thread, &first(10)).await.unwrap();
    let ids: Vec<_> = questions.iter().map(|one| one.task_id.as_str()).collect();
    assert_eq!(ids, ["c", "a"]);
    let older = TalkQuery {
        before: Some(questions[0].number),
        ..first(10)
    };
    let older = store.questions(&thread, &older).await.unwrap();
    assert_eq!(older, questions[1..]);
}

async fn are_listed_by_who_asked(on: Engine) {
    let store = on.node().await;
    for (id, thread, user) in [
        ("a", "1", "U1"),
        ("b", "1", "U2"),
        ("c", "2", "U2"),
        ("d", "2", "U1"),
        ("e", "3", "U1"),
    ] {
        ask(&*store, id, thread, user).await;
    }
    let of = |user: &str| TalkQuery {
        user: Some(user.to_owned()),
        ..first(1)
    };
    assert_eq!(pages(&*store, of("U2")).await.concat(), ["c", "b"]);
    assert_eq!(pages(&*store, of("U1")).await.concat(), ["e", "d", "a"]);
    assert_eq!(pages(&*store, of("U3")).await.concat(), [""; 0]);
}

/// One thread has more questions than are looked at for a page; what lies behind is found still.
async fn are_listed_on_however_many_questions_one_has(on: Engine) {
    let store = on.node().await;
    ask(&*store, "before", "1", "U1").await;
    let many: Vec<String> = (0..2_100).map(|number| format!("m{number}")).collect();
    for some in many.chunks(300) {
        let ops = some.iter().flat_map(|id| {
            let note = Op::NoteQuestion {
                task_id: task_id(id),
                asking: Box::new(asking("2", "U2")),
            };
            [create(&task(id)), note]
        });
        store.commit(commit(ops.collect())).await.unwrap();
    }
    let seen = pages(&*store, first(10)).await;
    assert_eq!(seen.concat(), ["m2099", "before"]);
    let listed = store.conversations(&first(1)).await.unwrap();
    assert_eq!(listed.found[0].questions, Conversation::COUNTED);
}

async fn are_noted_once_for_a_task(on: Engine) {
    let store = on.node().await;
    ask(&*store, "a", "1", "U1").await;
    let again = Op::NoteQuestion {
        task_id: task_id("a"),
        asking: Box::new(asking("2", "U1")),
    };
    let refused = store.commit(commit(vec![again])).await;
    assert!(matches!(refused, Err(StoreError::Conflict)), "{refused:?}");
}

async fn are_written_with_the_task_or_not_at_all(on: Engine) {
    let store = on.node().await;
    ask(&*store, "a", "1", "U1").await;
    let note = Op::NoteQuestion {
        task_id: task_id("b"),
        asking: Box::new(asking("1", "U1")),
    };
    let ops = vec![note, create(&task("b")), create(&task("a"))];
    assert!(store.commit(commit(ops)).await.is_err());
    assert_eq!(store.question(&task_id("b")).await.unwrap(), None);
}

async fn feedback_takes_the_place_of_what_was_before(on: Engine) {
    let [one, two] = on.two_nodes().await;
    ask(&*one, "a", "1", "U1").await;
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
        assert!(one.give_feedback(given).await.unwrap());
    }
    assert_eq!(two.feedback(&ids).await.unwrap(), [down, other.clone()]);
    let again = feedback("a", "U1", true, 3);
    assert!(two.give_feedback(&again).await.unwrap());
    assert_eq!(one.feedback(&ids).await.unwrap(), [again, other]);
}

async fn feedback_that_comes_late_takes_no_place(on: Engine) {
    let store = on.node().await;
    ask(&*store, "a", "1", "U1").await;
    let down = feedback("a", "U1", false, 5);
    assert!(store.give_feedback(&down).await.unwrap());
    let late = feedback("a", "U1", true, 4);
    assert!(store.give_feedback(&late).await.unwrap());
    assert_eq!(store.feedback(&[task_id("a")]).await.unwrap(), [down]);
    // Of the same moment, the one that comes last.
    let up = feedback("a", "U1", true, 5);
    assert!(store.give_feedback(&up).await.unwrap());
    assert_eq!(store.feedback(&[task_id("a")]).await.unwrap(), [up]);
}

async fn feedback_is_for_tasks_that_are_there(on: Engine) {
    let store = on.node().await;
    let nowhere = feedback("a", "U1", true, 1);
    assert!(!store.give_feedback(&nowhere).await.unwrap());
    assert_eq!(store.feedback(&[task_id("a")]).await.unwrap(), []);
}

async fn feedback_of_one_task_has_an_end(on: Engine) {
    let store = on.node().await;
    ask(&*store, "a", "1", "U1").await;
    for number in 0..Feedback::MOST {
        let given = feedback("a", &format!("U{number}"), true, 1);
        assert!(store.give_feedback(&given).await.unwrap());
    }
    let more = feedback("a", "one more", true, 1);
    assert!(!store.give_feedback(&more).await.unwrap());
    let known = feedback("a", "U0", false, 2);
    assert!(store.give_feedback(&known).await.unwrap());
    let kept = store.feedback(&[task_id("a")]).await.unwrap();
    assert_eq!(kept.len(), Feedback::MOST);
    assert_eq!(kept[0], known);
}

async fn feedback_is_counted_with_the_thread(on: Engine) {
    let store = on.node().await;
    ask(&*store, "a", "1", "U1").await;
    ask(&*store, "b", "1", "U2").await;
    ask(&*store, "c", "2", "U1").await;
    for given in [
        feedback("a", "U1", true, 1),
        feedback("a", "U2", false, 1),
        feedback("b", "U1", true, 1),
    ] {
        store.give_feedback(&given).await.unwrap();
    }
    let listed = store.conversations(&first(10)).await.unwrap();
    let counted = |one: &Conversation| (one.questions, one.good, one.bad);
    let counted: Vec<_> = listed.found.iter().map(counted).collect();
    assert_eq!(counted, [(1, 0, 0), (2, 2, 1)]);
}

async fn go_with_their_task(on: Engine) {
    let store = on.node().await;
    ask(&*store, "a", "1", "U1").await;
    ask(&*store, "b", "1", "U1").await;
    for id in ["a", "b"] {
        let given = feedback(id, "U1", true, 1);
        store.give_feedback(&given).await.unwrap();
    }
    let mut ended = next(&task("a"));
    ended.state = TaskState::Completed;
    ended.finished_at = Some(at(1));
    store.commit(commit(vec![update(&ended)])).await.unwrap();
    let retention = Retention {
        finished: Duration::from_secs(1),
        events: Duration::from_secs(1),
        ..Retention::default()
    };
    while store
        .purge(&retention, at(10_000), 100)
        .await
        .unwrap()
        .total()
        > 0
    {}
    assert_eq!(store.task(&task_id("a")).await.unwrap(), None);
    assert_eq!(store.question(&task_id("a")).await.unwrap(), None);
    assert_eq!(store.feedback(&[task_id("a")]).await.unwrap(), []);
    let kept = store.conversations(&first(10)).await.unwrap();
    assert_eq!((kept.found[0].questions, kept.found[0].good), (1, 1));
}
