//! Conversations in a workspace, and what people think of the answers.

use super::{CONTENT_SCOPE, Place};
use http::StatusCode;
use interzone_execution::OPERATE_SCOPE;
use interzone_hub::{Asking, Caller, Feedback, NewTask, Task};
use interzone_protocol::vocab::{Message, PrincipalId};

async fn ask(place: &Place, thread: &str, user: &str, words: &str) -> Task {
    let caller = Caller::new(PrincipalId::new("verification").unwrap());
    let new = NewTask {
        asking: Asking::new("T1", "C<1>", thread, user),
        ..NewTask::new(Message::user_text(words))
    };
    place.hub.create_task(&caller, new).await.unwrap()
}

async fn say(place: &Place, task: &Task, who: &str, good: bool, comment: Option<&str>) {
    let caller = Caller::new(PrincipalId::new("verification").unwrap());
    let given = Feedback {
        task_id: task.id.clone(),
        who: who.to_owned(),
        good,
        comment: comment.map(str::to_owned),
        at: place.hub.now(),
    };
    place.hub.give_feedback(&caller, given).await.unwrap();
}

/// The address of the first thread of a page.
fn thread_of(page: &str) -> String {
    let link = page.split("href=\"/console/conversations/thread").nth(1);
    let link = link.unwrap_or_else(|| panic!("no thread: {page}"));
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    format!("/console/conversations/thread{link}")
}

#[tokio::test]
async fn a_conversation_shows_who_asked_what_and_what_they_think() {
    let place = Place::new().await;
    let cookie = place.by_link().await;
    let empty = place.page("/console/conversations", &cookie).await;
    assert!(empty.contains("Nobody has asked in Slack yet"), "{empty}");
    let first = ask(&place, "1.1", "U1", "the-first-question").await;
    let second = ask(&place, "1.1", "U2", "the <b>second</b>").await;
    ask(&place, "2.2", "U1", "elsewhere").await;
    say(&place, &first, "U1", true, None).await;
    say(&place, &second, "U1", false, Some("the-<i>comment</i>")).await;
    say(&place, &second, "U3", true, None).await;
    say(&place, &second, "U3", false, None).await;
    let list = place.page("/console/conversations", &cookie).await;
    for word in ["C&lt;1&gt;", "1.1", "2.2", "U2", "2 not useful", ">useful<"] {
        assert!(list.contains(word), "{word}: {list}");
    }
    assert!(
        !list.contains("the-first-question"),
        "a list has no content: {list}"
    );
    let mine = place.page("/console/conversations?user=U2", &cookie).await;
    let page = place.page(&thread_of(&mine), &cookie).await;
    for word in [
        "the-first-question",
        "the &lt;b&gt;second&lt;/b&gt;",
        "the-&lt;i&gt;comment&lt;/i&gt;",
        "U3",
        "T1",
        first.id.as_str(),
        second.id.as_str(),
    ] {
        assert!(page.contains(word), "{word}: {page}");
    }
    assert!(!page.contains("elsewhere"), "{page}");
    let task = place
        .page(&format!("/console/tasks/{}", second.id), &cookie)
        .await;
    assert!(task.contains("the-&lt;i&gt;comment&lt;/i&gt;"), "{task}");
    assert_eq!(thread_of(&task), thread_of(&mine));
    let found = place.page("/console/search?q=U2", &cookie).await;
    assert!(found.contains("in which this user asked"), "{found}");
    assert_eq!(thread_of(&found), thread_of(&mine));
    let nowhere = "/console/conversations/thread?team=T1&channel=C1&thread=9";
    let nowhere = place.get(nowhere, &cookie).await;
    assert_eq!(nowhere.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_was_said_is_for_those_who_may_see_it() {
    let place = Place::new().await;
    let task = ask(&place, "1.1", "U1", "the-secret-question").await;
    say(&place, &task, "U1", true, Some("the-secret-comment")).await;
    for (scopes, shown) in [
        (vec![OPERATE_SCOPE], false),
        (vec![OPERATE_SCOPE, CONTENT_SCOPE], true),
    ] {
        let place_of_task = format!("/console/tasks/{}", task.id);
        let cookie = if shown {
            place.by_link().await
        } else {
            place.by_issuer(&scopes).await
        };
        let list = place.page("/console/conversations", &cookie).await;
        let thread = place.page(&thread_of(&list), &cookie).await;
        let story = place.page(&place_of_task, &cookie).await;
        for (page, word) in [
            (&thread, "the-secret-question"),
            (&thread, "the-secret-comment"),
            (&story, "the-secret-comment"),
        ] {
            assert_eq!(page.contains(word), shown, "{word}: {page}");
            assert!(page.contains(">useful<"), "{page}");
        }
    }
}

#[tokio::test]
async fn conversations_are_shown_a_page_at_a_time() {
    let place = Place::new().await;
    for number in 0..120 {
        ask(&place, &format!("t{number}"), "U1", "hi").await;
    }
    let cookie = place.by_link().await;
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
