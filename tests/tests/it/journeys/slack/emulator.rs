//! The main journeys against a Slack emulator that others wrote. It knows no streams, no Socket Mode and no
//! mentions as events of their own, and does not say whose the bot's own messages are.

use super::super::peers::{newer_node, node_modules, program};
use super::super::soon;
use super::super::zone::Zone;
use super::place::{BOT_TOKEN, DONE, Node, Plan, SIGNING_SECRET};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const TEAM: &str = "T000000001";
const BOT: &str = "U000000009";
const GENERAL: &str = "C000000001";

/// The emulator.
struct Emulator {
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// The person in it, and their conversation with the bot.
    person: String,
    dm: String,
    api: String,
    _child: Child,
}

impl Emulator {
    async fn start(ca: &Path) -> Self {
        let mut child = Command::new(newer_node())
            .arg(program("slack_emulator.mjs"))
            .args([&node_modules(), BOT_TOKEN, SIGNING_SECRET])
            .env("NODE_EXTRA_CA_CERTS", ca)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a Node is there: ./test.sh installs it");
        let mut started = Self {
            input: child.stdin.take().unwrap(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            person: String::new(),
            dm: String::new(),
            api: String::new(),
            _child: child,
        };
        let about = started.line().await;
        let word = |name: &str| about[name].as_str().unwrap().to_owned();
        (started.person, started.dm) = (word("user"), word("dm"));
        started.api = word("api");
        assert_eq!(
            (about["team"].as_str(), word("general").as_str()),
            (Some(TEAM), GENERAL)
        );
        started
    }

    async fn line(&mut self) -> Value {
        let line = soon("a line of the emulator", self.lines.next_line()).await;
        let line = line.unwrap().expect("it goes on");
        let said: Value = serde_json::from_str(&line).unwrap();
        assert!(said.get("error").is_none(), "{said}");
        said
    }

    async fn tell(&mut self, command: Value) -> Value {
        let line = format!("{command}\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
        self.line().await
    }

    async fn post(&mut self, channel: &str, text: &str) -> String {
        let posted = self.tell(json!({"post": text, "channel": channel})).await;
        posted["ts"].as_str().unwrap().to_owned()
    }

    /// Asks, and gives what the bot said in the thread when it is done.
    async fn ask(&mut self, channel: &str, text: &str) -> Vec<Value> {
        let ts = self.post(channel, text).await;
        let marked = json!({"marked": DONE, "channel": channel, "thread": ts});
        let Value::Array(mut thread) = self.tell(marked).await else {
            panic!("a thread is a list");
        };
        assert_eq!(thread.remove(0)["user"], self.person.as_str());
        for message in &thread {
            assert_eq!(message["user"], BOT, "{message}");
            assert_eq!(message["thread_ts"], ts.as_str(), "{message}");
        }
        thread
    }
}

/// Everything, running; what goes last is named last.
struct There {
    _nodes: Vec<Node>,
    emulator: Emulator,
    _execution: Zone,
}

async fn start(plan: Plan) -> There {
    let plan = plan
        .set("policy.teams", vec![TEAM])
        .set("slack.auto_reply_channels", vec![GENERAL]);
    let (ground, execution) = plan.ground().await;
    let mut emulator = Emulator::start(&ground.folder.join("ca.pem")).await;
    let nodes = ground.nodes(&execution, &emulator.api).await;
    let events = format!("{}/slack/events", nodes[0].url);
    emulator.tell(json!({"events": events})).await;
    There {
        _nodes: nodes,
        emulator,
        _execution: execution,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_in_its_thread_once_and_its_file_comes() {
    let mut there = start(Plan::new().set("policy.users", vec!["*"])).await;
    let slack = &mut there.emulator;
    let dm = slack.dm.clone();
    let said = slack.ask(&dm, "echo hello").await;
    assert_eq!(said.len(), 1, "{said:#?}");
    assert_eq!(said[0]["text"], "hello");
    assert_eq!(said[0]["blocks"][0]["text"], "hello", "{said:#?}");

    let said = slack.ask(GENERAL, "stream 60").await;
    assert_eq!(said.len(), 1, "one post, edited: {said:#?}");
    let text = said[0]["text"].as_str().unwrap();
    assert!(text.starts_with("one word after"), "{text}");
    assert!(
        text.trim_end().ends_with("lost."),
        "to the last word: {text}"
    );

    let said = slack.ask(&dm, "file csv a,b").await;
    let files: Vec<&Value> = said
        .iter()
        .flat_map(|one| one["files"].as_array())
        .flatten()
        .collect();
    assert_eq!(files.len(), 1, "{said:#?}");
    assert!(
        files[0]["name"].as_str().unwrap().ends_with(".csv"),
        "{files:#?}"
    );
    let file = slack.tell(json!({"file": files[0]["id"]})).await;
    assert_eq!(file["status"], 200);
    assert!(file["text"].as_str().unwrap().starts_with("a,b"), "{file}");

    let whispers = slack.tell(json!({"whispers": 0})).await;
    assert_eq!(whispers, json!([]), "its own words are no questions");
    let deliveries = slack.tell(json!({"deliveries": true})).await;
    let deliveries = deliveries.as_array().unwrap();
    assert!(
        deliveries.iter().all(|one| one[1] == 200),
        "{deliveries:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_ask_is_told_alone() {
    let mut there = start(Plan::new()).await;
    let slack = &mut there.emulator;
    slack.post(GENERAL, "echo hello").await;
    let told = slack.tell(json!({"whispers": 1})).await;
    assert_eq!(told.as_array().unwrap().len(), 1, "{told}");
    assert_eq!(told[0]["user"], slack.person.as_str());
    let text = told[0]["text"].as_str().unwrap();
    assert!(text.contains("not allowed"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_signed_for_another_body_is_not_believed() {
    let mut there = start(Plan::new().set("policy.users", vec!["*"])).await;
    let slack = &mut there.emulator;
    let dm = slack.dm.clone();
    slack.ask(&dm, "echo hello").await;
    slack.tell(json!({"tamper": true})).await;
    slack.post(&dm, "echo this never").await;
    let deliveries = slack.tell(json!({"deliveries": true})).await;
    assert_eq!(
        deliveries.as_array().unwrap().last().unwrap(),
        &json!(["message", 401])
    );
}
