//! The place where it happens: an Execution Zone with the `demo` agent, Verification Zones before it, and a
//! Slack workspace of the test's own.

use super::super::soon;
use super::super::zone::{Process, Setup, Zone, binary, free_port};
use interzone_edge::Secret;
use interzone_edge::tls::Trust;
use interzone_playground::{Message, Mode, Playground, PlaygroundOptions, Workspace};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// What requests of this Slack are signed with.
pub(crate) const SIGNING_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
/// The token that must never be seen outside.
pub(crate) const BOT_TOKEN: &str = "xoxb-0000-the-real-thing";
/// As long as a person would wait at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// Emoji on a question, and what they mean.
pub(crate) const RECEIVED: &str = "eyes";
pub(crate) const DONE: &str = "white_check_mark";
pub(crate) const FAILED: &str = "x";
pub(crate) const STOPPED: &str = "octagonal_sign";

/// What is to be set up.
pub(crate) struct Plan {
    /// Of the Verification Zones.
    config: toml::Table,
    store: Option<String>,
    nodes: usize,
    slack: PlaygroundOptions,
    execution: Setup,
}

impl Plan {
    pub(crate) fn new() -> Self {
        let config = r#"
            [verification]
            language = "auto"
            [slack]
            mode = "events"
            signing_secret_file = "signing.txt"
            bot_token_file = "bot.txt"
            app_token_file = "app.txt"
            [policy]
            teams = ["T0PLAY"]
            channels = ["*"]
            users = ["U0HANA", "U0ALEX", "U0GONE"]
            requests_per_minute = 0
        "#;
        Self {
            config: config.parse().unwrap(),
            store: None,
            nodes: 1,
            slack: PlaygroundOptions {
                signing_secret: Secret::new(SIGNING_SECRET),
                bot_token: Secret::new(BOT_TOKEN),
                retry_delays: vec![Duration::ZERO, Duration::from_millis(200)],
                hang: Duration::from_secs(600),
                ..PlaygroundOptions::default()
            },
            execution: Setup::new().without_issuer(),
        }
    }

    /// Sets `section.key` of the Verification Zones.
    pub(crate) fn set(mut self, path: &str, value: impl Into<toml::Value>) -> Self {
        let (section, key) = path.rsplit_once('.').unwrap();
        let mut table = &mut self.config;
        for name in section.split('.') {
            let inner = table
                .entry(name)
                .or_insert_with(|| toml::Value::Table(toml::Table::new()));
            table = inner.as_table_mut().unwrap();
        }
        table.insert(key.to_owned(), value.into());
        self
    }

    /// Removes `section.key` of the Verification Zones.
    pub(crate) fn unset(mut self, path: &str) -> Self {
        let (section, key) = path.split_once('.').unwrap();
        let table = self.config[section].as_table_mut().unwrap();
        assert!(table.remove(key).is_some(), "{path} was set");
        self
    }

    /// Removes a whole section of the Verification Zones.
    pub(crate) fn without(mut self, section: &str) -> Self {
        self.config.remove(section);
        self
    }

    /// Changes the Execution Zone.
    pub(crate) fn execution(mut self, change: impl FnOnce(Setup) -> Setup) -> Self {
        self.execution = change(self.execution);
        self
    }

    /// Changes the workspace.
    pub(crate) fn slack(mut self, change: impl FnOnce(&mut PlaygroundOptions)) -> Self {
        change(&mut self.slack);
        self
    }

    /// Several nodes on one store.
    pub(crate) fn nodes(mut self, nodes: usize, store: &str) -> Self {
        (self.nodes, self.store) = (nodes, Some(store.to_owned()));
        self
    }

    pub(crate) async fn start(self) -> Place {
        let (ground, execution) = self.ground().await;
        let options = PlaygroundOptions {
            trust: Trust::system_and(&[ground.folder.join("ca.pem")]).unwrap(),
            ..ground.slack.clone()
        };
        let slack = Playground::start(options).await.unwrap();
        let nodes = ground.nodes(&execution, &slack.api_url()).await;
        let place = Place {
            nodes,
            slack,
            execution,
        };
        if !ground.is_socket() {
            place.send_to(0);
        }
        place
    }

    /// The Execution Zone, which runs, and all that Verification Zones need before they are started.
    pub(crate) async fn ground(self) -> (Ground, Zone) {
        let execution = self.execution.start().await;
        let folder = execution.world.folder.path().to_owned();
        let added = Command::new(binary())
            .args(["client", "add", "--id", "verification"])
            .args(["--name", "the other zone", "--secret-file", "secret.txt"])
            .arg("--config")
            .arg(&execution.config)
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(added.status.success(), "{added:?}");
        fs::write(folder.join("signing.txt"), SIGNING_SECRET).unwrap();
        fs::write(folder.join("bot.txt"), BOT_TOKEN).unwrap();
        fs::write(folder.join("app.txt"), self.slack.app_token.expose()).unwrap();
        fs::write(folder.join("client.txt"), self.slack.client_secret.expose()).unwrap();
        fs::write(folder.join("token.key"), "5a".repeat(32)).unwrap();
        let ground = Ground {
            folder,
            config: self.config,
            store: self.store,
            count: self.nodes,
            slack: self.slack,
        };
        (ground, execution)
    }
}

/// Where Verification Zones can be started.
pub(crate) struct Ground {
    pub(crate) folder: PathBuf,
    config: toml::Table,
    store: Option<String>,
    count: usize,
    slack: PlaygroundOptions,
}

impl Ground {
    fn is_socket(&self) -> bool {
        self.slack.mode == Mode::Socket
    }

    /// Starts the Verification Zones, with the API of a Slack that is there.
    pub(crate) async fn nodes(&self, execution: &Zone, api: &str) -> Vec<Node> {
        let mut nodes = Vec::new();
        for number in 0..self.count {
            let port = free_port();
            let mut config = self.config.clone();
            let url = format!("https://localhost:{port}");
            let store = self.store.clone();
            let store = store.unwrap_or_else(|| "sqlite:verification.db".to_owned());
            let around = format!(
                r#"
                store.url = "{store}"
                tls = {{ cert = "cert.pem", key = "key.pem", trust = ["ca.pem"] }}
                [verification]
                listen = "127.0.0.1:{port}"
                public_url = "{url}"
                execution_url = "{execution}"
                [verification.oauth]
                token_url = "{execution}/oauth2/token"
                client_id = "verification"
                client_secret_file = "secret.txt"
                [slack]
                api_url = "{api}"
                "#,
                execution = execution.url,
            );
            merge(&mut config, around.parse().unwrap());
            if self.is_socket() {
                config["slack"]["mode"] = "socket".into();
            }
            let file = self.folder.join(format!("verification-{number}.toml"));
            fs::write(&file, config.to_string()).unwrap();
            let mut node = Node {
                url,
                config: file,
                folder: self.folder.clone(),
                process: None,
            };
            node.begin().await;
            nodes.push(node);
        }
        nodes
    }
}

/// What is set in the one wins over nothing in the other; nobody sets a key twice.
fn merge(config: &mut toml::Table, more: toml::Table) {
    for (key, value) in more {
        match (config.get_mut(&key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(more)) => merge(inner, more),
            (Some(_), _) => {}
            (None, value) => {
                config.insert(key, value);
            }
        }
    }
}

/// A Verification Zone's process.
pub(crate) struct Node {
    pub(crate) url: String,
    pub(crate) config: PathBuf,
    folder: PathBuf,
    process: Option<Process>,
}

impl Node {
    /// Starts it, or starts it again.
    pub(crate) async fn begin(&mut self) {
        assert!(self.process.is_none(), "it runs already");
        let (process, ready) = Process::start("verify", &self.config, &self.folder);
        self.process = Some(process);
        let line = soon("the line that says that it serves", ready).await;
        let line = line.unwrap_or_else(|_| {
            let printed = self.process.as_ref().unwrap().printed();
            panic!("it ended before it was ready: {printed}")
        });
        assert!(line.contains("ready"), "{line}");
    }

    /// Ends it without a warning.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.child.kill().unwrap();
        process.child.wait().unwrap();
    }

    /// Asks it to stop, and gives whether it said that all went well.
    pub(crate) async fn stop(&mut self) -> bool {
        let mut process = self.process.take().unwrap();
        let pid = process.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(sent.success(), "the signal was sent");
        let ended = tokio::task::spawn_blocking(move || process.child.wait().unwrap());
        soon("its end", ended).await.unwrap().success()
    }

    /// All that it has printed so far.
    pub(crate) fn log(&self) -> String {
        self.process
            .as_ref()
            .map_or_else(String::new, Process::printed)
    }
}

/// Everything, running.
pub(crate) struct Place {
    // The zones go first, so that they do not see the rest go.
    pub(crate) nodes: Vec<Node>,
    pub(crate) slack: Playground,
    pub(crate) execution: Zone,
}

impl Place {
    /// Slack sends what happens to this node from now on.
    pub(crate) fn send_to(&self, node: usize) {
        let url = &self.nodes[node].url;
        let (events, interactions) = (
            format!("{url}/slack/events"),
            format!("{url}/slack/interactions"),
        );
        self.slack.send_to(&events, &interactions).unwrap();
    }

    /// Waits for something in the workspace.
    pub(crate) async fn wait<T>(&self, what: &str, find: impl FnMut(&Workspace) -> Option<T>) -> T {
        match self.slack.wait(PATIENCE, find).await {
            Some(found) => found,
            None => panic!(
                "{what}: never came; the calls were {:#?}, and what was delivered {:#?}",
                self.slack.look(calls),
                self.slack.look(delivered)
            ),
        }
    }

    /// Waits until a question carries this emoji of ours, and gives the thread.
    pub(crate) async fn marked(&self, channel: &str, ts: &str, emoji: &str) -> Vec<Message> {
        self.wait(&format!("{emoji} on the question"), |workspace| {
            has(workspace.message(channel, ts)?, emoji).then_some(())
        })
        .await;
        self.slack.thread(channel, ts)
    }

    /// Asks, and waits for the end of the answer.
    pub(crate) async fn ask(&self, user: &str, channel: &str, text: &str) -> Vec<Message> {
        let ts = self.slack.post(user, channel, text).unwrap();
        self.marked(channel, &ts, DONE).await
    }

    /// Waits until somebody is told something that nobody else sees.
    pub(crate) async fn whispered(&self, user: &str) -> Message {
        self.wait("a word for one person", |workspace| {
            let to = |message: &&Message| message.only_for.as_deref() == Some(user);
            workspace.ephemerals().find(to).cloned()
        })
        .await
    }
}

/// Whether a message carries an emoji of the bot.
pub(crate) fn has(message: &Message, emoji: &str) -> bool {
    let mut reactions = message.reactions.iter();
    reactions.any(|one| one.name == emoji && one.users.iter().any(|user| user == "U0INTERZONE"))
}

/// What the bot said in a thread, as a person reads it.
pub(crate) fn answers(thread: &[Message]) -> Vec<String> {
    let ours = thread
        .iter()
        .filter(|message| message.user == "U0INTERZONE");
    ours.map(Message::shown).collect()
}

/// What was delivered so far, one line each.
fn delivered(workspace: &Workspace) -> Vec<String> {
    let line = |one: &interzone_playground::Delivery| {
        format!(
            "{} {} {} {:?}",
            one.kind, one.attempt, one.outcome, one.took
        )
    };
    workspace.deliveries().map(line).collect()
}

/// The calls so far, one line each.
pub(crate) fn calls(workspace: &Workspace) -> Vec<String> {
    let line = |call: &interzone_playground::Call| format!("{} {}", call.method, call.answer);
    workspace.calls().map(line).collect()
}
