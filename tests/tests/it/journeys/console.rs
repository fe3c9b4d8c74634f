//! The console in an operator's browser: sign-in by the link that `up` prints or by the issuer, a task's page and file,
//! canceling a task, and sign-out.

use super::browser::BrowserTest;
use super::cli::{first_string, interzone_command, run_admin, run_ok};
use super::external_issuer::client_credentials_token as token_of;
use super::peers::OidcServer;
use super::rpc::HttpReply;
use super::tokens::EVERY_SCOPE;
use super::within_timeout;
use super::zone_process::{ZoneBuilder, free_port};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;

/// HTTP client with cookies.
struct Browser {
    http: reqwest::Client,
    url: String,
    cookies: Vec<String>,
}

impl Browser {
    fn new(ca: &[u8], url: &str) -> Self {
        let http = reqwest::Client::builder()
            .tls_certs_only([reqwest::Certificate::from_pem(ca).unwrap()])
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(super::WAIT_TIMEOUT)
            .build()
            .unwrap();
        Self {
            http,
            url: url.to_owned(),
            cookies: Vec::new(),
        }
    }

    /// Stores the cookies that a response sets and removes those it expires.
    fn store_cookies(&mut self, reply: &HttpReply) {
        for set in reply.headers.get_all("set-cookie") {
            let set = set.to_str().unwrap();
            let cookie = set.split(';').next().unwrap();
            let name = cookie.split('=').next().unwrap();
            self.cookies
                .retain(|stored| stored.split('=').next() != Some(name));
            if !set.contains("Max-Age=0") {
                self.cookies.push(cookie.to_owned());
            }
        }
    }

    async fn get(&mut self, address: &str) -> HttpReply {
        let address = match address.strip_prefix('/') {
            Some(_) => format!("{}{address}", self.url),
            None => address.to_owned(),
        };
        let request = self
            .http
            .get(address)
            .header("cookie", self.cookies.join("; "));
        let reply = HttpReply::read(request.send().await.unwrap()).await;
        self.store_cookies(&reply);
        reply
    }

    /// Gets a page that must be served.
    async fn page(&mut self, path: &str) -> String {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.text
    }

    /// Posts a form with these fields from the same origin.
    async fn post_form(&mut self, path: &str, fields: &[(String, String)]) -> HttpReply {
        let form: Vec<String> = fields
            .iter()
            .map(|(name, value)| {
                let value: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
                format!("{name}={value}")
            })
            .collect();
        let request = self
            .http
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/x-www-form-urlencoded")
            .header("origin", &self.url)
            .header("cookie", self.cookies.join("; "))
            .body(form.join("&"));
        let reply = HttpReply::read(request.send().await.unwrap()).await;
        self.store_cookies(&reply);
        reply
    }
}

fn hidden_fields(page: &str) -> Vec<(String, String)> {
    let fields = page.split("<input type=\"hidden\" name=\"").skip(1);
    let fields = fields.map(|field| {
        let (name, tail) = field.split_once("\" value=\"").unwrap();
        (name.to_owned(), tail.split_once('"').unwrap().0.to_owned())
    });
    fields.collect()
}

/// Returns the CSRF token field of a page's forms.
fn csrf_field(page: &str) -> Vec<(String, String)> {
    let mut fields = hidden_fields(page);
    fields.retain(|(name, _)| name == "token");
    fields.truncate(1);
    assert_eq!(fields.len(), 1, "{page}");
    fields
}

/// A running `interzone --output json up`, killed on drop.
pub(super) struct JsonUpProcess(Child);

impl JsonUpProcess {
    pub(super) async fn start(folder: &Path, listen: &str) -> (Self, Value) {
        let arguments = ["--output", "json", "up", "--listen", listen];
        let mut child = interzone_command(folder, &arguments)
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let up = Self(child);
        let reading = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).unwrap();
            line
        });
        let line = within_timeout("the line that says it is up", reading)
            .await
            .unwrap();
        (up, serde_json::from_str(&line).unwrap())
    }
}

impl Drop for JsonUpProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn login_link_opens_console_with_task_pages() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let listen = format!("127.0.0.1:{}", free_port());
    let (_up, startup) = JsonUpProcess::start(folder, &listen).await;
    let (url, link) = (
        startup["url"].as_str().unwrap(),
        startup["console"].as_str().unwrap(),
    );
    let ca = fs::read(folder.join(".interzone").join("ca.pem")).unwrap();
    let mut browser = Browser::new(&ca, url);
    assert_eq!(browser.get("/console").await.status, 303);
    let landing = browser.page(link).await;
    assert!(landing.contains("http-equiv=\"refresh\""), "{landing}");
    let mut stranger = Browser::new(&ca, url);
    assert_eq!(stranger.get(link).await.status, 403, "the link works once");

    run_ok(folder, &["ask", "file csv <b>,こんにちは"]).await;
    let list = browser.page("/console/tasks?state=completed").await;
    let id = list.split("<tr data-id=\"").nth(1).unwrap();
    let id = id.split('"').next().unwrap();
    let task_page = browser.page(&format!("/console/tasks/{id}")).await;
    for expected in [
        "Completed",
        "tasks.create",
        "&lt;b&gt;",
        "こんにちは",
        "text/csv",
        "Answered",
        "waterfall",
    ] {
        assert!(task_page.contains(expected), "{expected}: {task_page}");
    }
    let file = browser
        .get(&format!("/console/tasks/{id}/files/artifact/0/0"))
        .await;
    assert!(file.header("content-disposition").starts_with("attachment"));
    assert!(file.text.contains("こんにちは"), "{file:?}");

    let made = run_ok(folder, &["--output", "json", "task", "create", "wait 60"]).await;
    let made: Value = serde_json::from_str(&made).unwrap();
    let path = format!("/console/tasks/{}", made["taskId"].as_str().unwrap());
    let page = browser.page(&path).await;
    let done = browser
        .post_form(&format!("{path}/cancel"), &csrf_field(&page))
        .await;
    assert_eq!(done.status, 303, "{done:?}");
    assert!(browser.page(&path).await.contains("Canceled"));

    for path in [
        "",
        "/streams",
        "/conversations",
        "/topics",
        "/dead-letters",
        "/agents",
        "/limits",
    ] {
        let page = browser.page(&format!("/console{path}")).await;
        assert!(
            !page.contains("http://") && !page.contains("//cdn"),
            "{path}: {page}"
        );
    }
    let signed_out = browser
        .post_form("/console/logout", &csrf_field(&page))
        .await;
    assert_eq!(signed_out.status, 303);
    assert_eq!(browser.get("/console").await.status, 303, "signed out");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_sign_in_with_built_in_issuer() {
    let zone = ZoneBuilder::new()
        .without_issuer()
        .set("console.operators", vec!["user:anna".to_owned()])
        .start()
        .await;
    for (name, status) in [("anna", 200), ("bert", 403)] {
        let person = run_admin(&zone, &["user", "add", name]).await;
        let passphrase = first_string(&person, &["passphrase"]).to_owned();
        let mut browser = Browser::new(zone.env.authority.pem.as_bytes(), &zone.url);
        let first = browser.get("/console/tasks").await;
        let login = browser.page(first.header("location")).await;
        let start = login.split("href=\"/console/login/start").nth(1).unwrap();
        let start = start.split('"').next().unwrap().replace("&amp;", "&");
        let sent = browser.get(&format!("/console/login/start{start}")).await;
        assert_eq!(sent.status, 303, "{sent:?}");
        let page = browser.page(sent.header("location")).await;
        let mut form = hidden_fields(&page);
        for (field, value) in [
            ("name", name),
            ("passphrase", &passphrase),
            ("decision", "allow"),
        ] {
            form.push((field.to_owned(), value.to_owned()));
        }
        let back = browser.post_form("/oauth2/authorize", &form).await;
        assert_eq!(back.status, 303, "{back:?}");
        let landing = browser.get(back.header("location")).await;
        assert_eq!(landing.status, status, "{name}: {landing:?}");
        if status == 200 {
            assert!(landing.text.contains("url=/console/tasks"), "{landing:?}");
            let page = browser.page("/console/tasks").await;
            assert!(page.contains("user:anna"), "{page}");
        } else {
            assert_eq!(browser.get("/console").await.status, 303);
        }
    }
}

/// Returns the path that a page's form is sent to.
fn action(page: &str) -> String {
    let action = page.split("<form").nth(1).unwrap();
    let action = action.split("action=\"").nth(1).unwrap();
    action.split('"').next().unwrap().to_owned()
}

/// Content that must not be shown.
const SECRET: &str = "the-secret-words";

/// Zone whose operator `anna` signs in at this issuer.
fn zone_with_operator(oidc: &OidcServer) -> ZoneBuilder {
    ZoneBuilder::new()
        .without_issuer()
        .set("oauth.issuer", oidc.issuer.clone())
        .set("oauth.audience", "https://acp.test")
        .set("console.client_id", "console")
        .set("console.client_secret", "secret of console")
        .set("console.operators", vec!["anna".to_owned()])
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_sign_in_with_discovered_issuer() {
    let mut oidc = OidcServer::start();
    let zone = zone_with_operator(&oidc).start().await;
    oidc.register_console(&format!("{}/console/callback", zone.url));
    for (name, status) in [("anna", 200), ("bert", 403)] {
        let mut browser = Browser::new(zone.env.authority.pem.as_bytes(), &zone.url);
        let sent = browser
            .get("/console/login/start?next=/console/agents")
            .await;
        assert_eq!(sent.status, 303, "{sent:?}");
        let mut issuer_browser = Browser::new(zone.env.authority.pem.as_bytes(), &oidc.issuer);
        let mut address = sent.header("location").to_owned();
        assert!(address.starts_with(&oidc.issuer), "{address}");
        // A login page, a consent page, and redirects between them.
        while !address.starts_with(&zone.url) {
            let mut reply = issuer_browser.get(&address).await;
            if reply.status == 200 {
                let form = [
                    ("prompt", prompt(&reply.text)),
                    ("login", name),
                    ("password", "x"),
                ];
                let form = form.map(|(name, value)| (name.to_owned(), value.to_owned()));
                let action = action(&reply.text);
                let path = action.strip_prefix(&oidc.issuer).unwrap_or(&action);
                reply = issuer_browser.post_form(path, &form).await;
            }
            address = reply.header("location").to_owned();
            if address.starts_with('/') {
                address = format!("{}{address}", oidc.issuer);
            }
        }
        let landing = browser.get(&address).await;
        assert_eq!(landing.status, status, "{name}: {landing:?}");
        if status == 200 {
            assert!(landing.text.contains("url=/console/agents"), "{landing:?}");
            let page = browser.page("/console/agents").await;
            assert!(
                page.contains("anna") && page.contains("can make changes"),
                "{page}"
            );
        }
    }
}

/// Returns the prompt that a page of the issuer shows.
fn prompt(page: &str) -> &'static str {
    match page.contains("name=\"password\"") {
        true => "login",
        false => "consent",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slack_feedback_is_shown_on_console() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let listen = format!("127.0.0.1:{}", free_port());
    let (_up, startup) = JsonUpProcess::start(folder, &listen).await;
    let ca = fs::read(folder.join(".interzone").join("ca.pem")).unwrap();
    let mut browser = Browser::new(&ca, startup["url"].as_str().unwrap());
    browser.page(startup["console"].as_str().unwrap()).await;
    let slack = startup["chat"]
        .as_str()
        .unwrap()
        .trim_end_matches('/')
        .to_owned();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let act = async |act: Value| {
        let request = http.post(format!("{slack}/playground/acts"));
        let request = request.body(act.to_string());
        let reply = HttpReply::read(request.send().await.unwrap()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    let question =
        json!({"act": "post", "user": "U0ALEX", "channel": "D0ALEX", "text": "echo well?"});
    act(question).await;
    // The answer has feedback buttons.
    let answer = within_timeout("an answer", async {
        loop {
            let state = http.get(format!("{slack}/playground/state"));
            let state = HttpReply::read(state.send().await.unwrap()).await.json();
            if let Some(answer) = find(&state, &|one| one["blocks"].to_string().contains("good/")) {
                return answer;
            }
        }
    });
    let answer = answer.await;
    let blocks = answer["blocks"].to_string();
    let value = blocks.split("good/").nth(1).unwrap();
    let value = value.split('"').next().unwrap();
    for (rating, shown) in [("good", ">useful<"), ("bad", ">not useful<")] {
        act(
            json!({"act": "press", "user": "U0ALEX", "channel": "D0ALEX", "ts": answer["ts"],
            "action_id": "interzone_feedback", "value": format!("{rating}/{value}")}),
        )
        .await;
        let page = within_timeout("the feedback", async {
            loop {
                let page = browser.page("/console/conversations").await;
                if page.contains(shown) {
                    return page;
                }
            }
        });
        let page = page.await;
        assert!(page.contains("U0ALEX") && page.contains("D0ALEX"), "{page}");
        assert_eq!(
            page.matches("useful<").count(),
            1,
            "the last press counts: {page}"
        );
    }
}

/// Finds the first object with a `ts` that satisfies the predicate.
fn find(value: &Value, holds: &dyn Fn(&Value) -> bool) -> Option<Value> {
    let inside = match value {
        Value::Array(all) => all.iter().find_map(|one| find(one, holds)),
        Value::Object(all) => all.values().find_map(|one| find(one, holds)),
        _ => None,
    };
    inside.or_else(|| {
        (value.is_object() && value["ts"].is_string() && holds(value)).then(|| value.clone())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_browses_console() {
    BrowserTest::new().await.run_script("console.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_list_updates_without_moving_rows() {
    BrowserTest::new().await.run_script("lists.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn console_pages_fit_every_screen() {
    BrowserTest::new()
        .await
        .run_script("console_pages.mjs")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letter_is_resent_in_browser() {
    BrowserTest::new()
        .await
        .run_script("dead_letters.mjs")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_without_content_scope_sees_no_content() {
    let mut oidc = OidcServer::start();
    let zone = zone_with_operator(&oidc)
        .set("console.scope", "interzone:operate")
        .start()
        .await;
    oidc.register_console(&format!("{}/console/callback", zone.url));
    let made = token_of(&oidc, "es256", "https://acp.test", EVERY_SCOPE).await;
    let token = first_string(&made, &["access_token"]);
    let id = zone
        .create_task(token, "demo", &format!("echo {SECRET}"))
        .await;
    zone.wait_for_task(token, &id).await;
    let startup = json!({"url": zone.url, "issuer": oidc.issuer, "task": id, "secret": SECRET});
    BrowserTest::from_startup(startup)
        .run_script("content_hidden.mjs")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn console_can_be_disabled() {
    let zone = ZoneBuilder::new()
        .set("console.enabled", false)
        .start()
        .await;
    assert_eq!(zone.get("/console").await.status, 404);
    assert_eq!(zone.get("/console/login").await.status, 404);
}
