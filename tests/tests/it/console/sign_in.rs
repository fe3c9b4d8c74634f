//! Who gets in, for how long, and what they may do.

use super::{CHANGE_SCOPE, CONTENT_SCOPE, Place, URL, form_token};
use http::header::SET_COOKIE;
use http::{Request, StatusCode};
use http_body_util::Full;
use interzone_execution::OPERATE_SCOPE;
use interzone_protocol::vocab::TaskState;

const EVERYWHERE: [&str; 8] = [
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
async fn nobody_gets_in_unasked() {
    let place = Place::new().await;
    let task = place.task("bert", "hello").await;
    let one = format!("/console/tasks/{}", task.id);
    for path in EVERYWHERE.iter().copied().chain([one.as_str()]) {
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
async fn a_link_lets_one_in_once() {
    let place = Place::new().await;
    let link = place.console.one_time_link();
    let path = link.strip_prefix(URL).unwrap();
    // Whoever only looks ahead does not use it up.
    let ahead = Request::head(path).header("host", "zone.test");
    let ahead = (place.call)(ahead.body(Full::default()).unwrap()).await;
    assert_eq!(ahead.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(ahead.cookies().is_empty());
    let answer = place.get(path, "").await;
    assert_eq!(answer.status, StatusCode::OK);
    let set = answer.headers[SET_COOKIE].to_str().unwrap().to_owned();
    for word in [
        "__Host-",
        "; Secure",
        "; HttpOnly",
        "; SameSite=Strict",
        "; Path=/",
    ] {
        assert!(set.contains(word), "{word}: {set}");
    }
    let cookie = answer.cookies().join("; ");
    let again = place.get(path, "").await;
    assert_eq!(again.status, StatusCode::FORBIDDEN);
    assert!(again.cookies().is_empty());
    let inside = place.get(path, &cookie).await;
    assert_eq!(inside.location(), "/console", "who is in stays in");
    for path in EVERYWHERE {
        place.page(path, &cookie).await;
    }
    // Leaving takes a form of ours, and is for good.
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
async fn a_person_signs_in_at_the_issuer() {
    let place = Place::new().await;
    let all = [OPERATE_SCOPE, CONTENT_SCOPE, CHANGE_SCOPE];
    let cookie = place.by_issuer(&all).await;
    let page = place.page("/console", &cookie).await;
    assert!(page.contains("person:anna"), "{page}");
    assert!(page.contains("sees content, may change"), "{page}");
    // Whoever is removed from the issuer is out at once.
    assert!(place.people.remove("anna").await.unwrap());
    place.issuer.refresh().await.unwrap();
    let answer = place.get("/console", &cookie).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn only_operators_sign_in() {
    let place = Place::new().await;
    place.introduce(&[OPERATE_SCOPE]).await;
    let passphrase = place.people.add("bert").await.unwrap();
    let answer = place.consent("bert", passphrase.expose()).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.cookies().is_empty());
    let page = answer.text().await;
    assert!(page.contains("not among those"), "{page}");
}

#[tokio::test]
async fn it_takes_the_scope() {
    let place = Place::new().await;
    place.introduce(&["acp:tasks:read"]).await;
    let passphrase = place.people.add("anna").await.unwrap();
    let answer = place.consent("anna", passphrase.expose()).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.cookies().is_empty());
    assert!(answer.text().await.contains(OPERATE_SCOPE));
}

#[tokio::test]
async fn a_sign_in_that_began_elsewhere_ends_here() {
    let place = Place::new().await;
    place.introduce(&[OPERATE_SCOPE]).await;
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
async fn changing_takes_a_form_of_ours_and_the_scope() {
    let place = Place::new().await;
    let task = place.task("bert", "hello").await;
    let path = format!("/console/tasks/{}", task.id);
    let cancel = format!("{path}/cancel");
    let cookie = place.by_link().await;
    let form = format!("token={}", form_token(&place.page(&path, &cookie).await));
    let other = place.by_link().await;
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
    // Somebody who may only look.
    let looks = place.by_issuer(&[OPERATE_SCOPE]).await;
    let page = place.page(&path, &looks).await;
    assert!(
        page.contains(CHANGE_SCOPE) && !page.contains("/cancel"),
        "{page}"
    );
    let token = format!("token={}", form_token(&page));
    let answer = place.post(&cancel, &looks, Some(URL), &token).await;
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
async fn every_visit_is_in_the_audit() {
    let place = Place::new().await;
    let task = place.task("bert", "the-secret-content").await;
    let cookie = place.by_link().await;
    let path = format!("/console/tasks/{}", task.id);
    place.page(&path, &cookie).await;
    place.page("/console/conversations", &cookie).await;
    let answer = place
        .post(&format!("{path}/cancel"), &cookie, None, "")
        .await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let audit = place.audit.clone();
    let folder = place.folder;
    // The audit is written to its end when the zone goes.
    drop((place.call, place.console));
    let text = std::fs::read_to_string(audit).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |method: &str| lines.iter().find(|line| line["method"] == method).unwrap();
    assert_eq!(of("console.login")["client"], "link");
    assert_eq!(of("console.conversations")["outcome"], "ok");
    assert_eq!(of("console.task")["who"], "operator");
    assert_eq!(of("console.task")["subject"], task.id.as_str());
    assert_eq!(of("console.task.cancel")["outcome"], "refused");
    assert!(!text.contains("the-secret-content"), "{text}");
    let secret = cookie.split('=').nth(1).unwrap();
    assert!(!text.contains(secret), "{text}");
    drop(folder);
}
