//! End-to-end tests with the real binary: questions and files, watching and canceling tasks, the checks, tokens and
//! clients, and shutdown.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// Long enough for the slowest build machine; only reached if something hangs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn interzone(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interzone"));
    command.current_dir(folder).stdin(Stdio::null());
    // The developer's environment may have Slack or model credentials.
    for name in [
        "INTERZONE_URL",
        "INTERZONE_TOKEN",
        "INTERZONE_CLIENT_ID",
        "SLACK_BOT_TOKEN",
        "SLACK_APP_TOKEN",
        "SLACK_SIGNING_SECRET",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
    ] {
        command.env_remove(name);
    }
    command
}

/// `interzone up` on a free port, in its own folder.
pub(crate) struct UpZone {
    child: Program,
    folder: TempDir,
    pub(crate) url: String,
    /// JSON output when ready.
    pub(crate) ready: Value,
}

impl UpZone {
    pub(crate) fn up() -> Self {
        Self::up_with(|command| command.args(["--listen", "127.0.0.1:0"]))
    }

    /// Starts it with more arguments or environment variables.
    pub(crate) fn up_with(more: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        Self::up_in(tempfile::tempdir().unwrap(), more)
    }

    /// Starts it in an existing folder.
    pub(crate) fn up_in(folder: TempDir, more: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let mut command = interzone(folder.path());
        let command = more(command.args(["up", "--output", "json"]));
        let mut child = Program::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let ready = first_line(child.0.stdout.take().unwrap());
        let ready: Value = serde_json::from_str(&ready).unwrap();
        let url = ready["url"].as_str().unwrap().to_owned();
        Self {
            child,
            folder,
            url,
            ready,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::from_output(interzone(self.path()).args(arguments).output().unwrap())
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.extend(["--output", "json"]);
        let run = self.run(&all);
        let text = run.stdout.trim();
        serde_json::from_str(text).unwrap_or_else(|_| panic!("{arguments:?}: {run:?}"))
    }

    /// Stops it with SIGTERM and waits for it.
    pub(crate) fn stop(self) -> CommandOutput {
        self.stop_and_keep().0
    }

    /// As [`stop`](Self::stop), and returns the folder.
    pub(crate) fn stop_and_keep(self) -> (CommandOutput, TempDir) {
        terminate(&self.child);
        self.wait_and_keep()
    }

    /// Returns the process id.
    pub(crate) fn process_id(&self) -> u32 {
        self.child.0.id()
    }

    /// Returns the folder that it was started in.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until it exits, and returns the folder.
    pub(crate) fn wait_and_keep(mut self) -> (CommandOutput, TempDir) {
        let status = self.child.0.wait().unwrap();
        let mut stderr = String::new();
        let mut pipe = self.child.0.stderr.take().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        let run = CommandOutput {
            code: status.code(),
            stdout: String::new(),
            stderr,
        };
        (run, self.folder)
    }
}

/// A process that is killed at the end of its test, even if that fails.
pub(crate) struct Program(pub(crate) Child);

impl Program {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    fn from_output(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Sends SIGTERM, with the `kill` program.
pub(crate) fn terminate(child: &Program) {
    let status = Command::new("kill")
        .args(["-TERM", &child.0.id().to_string()])
        .status();
    assert!(status.unwrap().success());
}

pub(crate) fn first_line(stdout: ChildStdout) -> String {
    next_line(&read_lines(stdout))
}

/// Returns a receiver of the lines of a pipe.
fn read_lines(pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn next_line(lines: &mpsc::Receiver<String>) -> String {
    lines
        .recv_timeout(TIMEOUT)
        .expect("timed out waiting for a line")
}

/// Waits until the watched task is working.
fn until_working(lines: &mpsc::Receiver<String>) {
    loop {
        let event: Value = serde_json::from_str(&next_line(lines)).unwrap();
        if event["task"]["status"] == "WORKING" {
            return;
        }
    }
}

#[test]
fn ask_saves_file() {
    let zone = UpZone::up();
    let run = zone.run(&["ask", "file csv a,b"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let name = run.stderr.trim().strip_prefix("saved ").unwrap().to_owned();
    assert!(name.ends_with(".csv"), "{name}");
    let file = fs::read_to_string(zone.path().join(&name)).unwrap();
    assert!(file.starts_with("a,b"), "{file}");
    // An existing file is not overwritten.
    let again = zone.json(&["ask", "file csv a,b"]);
    assert_eq!(again["task"]["status"], "COMPLETED");
    let second = again["files"][0].as_str().unwrap();
    assert!(second.ends_with(" (2).csv"), "{second}");
    assert_eq!(fs::read_to_string(zone.path().join(name)).unwrap(), file);

    let stopped = zone.stop();
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
}

#[test]
fn agent_output_is_escaped() {
    let zone = UpZone::up();
    let text = format!("echo {}", crate::HOSTILE.replace('\r', ""));
    for format in ["text", "json"] {
        let run = zone.run(&["ask", &text, "--output", format]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let is_unsafe =
            |c: &char| *c != '\n' && crate::HOSTILE.contains(*c) && !c.is_ascii_graphic();
        assert_eq!(run.stdout.chars().find(is_unsafe), None, "{run:?}");
        assert!(run.stdout.contains("owned"), "{run:?}");
    }
}

#[test]
fn canceled_task_ends_watch() {
    let zone = UpZone::up();
    // The output is only the id, for use as `ID=$(…)`.
    let created = zone.run(&["task", "create", "wait 500"]);
    let id = created.stdout.trim_end_matches('\n');
    assert_eq!(zone.json(&["task", "get", id])["taskId"], id, "{created:?}");
    let mut watch = Program::spawn(
        interzone(zone.path())
            .args(["task", "watch", id, "--output", "json"])
            .stdout(Stdio::piped()),
    );
    let lines = read_lines(watch.0.stdout.take().unwrap());
    until_working(&lines);
    assert_eq!(zone.run(&["task", "cancel", id]).code, Some(0));
    let mut last = Value::Null;
    while let Ok(line) = lines.recv_timeout(TIMEOUT) {
        last = serde_json::from_str(&line).unwrap();
    }
    assert_eq!(last["task"]["status"], "CANCELED", "{last}");
    assert_eq!(watch.0.wait().unwrap().code(), Some(1));
    let list = zone.json(&["task", "list", "--status", "canceled"]);
    assert_eq!(list["tasks"][0]["taskId"], id);
}

#[test]
fn task_send_answers_question() {
    let zone = UpZone::up();
    let run = zone.run(&["ask", "ask which colour?"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stdout.contains("which colour?"), "{run:?}");
    let id = run
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("  interzone task watch "))
        .unwrap();
    assert_eq!(zone.run(&["task", "send", id, "blue"]).code, Some(0));
    let watched = zone.run(&["task", "watch", id]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert!(watched.stdout.contains("blue"), "{watched:?}");
    // Each state is printed on a line, although standard error is not a terminal.
    let states: Vec<&str> = watched
        .stderr
        .lines()
        .filter(|line| line.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
        .collect();
    let expect = [
        "SUBMITTED",
        "WORKING",
        "INPUT_REQUIRED",
        "WORKING",
        "COMPLETED",
    ];
    assert_eq!(states, expect, "{watched:?}");
}

#[test]
fn stream_watch_shows_answer() {
    let zone = UpZone::up();
    let created = zone.run(&["stream", "start"]);
    let id = created.stdout.trim_end_matches('\n');
    let mut watch = Program::spawn(
        interzone(zone.path())
            .args(["stream", "watch", id])
            .stdout(Stdio::piped()),
    );
    let lines = read_lines(watch.0.stdout.take().unwrap());
    assert_eq!(
        zone.run(&["stream", "send", id, "echo hello"]).code,
        Some(0)
    );
    assert_eq!(next_line(&lines), "user: echo hello");
    assert_eq!(next_line(&lines), "agent: hello");
    assert_eq!(zone.run(&["stream", "end", id]).code, Some(0));
    assert_eq!(next_line(&lines), "CLOSED");
    assert_eq!(watch.0.wait().unwrap().code(), Some(0));
}

#[test]
fn own_server_passes_all_checks() {
    let zone = UpZone::up();
    let report = zone.json(&["check", &zone.url]);
    let bad: Vec<&Value> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["verdict"] != "pass")
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(report["passed"].as_u64().unwrap() > 80, "{report}");
    assert_eq!(zone.run(&["check", &zone.url]).code, Some(0));
    // Without credentials, some checks are skipped.
    let outside = tempfile::tempdir().unwrap();
    let ca = zone.path().join(".interzone/ca.pem");
    let run = interzone(outside.path())
        .args(["check", &zone.url, "--ca", ca.to_str().unwrap()])
        .output()
        .unwrap();
    let run = CommandOutput::from_output(run);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("skip  "), "{run:?}");
}

#[test]
fn refusal_names_missing_scope() {
    let zone = UpZone::up();
    let add = [
        "client",
        "add",
        "--name",
        "r",
        "--id",
        "r",
        "--secret-file",
        "r.secret",
    ];
    let add = [
        &add[..],
        &["--scope", "acp:agent:identify", "--scope", "acp:tasks:read"],
    ]
    .concat();
    assert_eq!(zone.run(&add).code, Some(0));
    let reader = ["--client-id", "r", "--client-secret-file", "r.secret"];
    let ask = |arguments: &[&str]| zone.run(&[arguments, &reader[..]].concat());
    let run = ask(&["ask", "hi"]);
    assert_eq!(run.code, Some(4), "{run:?}");
    assert!(run.stderr.contains("acp:tasks:write"), "{run:?}");
    assert_eq!(ask(&["task", "list"]).code, Some(0));
    // The token covers the client's scopes; the missing ones are reported.
    let token = ask(&["token"]);
    assert_eq!(token.code, Some(0), "{token:?}");
    assert!(token.stderr.contains("acp:tasks:write"), "{token:?}");
    assert!(!token.stderr.contains("acp:tasks:read"), "{token:?}");
    let check = ask(&["check", &zone.url]);
    assert_eq!(check.code, Some(0), "{check:?}");
    for expected in [
        "the token is missing acp:tasks:write, acp:tasks:cancel, ",
        "the token is missing acp:tasks:write [",
        "pass  tasks.get refuses an unknown id",
    ] {
        assert!(
            check.stdout.contains(expected),
            "{expected}: {}",
            check.stdout
        );
    }
    fs::write(zone.path().join("r.token"), token.stdout.trim()).unwrap();
    let check = zone.run(&["check", &zone.url, "--token-file", "r.token"]);
    assert_eq!(check.code, Some(0), "{check:?}");
    assert!(
        check
            .stdout
            .contains("the token is missing acp:tasks:write [")
    );
    assert_eq!(zone.run(&["client", "remove", "r"]).code, Some(0));
    assert_eq!(ask(&["task", "list"]).code, Some(4));
    assert_eq!(zone.run(&["client", "add", "another"]).code, Some(0));
    for arguments in [
        &["--name", "x", "--scope", "acp:*"][..],
        &["x", "--name", "y"],
        &[],
    ] {
        let run = zone.run(&[&["client", "add"], arguments].concat());
        assert_eq!(run.code, Some(2), "{run:?}");
    }

    let run = zone.run(&["task", "get", "unknown"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run:?}");
    let error = zone.json(&["task", "get", "unknown"]);
    assert_eq!(error["error"]["code"], -40001);
    let run = zone.run(&["ask", "hi", "--url", "https://127.0.0.1:1"]);
    assert_eq!(run.code, Some(3), "{run:?}");
    let run = zone.run(&["ask", "wait 500", "--timeout", "1s"]);
    assert_eq!(run.code, Some(5), "{run:?}");
    assert!(run.stderr.contains("interzone task cancel"), "{run:?}");
}

#[test]
fn login_through_browser_prints_token() {
    let zone = UpZone::up();
    let mut login = Program::spawn(
        interzone(zone.path())
            .args([
                "token",
                "--login",
                "--no-browser",
                "--scope",
                "acp:agent:identify",
            ])
            .args(["--scope", "acp:tasks:read", "--output", "json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let mut stderr = BufReader::new(login.0.stderr.take().unwrap()).lines();
    assert_eq!(
        stderr.next().unwrap().unwrap(),
        "open this page and approve the request:"
    );
    let page = stderr.next().unwrap().unwrap().trim().to_owned();
    let hint = stderr.next().unwrap().unwrap();
    assert!(
        hint.starts_with("sign in as you, with the passphrase in "),
        "{hint}"
    );
    let profile = fs::read_to_string(zone.path().join(".interzone/connection.toml")).unwrap();
    let (_, passphrase) = profile.split_once("passphrase = ").unwrap();
    let passphrase = passphrase.trim().trim_matches('"').to_owned();
    let ca = fs::read(zone.path().join(".interzone/ca.pem")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(sign_in(&page, &passphrase, &ca));
    let token: Value = serde_json::from_str(&first_line(login.0.stdout.take().unwrap())).unwrap();
    assert_eq!(login.0.wait().unwrap().code(), Some(0));
    fs::write(
        zone.path().join("token"),
        token["access_token"].as_str().unwrap(),
    )
    .unwrap();
    // The user does not see tasks of the client.
    zone.json(&["ask", "echo mine"]);
    let list = zone.json(&["task", "list", "--token-file", "token"]);
    assert_eq!(list["tasks"].as_array().unwrap().len(), 0, "{list}");
    let run = zone.run(&["ask", "hi", "--token-file", "token"]);
    assert_eq!(run.code, Some(4), "{run:?}");
    assert!(run.stderr.contains("is missing acp:tasks:write"), "{run:?}");
}

#[test]
fn login_falls_back_to_client_scopes() {
    let zone = UpZone::up();
    let add = ["client", "add", "few", "--id", "few", "--public"];
    let scope = ["--scope", "acp:agent:identify", "--scope", "acp:tasks:read"];
    let redirect = ["--redirect-uri", "http://127.0.0.1/callback"];
    let added = zone.run(&[&add[..], &scope, &redirect].concat());
    assert_eq!(added.code, Some(0), "{added:?}");
    let mut login = Program::spawn(
        interzone(zone.path())
            .args(["token", "--login", "--no-browser", "--client-id", "few"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let mut stderr = BufReader::new(login.0.stderr.take().unwrap()).lines();
    let mut next_page = || loop {
        let line = stderr.next().expect("a page").unwrap();
        if let Some(page) = line.trim().strip_prefix("https://") {
            return format!("https://{page}");
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ca = fs::read(zone.path().join(".interzone/ca.pem")).unwrap();
    // The issuer redirects a request for too many scopes back at once.
    let sent_back = runtime.block_on(open_page(&next_page(), &ca));
    assert_eq!(sent_back.as_u16(), 400);
    let page = next_page();
    assert!(!page.contains("scope="), "{page}");
    let profile = fs::read_to_string(zone.path().join(".interzone/connection.toml")).unwrap();
    let (_, passphrase) = profile.split_once("passphrase = ").unwrap();
    runtime.block_on(sign_in(&page, passphrase.trim().trim_matches('"'), &ca));
    assert!(!first_line(login.0.stdout.take().unwrap()).is_empty());
    assert_eq!(login.0.wait().unwrap().code(), Some(0));
}

/// Opens a page that redirects at once, and returns the final status.
async fn open_page(page: &str, ca: &[u8]) -> reqwest::StatusCode {
    let browser = reqwest::Client::builder()
        .tls_certs_merge([reqwest::Certificate::from_pem(ca).unwrap()])
        .build()
        .unwrap();
    browser.get(page).send().await.unwrap().status()
}

/// Signs in as a browser would: opens the page, submits the form, follows the redirect.
async fn sign_in(page: &str, passphrase: &str, ca: &[u8]) {
    let browser = reqwest::Client::builder()
        .tls_certs_merge([reqwest::Certificate::from_pem(ca).unwrap()])
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let shown = browser.get(page).send().await.unwrap();
    let cookie = shown.headers()["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let shown = shown.text().await.unwrap();
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    for input in shown.split("<input type=\"hidden\"").skip(1) {
        let value = |name: &str| {
            let (_, value) = input.split_once(&format!("{name}=\"")).unwrap();
            value.split_once('"').unwrap().0.to_owned()
        };
        form.append_pair(&value("name"), &value("value"));
    }
    form.append_pair("name", "you");
    form.append_pair("passphrase", passphrase);
    form.append_pair("decision", "allow");
    let page = url::Url::parse(page).unwrap();
    let sent = browser
        .post(page.join("/oauth2/authorize").unwrap())
        .header("content-type", "application/x-www-form-urlencoded")
        .header("cookie", cookie)
        .header("origin", page.origin().ascii_serialization())
        .body(form.finish())
        .send()
        .await
        .unwrap();
    let back = sent.headers().get("location").expect("a redirect");
    let back = back.to_str().unwrap().to_owned();
    assert!(
        browser
            .get(back)
            .send()
            .await
            .unwrap()
            .status()
            .is_success()
    );
}

#[test]
fn up_reports_address_and_folder_in_use() {
    let zone = UpZone::up();
    let address = zone.url.replace("https://localhost", "127.0.0.1");
    let run = zone.run(&["up", "--folder", "other", "--listen", &address]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
    assert!(
        run.stderr.contains("is in use") && run.stderr.contains("--listen"),
        "{run:?}"
    );
    let run = zone.run(&["up", "--listen", "127.0.0.1:0"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let message = format!("is already running in .interzone, at {}", zone.url);
    assert!(run.stderr.contains(&message), "{run:?}");
}

#[test]
fn up_keeps_data_across_restart() {
    let zone = UpZone::up();
    let task = zone.json(&["task", "create", "echo kept"]);
    let id = task["taskId"].as_str().unwrap().to_owned();
    let profile = fs::read_to_string(zone.path().join(".interzone/connection.toml")).unwrap();
    let port = zone.url.rsplit(':').next().unwrap().to_owned();
    terminate(&zone.child);
    let mut zone = zone;
    assert_eq!(zone.child.0.wait().unwrap().code(), Some(0));
    let listen = format!("127.0.0.1:{port}");
    zone.child = Program::spawn(
        interzone(zone.folder.path())
            .args(["up", "--listen", &listen])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let banner = first_line(zone.child.0.stdout.take().unwrap());
    assert_eq!(banner, format!("Interzone is up at {}", zone.url));
    let watched = zone.run(&["task", "watch", &id]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    let again = fs::read_to_string(zone.path().join(".interzone/connection.toml")).unwrap();
    assert_eq!(again, profile);
}

/// Creates a folder with a certificate and a small configuration.
fn config_folder(zone: &UpZone) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["cert.pem", "key.pem"] {
        fs::copy(
            zone.path().join(".interzone").join(name),
            folder.path().join(name),
        )
        .unwrap();
    }
    let config = "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n\
                  [execution]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(folder.path().join("interzone.toml"), config).unwrap();
    folder
}

#[test]
fn second_signal_stops_immediately() {
    let zone = UpZone::up();
    let folder = config_folder(&zone);
    let mut child = Program::spawn(
        interzone(folder.path())
            .args(["serve", "execution"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let log = read_lines(child.0.stderr.take().unwrap());
    let ready = first_line(child.0.stdout.take().unwrap());
    let url = ready.rsplit(' ').next().unwrap();
    let add = [
        "client",
        "add",
        "--config",
        "interzone.toml",
        "--name",
        "me",
        "--id",
        "me",
    ];
    let add = interzone(folder.path())
        .args(add)
        .args(["--secret-file", "me.secret"])
        .stdout(Stdio::null())
        .status();
    assert!(add.unwrap().success());
    let ca = zone.path().join(".interzone/ca.pem");
    let me = [
        "--url",
        url,
        "--ca",
        ca.to_str().unwrap(),
        "--client-id",
        "me",
        "--client-secret-file",
        "me.secret",
    ];
    let create = interzone(folder.path())
        .args(["task", "create", "wait 500", "--output", "json"])
        .args(me)
        .output();
    let task: Value =
        serde_json::from_str(&CommandOutput::from_output(create.unwrap()).stdout).unwrap();
    let id = task["taskId"].as_str().unwrap();
    let mut watch = Program::spawn(
        interzone(folder.path())
            .args(["task", "watch", id, "--output", "json"])
            .args(me)
            .stdout(Stdio::piped()),
    );
    let lines = read_lines(watch.0.stdout.take().unwrap());
    until_working(&lines);
    watch.0.kill().unwrap();
    watch.0.wait().unwrap();
    terminate(&child);
    while !next_line(&log).contains("a second signal stops immediately") {}
    terminate(&child);
    assert_eq!(child.0.wait().unwrap().code(), Some(1));
    let last: Vec<String> = log.iter().collect();
    assert!(
        last.last()
            .unwrap()
            .starts_with("error: stopped immediately"),
        "{last:?}"
    );
}

#[test]
fn serve_execution_runs_from_config() {
    let zone = UpZone::up();
    let folder = config_folder(&zone);
    let mut child = Program::spawn(
        interzone(folder.path())
            .args(["serve", "execution"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null()),
    );
    let lines = read_lines(child.0.stdout.take().unwrap());
    let ready = next_line(&lines);
    let url = ready
        .strip_prefix("interzone: execution zone ready at ")
        .unwrap();
    assert!(url.starts_with("https://localhost:"), "{ready}");
    let add = [
        "client",
        "add",
        "--config",
        "interzone.toml",
        "--name",
        "me",
        "--id",
        "me",
    ];
    let add = interzone(folder.path())
        .args(add)
        .args(["--secret-file", "me.secret"])
        .status()
        .unwrap();
    assert!(add.success());
    let ca = zone.path().join(".interzone/ca.pem");
    let ask = interzone(folder.path())
        .args([
            "ask",
            "echo hello",
            "--url",
            url,
            "--ca",
            ca.to_str().unwrap(),
        ])
        .args(["--client-id", "me", "--client-secret-file", "me.secret"])
        .output()
        .unwrap();
    let ask = CommandOutput::from_output(ask);
    assert_eq!(
        (ask.code, ask.stdout.as_str()),
        (Some(0), "hello\n"),
        "{ask:?}"
    );
    terminate(&child);
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    assert!(
        lines.recv_timeout(TIMEOUT).is_err(),
        "standard output has only one line"
    );
}
