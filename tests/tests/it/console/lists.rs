//! Finding one among many.

use super::{Place, URL, form_token};
use http::StatusCode;
use interzone_edge::issuer::{Grant, NewClient};
use interzone_hub::ports::{DeadLetterQuery, Pair};
use interzone_hub::{Caller, NewEntry, NewTask, RetryPolicy};
use interzone_protocol::vocab::{Json, Message, PrincipalId};
use std::collections::HashSet;
use std::time::Duration;

fn rows(page: &str) -> Vec<String> {
    let rows = page.split("<tr data-id=\"").skip(1);
    rows.map(|row| row.split('"').next().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn an_owner_is_shown_by_the_name_that_its_client_has() {
    let place = Place::new().await;
    let new = NewClient {
        id: Some("client-1".to_owned()),
        name: "Reports <b>".to_owned(),
        scopes: vec!["acp:tasks:read".to_owned()],
        grants: vec![Grant::ClientCredentials],
        ..NewClient::default()
    };
    place.clients.add(new).await.unwrap();
    let theirs = place.task("client-1", "hello").await;
    place.task("somebody-else", "hello").await;
    let cookie = place.by_link().await;
    let one = format!("/console/tasks/{}", theirs.id);
    for path in ["/console", "/console/tasks", &one] {
        let page = place.page(path, &cookie).await;
        assert!(
            page.contains("title=\"client-1\">Reports &lt;b&gt;<"),
            "{page}"
        );
    }
    let page = place.page("/console/tasks", &cookie).await;
    assert!(page.contains(">somebody-else<"), "{page}");
    // It is found by its id, and by its name in whatever case.
    for word in ["client-1", "Reports+%3Cb%3E", "rEPORTS+%3CB%3E"] {
        let page = place
            .page(&format!("/console/tasks?owner={word}"), &cookie)
            .await;
        assert_eq!(rows(&page), [theirs.id.as_str()], "{word}");
        let page = place
            .page(&format!("/console/search?q={word}"), &cookie)
            .await;
        assert_eq!(rows(&page), [theirs.id.as_str()], "{word}");
    }
    // And so is whoever called.
    let asked = Pair {
        who: "client-1".to_owned(),
        client: "client-1".to_owned(),
        ..pair(Some(&theirs), "7", "corr-1")
    };
    let by_another = Pair {
        who: "person:anna".to_owned(),
        ..asked.clone()
    };
    let pairs = vec![asked, by_another];
    place.hub.store().note_pairs(pairs).await.unwrap();
    let page = place.page(&one, &cookie).await;
    for caller in [
        "title=\"client-1\">Reports &lt;b&gt;</td>",
        "title=\"person:anna by client-1\">person:anna <span class=\"soft\">by Reports &lt;b&gt;</span>",
    ] {
        assert!(page.contains(caller), "{caller}: {page}");
    }
}

#[tokio::test]
async fn whoever_shares_a_name_is_chosen_by_id() {
    let place = Place::new().await;
    for id in ["client-1", "client-2"] {
        let new = NewClient {
            id: Some(id.to_owned()),
            name: "Reports".to_owned(),
            scopes: vec!["acp:tasks:read".to_owned()],
            grants: vec![Grant::ClientCredentials],
            ..NewClient::default()
        };
        place.clients.add(new).await.unwrap();
    }
    let theirs = place.task("client-2", "hello").await;
    let cookie = place.by_link().await;
    let page = place
        .page("/console/tasks?state=submitted&owner=reports", &cookie)
        .await;
    assert!(page.contains("2 clients are called reports"), "{page}");
    let choice = "/console/tasks?state=submitted&amp;owner=client-2";
    assert!(page.contains(choice), "{page}");
    let page = place.page(&choice.replace("&amp;", "&"), &cookie).await;
    assert_eq!(rows(&page), [theirs.id.as_str()]);
    let page = place.page("/console/search?q=reports", &cookie).await;
    assert!(page.contains("Tasks of Reports (client-2)"), "{page}");
}

#[tokio::test]
async fn tasks_are_shown_a_page_at_a_time() {
    let place = Place::new().await;
    let mut all = HashSet::new();
    for number in 0..120 {
        let owner = if number % 4 == 0 { "anna & co" } else { "bert" };
        all.insert(place.task(owner, "hello").await.id.to_string());
    }
    let cookie = place.by_link().await;
    let (mut seen, mut sizes) = (HashSet::new(), Vec::new());
    let mut path = "/console/tasks".to_owned();
    loop {
        let page = place.page(&path, &cookie).await;
        let rows = rows(&page);
        sizes.push(rows.len());
        seen.extend(rows);
        let Some(next) = page.split("rel=\"next\" href=\"").nth(1) else {
            break;
        };
        path = next.split('"').next().unwrap().replace("&amp;", "&");
    }
    assert_eq!(sizes, [50, 50, 20]);
    assert_eq!(seen, all, "each once");
    let page = place
        .page("/console/tasks?owner=anna+%26+co", &cookie)
        .await;
    assert_eq!(rows(&page).len(), 30);
    assert!(page.contains("value=\"anna &amp; co\""), "{page}");
    place.finish("done").await;
    for (query, count) in [
        ("state=completed", 1),
        ("state=completed&owner=nobody", 0),
        ("state=waiting", 0),
        ("state=nonsense", 0),
        ("agent=demo&state=completed", 1),
        ("agent=other", 0),
        ("after=nonsense", 50),
        ("owner=%01", 0),
    ] {
        let page = place
            .page(&format!("/console/tasks?{query}"), &cookie)
            .await;
        assert_eq!(rows(&page).len(), count, "{query}");
    }
    let page = place.page("/console/tasks?state=%3Cb%3E", &cookie).await;
    assert!(page.contains("No state is called “&lt;b&gt;”"), "{page}");
    let overview = place.page("/console", &cookie).await;
    assert_eq!(rows(&overview).len(), 25);
    assert!(
        overview.contains("data-count=\"submitted\">119<"),
        "{overview}"
    );
}

fn pair(task: Option<&interzone_hub::Task>, id: &str, correlation: &str) -> Pair {
    Pair {
        at: interzone_protocol::vocab::Timestamp::from_millis(1_000),
        took: Duration::from_millis(3),
        id: Some(id.to_owned()),
        method: "tasks.create".to_owned(),
        who: "bert".to_owned(),
        client: "laptop".to_owned(),
        correlation: correlation.to_owned(),
        task: task.map(|task| task.id.clone()),
        outcome: "ok".to_owned(),
        code: None,
        address: None,
    }
}

#[tokio::test]
async fn anything_is_found_by_a_name_that_it_has() {
    let place = Place::new().await;
    let task = place.task("bert", "hello").await;
    let pairs = vec![
        pair(Some(&task), "7", "corr-1"),
        pair(None, "\"seven\"", "corr-2"),
    ];
    place.hub.store().note_pairs(pairs).await.unwrap();
    let cookie = place.by_link().await;
    let found = place
        .get(&format!("/console/search?q={}", task.id), &cookie)
        .await;
    assert_eq!(found.location(), format!("/console/tasks/{}", task.id));
    // A conversation has the id of the task that it began with. With another task in it, both are shown.
    let bert = Caller::new(PrincipalId::new("bert").unwrap());
    let next = NewTask {
        context_id: Some(task.context_id.clone()),
        ..NewTask::new(Message::user_text("and again"))
    };
    let next = place.hub.create_task(&bert, next).await.unwrap();
    assert_eq!(task.context_id.as_str(), task.id.as_str());
    let page = place
        .page(&format!("/console/search?q={}", task.id), &cookie)
        .await;
    for id in [&task.id, &next.id] {
        assert!(page.contains(&format!("/console/tasks/{id}")), "{page}");
    }
    for (wanted, word) in [
        ("corr-1", "Requests with this correlation id"),
        ("7", "Requests with this id"),
        ("seven", "Requests with this id"),
        ("bert", "Tasks of this user"),
        (task.context_id.as_str(), "Tasks of this conversation"),
        ("nothing-at-all", "Nothing has this name"),
    ] {
        let page = place
            .page(&format!("/console/search?q={wanted}"), &cookie)
            .await;
        assert!(page.contains(word), "{wanted}: {page}");
    }
    // The task's own page has the request too.
    let page = place
        .page(&format!("/console/tasks/{}", task.id), &cookie)
        .await;
    assert!(
        page.contains("corr-1") && !page.contains("corr-2"),
        "{page}"
    );
    let missing = place.get("/console/tasks/none", &cookie).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_was_given_up_is_sent_again() {
    let place = Place::new().await;
    let entry = NewEntry {
        channel: "webhook".to_owned(),
        key: "k".to_owned(),
        group: None,
        owner: PrincipalId::new("bert").unwrap(),
        subject: None,
        payload: Json::parse("{\"secret\":\"the-secret-payload\"}").unwrap(),
    };
    place.hub.enqueue(vec![entry]).await.unwrap();
    let channels = ["webhook".to_owned()];
    let taken = place
        .hub
        .take_out(&channels, Duration::from_secs(9), 1)
        .await
        .unwrap();
    let policy = RetryPolicy::default();
    let why = "the receiver <said> no";
    let settled = place
        .hub
        .did_not_arrive(&taken[0], &policy, why, None, false)
        .await;
    assert!(settled.unwrap());
    let cookie = place.by_link().await;
    let page = place.page("/console/dead-letters", &cookie).await;
    assert!(page.contains("the receiver &lt;said&gt; no"), "{page}");
    assert!(!page.contains("the-secret-payload"), "{page}");
    let form = format!("token={}", form_token(&page));
    let path = format!("/console/dead-letters/{}/replay", taken[0].id);
    let replayed = place.post(&path, &cookie, Some(URL), &form).await;
    assert_eq!(replayed.status, StatusCode::SEE_OTHER);
    let query = DeadLetterQuery {
        limit: 9,
        ..DeadLetterQuery::default()
    };
    assert!(
        place
            .hub
            .store()
            .dead_letters(&query)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(place.hub.store().outbox_depth().await.unwrap(), (1, 0));
    let again = place.post(&path, &cookie, Some(URL), &form).await;
    assert_eq!(again.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn refusals_are_counted_where_an_operator_looks() {
    let place = Place::new().await;
    place.metrics.rate_limited();
    place.metrics.auth_refused("expired");
    place.metrics.request("tasks.get", "not_found", 0.1);
    let cookie = place.by_link().await;
    let page = place.page("/console/limits", &cookie).await;
    for word in ["rate_limited", "expired", "not_found"] {
        assert!(page.contains(word), "{word}: {page}");
    }
}
