//! Somebody who has only the binary: `up`, a question, a file, a task watched here and called off
//! there; then an issuer of one's own, with clients and people.

use super::peers::run_python;
use super::soon;
use super::tokens::EVERY_SCOPE;
use super::zone::{Setup, Zone, binary, free_port};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Whoever runs the tests may have a Slack of their own.
    for name in ["SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET"] {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end, however that is.
pub(crate) async fn ends(child: Child) -> Output {
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    soon("the command to end", waiting).await.unwrap()
}

/// Runs a command that succeeds, and gives what it prints.
pub(crate) async fn prints(folder: &Path, arguments: &[&str]) -> String {
    let output = ends(command(folder, arguments).spawn().unwrap()).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{arguments:?}: {} {errors}",
        output.status
    );
    String::from_utf8(output.stdout).unwrap()
}

async fn json_of(folder: &Path, arguments: &[&str]) -> Value {
    let mut all = vec!["--output", "json"];
    all.extend(arguments);
    serde_json::from_str(&prints(folder, &all).await).unwrap()
}

/// `interzone up`, until it is dropped.
pub(crate) struct Up(Child);

impl Up {
    pub(crate) async fn start(folder: &Path, listen: &str, more: &[&str]) -> Self {
        Self::start_with(folder, listen, more, &[]).await
    }

    /// The same, with more in its environment.
    pub(crate) async fn start_with(
        folder: &Path,
        listen: &str,
        more: &[&str],
        around: &[(&str, &str)],
    ) -> Self {
        let mut arguments = vec!["up", "--listen", listen];
        arguments.extend(more);
        let mut child = command(folder, &arguments)
            .envs(around.iter().copied())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let up = Self(child);
        let reading = tokio::task::spawn_blocking(move || {
            let mut output = BufReader::new(output);
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            // Read on, or it could not print.
            std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
            line
        });
        let line = soon("the line that says it is up", reading).await.unwrap();
        let port = listen.rsplit(':').next().unwrap();
        assert!(
            line.contains(&format!("https://localhost:{port}")),
            "{line}"
        );
        up
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn up_ask_watch_and_cancel() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let listen = format!("127.0.0.1:{}", free_port());
    let url = format!("https://localhost:{}", listen.rsplit(':').next().unwrap());
    let up = Up::start(folder, &listen, &[]).await;

    let answer = prints(folder, &["ask", "file csv a,b"]).await;
    let files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "csv"))
        .collect();
    assert_eq!(files.len(), 1, "{answer} {files:?}");
    assert!(fs::read_to_string(&files[0]).unwrap().contains("a,b"));
    let token = prints(folder, &["token"]).await;
    assert_eq!(token.trim().split('.').count(), 3, "{token}");

    // Watched in one terminal, called off in another.
    let task = json_of(folder, &["task", "create", "wait 60"]).await;
    let id = task["taskId"].as_str().unwrap();
    let mut watch = command(folder, &["--output", "json", "task", "watch", id])
        .spawn()
        .unwrap();
    let output = watch.stdout.take().unwrap();
    let (tell, told) = tokio::sync::oneshot::channel();
    let reading = tokio::task::spawn_blocking(move || {
        let mut output = BufReader::new(output);
        let mut text = String::new();
        output.read_line(&mut text).unwrap();
        let _ = tell.send(());
        std::io::Read::read_to_string(&mut output, &mut text).unwrap();
        text
    });
    soon("the first line of the watch", told).await.unwrap();
    prints(folder, &["task", "cancel", id, "--reason", "enough"]).await;
    let watched = soon("the watch to end", reading).await.unwrap();
    assert!(watched.contains("CANCELED"), "{watched}");
    ends(watch).await;
    let task = json_of(folder, &["task", "get", id]).await;
    assert_eq!(task["status"], "CANCELED");

    // Why something was refused.
    let refused = ends(
        command(folder, &["ask", "--agent", "nobody", "hello"])
            .spawn()
            .unwrap(),
    )
    .await;
    assert_ne!(refused.status.code(), Some(0));
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(words.contains("-40005"), "{words}");
    fs::write(folder.join("bad-token"), "rubbish").unwrap();
    let arguments = ["task", "list", "--token-file", "bad-token"];
    let refused = ends(command(folder, &arguments).spawn().unwrap()).await;
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");

    let report = prints(folder, &["check", &url]).await;
    assert!(report.contains(" 0 failed"), "{report}");

    drop(up);
    let refused = ends(command(folder, &["task", "list"]).spawn().unwrap()).await;
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    // What there was is there again.
    let _up = Up::start(folder, &listen, &[]).await;
    let list = prints(folder, &["task", "list"]).await;
    assert!(list.contains(id), "{list}");
}

/// Adds something to the issuer's lists beside the running zone.
pub(super) async fn add(zone: &Zone, arguments: &[&str]) -> Value {
    let config = zone.config.to_str().unwrap().to_owned();
    let (verb, rest) = arguments.split_at(1);
    let all = [verb, &["--config", &config], rest].concat();
    json_of(zone.world.folder.path(), &all).await
}

pub(super) fn text<'a>(value: &'a Value, names: &[&str]) -> &'a str {
    let found = names.iter().find_map(|name| value[name].as_str());
    found.unwrap_or_else(|| panic!("none of {names:?} in {value}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_built_in_issuer_serves_the_sdk_and_people() {
    let zone = Setup::new().without_issuer().start().await;
    let folder = zone.world.folder.path();
    let added = add(&zone, &["client", "add", "--name", "a program"]).await;
    let (id, secret) = (
        text(&added, &["client_id", "id"]).to_owned(),
        text(&added, &["client_secret", "secret"]).to_owned(),
    );

    // The ACP SDK's own OAuth2 client gets a token, and the token works.
    let ca = zone.world.ca();
    let token_url = format!("{}/oauth2/token", zone.url);
    let arguments = [token_url.as_str(), &id, &secret, EVERY_SCOPE];
    let made = run_python("sdk_token.py", &arguments, &ca, "").await;
    let made: Value = serde_json::from_str(made.lines().last().unwrap()).unwrap();
    let token = made["token"].as_str().unwrap();
    let task = zone
        .create(token, "demo", "echo with a token of our own")
        .await;
    assert_eq!(zone.finished(token, &task).await["status"], "COMPLETED");

    // A person agrees on a page, and the program acts for them.
    let person = add(&zone, &["person", "add", "anna"]).await;
    let passphrase = person["passphrase"].as_str().unwrap();
    let back = ["--redirect-uri", "http://127.0.0.1/callback"];
    let named = ["client", "add", "--name", "a desktop"];
    let kept = add(&zone, &[&named[..], &back].concat()).await;
    fs::write(
        folder.join("secret"),
        text(&kept, &["client_secret", "secret"]),
    )
    .unwrap();
    let public = add(&zone, &[&named[..], &back, &["--public"]].concat()).await;
    let (mut hers, mut page) = (String::new(), String::new());
    for (client, proof) in [
        (&public, &[][..]),
        (&kept, &["--client-secret-file", "secret"][..]),
    ] {
        let id = text(client, &["client_id", "id"]);
        let who = ["--url", &zone.url, "--ca", "ca.pem", "--client-id", id];
        let login = [&["token", "--login", "--no-browser"][..], &who, proof].concat();
        (page, hers) = logs_in(folder, &login, passphrase, &ca).await;
    }
    let hers = hers.as_str();
    let task = zone.create(hers, "demo", "echo hers").await;
    let found = zone
        .refused(token, "tasks.get", json!({"taskId": task}))
        .await;
    assert_eq!(found.0, -40001, "hers, not the program's");

    // A wrong passphrase gets nobody in.
    let fields = [page.as_str(), "name=anna", "passphrase=wrong"];
    let refused = Command::new(super::peers::python())
        .arg(super::peers::program("browser.py"))
        .args(fields)
        .env("SSL_CERT_FILE", &ca)
        .output()
        .unwrap();
    assert!(!refused.status.success(), "{refused:?}");

    // Who is removed is out.
    let config = zone.config.to_str().unwrap();
    prints(folder, &["client", "--config", config, "remove", &id]).await;
    let gone = run_token(&token_url, &id, &secret, &ca);
    assert!(!gone, "a client that was removed gets no token");
    // The command is another process, so the zone hears of it a little later.
    let taken_back = async {
        let mut every = tokio::time::interval(Duration::from_millis(100));
        loop {
            every.tick().await;
            let reply = zone.ask(token, "tasks.get", json!({"taskId": task})).await;
            if reply.status != 200 {
                return (reply.status, reply.code());
            }
        }
    };
    let refusal = soon("its tokens to be taken back", taken_back).await;
    assert_eq!(refusal, (401, -40007));
    zone.call(hers, "tasks.get", json!({"taskId": task})).await;
}

/// Whether the SDK's OAuth2 client gets a token.
fn run_token(url: &str, id: &str, secret: &str, ca: &Path) -> bool {
    let output = Command::new(super::peers::python())
        .arg(super::peers::program("sdk_token.py"))
        .args([url, id, secret, EVERY_SCOPE])
        .env("SSL_CERT_FILE", ca)
        .output()
        .unwrap();
    output.status.success()
}

/// Runs a login up to the page, has Anna agree there, and gives the page and the token.
async fn logs_in(
    folder: &Path,
    arguments: &[&str],
    passphrase: &str,
    ca: &Path,
) -> (String, String) {
    let mut login = command(folder, arguments).spawn().unwrap();
    let said = login.stderr.take().unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        let mut lines = BufReader::new(said).lines().map(Result::unwrap);
        let page = lines
            .by_ref()
            .find(|line| line.trim().starts_with("https://"));
        std::thread::spawn(move || lines.for_each(drop));
        page.map(|line| line.trim().to_owned())
    });
    let page = soon("the page", reading)
        .await
        .unwrap()
        .expect("an address to open");
    let fields = [
        page.as_str(),
        "name=anna",
        &format!("passphrase={passphrase}"),
    ];
    run_python("browser.py", &fields, ca, "").await;
    let output = ends(login).await;
    assert!(output.status.success(), "{output:?}");
    let token = String::from_utf8(output.stdout).unwrap();
    (page, token.trim().to_owned())
}
