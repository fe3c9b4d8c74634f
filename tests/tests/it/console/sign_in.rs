//! Sign-in, session lifetime, scopes and CSRF checks.

use super::{CHANGE_SCOPE, CONTENT_SCOPE, ConsoleFixture, URL, form_token};
use http::header::SET_COOKIE;
use http::{Request, StatusCode};
use http_body_util::Full;
use interzone_execution::OPERATE_SCOPE;
use interzone_protocol::vocab::TaskState;

const PAGE_PATHS: [&str; 8] = [
    "/console",
    "/console/tasks",
    "/console/streams",
    "/console/topics",
    "/console/dead-letters",
    "/console/agents",
    "/console/limits",
    "/console/search?q=x",
];

#[tokio::test]
async fn pages_require_sign_in() {
    let place = ConsoleFixture::new().await;
    let task = place.create_task("bert", "hello").await;
    let one = format!("/console/tasks/{}", task.id);
    for path in PAGE_PATHS.iter().copied().chain([one.as_str()]) {
        for cookie in ["", "__Host-interzone-console=made-up"] {
            let answer = place.get(path, cookie).await;
            assert_eq!(answer.status, StatusCode::SEE_OTHER, "{path}");
            assert!(
                answer.location().starts_with("/console/login?next="),
                "{path}"
            );
            assert!(!answer.text().await.contains("hello"));
        }
    }
    for path in ["/console/events", "/console/plots", "/console/rows"] {
        let answer = place.get(path, "").await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    let answer = place
        .post(&format!("{one}/cancel"), "", Some(URL), "")
        .await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    let page = place.page("/console/login", "").await;
    assert!(page.contains("/console/login/start"), "{page}");
}

#[tokio::test]
async fn one_time_link_signs_in_once() {
    let place = ConsoleFixture::new().await;
    let link = place.console.one_time_link();
    let path = link.strip_prefix(URL).unwrap();
    // A HEAD request (link preview) does not use it up.
    let preview = Request::head(path).header("host", "zone.test");
    let preview = (place.call)(preview.body(Full::default()).unwrap()).await;
    assert_eq!(preview.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(preview.cookies().is_empty());
    let answer = place.get(path, "").await;
    assert_eq!(answer.status, StatusCode::OK);
    let set = answer.headers[SET_COOKIE].to_str().unwrap().to_owned();
    for attribute in [
        "__Host-",
        "; Secure",
        "; HttpOnly",
        "; SameSite=Strict",
        "; Path=/",
    ] {
        assert!(set.contains(attribute), "{attribute}: {set}");
    }
    let cookie = answer.cookies().join("; ");
    let again = place.get(path, "").await;
    assert_eq!(again.status, StatusCode::FORBIDDEN);
    assert!(again.cookies().is_empty());
    let inside = place.get(path, &cookie).await;
    assert_eq!(inside.location(), "/console", "a signed-in user stays so");
    for path in PAGE_PATHS {
        place.page(path, &cookie).await;
    }
    // Logout requires the console's own form, and ends the session.
    let token = form_token(&place.page("/console", &cookie).await);
    let form = format!("token={token}");
    let refused = place.post("/console/logout", &cookie, None, &form).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    place.page("/console", &cookie).await;
    let left = place
        .post("/console/logout", &cookie, Some(URL), &form)
        .await;
    assert_eq!(left.status, StatusCode::SEE_OTHER);
    let answer = place.get("/console", &cookie).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn user_signs_in_at_issuer() {
    let place = ConsoleFixture::new().await;
    let all = [OPERATE_SCOPE, CONTENT_SCOPE, CHANGE_SCOPE];
    let cookie = place.sign_in_at_issuer(&all).await;
    let page = place.page("/console", &cookie).await;
    assert!(page.contains("user:anna"), "{page}");
    assert!(
        page.contains("can read content · can make changes"),
        "{page}"
    );
    // A user removed at the issuer loses the session at once.
    assert!(place.users.remove("anna").await.unwrap());
    place.issuer.reload().await.unwrap();
    let answer = place.get("/console", &cookie).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn sign_in_requires_operator() {
    let place = ConsoleFixture::new().await;
    place.register_console_client(&[OPERATE_SCOPE]).await;
    let passphrase = place.users.add("bert").await.unwrap();
    let answer = place.consent("bert", passphrase.expose()).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.cookies().is_empty());
    let page = answer.text().await;
    assert!(page.contains("not an operator"), "{page}");
}

#[tokio::test]
async fn sign_in_requires_operate_scope() {
    let place = ConsoleFixture::new().await;
    place.register_console_client(&["acp:tasks:read"]).await;
    let passphrase = place.users.add("anna").await.unwrap();
    let answer = place.consent("anna", passphrase.expose()).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.cookies().is_empty());
    assert!(answer.text().await.contains(OPERATE_SCOPE));
}

#[tokio::test]
async fn callback_with_foreign_state_is_rejected() {
    let place = ConsoleFixture::new().await;
    place.register_console_client(&[OPERATE_SCOPE]).await;
    let start = place.get("/console/login/start", "").await;
    let pending = start.cookies().join("; ");
    assert!(start.location().contains("code_challenge_method=S256"));
    for (path, cookie) in [
        ("/console/callback?code=x&state=y", pending.as_str()),
        ("/console/callback?code=x", &pending),
        ("/console/callback?code=x&state=", ""),
        ("/console/callback", &pending),
    ] {
        let answer = place.get(path, cookie).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
        assert!(answer.cookies().is_empty());
    }
}

#[tokio::test]
async fn changes_require_csrf_token_and_change_scope() {
    let place = ConsoleFixture::new().await;
    let task = place.create_task("bert", "hello").await;
    let path = format!("/console/tasks/{}", task.id);
    let cancel = format!("{path}/cancel");
    let cookie = place.sign_in_by_link().await;
    let form = format!("token={}", form_token(&place.page(&path, &cookie).await));
    let other = place.sign_in_by_link().await;
    let others = format!("token={}", form_token(&place.page(&path, &other).await));
    for (origin, form) in [
        (None, form.as_str()),
        (Some("https://evil.test"), &form),
        (Some("null"), &form),
        (Some("http://zone.test"), &form),
        (Some(URL), ""),
        (Some(URL), "token="),
        (Some(URL), &others),
    ] {
        let answer = place.post(&cancel, &cookie, origin, form).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{origin:?} {form}");
    }
    let state = async || {
        place
            .hub
            .store()
            .task(&task.id)
            .await
            .unwrap()
            .unwrap()
            .state
    };
    assert_eq!(state().await, TaskState::Submitted);
    // A user with read access only.
    let reader = place.sign_in_at_issuer(&[OPERATE_SCOPE]).await;
    let page = place.page(&path, &reader).await;
    assert!(
        page.contains(CHANGE_SCOPE) && !page.contains("/cancel"),
        "{page}"
    );
    let token = format!("token={}", form_token(&page));
    let answer = place.post(&cancel, &reader, Some(URL), &token).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_eq!(state().await, TaskState::Submitted);

    let answer = place.post(&cancel, &cookie, Some(URL), &form).await;
    assert_eq!(
        (answer.status, answer.location()),
        (StatusCode::SEE_OTHER, &*path)
    );
    assert_eq!(state().await, TaskState::Canceled);
    let again = place.post(&cancel, &cookie, Some(URL), &form).await;
    assert_eq!(again.status, StatusCode::SEE_OTHER, "as before");
}

#[tokio::test]
async fn page_views_are_audited() {
    let place = ConsoleFixture::new().await;
    let task = place.create_task("bert", "the-secret-content").await;
    let cookie = place.sign_in_by_link().await;
    let path = format!("/console/tasks/{}", task.id);
    place.page(&path, &cookie).await;
    place.page("/console/conversations", &cookie).await;
    let answer = place
        .post(&format!("{path}/cancel"), &cookie, None, "")
        .await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let audit = place.audit.clone();
    let folder = place.folder;
    // The audit log is flushed when the zone is dropped.
    drop((place.call, place.console));
    let text = std::fs::read_to_string(audit).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let line_of = |method: &str| lines.iter().find(|line| line["method"] == method).unwrap();
    assert_eq!(line_of("console.login")["client"], "link");
    assert_eq!(line_of("console.conversations")["outcome"], "ok");
    assert_eq!(line_of("console.task")["who"], "operator");
    assert_eq!(line_of("console.task")["subject"], task.id.as_str());
    assert_eq!(line_of("console.task.cancel")["outcome"], "refused");
    assert!(!text.contains("the-secret-content"), "{text}");
    let secret = cookie.split('=').nth(1).unwrap();
    assert!(!text.contains(secret), "{text}");
    drop(folder);
}
