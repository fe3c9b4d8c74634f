//! Display of task content: escaping, scopes, downloads and event streams.

use super::{CONTENT_SCOPE, ConsoleFixture};
use futures_util::StreamExt;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http_body_util::BodyExt;
use interzone_execution::OPERATE_SCOPE;
use interzone_hub::TurnOutput;
use interzone_protocol::vocab::{Artifact, ArtifactId, Part};
use std::time::Duration;

const HOSTILE: &str = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>";

/// Creates a task with a hostile question, a streamed answer and a file.
async fn create_task_with_content(place: &ConsoleFixture) -> String {
    let task = place.create_task("bert<b>", HOSTILE).await;
    let (run, turn) = place.claim_and_start().await;
    run.text("こんにちは ").await.unwrap();
    run.text("the-secret-answer").await.unwrap();
    run.status("the-secret-status").await.unwrap();
    let page = Part::file("PHNjcmlwdD5oaTwvc2NyaXB0Pg==")
        .with_filename("the-secret-name\".html")
        .with_media_type("text/html")
        .with_size(19);
    let picture = Part::file("iVBORw0KGgo=").with_media_type("image/png");
    let artifact = Artifact::new(ArtifactId::new("a").unwrap(), "the-secret-file")
        .with_parts(vec![page, picture]);
    run.artifact(artifact, false, true).await.unwrap();
    let outcome = interzone_hub::TurnOutcome::Completed {
        message: None,
        direct: false,
    };
    run.complete(&turn, outcome).await.unwrap();
    task.id.to_string()
}

#[tokio::test]
async fn content_is_html_escaped() {
    let place = ConsoleFixture::new().await;
    let id = create_task_with_content(&place).await;
    let cookie = place.sign_in_by_link().await;
    let search = format!("/console/search?q={}", "%3Cscript%3Ealert(1)%3C/script%3E");
    let owner = "/console/tasks?owner=%22%3E%3Cscript%3E";
    for path in [
        "/console",
        "/console/tasks",
        owner,
        &format!("/console/tasks/{id}"),
        &search,
        "/console/tasks/%3Cscript%3E",
    ] {
        let answer = place.get(path, &cookie).await;
        let policy = answer.headers[CONTENT_SECURITY_POLICY]
            .to_str()
            .unwrap()
            .to_owned();
        assert!(
            policy.contains("script-src 'self'") && !policy.contains("unsafe"),
            "{policy}"
        );
        let page = answer.text().await;
        assert!(
            !page.contains("<script>") && !page.contains("<img src=x"),
            "{path}: {page}"
        );
        assert!(
            !page.contains(" style=") && !page.contains(" onclick="),
            "{path}: {page}"
        );
        assert!(!page.contains("bert<b>"), "{path}: {page}");
    }
    let page = place.page(&format!("/console/tasks/{id}"), &cookie).await;
    for expected in [
        "&lt;script&gt;alert(1)",
        "the-secret-answer",
        "the-secret-status",
        "the-secret-file",
        "こんにちは",
        "Answer extended by",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
}

#[tokio::test]
async fn file_name_is_shown_once() {
    let place = ConsoleFixture::new().await;
    let task = place.create_task("bert", "hello").await;
    let (run, turn) = place.claim_and_start().await;
    let file = Part::file("aGk=")
        .with_filename("report.txt")
        .with_media_type("text/plain");
    let other = Part::file("aGk=").with_filename("appendix.txt");
    let artifact = Artifact::new(ArtifactId::new("a").unwrap(), "report.txt");
    let artifact = artifact.with_parts(vec![file, other]);
    run.artifact(artifact, false, true).await.unwrap();
    let outcome = interzone_hub::TurnOutcome::Completed {
        message: None,
        direct: false,
    };
    run.complete(&turn, outcome).await.unwrap();
    let cookie = place.sign_in_by_link().await;
    let page = place
        .page(&format!("/console/tasks/{}", task.id), &cookie)
        .await;
    let artifacts = page.split("<ul class=\"artifacts\">").nth(1).unwrap();
    let artifacts = artifacts.split("</ul>").next().unwrap();
    assert_eq!(artifacts.matches("report.txt").count(), 1, "{artifacts}");
    assert_eq!(artifacts.matches("appendix.txt").count(), 1, "{artifacts}");
}

#[tokio::test]
async fn content_requires_content_scope() {
    let place = ConsoleFixture::new().await;
    let id = create_task_with_content(&place).await;
    let cookie = place.sign_in_at_issuer(&[OPERATE_SCOPE]).await;
    let page = place.page(&format!("/console/tasks/{id}"), &cookie).await;
    for secret in ["the-secret", "こんにちは", "alert(1)", "Download"] {
        assert!(!page.contains(secret), "{secret}: {page}");
    }
    assert!(
        page.contains("hidden") && page.contains("text/html"),
        "{page}"
    );
    let file = format!("/console/tasks/{id}/files/artifact/0/0");
    let answer = place.get(&file, &cookie).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let text = answer.text().await;
    assert!(
        text.contains(CONTENT_SCOPE) && !text.contains("hi</script>"),
        "{text}"
    );
}

#[tokio::test]
async fn files_are_served_as_downloads() {
    let place = ConsoleFixture::new().await;
    let id = create_task_with_content(&place).await;
    let cookie = place.sign_in_by_link().await;
    let get = async |path: &str| {
        let path = format!("/console/tasks/{id}/files/{path}");
        place.get(&path, &cookie).await
    };
    for path in ["artifact/0/0", "artifact/0/0?inline"] {
        let answer = get(path).await;
        assert_eq!(answer.headers[CONTENT_TYPE], "application/octet-stream");
        let disposition = answer.headers[CONTENT_DISPOSITION]
            .to_str()
            .unwrap()
            .to_owned();
        assert!(
            disposition.starts_with("attachment;") && !disposition.contains('"'),
            "{disposition}"
        );
        let policy = answer.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("sandbox"), "{policy}");
        assert_eq!(answer.text().await, "<script>hi</script>");
    }
    let answer = get("artifact/0/1?inline").await;
    assert_eq!(answer.headers[CONTENT_TYPE], "image/png");
    assert_eq!(get("message/0/0").await.text().await, HOSTILE);
    for path in [
        "artifact/1/0",
        "artifact/0/2",
        "message/9/0",
        "else/0/0",
        "message/4294967295/0",
    ] {
        assert_eq!(get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn change_events_have_no_content() {
    let place = ConsoleFixture::new().await;
    let running = tokio::spawn(place.console.clone().run(place.stop.clone()));
    let cookie = place.sign_in_by_link().await;
    let answer = place.get("/console/events", &cookie).await;
    assert_eq!(answer.headers[CONTENT_TYPE], "text/event-stream");
    let mut data = answer.body.into_data_stream();
    let mut text = String::new();
    let mut number = 0;
    let mut again = tokio::time::interval(Duration::from_millis(200));
    let received = async {
        // Changes before the stream was opened are on the page, so it may take another change.
        while !text.contains("\"owner\":\"bert\"") {
            tokio::select! {
                piece = data.next() => {
                    let piece = piece.expect("the stream continues").unwrap();
                    text += std::str::from_utf8(&piece).unwrap();
                }
                _ = again.tick() => {
                    number += 1;
                    place.create_task("bert", &format!("the-secret-{number}")).await;
                }
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), received)
        .await
        .expect("a change before the timeout");
    assert!(text.contains("event: changes"), "{text}");
    assert!(!text.contains("the-secret"), "{text}");
    place.stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn event_streams_per_session_are_limited() {
    let place = ConsoleFixture::new().await;
    let (many, other) = (place.sign_in_by_link().await, place.sign_in_by_link().await);
    let mut windows = Vec::new();
    for _ in 0..40 {
        let answer = place.get("/console/events", &many).await;
        assert_eq!(answer.status, StatusCode::OK, "the newest is accepted");
        windows.push(answer);
    }
    let theirs = place.get("/console/events", &other).await;
    assert_eq!(
        theirs.status,
        StatusCode::OK,
        "other sessions are unaffected"
    );
    // The oldest streams get a final event and end.
    let newest = windows.split_off(36);
    for window in windows {
        let text = tokio::time::timeout(Duration::from_secs(10), window.text()).await;
        let text = text.expect("the stream ends");
        assert!(text.ends_with("event: aside\ndata: {}\n\n"), "{text}");
    }
    // The others continue until shutdown.
    place.stop.cancel();
    for window in newest.into_iter().chain([theirs]) {
        assert_eq!(window.text().await, "retry: 3000\n\n");
    }
}

#[tokio::test]
async fn invalid_paths_get_the_console_404_page() {
    let place = ConsoleFixture::new().await;
    let cookies = place.sign_in_by_link().await;
    for path in [
        "/console/tasks/%ff",
        "/console/tasks/x/files/message/abc/0",
        "/console/tasks/x/files/message/0/99999999999999999999999",
    ] {
        let answer = place.get(path, &cookies).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert!(
            answer.headers.contains_key(CONTENT_SECURITY_POLICY),
            "{path}"
        );
        let text = answer.text().await;
        assert!(text.contains("Not found"), "{path}: {text}");
    }
}
