//! First use of the binary: `up`, a question, a file, a task watched in one terminal and canceled in another; then the
//! built-in issuer with clients and users.

use super::peers::run_python;
use super::tokens::EVERY_SCOPE;
use super::within_timeout;
use super::zone_process::{ZoneBuilder, ZoneProcess, binary, free_port};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

pub(crate) fn interzone_command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // The developer's environment may have Slack credentials.
    for name in ["SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET"] {
        command.env_remove(name);
    }
    command
}

/// Waits for a command to exit.
pub(crate) async fn wait_for_output(child: Child) -> Output {
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    within_timeout("the command to end", waiting).await.unwrap()
}

/// Runs a command that must succeed and returns its stdout.
pub(crate) async fn run_ok(folder: &Path, arguments: &[&str]) -> String {
    let output = wait_for_output(interzone_command(folder, arguments).spawn().unwrap()).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{arguments:?}: {} {errors}",
        output.status
    );
    String::from_utf8(output.stdout).unwrap()
}

async fn run_json(folder: &Path, arguments: &[&str]) -> Value {
    let mut all = vec!["--output", "json"];
    all.extend(arguments);
    serde_json::from_str(&run_ok(folder, &all).await).unwrap()
}

/// A running `interzone up`, killed on drop.
pub(crate) struct UpProcess(Child);

impl UpProcess {
    pub(crate) async fn start(folder: &Path, listen: &str, more: &[&str]) -> Self {
        Self::start_with_env(folder, listen, more, &[]).await
    }

    /// Starts it with additional environment variables.
    pub(crate) async fn start_with_env(
        folder: &Path,
        listen: &str,
        more: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        let mut arguments = vec!["up", "--listen", listen];
        arguments.extend(more);
        let mut child = interzone_command(folder, &arguments)
            .envs(env.iter().copied())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let up = Self(child);
        let reading = tokio::task::spawn_blocking(move || {
            let mut output = BufReader::new(output);
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            // Keep reading, or its next print would block.
            std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
            line
        });
        let line = within_timeout("the line that says it is up", reading)
            .await
            .unwrap();
        let port = listen.rsplit(':').next().unwrap();
        assert!(
            line.contains(&format!("https://localhost:{port}")),
            "{line}"
        );
        up
    }
}

impl Drop for UpProcess {
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
    let up = UpProcess::start(folder, &listen, &[]).await;

    let answer = run_ok(folder, &["ask", "file csv a,b"]).await;
    let files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "csv"))
        .collect();
    assert_eq!(files.len(), 1, "{answer} {files:?}");
    assert!(fs::read_to_string(&files[0]).unwrap().contains("a,b"));
    let token = run_ok(folder, &["token"]).await;
    assert_eq!(token.trim().split('.').count(), 3, "{token}");

    // Watched in one terminal, canceled in another.
    let task = run_json(folder, &["task", "create", "wait 60"]).await;
    let id = task["taskId"].as_str().unwrap();
    let mut watch = interzone_command(folder, &["--output", "json", "task", "watch", id])
        .spawn()
        .unwrap();
    let output = watch.stdout.take().unwrap();
    let (first_line_tx, first_line_rx) = tokio::sync::oneshot::channel();
    let reading = tokio::task::spawn_blocking(move || {
        let mut output = BufReader::new(output);
        let mut text = String::new();
        output.read_line(&mut text).unwrap();
        let _ = first_line_tx.send(());
        std::io::Read::read_to_string(&mut output, &mut text).unwrap();
        text
    });
    within_timeout("the first line of the watch", first_line_rx)
        .await
        .unwrap();
    run_ok(folder, &["task", "cancel", id, "--reason", "enough"]).await;
    let watched = within_timeout("the watch to end", reading).await.unwrap();
    assert!(watched.contains("CANCELED"), "{watched}");
    wait_for_output(watch).await;
    let task = run_json(folder, &["task", "get", id]).await;
    assert_eq!(task["status"], "CANCELED");

    // A rejected call reports its error code.
    let refused = wait_for_output(
        interzone_command(folder, &["ask", "--agent", "unknown", "hello"])
            .spawn()
            .unwrap(),
    )
    .await;
    assert_ne!(refused.status.code(), Some(0));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(stderr.contains("-40005"), "{stderr}");
    fs::write(folder.join("bad-token"), "rubbish").unwrap();
    let arguments = ["task", "list", "--token-file", "bad-token"];
    let refused = wait_for_output(interzone_command(folder, &arguments).spawn().unwrap()).await;
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");

    let report = run_ok(folder, &["check", &url]).await;
    assert!(report.contains(" 0 failed"), "{report}");

    drop(up);
    let refused = wait_for_output(
        interzone_command(folder, &["task", "list"])
            .spawn()
            .unwrap(),
    )
    .await;
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    // Tasks survive a restart.
    let _up = UpProcess::start(folder, &listen, &[]).await;
    let list = run_ok(folder, &["task", "list"]).await;
    assert!(list.contains(id), "{list}");
}

/// Runs an administration command on the config of the running zone.
pub(super) async fn run_admin(zone: &ZoneProcess, arguments: &[&str]) -> Value {
    let config = zone.config.to_str().unwrap().to_owned();
    let (verb, options) = arguments.split_at(1);
    let all = [verb, &["--config", &config], options].concat();
    run_json(zone.env.folder.path(), &all).await
}

pub(super) fn first_string<'a>(value: &'a Value, names: &[&str]) -> &'a str {
    let found = names.iter().find_map(|name| value[name].as_str());
    found.unwrap_or_else(|| panic!("none of {names:?} in {value}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_issuer_serves_sdk_clients_and_users() {
    let zone = ZoneBuilder::new().without_issuer().start().await;
    let folder = zone.env.folder.path();
    let added = run_admin(&zone, &["client", "add", "--name", "a program"]).await;
    let (id, secret) = (
        first_string(&added, &["client_id", "id"]).to_owned(),
        first_string(&added, &["client_secret", "secret"]).to_owned(),
    );

    // The ACP SDK's own OAuth2 client gets a token, and the token works.
    let ca = zone.env.ca();
    let token_url = format!("{}/oauth2/token", zone.url);
    let arguments = [token_url.as_str(), &id, &secret, EVERY_SCOPE];
    let made = run_python("sdk_token.py", &arguments, &ca, "").await;
    let made: Value = serde_json::from_str(made.lines().last().unwrap()).unwrap();
    let token = made["token"].as_str().unwrap();
    let task = zone
        .create_task(token, "demo", "echo with a token of our own")
        .await;
    assert_eq!(
        zone.wait_for_task(token, &task).await["status"],
        "COMPLETED"
    );

    // A user consents on the issuer's page, and the client acts for that user.
    let person = run_admin(&zone, &["user", "add", "anna"]).await;
    let passphrase = person["passphrase"].as_str().unwrap();
    let back = ["--redirect-uri", "http://127.0.0.1/callback"];
    let named = ["client", "add", "--name", "a desktop"];
    let confidential = run_admin(&zone, &[&named[..], &back].concat()).await;
    fs::write(
        folder.join("secret"),
        first_string(&confidential, &["client_secret", "secret"]),
    )
    .unwrap();
    let public = run_admin(&zone, &[&named[..], &back, &["--public"]].concat()).await;
    let (mut user_token, mut page) = (String::new(), String::new());
    for (client, proof) in [
        (&public, &[][..]),
        (&confidential, &["--client-secret-file", "secret"][..]),
    ] {
        let id = first_string(client, &["client_id", "id"]);
        let who = ["--url", &zone.url, "--ca", "ca.pem", "--client-id", id];
        let login = [&["token", "--login", "--no-browser"][..], &who, proof].concat();
        (page, user_token) = log_in(folder, &login, passphrase, &ca).await;
    }
    let user_token = user_token.as_str();
    let task = zone.create_task(user_token, "demo", "echo hers").await;
    let found = zone
        .call_error(token, "tasks.get", json!({"taskId": task}))
        .await;
    assert_eq!(found.0, -40001, "the task is the user's, not the program's");

    // A wrong passphrase is rejected.
    let fields = [page.as_str(), "name=anna", "passphrase=wrong"];
    let refused = Command::new(super::peers::python())
        .arg(super::peers::peer_path("browser.py"))
        .args(fields)
        .env("SSL_CERT_FILE", &ca)
        .output()
        .unwrap();
    assert!(!refused.status.success(), "{refused:?}");

    // A removed client gets no token, and its tokens are revoked.
    let config = zone.config.to_str().unwrap();
    run_ok(folder, &["client", "--config", config, "remove", &id]).await;
    let gone = sdk_gets_token(&token_url, &id, &secret, &ca);
    assert!(!gone, "a client that was removed gets no token");
    // The command is another process, so the zone notices a little later.
    let revoked = async {
        let mut every = tokio::time::interval(Duration::from_millis(100));
        loop {
            every.tick().await;
            let reply = zone
                .send_call(token, "tasks.get", json!({"taskId": task}))
                .await;
            if reply.status != 200 {
                return (reply.status, reply.code());
            }
        }
    };
    let refusal = within_timeout("its tokens to be revoked", revoked).await;
    assert_eq!(refusal, (401, -40007));
    zone.call(user_token, "tasks.get", json!({"taskId": task}))
        .await;
}

/// Returns true if the SDK's OAuth2 client gets a token.
fn sdk_gets_token(url: &str, id: &str, secret: &str, ca: &Path) -> bool {
    let output = Command::new(super::peers::python())
        .arg(super::peers::peer_path("sdk_token.py"))
        .args([url, id, secret, EVERY_SCOPE])
        .env("SSL_CERT_FILE", ca)
        .output()
        .unwrap();
    output.status.success()
}

/// Runs a login up to the consent page, consents there as `anna`, and returns the page's URL and the token.
async fn log_in(
    folder: &Path,
    arguments: &[&str],
    passphrase: &str,
    ca: &Path,
) -> (String, String) {
    let mut login = interzone_command(folder, arguments).spawn().unwrap();
    let stderr = login.stderr.take().unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        let mut lines = BufReader::new(stderr).lines().map(Result::unwrap);
        let page = lines
            .by_ref()
            .find(|line| line.trim().starts_with("https://"));
        std::thread::spawn(move || lines.for_each(drop));
        page.map(|line| line.trim().to_owned())
    });
    let page = within_timeout("the page", reading)
        .await
        .unwrap()
        .expect("an address to open");
    let fields = [
        page.as_str(),
        "name=anna",
        &format!("passphrase={passphrase}"),
    ];
    run_python("browser.py", &fields, ca, "").await;
    let output = wait_for_output(login).await;
    assert!(output.status.success(), "{output:?}");
    let token = String::from_utf8(output.stdout).unwrap();
    (page, token.trim().to_owned())
}
