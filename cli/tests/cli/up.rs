//! `interzone up` as a newcomer meets it: ports that are taken, a folder that is kept or forgotten, and a Slack of
//! one's own.

use crate::journey::{PATIENCE, Program, Zone, first_line, interzone, terminate};
use interzone_playground::{Mode, Playground, PlaygroundOptions, seed};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Stdio;

const SIGNING: &str = "8f742231b10e8888abcd99yyyzzz85a5";
const BOT: &str = "xoxb-1-2-around";
const APP: &str = "xapp-1-2-around";

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn ports_that_are_taken_are_no_trouble() {
    // Whoever has the usual ones, this test or somebody else on the machine, they are taken now.
    let _taken: Vec<_> = [8443, 8444, 8445]
        .into_iter()
        .map(|port| TcpListener::bind(("127.0.0.1", port)))
        .collect();
    let zone = Zone::up_with(|command| command);
    let port = |name: &str| {
        let url = zone.ready[name].as_str().unwrap().trim_end_matches('/');
        let (_, port) = url.rsplit_once(':').unwrap();
        port.split('/').next().unwrap().parse::<u16>().unwrap()
    };
    for (name, usual) in [("url", 8443), ("verification", 8444), ("chat", 8445)] {
        assert_ne!(port(name), usual, "{name}");
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
fn what_was_kept_can_be_forgotten() {
    let any = ["--listen", "127.0.0.1:0"];
    let zone = Zone::up();
    zone.json(&["ask", "echo kept"]);
    let (client, ca) = (
        zone.ready["client_id"].clone(),
        fs::read(zone.path().join(".interzone/ca.pem")).unwrap(),
    );
    fs::write(zone.path().join(".interzone/mine.txt"), "mine").unwrap();
    // Not while somebody works with it.
    let run = zone.run(&["up", "--reset", "--listen", "127.0.0.1:0"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let (run, folder) = zone.stop_and_keep();
    assert_eq!(run.code, Some(0), "{run:?}");

    let zone = Zone::up_in(folder, |command| command.args(any));
    assert_eq!(zone.ready["client_id"], client);
    assert_eq!(
        zone.json(&["task", "list"])["tasks"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let (_, folder) = zone.stop_and_keep();

    let zone = Zone::up_in(folder, |command| command.args(any).arg("--reset"));
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
fn a_model_that_nobody_knows_is_asked_for() {
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

/// Asks in a workspace until the bot says these words there.
fn asks_and_is_answered(
    runtime: &tokio::runtime::Runtime,
    slack: &Playground,
    user: &str,
    words: &str,
) {
    let text = format!("@interzone echo {words}");
    let asked = slack.post(user, seed::GENERAL, &text).unwrap();
    let found = runtime.block_on(slack.wait(PATIENCE, |workspace| {
        let thread = workspace.thread(seed::GENERAL, &asked);
        let mut answers = thread
            .iter()
            .filter(|message| message.user == seed::BOT_USER);
        answers
            .find(|message| message.text.contains(words))
            .map(|_| ())
    }));
    assert!(found.is_some(), "{:?}", slack.thread(seed::GENERAL, &asked));
}

#[test]
fn two_variables_are_enough_for_slack_by_a_socket() {
    let runtime = runtime();
    let slack = runtime
        .block_on(Playground::start(PlaygroundOptions {
            mode: Mode::Socket,
            bot_token: BOT.into(),
            app_token: APP.into(),
            ..PlaygroundOptions::default()
        }))
        .unwrap();
    let zone = Zone::up_with(|command| {
        command
            .args(["--listen", "127.0.0.1:0"])
            .env("SLACK_BOT_TOKEN", BOT)
            .env("SLACK_APP_TOKEN", APP)
            .env("INTERZONE__SLACK__API_URL", slack.api_url())
    });
    assert_eq!(zone.ready["chat"], Value::Null, "no workspace of our own");
    assert_eq!(zone.ready["slack"]["team"], seed::TEAM);
    assert_eq!(zone.ready["slack"]["socket"], true);
    asks_and_is_answered(&runtime, &slack, seed::ALEX, "by the socket");
    // Everybody of that workspace may.
    asks_and_is_answered(&runtime, &slack, seed::MALLORY, "me too");
    let feedback = zone.run(&["feedback"]);
    assert_eq!(feedback.code, Some(0), "{feedback:?}");
    let (run, folder) = zone.stop_and_keep();
    assert_eq!(run.code, Some(0), "{run:?}");
    // The tokens stay where they were, and the other workspace's store is another one.
    let kept = folder.path().join(".interzone");
    assert!(kept.join("slack.db").exists() && !kept.join("verification.db").exists());
    for entry in fs::read_dir(&kept).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        for token in [BOT, APP] {
            let found = bytes
                .windows(token.len())
                .any(|window| window == token.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
    runtime.block_on(slack.stop());
}

#[test]
fn two_variables_are_enough_for_slack_by_its_events() {
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join(".interzone");
    let files = interzone_edge::tls::DevCa::open_or_make(&kept, &[]).unwrap();
    // As an `up` before this one left it.
    fs::write(kept.join("up.lock"), "").unwrap();
    let slack = runtime
        .block_on(Playground::start(PlaygroundOptions {
            bot_token: BOT.into(),
            signing_secret: SIGNING.into(),
            trust: interzone_edge::tls::Trust::system_and(&[files.ca]).unwrap(),
            ..PlaygroundOptions::default()
        }))
        .unwrap();
    let mut up = Program::spawn(
        interzone(folder.path())
            .args(["up", "--listen", "127.0.0.1:0"])
            .env("SLACK_BOT_TOKEN", BOT)
            .env("SLACK_SIGNING_SECRET", SIGNING)
            .env("INTERZONE__SLACK__API_URL", slack.api_url())
            .env("INTERZONE__POLICY__USERS", seed::ALEX)
            .stdout(Stdio::piped()),
    );
    let screen: Vec<String> = BufReader::new(up.0.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .take_while(|line| line != "Ctrl-C stops it.")
        .collect();
    let screen = screen.join("\n");
    assert!(screen.contains("by the Events API"), "{screen}");
    assert!(
        screen.contains("everybody of that workspace may ask"),
        "{screen}"
    );
    let (_, events) = screen.split_once("Slack must reach ").unwrap();
    let (events, actions) = events.lines().next().unwrap().split_once(" and ").unwrap();
    slack.send_to(events, actions).unwrap();
    assert!(runtime.block_on(slack.verify_url()));
    asks_and_is_answered(&runtime, &slack, seed::ALEX, "by events");
    // Who was named is asked for: somebody else is refused, for their eyes alone.
    slack
        .post(seed::MALLORY, seed::GENERAL, "@interzone echo no")
        .unwrap();
    let told = runtime.block_on(slack.wait(PATIENCE, |workspace| {
        let mut messages = workspace.ephemerals();
        messages
            .find(|message| message.only_for.as_deref() == Some(seed::MALLORY))
            .map(|_| ())
    }));
    assert!(told.is_some());
    terminate(&up);
    assert_eq!(up.0.wait().unwrap().code(), Some(0));
    runtime.block_on(slack.stop());
}

#[test]
fn one_variable_of_slack_changes_nothing_and_a_wrong_one_is_told() {
    let zone = Zone::up_with(|command| {
        command
            .args(["--listen", "127.0.0.1:0"])
            .env("SLACK_BOT_TOKEN", BOT)
    });
    assert!(zone.ready["chat"].is_string(), "{}", zone.ready);
    let run = zone.stop();
    assert!(run.stderr.contains("so Slack is left alone"), "{run:?}");

    let runtime = runtime();
    let slack = runtime.block_on(Playground::start(PlaygroundOptions::default()));
    let slack = slack.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = interzone(folder.path())
        .args(["up", "--listen", "127.0.0.1:0"])
        .env("SLACK_BOT_TOKEN", "xoxb-not-this")
        .env("SLACK_APP_TOKEN", APP)
        .env("INTERZONE__SLACK__API_URL", slack.api_url())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("invalid_auth") && told.contains("SLACK_BOT_TOKEN"),
        "{told}"
    );
    assert!(!told.contains("xoxb-not-this"), "{told}");
    runtime.block_on(slack.stop());
}

#[test]
fn the_screen_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Program::spawn(
        interzone(folder.path())
            .args(["up", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let welcome = first_line(up.0.stdout.take().unwrap());
    assert!(
        welcome.starts_with("Interzone is up at https://localhost:"),
        "{welcome}"
    );
    terminate(&up);
    assert_eq!(up.0.wait().unwrap().code(), Some(0));
    let mut told = String::new();
    up.0.stderr
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert_eq!(told, "stopped; everything is kept in .interzone\n");
}
