//! People in a Slack workspace ask, with the real binary: both zones of `interzone up`, and a Verification
//! Zone by its configuration.

#![expect(
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use crate::journey::{PATIENCE, Program, Zone, first_line, interzone, terminate};
use interzone_edge::tls::Trust;
use interzone_playground::{Mode, Playground, PlaygroundOptions, seed};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// What opens the workspace of these tests.
const SIGNING: &str = "8f742231b10e8888abcd99yyyzzz85a5";
const BOT: &str = "xoxb-1-2-workspace";
const APP: &str = "xapp-1-2-workspace";

/// What `[slack]` says, by how events come.
const BY_REQUESTS: &str = "signing_secret_file = \"signing.txt\"\noffer_stop_after = \"1ms\"\n";
const BY_SOCKET: &str = "mode = \"socket\"\napp_token_file = \"app.txt\"\n";

/// `interzone verify` on any port, for a workspace, with the Execution Zone of `interzone up`.
fn verify(zone: &Zone, playground: &Playground, slack: &str) -> Program {
    let add = zone.run(&[
        "client",
        "add",
        "front",
        "--id",
        "front",
        "--secret-file",
        "secret.txt",
    ]);
    assert_eq!(add.code, Some(0), "{add:?}");
    let write = |name: &str, text: &str| fs::write(zone.path().join(name), text).unwrap();
    write("signing.txt", SIGNING);
    write("bot.txt", BOT);
    write("app.txt", APP);
    write(
        "interzone.toml",
        &format!(
            "[store]\nurl = \"sqlite:front.db\"\n\
             [tls]\ncert = \".interzone/cert.pem\"\nkey = \".interzone/key.pem\"\n\
             trust = [\".interzone/ca.pem\"]\n\
             [verification]\nlisten = \"127.0.0.1:0\"\nexecution_url = \"{}\"\n\
             [verification.oauth]\nclient_id = \"front\"\nclient_secret_file = \"secret.txt\"\n\
             [slack]\napi_url = \"{}\"\nbot_token_file = \"bot.txt\"\n{slack}\
             [policy]\nteams = [\"{}\"]\nchannels = [\"*\"]\nusers = [\"{}\"]\n",
            zone.url,
            playground.api_url(),
            seed::TEAM,
            seed::ALEX,
        ),
    );
    let mut child = Program::spawn(
        interzone(zone.path())
            .args(["verify", "--output", "json"])
            .stdout(Stdio::piped()),
    );
    let ready = first_line(child.0.stdout.take().unwrap());
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let url = ready["url"].as_str().unwrap();
    let (events, actions) = (
        format!("{url}/slack/events"),
        format!("{url}/slack/interactions"),
    );
    playground.send_to(&events, &actions).unwrap();
    child
}

fn workspace(zone: &Zone) -> PlaygroundOptions {
    PlaygroundOptions {
        signing_secret: SIGNING.into(),
        bot_token: BOT.into(),
        app_token: APP.into(),
        trust: Trust::system_and(&[zone.path().join(".interzone/ca.pem")]).unwrap(),
        ..PlaygroundOptions::default()
    }
}

#[test]
fn a_person_in_slack_gets_an_answer_and_a_file_and_can_stop() {
    let zone = Zone::up();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let playground = runtime
        .block_on(Playground::start(workspace(&zone)))
        .unwrap();
    let mut front = verify(&zone, &playground, BY_REQUESTS);
    assert!(runtime.block_on(playground.verify_url()));

    let asked = playground
        .post(seed::ALEX, seed::GENERAL, "@interzone file csv a,b")
        .unwrap();
    let found = runtime.block_on(playground.wait(PATIENCE, |workspace| {
        let thread = workspace.thread(seed::GENERAL, &asked);
        let file = thread.iter().find(|message| !message.files.is_empty())?;
        Some(file.user.clone())
    }));
    assert_eq!(found.expect("a file in the thread"), seed::BOT_USER);

    // Somebody who is on no list gets a word of their own, and no answer.
    let refused = playground
        .post(seed::MALLORY, seed::GENERAL, "@interzone echo hello")
        .unwrap();
    let told = runtime.block_on(playground.wait(PATIENCE, |workspace| {
        let mut messages = workspace.ephemerals();
        let theirs = messages.find(|message| message.only_for.as_deref() == Some(seed::MALLORY));
        theirs.map(|message| message.text.clone())
    }));
    assert!(!told.expect("a word for them").contains("hello"));
    assert!(playground.thread(seed::GENERAL, &refused).len() <= 1);

    // What takes long can be stopped by a button that only the asker sees, outside of any thread.
    let asked = playground
        .post(seed::ALEX, seed::DM_ALEX, "wait 500")
        .unwrap();
    let button = runtime.block_on(playground.wait(PATIENCE, |workspace| {
        let mut messages = workspace.ephemerals();
        let theirs = messages.find(|message| message.channel == seed::DM_ALEX)?;
        Some(theirs.ts.clone())
    }));
    let button = button.unwrap();
    playground
        .press(seed::ALEX, seed::DM_ALEX, &button, "interzone_stop", None)
        .unwrap();
    let stopped = runtime.block_on(playground.wait(PATIENCE, |workspace| {
        let thread = workspace.thread(seed::DM_ALEX, &asked);
        let mut reactions = thread.first()?.reactions.iter();
        reactions
            .find(|one| one.name == "octagonal_sign")
            .map(|_| ())
    }));
    assert!(
        stopped.is_some(),
        "{:?}",
        playground.thread(seed::DM_ALEX, &asked)
    );

    let doctor = zone.run(&["doctor", "--output", "json"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    terminate(&front);
    assert_eq!(front.0.wait().unwrap().code(), Some(0));
    runtime.block_on(playground.stop());
    assert_eq!(zone.stop().code, Some(0));
}

#[test]
fn a_socket_brings_questions_too() {
    let zone = Zone::up();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let options = PlaygroundOptions {
        mode: Mode::Socket,
        ..workspace(&zone)
    };
    let playground = runtime.block_on(Playground::start(options)).unwrap();
    let mut front = verify(&zone, &playground, BY_SOCKET);
    let asked = playground
        .post(seed::ALEX, seed::DM_ALEX, "echo by the socket")
        .unwrap();
    let found = runtime.block_on(playground.wait(PATIENCE, |workspace| {
        let thread = workspace.thread(seed::DM_ALEX, &asked);
        let answer = thread
            .iter()
            .find(|message| message.user == seed::BOT_USER)?;
        answer.text.contains("by the socket").then_some(())
    }));
    assert!(
        found.is_some(),
        "{:?}",
        playground.thread(seed::DM_ALEX, &asked)
    );
    terminate(&front);
    assert_eq!(front.0.wait().unwrap().code(), Some(0));
    runtime.block_on(playground.stop());
    assert_eq!(zone.stop().code, Some(0));
}

#[test]
fn up_has_a_page_to_chat_on() {
    let zone = Zone::up();
    let page = zone.ready["chat"].as_str().unwrap().to_owned();
    assert!(page.starts_with("http://127.0.0.1:"), "{page}");
    let verification = zone.ready["verification"].as_str().unwrap();
    assert!(
        verification.starts_with("https://localhost:"),
        "{verification}"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let shown = runtime.block_on(async { reqwest::get(&page).await.unwrap() });
    assert_eq!(shown.status(), 200);
    assert_eq!(zone.stop().code, Some(0));
}
