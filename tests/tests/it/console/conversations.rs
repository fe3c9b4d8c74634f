//! Slack conversations and user feedback.

use super::{CONTENT_SCOPE, ConsoleFixture};
use http::StatusCode;
use interzone_execution::OPERATE_SCOPE;
use interzone_hub::{Caller, Feedback, NewTask, Task, ThreadOrigin};
use interzone_protocol::vocab::{Message, PrincipalId};

async fn create_thread_task(place: &ConsoleFixture, thread: &str, user: &str, text: &str) -> Task {
    let caller = Caller::new(PrincipalId::new("verification").unwrap());
    let new = NewTask {
        thread_origin: ThreadOrigin::new("T1", "C<1>", thread, user),
        ..NewTask::new(Message::user_text(text))
    };
    place.hub.create_task(&caller, new).await.unwrap()
}

async fn give_feedback(
    place: &ConsoleFixture,
    task: &Task,
    author: &str,
    is_positive: bool,
    comment: Option<&str>,
) {
    let caller = Caller::new(PrincipalId::new("verification").unwrap());
    let feedback = Feedback {
        task_id: task.id.clone(),
        author: author.to_owned(),
        is_positive,
        comment: comment.map(str::to_owned),
        given_at: place.hub.now(),
    };
    place.hub.give_feedback(&caller, feedback).await.unwrap();
}

/// Path of the first thread that a page links to.
fn thread_path(page: &str) -> String {
    let link = page.split("href=\"/console/conversations/thread").nth(1);
    let link = link.unwrap_or_else(|| panic!("no thread: {page}"));
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    format!("/console/conversations/thread{link}")
}

#[tokio::test]
async fn conversation_page_shows_questions_and_feedback() {
    let place = ConsoleFixture::new().await;
    let cookie = place.sign_in_by_link().await;
    let empty = place.page("/console/conversations", &cookie).await;
    assert!(empty.contains("No conversations yet"), "{empty}");
    let first = create_thread_task(&place, "1.1", "U1", "the-first-question").await;
    let second = create_thread_task(&place, "1.1", "U2", "the <b>second</b>").await;
    create_thread_task(&place, "2.2", "U1", "elsewhere").await;
    give_feedback(&place, &first, "U1", true, None).await;
    give_feedback(&place, &second, "U1", false, Some("the-<i>comment</i>")).await;
    give_feedback(&place, &second, "U3", true, None).await;
    give_feedback(&place, &second, "U3", false, None).await;
    let list = place.page("/console/conversations", &cookie).await;
    for expected in ["C&lt;1&gt;", "1.1", "2.2", "U2", "2 not useful", ">useful<"] {
        assert!(list.contains(expected), "{expected}: {list}");
    }
    assert!(
        !list.contains("the-first-question"),
        "a list has no content: {list}"
    );
    let mine = place.page("/console/conversations?user=U2", &cookie).await;
    let page = place.page(&thread_path(&mine), &cookie).await;
    for expected in [
        "the-first-question",
        "the &lt;b&gt;second&lt;/b&gt;",
        "the-&lt;i&gt;comment&lt;/i&gt;",
        "U3",
        "T1",
        first.id.as_str(),
        second.id.as_str(),
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(!page.contains("elsewhere"), "{page}");
    let task = place
        .page(&format!("/console/tasks/{}", second.id), &cookie)
        .await;
    assert!(task.contains("the-&lt;i&gt;comment&lt;/i&gt;"), "{task}");
    assert_eq!(thread_path(&task), thread_path(&mine));
    let found = place.page("/console/search?q=U2", &cookie).await;
    assert!(found.contains("in which this user asked"), "{found}");
    assert_eq!(thread_path(&found), thread_path(&mine));
    let nowhere = "/console/conversations/thread?team=T1&channel=C1&thread=9";
    let nowhere = place.get(nowhere, &cookie).await;
    assert_eq!(nowhere.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn conversation_content_requires_content_scope() {
    let place = ConsoleFixture::new().await;
    let task = create_thread_task(&place, "1.1", "U1", "the-secret-question").await;
    give_feedback(&place, &task, "U1", true, Some("the-secret-comment")).await;
    for (scopes, shown) in [
        (vec![OPERATE_SCOPE], false),
        (vec![OPERATE_SCOPE, CONTENT_SCOPE], true),
    ] {
        let place_of_task = format!("/console/tasks/{}", task.id);
        let cookie = if shown {
            place.sign_in_by_link().await
        } else {
            place.sign_in_at_issuer(&scopes).await
        };
        let list = place.page("/console/conversations", &cookie).await;
        let thread = place.page(&thread_path(&list), &cookie).await;
        let story = place.page(&place_of_task, &cookie).await;
        for (page, secret) in [
            (&thread, "the-secret-question"),
            (&thread, "the-secret-comment"),
            (&story, "the-secret-comment"),
        ] {
            assert_eq!(page.contains(secret), shown, "{secret}: {page}");
            assert!(page.contains(">useful<"), "{page}");
        }
    }
}

#[tokio::test]
async fn conversations_are_paginated() {
    let place = ConsoleFixture::new().await;
    for number in 0..120 {
        create_thread_task(&place, &format!("t{number}"), "U1", "hi").await;
    }
    let cookie = place.sign_in_by_link().await;
    let (mut path, mut sizes) = ("/console/conversations".to_owned(), Vec::new());
    loop {
        let page = place.page(&path, &cookie).await;
        sizes.push(page.matches("/console/conversations/thread").count());
        let Some(next) = page.split("rel=\"next\" href=\"").nth(1) else {
            break;
        };
        path = next.split('"').next().unwrap().replace("&amp;", "&");
    }
    assert_eq!(sizes, [50, 50, 20]);
}
