//! `interzone up`: ports in use, the data folder and its reset, and a real Slack workspace.

use crate::journey::{Program, TIMEOUT, UpZone, first_line, interzone, terminate};
use interzone_playground::{DeliveryMode, Playground, PlaygroundOptions, seed};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Stdio;

const SIGNING_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
const BOT_TOKEN: &str = "xoxb-1-2-around";
const APP_TOKEN: &str = "xapp-1-2-around";

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn ports_in_use_are_avoided() {
    // The default ports are in use now, by this test or by another process.
    let _taken: Vec<_> = [8443, 8444, 8445]
        .into_iter()
        .map(|port| TcpListener::bind(("127.0.0.1", port)))
        .collect();
    let zone = UpZone::up_with(|command| command);
    let port = |name: &str| {
        let url = zone.ready[name].as_str().unwrap().trim_end_matches('/');
        let (_, port) = url.rsplit_once(':').unwrap();
        port.split('/').next().unwrap().parse::<u16>().unwrap()
    };
    for (name, default_port) in [("url", 8443), ("verification", 8444), ("chat", 8445)] {
        assert_ne!(port(name), default_port, "{name}");
    }
    let run = zone.run(&["ask", "echo hello"]);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (Some(0), "hello\n"),
        "{run:?}"
    );
    assert_eq!(zone.stop().code, Some(0));
}

#[test]
fn reset_deletes_stored_data() {
    let any = ["--listen", "127.0.0.1:0"];
    let zone = UpZone::up();
    zone.json(&["ask", "echo kept"]);
    let (client, ca) = (
        zone.ready["client_id"].clone(),
        fs::read(zone.path().join(".interzone/ca.pem")).unwrap(),
    );
    fs::write(zone.path().join(".interzone/mine.txt"), "mine").unwrap();
    // Not while a process is using the folder.
    let run = zone.run(&["up", "--reset", "--listen", "127.0.0.1:0"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let (run, folder) = zone.stop_and_keep();
    assert_eq!(run.code, Some(0), "{run:?}");

    let zone = UpZone::up_in(folder, |command| command.args(any));
    assert_eq!(zone.ready["client_id"], client);
    assert_eq!(
        zone.json(&["task", "list"])["tasks"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let (_, folder) = zone.stop_and_keep();

    let zone = UpZone::up_in(folder, |command| command.args(any).arg("--reset"));
    assert_ne!(zone.ready["client_id"], client);
    assert_eq!(
        zone.json(&["task", "list"])["tasks"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    assert_ne!(fs::read(zone.path().join(".interzone/ca.pem")).unwrap(), ca);
    assert!(zone.path().join(".interzone/mine.txt").exists());
    assert_eq!(zone.stop().code, Some(0));
}

#[test]
fn unknown_model_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let up = |name: &str, value: &str| {
        let mut command = interzone(folder.path());
        let command = command.args(["up", "--listen", "127.0.0.1:0", "--agent", "llm"]);
        let output = command.env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(up("UNRELATED", "x").contains("OPENAI_API_KEY"));
    assert!(up("OPENAI_BASE_URL", "http://127.0.0.1:1/v1").contains("--model"));
}

/// Asks in a workspace, and waits until the bot posts this text.
fn ask_and_await_answer(
    runtime: &tokio::runtime::Runtime,
    slack: &Playground,
    user: &str,
    expected: &str,
) {
    let text = format!("@interzone echo {expected}");
    let asked = slack.post(user, seed::GENERAL, &text).unwrap();
    let found = runtime.block_on(slack.wait_for(TIMEOUT, |workspace| {
        let thread = workspace.thread(seed::GENERAL, &asked);
        let mut answers = thread
            .iter()
            .filter(|message| message.user == seed::BOT_USER);
        answers
            .find(|message| message.text.contains(expected))
            .map(|_| ())
    }));
    assert!(found.is_some(), "{:?}", slack.thread(seed::GENERAL, &asked));
}

#[test]
fn slack_socket_mode_from_environment() {
    let runtime = runtime();
    let slack = runtime
        .block_on(Playground::start(PlaygroundOptions {
            mode: DeliveryMode::Socket,
            bot_token: BOT_TOKEN.into(),
            app_token: APP_TOKEN.into(),
            ..PlaygroundOptions::default()
        }))
        .unwrap();
    let zone = UpZone::up_with(|command| {
        command
            .args(["--listen", "127.0.0.1:0"])
            .env("SLACK_BOT_TOKEN", BOT_TOKEN)
            .env("SLACK_APP_TOKEN", APP_TOKEN)
            .env("INTERZONE__SLACK__API_URL", slack.api_url())
    });
    assert_eq!(zone.ready["chat"], Value::Null, "no local workspace");
    assert_eq!(zone.ready["slack"]["team"], seed::TEAM);
    assert_eq!(zone.ready["slack"]["socket"], true);
    ask_and_await_answer(&runtime, &slack, seed::ALEX, "by the socket");
    // All members of the workspace may ask.
    ask_and_await_answer(&runtime, &slack, seed::MALLORY, "me too");
    let feedback = zone.run(&["feedback"]);
    assert_eq!(feedback.code, Some(0), "{feedback:?}");
    let (run, folder) = zone.stop_and_keep();
    assert_eq!(run.code, Some(0), "{run:?}");
    // The tokens are not copied, and the store is not that of the local workspace.
    let data = folder.path().join(".interzone");
    assert!(data.join("slack.db").exists() && !data.join("verification.db").exists());
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        for token in [BOT_TOKEN, APP_TOKEN] {
            let found = bytes
                .windows(token.len())
                .any(|window| window == token.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
    runtime.block_on(slack.stop());
}

#[test]
fn slack_events_api_from_environment() {
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join(".interzone");
    let files = interzone_edge::tls::DevCa::open_or_create(&data, &[]).unwrap();
    // Left over from an earlier `up`.
    fs::write(data.join("up.lock"), "").unwrap();
    let slack = runtime
        .block_on(Playground::start(PlaygroundOptions {
            bot_token: BOT_TOKEN.into(),
            signing_secret: SIGNING_SECRET.into(),
            trust: interzone_edge::tls::TrustRoots::system_and_files(&[files.ca]).unwrap(),
            ..PlaygroundOptions::default()
        }))
        .unwrap();
    let mut up = Program::spawn(
        interzone(folder.path())
            .args(["up", "--listen", "127.0.0.1:0"])
            .env("SLACK_BOT_TOKEN", BOT_TOKEN)
            .env("SLACK_SIGNING_SECRET", SIGNING_SECRET)
            .env("INTERZONE__SLACK__API_URL", slack.api_url())
            .env("INTERZONE__POLICY__USERS", seed::ALEX)
            .stdout(Stdio::piped()),
    );
    let banner: Vec<String> = BufReader::new(up.0.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .take_while(|line| line != "Press Ctrl-C to stop.")
        .collect();
    let screen = banner.join("\n");
    assert!(screen.contains("by the Events API"), "{screen}");
    assert!(
        screen.contains("all members of the workspace may ask"),
        "{screen}"
    );
    let (_, events) = screen.split_once("Slack must reach ").unwrap();
    let (events, actions) = events.lines().next().unwrap().split_once(" and ").unwrap();
    slack.send_to(events, actions).unwrap();
    assert!(runtime.block_on(slack.verify_url()));
    ask_and_await_answer(&runtime, &slack, seed::ALEX, "by events");
    // Only the listed user may ask: others get an ephemeral refusal.
    slack
        .post(seed::MALLORY, seed::GENERAL, "@interzone echo no")
        .unwrap();
    let refusal = runtime.block_on(slack.wait_for(TIMEOUT, |workspace| {
        let mut messages = workspace.ephemerals();
        messages
            .find(|message| message.visible_to.as_deref() == Some(seed::MALLORY))
            .map(|_| ())
    }));
    assert!(refusal.is_some());
    terminate(&up);
    assert_eq!(up.0.wait().unwrap().code(), Some(0));
    runtime.block_on(slack.stop());
}

#[test]
fn incomplete_slack_env_is_ignored_invalid_is_error() {
    let zone = UpZone::up_with(|command| {
        command
            .args(["--listen", "127.0.0.1:0"])
            .env("SLACK_BOT_TOKEN", BOT_TOKEN)
    });
    assert!(zone.ready["chat"].is_string(), "{}", zone.ready);
    let run = zone.stop();
    assert!(run.stderr.contains("so real Slack is not used"), "{run:?}");

    let runtime = runtime();
    let slack = runtime.block_on(Playground::start(PlaygroundOptions::default()));
    let slack = slack.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = interzone(folder.path())
        .args(["up", "--listen", "127.0.0.1:0"])
        .env("SLACK_BOT_TOKEN", "xoxb-not-this")
        .env("SLACK_APP_TOKEN", APP_TOKEN)
        .env("INTERZONE__SLACK__API_URL", slack.api_url())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("invalid_auth") && stderr.contains("SLACK_BOT_TOKEN"),
        "{stderr}"
    );
    assert!(!stderr.contains("xoxb-not-this"), "{stderr}");
    runtime.block_on(slack.stop());
}

#[test]
fn banner_is_the_only_output() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Program::spawn(
        interzone(folder.path())
            .args(["up", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let banner = first_line(up.0.stdout.take().unwrap());
    assert!(
        banner.starts_with("Interzone is up at https://localhost:"),
        "{banner}"
    );
    terminate(&up);
    assert_eq!(up.0.wait().unwrap().code(), Some(0));
    let mut stderr = String::new();
    up.0.stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(stderr, "stopped; all data is kept in .interzone\n");
}
