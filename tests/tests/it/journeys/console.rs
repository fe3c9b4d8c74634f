//! The console as an operator's browser meets it: in by the link that `up` prints, or by the issuer; a
//! task's whole story, its file, calling one off; and out again.

use super::browser::Started;
use super::login::token as token_of;
use super::newcomer::{add, command, prints, text};
use super::peers::Oidc;
use super::soon;
use super::tokens::EVERY_SCOPE;
use super::wire::Reply;
use super::zone::{Setup, free_port};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;

/// A browser with its cookies.
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
            .timeout(super::PATIENCE)
            .build()
            .unwrap();
        Self {
            http,
            url: url.to_owned(),
            cookies: Vec::new(),
        }
    }

    /// Keeps what an answer sets, and forgets what it takes away.
    fn keep(&mut self, reply: &Reply) {
        for set in reply.headers.get_all("set-cookie") {
            let set = set.to_str().unwrap();
            let cookie = set.split(';').next().unwrap();
            let name = cookie.split('=').next().unwrap();
            self.cookies
                .retain(|known| known.split('=').next() != Some(name));
            if !set.contains("Max-Age=0") {
                self.cookies.push(cookie.to_owned());
            }
        }
    }

    async fn get(&mut self, address: &str) -> Reply {
        let address = match address.strip_prefix('/') {
            Some(_) => format!("{}{address}", self.url),
            None => address.to_owned(),
        };
        let request = self
            .http
            .get(address)
            .header("cookie", self.cookies.join("; "));
        let reply = Reply::read(request.send().await.unwrap()).await;
        self.keep(&reply);
        reply
    }

    /// A page that must be there.
    async fn page(&mut self, path: &str) -> String {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.text
    }

    /// Sends a form with these fields, as a page of ours does.
    async fn send(&mut self, path: &str, fields: &[(String, String)]) -> Reply {
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
        let reply = Reply::read(request.send().await.unwrap()).await;
        self.keep(&reply);
        reply
    }
}

fn hidden(page: &str) -> Vec<(String, String)> {
    let fields = page.split("<input type=\"hidden\" name=\"").skip(1);
    let fields = fields.map(|field| {
        let (name, rest) = field.split_once("\" value=\"").unwrap();
        (name.to_owned(), rest.split_once('"').unwrap().0.to_owned())
    });
    fields.collect()
}

/// The token of a page's forms.
fn token(page: &str) -> Vec<(String, String)> {
    let mut fields = hidden(page);
    fields.retain(|(name, _)| name == "token");
    fields.truncate(1);
    assert_eq!(fields.len(), 1, "{page}");
    fields
}

/// `interzone up`, until it is dropped, and what it said.
pub(super) struct Up(Child);

impl Up {
    pub(super) async fn start(folder: &Path, listen: &str) -> (Self, Value) {
        let arguments = ["--output", "json", "up", "--listen", listen];
        let mut child = command(folder, &arguments)
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
        let line = soon("the line that says it is up", reading).await.unwrap();
        (up, serde_json::from_str(&line).unwrap())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_the_link_sees_the_whole_story() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let listen = format!("127.0.0.1:{}", free_port());
    let (_up, said) = Up::start(folder, &listen).await;
    let (url, link) = (
        said["url"].as_str().unwrap(),
        said["console"].as_str().unwrap(),
    );
    let ca = fs::read(folder.join(".interzone").join("ca.pem")).unwrap();
    let mut browser = Browser::new(&ca, url);
    assert_eq!(browser.get("/console").await.status, 303);
    let welcome = browser.page(link).await;
    assert!(welcome.contains("http-equiv=\"refresh\""), "{welcome}");
    let mut stranger = Browser::new(&ca, url);
    assert_eq!(stranger.get(link).await.status, 403, "it is good once");

    prints(folder, &["ask", "file csv <b>,こんにちは"]).await;
    let list = browser.page("/console/tasks?state=completed").await;
    let id = list.split("<tr data-id=\"").nth(1).unwrap();
    let id = id.split('"').next().unwrap();
    let story = browser.page(&format!("/console/tasks/{id}")).await;
    for word in [
        "Completed",
        "tasks.create",
        "&lt;b&gt;",
        "こんにちは",
        "text/csv",
        "Answered",
        "waterfall",
    ] {
        assert!(story.contains(word), "{word}: {story}");
    }
    let file = browser
        .get(&format!("/console/tasks/{id}/files/artifact/0/0"))
        .await;
    assert!(file.header("content-disposition").starts_with("attachment"));
    assert!(file.text.contains("こんにちは"), "{file:?}");

    let made = prints(folder, &["--output", "json", "task", "create", "wait 60"]).await;
    let made: Value = serde_json::from_str(&made).unwrap();
    let path = format!("/console/tasks/{}", made["taskId"].as_str().unwrap());
    let page = browser.page(&path).await;
    let done = browser.send(&format!("{path}/cancel"), &token(&page)).await;
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
    let left = browser.send("/console/logout", &token(&page)).await;
    assert_eq!(left.status, 303);
    assert_eq!(browser.get("/console").await.status, 303, "signed out");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_sign_in_at_the_built_in_issuer() {
    let zone = Setup::new()
        .without_issuer()
        .set("console.operators", vec!["person:anna".to_owned()])
        .start()
        .await;
    for (name, status) in [("anna", 200), ("bert", 403)] {
        let person = add(&zone, &["person", "add", name]).await;
        let passphrase = text(&person, &["passphrase"]).to_owned();
        let mut browser = Browser::new(zone.world.authority.pem.as_bytes(), &zone.url);
        let first = browser.get("/console/tasks").await;
        let login = browser.page(first.header("location")).await;
        let start = login.split("href=\"/console/login/start").nth(1).unwrap();
        let start = start.split('"').next().unwrap().replace("&amp;", "&");
        let sent = browser.get(&format!("/console/login/start{start}")).await;
        assert_eq!(sent.status, 303, "{sent:?}");
        let page = browser.page(sent.header("location")).await;
        let mut form = hidden(&page);
        for (field, value) in [
            ("name", name),
            ("passphrase", &passphrase),
            ("decision", "allow"),
        ] {
            form.push((field.to_owned(), value.to_owned()));
        }
        let back = browser.send("/oauth2/authorize", &form).await;
        assert_eq!(back.status, 303, "{back:?}");
        let welcome = browser.get(back.header("location")).await;
        assert_eq!(welcome.status, status, "{name}: {welcome:?}");
        if status == 200 {
            assert!(welcome.text.contains("url=/console/tasks"), "{welcome:?}");
            let page = browser.page("/console/tasks").await;
            assert!(page.contains("person:anna"), "{page}");
        } else {
            assert_eq!(browser.get("/console").await.status, 303);
        }
    }
}

/// The address that a page's form is sent to, below the page's own.
fn action(page: &str) -> String {
    let action = page.split("<form").nth(1).unwrap();
    let action = action.split("action=\"").nth(1).unwrap();
    action.split('"').next().unwrap().to_owned()
}

/// What nobody may see.
const SECRET: &str = "the-secret-words";

/// A zone whose operator, anna, signs in at this issuer.
fn operated(oidc: &Oidc) -> Setup {
    Setup::new()
        .without_issuer()
        .set("oauth.issuer", oidc.issuer.clone())
        .set("oauth.audience", "https://acp.test")
        .set("console.client_id", "console")
        .set("console.client_secret", "secret of console")
        .set("console.operators", vec!["anna".to_owned()])
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_sign_in_at_an_issuer_that_is_found_by_its_name() {
    let mut oidc = Oidc::start();
    let zone = operated(&oidc).start().await;
    oidc.introduce_console(&format!("{}/console/callback", zone.url));
    for (name, status) in [("anna", 200), ("bert", 403)] {
        let mut browser = Browser::new(zone.world.authority.pem.as_bytes(), &zone.url);
        let sent = browser
            .get("/console/login/start?next=/console/agents")
            .await;
        assert_eq!(sent.status, 303, "{sent:?}");
        let mut there = Browser::new(zone.world.authority.pem.as_bytes(), &oidc.issuer);
        let mut address = sent.header("location").to_owned();
        assert!(address.starts_with(&oidc.issuer), "{address}");
        // A page to log in, a page to agree, and redirects between them.
        while !address.starts_with(&zone.url) {
            let mut reply = there.get(&address).await;
            if reply.status == 200 {
                let form = [
                    ("prompt", prompt(&reply.text)),
                    ("login", name),
                    ("password", "x"),
                ];
                let form = form.map(|(name, value)| (name.to_owned(), value.to_owned()));
                let action = action(&reply.text);
                let path = action.strip_prefix(&oidc.issuer).unwrap_or(&action);
                reply = there.send(path, &form).await;
            }
            address = reply.header("location").to_owned();
            if address.starts_with('/') {
                address = format!("{}{address}", oidc.issuer);
            }
        }
        let welcome = browser.get(&address).await;
        assert_eq!(welcome.status, status, "{name}: {welcome:?}");
        if status == 200 {
            assert!(welcome.text.contains("url=/console/agents"), "{welcome:?}");
            let page = browser.page("/console/agents").await;
            assert!(
                page.contains("anna") && page.contains("may change"),
                "{page}"
            );
        }
    }
}

/// What a page of the issuer asks for.
fn prompt(page: &str) -> &'static str {
    match page.contains("name=\"password\"") {
        true => "login",
        false => "consent",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_think_in_slack_is_seen_on_the_console() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let listen = format!("127.0.0.1:{}", free_port());
    let (_up, said) = Up::start(folder, &listen).await;
    let ca = fs::read(folder.join(".interzone").join("ca.pem")).unwrap();
    let mut browser = Browser::new(&ca, said["url"].as_str().unwrap());
    browser.page(said["console"].as_str().unwrap()).await;
    let slack = said["chat"]
        .as_str()
        .unwrap()
        .trim_end_matches('/')
        .to_owned();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let act = async |act: Value| {
        let request = http.post(format!("{slack}/playground/acts"));
        let request = request.body(act.to_string());
        let reply = Reply::read(request.send().await.unwrap()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    let question =
        json!({"act": "post", "user": "U0ALEX", "channel": "D0ALEX", "text": "echo well?"});
    act(question).await;
    // The answer comes with its thumbs.
    let answer = soon("an answer", async {
        loop {
            let state = http.get(format!("{slack}/playground/state"));
            let state = Reply::read(state.send().await.unwrap()).await.json();
            if let Some(answer) = find(&state, &|one| one["blocks"].to_string().contains("good/")) {
                return answer;
            }
        }
    });
    let answer = answer.await;
    let blocks = answer["blocks"].to_string();
    let value = blocks.split("good/").nth(1).unwrap();
    let value = value.split('"').next().unwrap();
    for (word, shown) in [("good", ">useful<"), ("bad", ">not useful<")] {
        act(
            json!({"act": "press", "user": "U0ALEX", "channel": "D0ALEX", "ts": answer["ts"],
            "action_id": "interzone_feedback", "value": format!("{word}/{value}")}),
        )
        .await;
        let page = soon("the thumb", async {
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

/// The first object within a value for which something holds.
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
async fn an_operator_looks_around_in_a_browser() {
    Started::new().await.walk("console.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_tasks_keeps_up_and_moves_nothing() {
    Started::new().await.walk("lists.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_room_of_the_console_fits_every_screen() {
    Started::new().await.walk("rooms.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_up_is_sent_again_in_a_browser() {
    Started::new().await.walk("letters.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_see_content_sees_none_in_a_browser() {
    let mut oidc = Oidc::start();
    let zone = operated(&oidc)
        .set("console.scope", "interzone:operate")
        .start()
        .await;
    oidc.introduce_console(&format!("{}/console/callback", zone.url));
    let made = token_of(&oidc, "es256", "https://acp.test", EVERY_SCOPE).await;
    let token = text(&made, &["access_token"]);
    let id = zone.create(token, "demo", &format!("echo {SECRET}")).await;
    zone.finished(token, &id).await;
    let said = json!({"url": zone.url, "issuer": oidc.issuer, "task": id, "secret": SECRET});
    Started::as_told(said).walk("hidden.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_may_have_no_console() {
    let zone = Setup::new().set("console.enabled", false).start().await;
    assert_eq!(zone.get("/console").await.status, 404);
    assert_eq!(zone.get("/console/login").await.status, 404);
}
