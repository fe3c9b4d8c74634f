//! Slack users ask, with the real binary: the zones of `interzone up`, and a configured Verification Zone.

#![expect(
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use crate::journey::{Program, TIMEOUT, UpZone, first_line, interzone, terminate};
use interzone_edge::tls::TrustRoots;
use interzone_playground::{DeliveryMode, Playground, PlaygroundOptions, seed};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// Credentials of the workspace.
const SIGNING_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
const BOT_TOKEN: &str = "xoxb-1-2-workspace";
const APP_TOKEN: &str = "xapp-1-2-workspace";

/// `[slack]` settings for each transport.
const EVENTS_API: &str = "signing_secret_file = \"signing.txt\"\nstop_button_delay = \"1ms\"\n";
const SOCKET_MODE: &str = "mode = \"socket\"\napp_token_file = \"app.txt\"\n";

/// Runs `interzone serve verification` on any port, for a workspace, with the Execution Zone of `interzone up`.
fn serve_verification(zone: &UpZone, playground: &Playground, slack: &str) -> Program {
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
    write("signing.txt", SIGNING_SECRET);
    write("bot.txt", BOT_TOKEN);
    write("app.txt", APP_TOKEN);
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
            .args(["serve", "verification", "--output", "json"])
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

fn workspace_options(zone: &UpZone) -> PlaygroundOptions {
    PlaygroundOptions {
        signing_secret: SIGNING_SECRET.into(),
        bot_token: BOT_TOKEN.into(),
        app_token: APP_TOKEN.into(),
        trust: TrustRoots::system_and_files(&[zone.path().join(".interzone/ca.pem")]).unwrap(),
        ..PlaygroundOptions::default()
    }
}

#[test]
fn slack_user_gets_answer_and_file_and_can_stop() {
    let zone = UpZone::up();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let playground = runtime
        .block_on(Playground::start(workspace_options(&zone)))
        .unwrap();
    let mut verification = serve_verification(&zone, &playground, EVENTS_API);
    assert!(runtime.block_on(playground.verify_url()));

    let asked = playground
        .post(seed::ALEX, seed::GENERAL, "@interzone file csv a,b")
        .unwrap();
    let found = runtime.block_on(playground.wait_for(TIMEOUT, |workspace| {
        let thread = workspace.thread(seed::GENERAL, &asked);
        let file = thread.iter().find(|message| !message.files.is_empty())?;
        Some(file.user.clone())
    }));
    assert_eq!(found.expect("a file in the thread"), seed::BOT_USER);

    // A user who is not listed gets an ephemeral message and no answer.
    let refused = playground
        .post(seed::MALLORY, seed::GENERAL, "@interzone echo hello")
        .unwrap();
    let refusal = runtime.block_on(playground.wait_for(TIMEOUT, |workspace| {
        let mut messages = workspace.ephemerals();
        let theirs = messages.find(|message| message.visible_to.as_deref() == Some(seed::MALLORY));
        theirs.map(|message| message.text.clone())
    }));
    assert!(!refusal.expect("an ephemeral message").contains("hello"));
    assert!(playground.thread(seed::GENERAL, &refused).len() <= 1);

    // A long task can be stopped with a button that only the asker sees.
    let asked = playground
        .post(seed::ALEX, seed::DM_ALEX, "wait 500")
        .unwrap();
    let button = runtime.block_on(playground.wait_for(TIMEOUT, |workspace| {
        let mut messages = workspace.ephemerals();
        let theirs = messages.find(|message| message.channel == seed::DM_ALEX)?;
        Some(theirs.ts.clone())
    }));
    let button = button.unwrap();
    playground
        .press(seed::ALEX, seed::DM_ALEX, &button, "interzone_stop", None)
        .unwrap();
    let stopped = runtime.block_on(playground.wait_for(TIMEOUT, |workspace| {
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
    terminate(&verification);
    assert_eq!(verification.0.wait().unwrap().code(), Some(0));
    runtime.block_on(playground.stop());
    assert_eq!(zone.stop().code, Some(0));
}

#[test]
fn socket_mode_delivers_questions() {
    let zone = UpZone::up();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let options = PlaygroundOptions {
        mode: DeliveryMode::Socket,
        ..workspace_options(&zone)
    };
    let playground = runtime.block_on(Playground::start(options)).unwrap();
    let mut verification = serve_verification(&zone, &playground, SOCKET_MODE);
    let asked = playground
        .post(seed::ALEX, seed::DM_ALEX, "echo by the socket")
        .unwrap();
    let found = runtime.block_on(playground.wait_for(TIMEOUT, |workspace| {
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
    terminate(&verification);
    assert_eq!(verification.0.wait().unwrap().code(), Some(0));
    runtime.block_on(playground.stop());
    assert_eq!(zone.stop().code, Some(0));
}

#[test]
fn up_serves_chat_page() {
    let zone = UpZone::up();
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
