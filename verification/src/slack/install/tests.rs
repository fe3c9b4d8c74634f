//! Installing, as a browser sees it.

use super::{Install, InstallOptions, InstallSetupError};
use crate::slack::SCOPES;
use crate::slack::api::Slack;
use crate::slack::api::oauth::OauthApp;
use crate::slack::fake::{FakeSlack, HandClock, MemoryRecords, Reply};
use crate::slack::ids::TeamId;
use crate::slack::tokens::{Installs, Tokens, TokensOptions};
use crate::slack::vault::Vault;
use interzone_edge::Secret;
use interzone_edge::tls::Trust;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::Url;

const REDIRECT: &str = "https://zone.example/slack/oauth_redirect";

struct Rig {
    fake: FakeSlack,
    tokens: Tokens,
    records: Arc<MemoryRecords>,
    clock: Arc<HandClock>,
    door: String,
    browser: reqwest::Client,
    serving: JoinHandle<()>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn app() -> OauthApp {
    OauthApp {
        client_id: "1.2".to_owned(),
        client_secret: Secret::new("s3cret"),
    }
}

fn granted() -> Value {
    json!({
        "ok": true, "access_token": "xoxb-new", "token_type": "bot", "scope": "chat:write",
        "bot_user_id": "U0", "app_id": "A1", "team": {"id": "T1", "name": "<b>Us & \"Co\"</b>"},
    })
}

async fn rig(grant: impl Fn() -> Reply + Send + Sync + 'static) -> Rig {
    rig_on(grant, Arc::default()).await
}

/// One of several nodes on one store.
async fn rig_on(
    grant: impl Fn() -> Reply + Send + Sync + 'static,
    records: Arc<MemoryRecords>,
) -> Rig {
    let fake = FakeSlack::start(move |seen| match seen.method() {
        "oauth.v2.access" => grant(),
        "auth.test" => {
            Reply::Json(json!({"ok": true, "team_id": "T1", "user_id": "U0", "bot_id": "B0"}))
        }
        _ => Reply::said("unknown_method"),
    })
    .await;
    let slack = Slack::new(&fake.api(), &Trust::system()).unwrap();
    let clock = HandClock::at(1_000_000);
    let installs = Installs {
        records: records.clone(),
        vault: Vault::new(&Secret::new("ab".repeat(32))).unwrap(),
        app: Some(app()),
    };
    let options = TokensOptions {
        file: None,
        installs: Some(installs),
        clock: clock.clone(),
    };
    let tokens = Tokens::new(slack.clone(), options);
    let options = InstallOptions {
        app: app(),
        redirect_uri: Some(REDIRECT.to_owned()),
    };
    let install = Install::new(slack, tokens.clone(), options, clock.clone()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let door = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        axum::serve(listener, install.routes()).await.unwrap();
    });
    Rig {
        fake,
        tokens,
        records,
        clock,
        door,
        browser: Trust::system().client().build().unwrap(),
        serving,
    }
}

/// What a browser has after the first step: the state in the address, and the cookie.
struct Begun {
    state: String,
    cookie: String,
}

impl Rig {
    async fn begin(&self) -> (Begun, BTreeMap<String, String>, String) {
        let answer = self.browser.get(format!("{}/slack/install", self.door));
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), 302);
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        let to = Url::parse(&header("location")).unwrap();
        let cookie = header("set-cookie");
        let query: BTreeMap<String, String> = to.query_pairs().into_owned().collect();
        let begun = Begun {
            state: query["state"].clone(),
            cookie: cookie.split(';').next().unwrap().to_owned(),
        };
        let origin_and_path = format!("{}{}", to.origin().ascii_serialization(), to.path());
        assert_eq!(
            origin_and_path,
            format!("{}/oauth/v2/authorize", self.fake.origin)
        );
        (begun, query, cookie)
    }

    async fn come_back(
        &self,
        query: &[(&str, &str)],
        cookie: &str,
        language: &str,
    ) -> (u16, String) {
        let mut url = Url::parse(&format!("{}/slack/oauth_redirect", self.door)).unwrap();
        url.query_pairs_mut().extend_pairs(query);
        let request = self.browser.get(url).header("accept-language", language);
        let answer = request.header("cookie", cookie).send().await.unwrap();
        let policy = answer.headers()["content-security-policy"]
            .to_str()
            .unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert_eq!(answer.headers()["cache-control"], "no-store");
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

#[tokio::test]
async fn a_person_is_sent_to_slack_and_the_browser_is_remembered() {
    let rig = rig(|| Reply::Json(granted())).await;
    let (begun, query, cookie) = rig.begin().await;
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
    let (other, ..) = rig.begin().await;
    assert_ne!((begun.state, begun.cookie), (other.state, other.cookie));
}

#[tokio::test]
async fn who_comes_back_with_a_code_has_installed_the_app() {
    let rig = rig(|| Reply::Json(granted())).await;
    let (begun, ..) = rig.begin().await;
    let query = [("code", "c0de"), ("state", begun.state.as_str())];
    let (status, page) = rig.come_back(&query, &begun.cookie, "en-GB,ja;q=0.5").await;
    assert_eq!(status, 200);
    assert!(page.contains("The app is installed"), "{page}");
    assert!(
        page.contains("&lt;b&gt;Us &amp; &quot;Co&quot;&lt;/b&gt;"),
        "{page}"
    );
    assert!(!page.contains("http") && !page.contains("xoxb"), "{page}");
    let asked = &rig.fake.seen()[0];
    assert_eq!(asked.form()["code"], "c0de");
    assert_eq!(asked.form()["redirect_uri"], REDIRECT);
    assert!(asked.header("authorization").unwrap().starts_with("Basic "));
    let team = TeamId::new("T1").unwrap();
    let found = rig.tokens.installation(&team, None).await.unwrap().unwrap();
    assert_eq!(found.token.expose(), "xoxb-new");
    assert_eq!(found.bot_id.as_ref().unwrap().as_str(), "B0");
    assert_eq!(found.app_id.as_ref().unwrap().as_str(), "A1");
    assert!(
        !rig.records
            .raw("slack.install", "T1")
            .unwrap()
            .contains("xoxb")
    );
}

#[tokio::test]
async fn a_code_without_the_browser_that_asked_is_not_taken() {
    let rig = rig(|| Reply::Json(granted())).await;
    let (mine, ..) = rig.begin().await;
    let (theirs, ..) = rig.begin().await;
    let (until, proof) = mine.state.split_once('.').unwrap();
    let later = format!("{}.{proof}", until.parse::<i64>().unwrap() + 1);
    let bare = proof.to_owned();
    let none = "other=1".to_owned();
    let empty = mine.cookie.split('=').next().unwrap().to_owned() + "=";
    for (state, cookie) in [
        (&mine.state, &theirs.cookie),
        (&mine.state, &none),
        (&mine.state, &empty),
        (&later, &mine.cookie),
        (&bare, &mine.cookie),
    ] {
        let query = [("code", "c0de"), ("state", state.as_str())];
        let (status, page) = rig.come_back(&query, cookie, "ja").await;
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
        let (status, _) = rig.come_back(&query, &mine.cookie, "en").await;
        assert_eq!(status, 400, "{query:?}");
    }
    rig.clock.advance(Duration::from_secs(600));
    let query = [("code", "c0de"), ("state", state)];
    assert_eq!(
        rig.come_back(&query, &mine.cookie, "en").await.0,
        400,
        "too late"
    );
    assert!(rig.fake.seen().is_empty(), "Slack was never asked");
}

#[tokio::test]
async fn a_way_back_is_good_once_and_on_one_node() {
    let records: Arc<MemoryRecords> = Arc::default();
    let one = rig_on(|| Reply::Json(granted()), records.clone()).await;
    let other = rig_on(|| Reply::Json(granted()), records.clone()).await;
    let (begun, ..) = one.begin().await;
    let query = [("code", "c0de"), ("state", begun.state.as_str())];
    // Both at once: one of them is first.
    let (here, there) = tokio::join!(
        one.come_back(&query, &begun.cookie, "en"),
        other.come_back(&query, &begun.cookie, "en"),
    );
    let mut came = [here.0, there.0];
    came.sort_unstable();
    assert_eq!(came, [200, 400]);
    // And after that nobody is.
    for rig in [&one, &other] {
        assert_eq!(rig.come_back(&query, &begun.cookie, "en").await.0, 400);
    }
    let asked = one.fake.count("oauth.v2.access") + other.fake.count("oauth.v2.access");
    assert_eq!(asked, 1, "Slack was asked once");
    // Whoever said no has used it up as well.
    let (begun, ..) = one.begin().await;
    let denied = [("error", "access_denied"), ("state", begun.state.as_str())];
    assert_eq!(one.come_back(&denied, &begun.cookie, "en").await.0, 403);
    let query = [("code", "c0de"), ("state", begun.state.as_str())];
    assert_eq!(other.come_back(&query, &begun.cookie, "en").await.0, 400);
    // Nothing in the store is the state itself, or what a good part of it could be. The name of a workspace
    // is so short that a state may hold it by chance.
    let part = |key: &str| key.len() > 8 && begun.state.contains(key);
    for (key, value) in records.all() {
        assert!(!part(&key) && !key.contains(&begun.state), "{key}");
        assert!(!value.contains(&begun.state), "{key}");
    }
}

#[tokio::test]
async fn what_goes_wrong_is_said_plainly_and_nothing_is_stored() {
    let rig = rig(|| Reply::said("invalid_code")).await;
    let (begun, ..) = rig.begin().await;
    let state = begun.state.as_str();
    let denied = [("error", "<script>"), ("state", state)];
    let (status, page) = rig
        .come_back(&denied, &begun.cookie, "fr, ja-JP;q=0.9, en")
        .await;
    assert_eq!(status, 403);
    assert!(
        page.contains("lang=\"ja\"") && !page.contains("<script>"),
        "{page}"
    );
    let (begun, ..) = rig.begin().await;
    let query = [("code", "c0de"), ("state", begun.state.as_str())];
    let (status, page) = rig.come_back(&query, &begun.cookie, "").await;
    assert_eq!(status, 502);
    assert!(page.contains("Slack did not complete") && !page.contains("invalid_code"));
    assert_eq!(rig.records.raw("slack.install", "T1"), None);
}

#[tokio::test]
async fn a_store_that_is_full_or_a_slack_that_is_busy_asks_for_patience() {
    let rig = rig(|| Reply::Json(granted())).await;
    rig.records.full.store(true, Ordering::SeqCst);
    let (begun, ..) = rig.begin().await;
    let query = [("code", "c0de"), ("state", begun.state.as_str())];
    assert_eq!(rig.come_back(&query, &begun.cookie, "en").await.0, 503);
    let busy = super::tests::rig(|| Reply::status(429, &[("retry-after", "60")], "")).await;
    let (begun, ..) = busy.begin().await;
    let query = [("code", "c0de"), ("state", begun.state.as_str())];
    assert_eq!(busy.come_back(&query, &begun.cookie, "en").await.0, 503);
}

#[tokio::test]
async fn a_token_for_nobody_is_not_kept() {
    let rig = rig(|| Reply::Json(json!({"ok": true, "access_token": "xoxb-new"}))).await;
    let (begun, ..) = rig.begin().await;
    let query = [("code", "c0de"), ("state", begun.state.as_str())];
    assert_eq!(rig.come_back(&query, &begun.cookie, "en").await.0, 502);
    assert_eq!(rig.tokens.check().await.unwrap(), 0);
}

#[tokio::test]
async fn people_are_sent_back_over_https_only() {
    let rig = rig(|| Reply::Json(granted())).await;
    let slack = Slack::new(&rig.fake.api(), &Trust::system()).unwrap();
    let make = |app: OauthApp, url: &str| {
        let redirect_uri = Some(url.to_owned());
        let options = InstallOptions { app, redirect_uri };
        let made = Install::new(
            slack.clone(),
            rig.tokens.clone(),
            options,
            rig.clock.clone(),
        );
        made.map(drop)
    };
    assert_eq!(make(app(), REDIRECT), Ok(()));
    for bad in [
        "http://zone.example/x",
        "zone.example",
        "javascript:x",
        "https://a.example/#f",
    ] {
        let url = bad.to_owned();
        assert_eq!(make(app(), bad), Err(InstallSetupError::Redirect { url }));
    }
    let mut nobody = app();
    nobody.client_secret = Secret::new("");
    assert_eq!(make(nobody, REDIRECT), Err(InstallSetupError::App));
}
