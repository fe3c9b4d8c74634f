//! Tests of the installation flow.

use super::{InstallOptions, InstallRoutes, InstallSetupError};
use crate::slack::SCOPES;
use crate::slack::api::Slack;
use crate::slack::api::oauth::OauthApp;
use crate::slack::fake::{FakeReply, FakeSlack, ManualSlackClock, MemoryRecords};
use crate::slack::ids::TeamId;
use crate::slack::tokens::{InstalledTokenOptions, SlackTokenOptions, SlackTokens};
use interzone_edge::Secret;
use interzone_edge::tls::TrustRoots;
use interzone_edge::vault::Vault;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::Url;

const REDIRECT: &str = "https://zone.example/slack/oauth_redirect";

struct InstallFixture {
    fake: FakeSlack,
    tokens: SlackTokens,
    records: Arc<MemoryRecords>,
    clock: Arc<ManualSlackClock>,
    origin: String,
    browser: reqwest::Client,
    server: JoinHandle<()>,
}

impl Drop for InstallFixture {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn app() -> OauthApp {
    OauthApp {
        client_id: "1.2".to_owned(),
        client_secret: Secret::new("s3cret"),
    }
}

fn oauth_response() -> Value {
    json!({
        "ok": true, "access_token": "xoxb-new", "token_type": "bot", "scope": "chat:write",
        "bot_user_id": "U0", "app_id": "A1", "team": {"id": "T1", "name": "<b>Us & \"Co\"</b>"},
    })
}

async fn fixture(oauth_reply: impl Fn() -> FakeReply + Send + Sync + 'static) -> InstallFixture {
    fixture_with_records(oauth_reply, Arc::default()).await
}

/// A node with a shared store.
async fn fixture_with_records(
    oauth_reply: impl Fn() -> FakeReply + Send + Sync + 'static,
    records: Arc<MemoryRecords>,
) -> InstallFixture {
    let fake = FakeSlack::start(move |request| match request.method() {
        "oauth.v2.access" => oauth_reply(),
        "auth.test" => {
            FakeReply::Json(json!({"ok": true, "team_id": "T1", "user_id": "U0", "bot_id": "B0"}))
        }
        _ => FakeReply::error("unknown_method"),
    })
    .await;
    let slack = Slack::new(&fake.api(), &TrustRoots::system()).unwrap();
    let clock = ManualSlackClock::from_secs(1_000_000);
    let installs = InstalledTokenOptions {
        records: records.clone(),
        vault: Vault::new(&Secret::new("ab".repeat(32))).unwrap(),
        app: Some(app()),
    };
    let options = SlackTokenOptions {
        file: None,
        installs: Some(installs),
        clock: clock.clone(),
    };
    let tokens = SlackTokens::new(slack.clone(), options);
    let options = InstallOptions {
        app: app(),
        redirect_uri: Some(REDIRECT.to_owned()),
    };
    let install = InstallRoutes::new(slack, tokens.clone(), options, clock.clone()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        axum::serve(listener, install.routes()).await.unwrap();
    });
    InstallFixture {
        fake,
        tokens,
        records,
        clock,
        origin,
        browser: TrustRoots::system().client().build().unwrap(),
        server,
    }
}

/// State parameter and cookie after the first step.
struct StartedInstall {
    state: String,
    cookie: String,
}

impl InstallFixture {
    async fn start_install(&self) -> (StartedInstall, BTreeMap<String, String>, String) {
        let response = self.browser.get(format!("{}/slack/install", self.origin));
        let answer = response.send().await.unwrap();
        assert_eq!(answer.status(), 302);
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        let location = Url::parse(&header("location")).unwrap();
        let cookie = header("set-cookie");
        let query: BTreeMap<String, String> = location.query_pairs().into_owned().collect();
        let started = StartedInstall {
            state: query["state"].clone(),
            cookie: cookie.split(';').next().unwrap().to_owned(),
        };
        let origin_and_path = format!(
            "{}{}",
            location.origin().ascii_serialization(),
            location.path()
        );
        assert_eq!(
            origin_and_path,
            format!("{}/oauth/v2/authorize", self.fake.origin)
        );
        (started, query, cookie)
    }

    async fn oauth_redirect(
        &self,
        query: &[(&str, &str)],
        cookie: &str,
        language: &str,
    ) -> (u16, String) {
        let mut url = Url::parse(&format!("{}/slack/oauth_redirect", self.origin)).unwrap();
        url.query_pairs_mut().extend_pairs(query);
        let request = self.browser.get(url).header("accept-language", language);
        let response = request.header("cookie", cookie).send().await.unwrap();
        let policy = response.headers()["content-security-policy"]
            .to_str()
            .unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert_eq!(response.headers()["cache-control"], "no-store");
        (response.status().as_u16(), response.text().await.unwrap())
    }
}

#[tokio::test]
async fn install_redirects_to_slack_and_sets_cookie() {
    let rig = fixture(|| FakeReply::Json(oauth_response())).await;
    let (started, query, cookie) = rig.start_install().await;
    assert_eq!(query["client_id"], "1.2");
    assert_eq!(query["scope"], SCOPES.join(","));
    assert_eq!(query["redirect_uri"], REDIRECT);
    for part in [
        "__Host-",
        "Path=/",
        "Secure",
        "HttpOnly",
        "SameSite=Lax",
        "Max-Age=600",
    ] {
        assert!(cookie.contains(part), "{part}");
    }
    let (other, ..) = rig.start_install().await;
    assert_ne!((started.state, started.cookie), (other.state, other.cookie));
}

#[tokio::test]
async fn valid_code_installs_the_app() {
    let rig = fixture(|| FakeReply::Json(oauth_response())).await;
    let (started, ..) = rig.start_install().await;
    let query = [("code", "c0de"), ("state", started.state.as_str())];
    let (status, page) = rig
        .oauth_redirect(&query, &started.cookie, "en-GB,ja;q=0.5")
        .await;
    assert_eq!(status, 200);
    assert!(page.contains("The app is installed"), "{page}");
    assert!(
        page.contains("&lt;b&gt;Us &amp; &quot;Co&quot;&lt;/b&gt;"),
        "{page}"
    );
    assert!(!page.contains("http") && !page.contains("xoxb"), "{page}");
    let request = &rig.fake.requests()[0];
    assert_eq!(request.form()["code"], "c0de");
    assert_eq!(request.form()["redirect_uri"], REDIRECT);
    assert!(
        request
            .header("authorization")
            .unwrap()
            .starts_with("Basic ")
    );
    let team = TeamId::new("T1").unwrap();
    let found = rig.tokens.installation(&team, None).await.unwrap().unwrap();
    assert_eq!(found.token.expose(), "xoxb-new");
    assert_eq!(found.bot_id.as_ref().unwrap().as_str(), "B0");
    assert_eq!(found.app_id.as_ref().unwrap().as_str(), "A1");
    assert!(
        !rig.records
            .value("slack.install", "T1")
            .unwrap()
            .contains("xoxb")
    );
}

#[tokio::test]
async fn mismatched_state_or_cookie_is_rejected() {
    let rig = fixture(|| FakeReply::Json(oauth_response())).await;
    let (mine, ..) = rig.start_install().await;
    let (theirs, ..) = rig.start_install().await;
    let (expires_at, mac) = mine.state.split_once('.').unwrap();
    let later = format!("{}.{mac}", expires_at.parse::<i64>().unwrap() + 1);
    let without_expiry = mac.to_owned();
    let no_cookie = "other=1".to_owned();
    let empty_cookie = mine.cookie.split('=').next().unwrap().to_owned() + "=";
    for (state, cookie) in [
        (&mine.state, &theirs.cookie),
        (&mine.state, &no_cookie),
        (&mine.state, &empty_cookie),
        (&later, &mine.cookie),
        (&without_expiry, &mine.cookie),
    ] {
        let query = [("code", "c0de"), ("state", state.as_str())];
        let (status, page) = rig.oauth_redirect(&query, cookie, "ja").await;
        assert_eq!(status, 400, "{state} {cookie}");
        assert!(page.contains("このリンクは使えません"), "{page}");
    }
    let state = mine.state.as_str();
    for query in [
        vec![("code", "c0de")],
        vec![("state", state)],
        vec![("state", state), ("code", "a"), ("code", "b")],
        vec![("state", state), ("state", state), ("code", "a")],
        vec![("state", state), ("code", &"x".repeat(5000))],
    ] {
        let (status, _) = rig.oauth_redirect(&query, &mine.cookie, "en").await;
        assert_eq!(status, 400, "{query:?}");
    }
    rig.clock.advance(Duration::from_secs(600));
    let query = [("code", "c0de"), ("state", state)];
    assert_eq!(
        rig.oauth_redirect(&query, &mine.cookie, "en").await.0,
        400,
        "too late: state expired"
    );
    assert!(rig.fake.requests().is_empty(), "Slack was not called");
}

#[tokio::test]
async fn oauth_state_is_single_use_across_nodes() {
    let records: Arc<MemoryRecords> = Arc::default();
    let one = fixture_with_records(|| FakeReply::Json(oauth_response()), records.clone()).await;
    let other = fixture_with_records(|| FakeReply::Json(oauth_response()), records.clone()).await;
    let (started, ..) = one.start_install().await;
    let query = [("code", "c0de"), ("state", started.state.as_str())];
    // Concurrent use: exactly one succeeds.
    let (here, there) = tokio::join!(
        one.oauth_redirect(&query, &started.cookie, "en"),
        other.oauth_redirect(&query, &started.cookie, "en"),
    );
    let mut statuses = [here.0, there.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400]);
    // Further uses fail on both nodes.
    for rig in [&one, &other] {
        assert_eq!(
            rig.oauth_redirect(&query, &started.cookie, "en").await.0,
            400
        );
    }
    let exchanges = one.fake.count("oauth.v2.access") + other.fake.count("oauth.v2.access");
    assert_eq!(exchanges, 1, "one code exchange");
    // A denied installation uses up the state as well.
    let (started, ..) = one.start_install().await;
    let denied = [
        ("error", "access_denied"),
        ("state", started.state.as_str()),
    ];
    assert_eq!(
        one.oauth_redirect(&denied, &started.cookie, "en").await.0,
        403
    );
    let query = [("code", "c0de"), ("state", started.state.as_str())];
    assert_eq!(
        other.oauth_redirect(&query, &started.cookie, "en").await.0,
        400
    );
    // The store contains neither the state nor a significant part of it. A workspace id is so short that a state may
    // contain it by chance.
    let is_part_of_state = |key: &str| key.len() > 8 && started.state.contains(key);
    for (key, value) in records.all() {
        assert!(
            !is_part_of_state(&key) && !key.contains(&started.state),
            "{key}"
        );
        assert!(!value.contains(&started.state), "{key}");
    }
}

#[tokio::test]
async fn failed_install_shows_error_and_stores_nothing() {
    let rig = fixture(|| FakeReply::error("invalid_code")).await;
    let (started, ..) = rig.start_install().await;
    let state = started.state.as_str();
    let denied = [("error", "<script>"), ("state", state)];
    let (status, page) = rig
        .oauth_redirect(&denied, &started.cookie, "fr, ja-JP;q=0.9, en")
        .await;
    assert_eq!(status, 403);
    assert!(
        page.contains("lang=\"ja\"") && !page.contains("<script>"),
        "{page}"
    );
    let (started, ..) = rig.start_install().await;
    let query = [("code", "c0de"), ("state", started.state.as_str())];
    let (status, page) = rig.oauth_redirect(&query, &started.cookie, "").await;
    assert_eq!(status, 502);
    assert!(page.contains("Slack did not complete") && !page.contains("invalid_code"));
    assert_eq!(rig.records.value("slack.install", "T1"), None);
}

#[tokio::test]
async fn store_failure_or_rate_limit_returns_503() {
    let rig = fixture(|| FakeReply::Json(oauth_response())).await;
    rig.records.writes_fail.store(true, Ordering::SeqCst);
    let (started, ..) = rig.start_install().await;
    let query = [("code", "c0de"), ("state", started.state.as_str())];
    assert_eq!(
        rig.oauth_redirect(&query, &started.cookie, "en").await.0,
        503
    );
    let busy = fixture(|| FakeReply::status(429, &[("retry-after", "60")], "")).await;
    let (started, ..) = busy.start_install().await;
    let query = [("code", "c0de"), ("state", started.state.as_str())];
    assert_eq!(
        busy.oauth_redirect(&query, &started.cookie, "en").await.0,
        503
    );
}

#[tokio::test]
async fn token_without_workspace_is_not_stored() {
    let rig = fixture(|| FakeReply::Json(json!({"ok": true, "access_token": "xoxb-new"}))).await;
    let (started, ..) = rig.start_install().await;
    let query = [("code", "c0de"), ("state", started.state.as_str())];
    assert_eq!(
        rig.oauth_redirect(&query, &started.cookie, "en").await.0,
        502
    );
    assert_eq!(rig.tokens.check_stored_tokens().await.unwrap(), 0);
}

#[tokio::test]
async fn redirect_uri_must_be_https() {
    let rig = fixture(|| FakeReply::Json(oauth_response())).await;
    let slack = Slack::new(&rig.fake.api(), &TrustRoots::system()).unwrap();
    let create = |app: OauthApp, url: &str| {
        let redirect_uri = Some(url.to_owned());
        let options = InstallOptions { app, redirect_uri };
        let created = InstallRoutes::new(
            slack.clone(),
            rig.tokens.clone(),
            options,
            rig.clock.clone(),
        );
        created.map(drop)
    };
    assert_eq!(create(app(), REDIRECT), Ok(()));
    for bad in [
        "http://zone.example/x",
        "zone.example",
        "javascript:x",
        "https://a.example/#f",
    ] {
        let url = bad.to_owned();
        assert_eq!(create(app(), bad), Err(InstallSetupError::Redirect { url }));
    }
    let mut without_secret = app();
    without_secret.client_secret = Secret::new("");
    assert_eq!(
        create(without_secret, REDIRECT),
        Err(InstallSetupError::App)
    );
}
