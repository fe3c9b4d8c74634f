//! Task lists, filters, search and dead letters.

use super::{ConsoleFixture, URL, form_token};
use http::StatusCode;
use interzone_hub::ports::{DeadLetterQuery, RequestLogEntry};
use interzone_hub::{Caller, NewOutboxEntry, NewTask, RetryPolicy};
use interzone_issuer::{GrantType, NewOAuthClient};
use interzone_protocol::vocab::{Message, PrincipalId, VerbatimJson};
use std::collections::HashSet;
use std::time::Duration;

fn rows(page: &str) -> Vec<String> {
    let rows = page.split("<tr data-id=\"").skip(1);
    rows.map(|row| row.split('"').next().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn task_owner_is_shown_by_client_name() {
    let place = ConsoleFixture::new().await;
    let new = NewOAuthClient {
        id: Some("client-1".to_owned()),
        name: "Reports <b>".to_owned(),
        scopes: vec!["acp:tasks:read".to_owned()],
        grants: vec![GrantType::ClientCredentials],
        ..NewOAuthClient::default()
    };
    place.clients.add(new).await.unwrap();
    let theirs = place.create_task("client-1", "hello").await;
    place.create_task("other-client", "hello").await;
    let cookie = place.sign_in_by_link().await;
    let one = format!("/console/tasks/{}", theirs.id);
    for path in ["/console", "/console/tasks", &one] {
        let page = place.page(path, &cookie).await;
        assert!(
            page.contains("title=\"client-1\">Reports &lt;b&gt;<"),
            "{page}"
        );
    }
    let page = place.page("/console/tasks", &cookie).await;
    assert!(page.contains(">other-client<"), "{page}");
    // It is found by its id, and by its name in any case.
    for query in ["client-1", "Reports+%3Cb%3E", "rEPORTS+%3CB%3E"] {
        let page = place
            .page(&format!("/console/tasks?owner={query}"), &cookie)
            .await;
        assert_eq!(rows(&page), [theirs.id.as_str()], "{query}");
        let page = place
            .page(&format!("/console/search?q={query}"), &cookie)
            .await;
        assert_eq!(rows(&page), [theirs.id.as_str()], "{query}");
    }
    // Callers in the request log are shown by name too.
    let own_request = RequestLogEntry {
        principal: "client-1".to_owned(),
        client: "client-1".to_owned(),
        ..request_entry(Some(&theirs), "7", "corr-1")
    };
    let by_another = RequestLogEntry {
        principal: "user:anna".to_owned(),
        ..own_request.clone()
    };
    let requests = vec![own_request, by_another];
    place.hub.store().append_requests(requests).await.unwrap();
    let page = place.page(&one, &cookie).await;
    for caller in [
        "title=\"client-1\">Reports &lt;b&gt;</td>",
        "title=\"user:anna by client-1\">user:anna <span class=\"soft\">by Reports &lt;b&gt;</span>",
    ] {
        assert!(page.contains(caller), "{caller}: {page}");
    }
}

#[tokio::test]
async fn clients_with_same_name_are_chosen_by_id() {
    let place = ConsoleFixture::new().await;
    for id in ["client-1", "client-2"] {
        let new = NewOAuthClient {
            id: Some(id.to_owned()),
            name: "Reports".to_owned(),
            scopes: vec!["acp:tasks:read".to_owned()],
            grants: vec![GrantType::ClientCredentials],
            ..NewOAuthClient::default()
        };
        place.clients.add(new).await.unwrap();
    }
    let theirs = place.create_task("client-2", "hello").await;
    let cookie = place.sign_in_by_link().await;
    let page = place
        .page("/console/tasks?state=submitted&owner=reports", &cookie)
        .await;
    assert!(page.contains("2 clients are named reports"), "{page}");
    let choice = "/console/tasks?state=submitted&amp;owner=client-2";
    assert!(page.contains(choice), "{page}");
    let page = place.page(&choice.replace("&amp;", "&"), &cookie).await;
    assert_eq!(rows(&page), [theirs.id.as_str()]);
    let page = place.page("/console/search?q=reports", &cookie).await;
    assert!(page.contains("Tasks of Reports (client-2)"), "{page}");
}

#[tokio::test]
async fn tasks_are_paginated_and_filtered() {
    let place = ConsoleFixture::new().await;
    let mut all = HashSet::new();
    for number in 0..120 {
        let owner = if number % 4 == 0 { "anna & co" } else { "bert" };
        all.insert(place.create_task(owner, "hello").await.id.to_string());
    }
    let cookie = place.sign_in_by_link().await;
    let (mut listed, mut sizes) = (HashSet::new(), Vec::new());
    let mut path = "/console/tasks".to_owned();
    loop {
        let page = place.page(&path, &cookie).await;
        let rows = rows(&page);
        sizes.push(rows.len());
        listed.extend(rows);
        let Some(next) = page.split("rel=\"next\" href=\"").nth(1) else {
            break;
        };
        path = next.split('"').next().unwrap().replace("&amp;", "&");
    }
    assert_eq!(sizes, [50, 50, 20]);
    assert_eq!(listed, all, "each once");
    let page = place
        .page("/console/tasks?owner=anna+%26+co", &cookie)
        .await;
    assert_eq!(rows(&page).len(), 30);
    assert!(page.contains("value=\"anna &amp; co\""), "{page}");
    place.complete_next("done").await;
    for (query, count) in [
        ("state=completed", 1),
        ("state=completed&owner=unknown", 0),
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
    assert!(page.contains("Unknown state “&lt;b&gt;”"), "{page}");
    let overview = place.page("/console", &cookie).await;
    assert_eq!(rows(&overview).len(), 25);
    assert!(
        overview.contains("data-count=\"submitted\">119<"),
        "{overview}"
    );
}

fn request_entry(
    task: Option<&interzone_hub::Task>,
    id: &str,
    correlation: &str,
) -> RequestLogEntry {
    RequestLogEntry {
        answered_at: interzone_protocol::vocab::Timestamp::from_millis(1_000),
        duration: Duration::from_millis(3),
        id: Some(id.to_owned()),
        method: "tasks.create".to_owned(),
        principal: "bert".to_owned(),
        client: "laptop".to_owned(),
        correlation_id: correlation.to_owned(),
        task: task.map(|task| task.id.clone()),
        outcome: "ok".to_owned(),
        code: None,
        address: None,
    }
}

#[tokio::test]
async fn search_finds_tasks_and_requests_by_any_id() {
    let place = ConsoleFixture::new().await;
    let task = place.create_task("bert", "hello").await;
    let requests = vec![
        request_entry(Some(&task), "7", "corr-1"),
        request_entry(None, "\"seven\"", "corr-2"),
    ];
    place.hub.store().append_requests(requests).await.unwrap();
    let cookie = place.sign_in_by_link().await;
    let found = place
        .get(&format!("/console/search?q={}", task.id), &cookie)
        .await;
    assert_eq!(found.location(), format!("/console/tasks/{}", task.id));
    // A conversation has the id of its first task. With another task in it, both are shown.
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
    for (wanted, heading) in [
        ("corr-1", "Requests with this correlation id"),
        ("7", "Requests with this id"),
        ("seven", "Requests with this id"),
        ("bert", "Tasks of this user"),
        (task.context_id.as_str(), "Tasks of this conversation"),
        ("nothing-at-all", "No results."),
    ] {
        let page = place
            .page(&format!("/console/search?q={wanted}"), &cookie)
            .await;
        assert!(page.contains(heading), "{wanted}: {page}");
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
async fn dead_letter_can_be_replayed() {
    let place = ConsoleFixture::new().await;
    let entry = NewOutboxEntry {
        channel: "webhook".to_owned(),
        key: "k".to_owned(),
        group: None,
        owner: PrincipalId::new("bert").unwrap(),
        subject: None,
        payload: VerbatimJson::parse("{\"secret\":\"the-secret-payload\"}").unwrap(),
    };
    place.hub.enqueue(vec![entry]).await.unwrap();
    let channels = ["webhook".to_owned()];
    let taken = place
        .hub
        .lease_entries(&channels, Duration::from_secs(9), 1)
        .await
        .unwrap();
    let policy = RetryPolicy::default();
    let reason = "the receiver <said> no";
    let settled = place
        .hub
        .mark_failed(&taken[0], &policy, reason, None, false)
        .await;
    assert!(settled.unwrap());
    let cookie = place.sign_in_by_link().await;
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
async fn limits_page_shows_rejection_counts() {
    let place = ConsoleFixture::new().await;
    place.metrics.record_rate_limited();
    place.metrics.record_auth_failure("expired");
    place.metrics.record_request("tasks.get", "not_found", 0.1);
    let cookie = place.sign_in_by_link().await;
    let page = place.page("/console/limits", &cookie).await;
    for label in ["rate_limited", "expired", "not_found"] {
        assert!(page.contains(label), "{label}: {page}");
    }
}
