//! Main flows against a third-party Slack emulator. It has no streaming, no Socket Mode and no `app_mention` events,
//! and its events do not identify the bot's own messages as such.

use super::super::peers::{newer_node, node_modules, peer_path};
use super::super::within_timeout;
use super::super::zone_process::ZoneProcess;
use super::fixture::{BOT_TOKEN, DONE, SIGNING_SECRET, SlackTestBuilder, VerificationProcess};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const TEAM: &str = "T000000001";
const BOT: &str = "U000000009";
const GENERAL: &str = "C000000001";

/// Process of the third-party Slack emulator, driven by JSON lines.
struct Emulator {
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// The emulator's only human user, and that user's DM with the bot.
    user: String,
    dm: String,
    api: String,
    _child: Child,
}

impl Emulator {
    async fn start(ca: &Path) -> Self {
        let mut child = Command::new(newer_node())
            .arg(peer_path("slack_emulator.mjs"))
            .args([&node_modules(), BOT_TOKEN, SIGNING_SECRET])
            .env("NODE_EXTRA_CA_CERTS", ca)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Node.js is not installed: run ./test.sh");
        let mut emulator = Self {
            input: child.stdin.take().unwrap(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            user: String::new(),
            dm: String::new(),
            api: String::new(),
            _child: child,
        };
        let startup = emulator.read_line().await;
        let field = |name: &str| startup[name].as_str().unwrap().to_owned();
        (emulator.user, emulator.dm) = (field("user"), field("dm"));
        emulator.api = field("api");
        assert_eq!(
            (startup["team"].as_str(), field("general").as_str()),
            (Some(TEAM), GENERAL)
        );
        emulator
    }

    async fn read_line(&mut self) -> Value {
        let line = within_timeout("a line from the emulator", self.lines.next_line()).await;
        let line = line.unwrap().expect("the emulator exited");
        let response: Value = serde_json::from_str(&line).unwrap();
        assert!(response.get("error").is_none(), "{response}");
        response
    }

    async fn send_command(&mut self, command: Value) -> Value {
        let line = format!("{command}\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
        self.read_line().await
    }

    async fn post(&mut self, channel: &str, text: &str) -> String {
        let posted = self
            .send_command(json!({"post": text, "channel": channel}))
            .await;
        posted["ts"].as_str().unwrap().to_owned()
    }

    /// Posts a question, waits until it is done, and returns the bot's messages in the thread.
    async fn ask(&mut self, channel: &str, text: &str) -> Vec<Value> {
        let ts = self.post(channel, text).await;
        let command = json!({"marked": DONE, "channel": channel, "thread": ts});
        let Value::Array(mut thread) = self.send_command(command).await else {
            panic!("the thread is not an array");
        };
        assert_eq!(thread.remove(0)["user"], self.user.as_str());
        for message in &thread {
            assert_eq!(message["user"], BOT, "{message}");
            assert_eq!(message["thread_ts"], ts.as_str(), "{message}");
        }
        thread
    }
}

/// Both zones and the emulator. Fields are dropped in this order, the Execution Zone last.
struct EmulatorTest {
    _nodes: Vec<VerificationProcess>,
    emulator: Emulator,
    _execution: ZoneProcess,
}

async fn start(builder: SlackTestBuilder) -> EmulatorTest {
    let builder = builder
        .set("policy.teams", vec![TEAM])
        .set("slack.auto_reply_channels", vec![GENERAL]);
    let (launcher, execution) = builder.prepare().await;
    let mut emulator = Emulator::start(&launcher.folder.join("ca.pem")).await;
    let nodes = launcher.start_nodes(&execution, &emulator.api).await;
    let events = format!("{}/slack/events", nodes[0].url);
    emulator.send_command(json!({"events": events})).await;
    EmulatorTest {
        _nodes: nodes,
        emulator,
        _execution: execution,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn question_is_answered_once_in_its_thread_with_its_file() {
    let mut test = start(SlackTestBuilder::new().set("policy.users", vec!["*"])).await;
    let slack = &mut test.emulator;
    let dm = slack.dm.clone();
    let replies = slack.ask(&dm, "echo hello").await;
    assert_eq!(replies.len(), 1, "{replies:#?}");
    assert_eq!(replies[0]["text"], "hello");
    assert_eq!(replies[0]["blocks"][0]["text"], "hello", "{replies:#?}");

    let replies = slack.ask(GENERAL, "stream 60").await;
    assert_eq!(replies.len(), 1, "one post, edited: {replies:#?}");
    let text = replies[0]["text"].as_str().unwrap();
    assert!(text.starts_with("one word after"), "{text}");
    assert!(
        text.trim_end().ends_with("lost."),
        "complete to the last word: {text}"
    );

    let replies = slack.ask(&dm, "file csv a,b").await;
    let files: Vec<&Value> = replies
        .iter()
        .flat_map(|one| one["files"].as_array())
        .flatten()
        .collect();
    assert_eq!(files.len(), 1, "{replies:#?}");
    assert!(
        files[0]["name"].as_str().unwrap().ends_with(".csv"),
        "{files:#?}"
    );
    let file = slack.send_command(json!({"file": files[0]["id"]})).await;
    assert_eq!(file["status"], 200);
    assert!(file["text"].as_str().unwrap().starts_with("a,b"), "{file}");

    let notices = slack.send_command(json!({"whispers": 0})).await;
    assert_eq!(
        notices,
        json!([]),
        "the bot's own messages are no questions"
    );
    let deliveries = slack.send_command(json!({"deliveries": true})).await;
    let deliveries = deliveries.as_array().unwrap();
    assert!(
        deliveries.iter().all(|one| one[1] == 200),
        "{deliveries:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unlisted_user_gets_an_ephemeral_notice() {
    let mut test = start(SlackTestBuilder::new()).await;
    let slack = &mut test.emulator;
    slack.post(GENERAL, "echo hello").await;
    let notices = slack.send_command(json!({"whispers": 1})).await;
    assert_eq!(notices.as_array().unwrap().len(), 1, "{notices}");
    assert_eq!(notices[0]["user"], slack.user.as_str());
    let text = notices[0]["text"].as_str().unwrap();
    assert!(text.contains("not allowed"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_signed_for_another_body_is_rejected() {
    let mut test = start(SlackTestBuilder::new().set("policy.users", vec!["*"])).await;
    let slack = &mut test.emulator;
    let dm = slack.dm.clone();
    slack.ask(&dm, "echo hello").await;
    slack.send_command(json!({"tamper": true})).await;
    slack.post(&dm, "echo this never").await;
    let deliveries = slack.send_command(json!({"deliveries": true})).await;
    assert_eq!(
        deliveries.as_array().unwrap().last().unwrap(),
        &json!(["message", 401])
    );
}
