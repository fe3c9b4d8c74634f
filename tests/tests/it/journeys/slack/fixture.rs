//! Slack test fixture: an Execution Zone with the `demo` agent, Verification Zones in front of it, and a Slack
//! playground workspace for this test alone.

use super::super::within_timeout;
use super::super::zone_process::{ServerProcess, ZoneBuilder, ZoneProcess, binary, free_port};
use interzone_edge::Secret;
use interzone_edge::tls::TrustRoots;
use interzone_playground::{
    DeliveryMode, Playground, PlaygroundMessage, PlaygroundOptions, Workspace,
};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Secret with which the playground signs its requests.
pub(crate) const SIGNING_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
/// Bot token, which must not leak.
pub(crate) const BOT_TOKEN: &str = "xoxb-0000-the-real-thing";
/// Timeout of every wait in the workspace.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(40);

/// Emoji that the bot puts on a question.
pub(crate) const RECEIVED: &str = "eyes";
pub(crate) const DONE: &str = "white_check_mark";
pub(crate) const FAILED: &str = "x";
pub(crate) const STOPPED: &str = "octagonal_sign";

/// Builder of a [`SlackTest`].
pub(crate) struct SlackTestBuilder {
    /// Config of the Verification Zones.
    config: toml::Table,
    store: Option<String>,
    nodes: usize,
    slack: PlaygroundOptions,
    execution: ZoneBuilder,
}

impl SlackTestBuilder {
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
                hang_duration: Duration::from_secs(600),
                ..PlaygroundOptions::default()
            },
            execution: ZoneBuilder::new().without_issuer(),
        }
    }

    /// Sets `section.key` in the config of the Verification Zones.
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

    /// Removes `section.key` from the config of the Verification Zones.
    pub(crate) fn unset(mut self, path: &str) -> Self {
        let (section, key) = path.split_once('.').unwrap();
        let table = self.config[section].as_table_mut().unwrap();
        assert!(table.remove(key).is_some(), "{path} was set");
        self
    }

    /// Removes a section from the config of the Verification Zones.
    pub(crate) fn without_section(mut self, section: &str) -> Self {
        self.config.remove(section);
        self
    }

    /// Changes the Execution Zone.
    pub(crate) fn execution(mut self, change: impl FnOnce(ZoneBuilder) -> ZoneBuilder) -> Self {
        self.execution = change(self.execution);
        self
    }

    /// Changes the playground.
    pub(crate) fn slack(mut self, change: impl FnOnce(&mut PlaygroundOptions)) -> Self {
        change(&mut self.slack);
        self
    }

    /// Runs several nodes on one store.
    pub(crate) fn nodes(mut self, nodes: usize, store: &str) -> Self {
        (self.nodes, self.store) = (nodes, Some(store.to_owned()));
        self
    }

    pub(crate) async fn start(self) -> SlackTest {
        let (launcher, execution) = self.prepare().await;
        let options = PlaygroundOptions {
            trust: TrustRoots::system_and_files(&[launcher.folder.join("ca.pem")]).unwrap(),
            ..launcher.slack.clone()
        };
        let slack = Playground::start(options).await.unwrap();
        let nodes = launcher.start_nodes(&execution, &slack.api_url()).await;
        let test = SlackTest {
            nodes,
            slack,
            execution,
        };
        if !launcher.is_socket() {
            test.send_to(0);
        }
        test
    }

    /// Starts the Execution Zone and prepares all that the Verification Zones need to start.
    pub(crate) async fn prepare(self) -> (VerificationLauncher, ZoneProcess) {
        let execution = self.execution.start().await;
        let folder = execution.env.folder.path().to_owned();
        let added = Command::new(binary())
            .args(["client", "add", "--id", "verification"])
            .args(["--name", "Verification Zone", "--secret-file", "secret.txt"])
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
        let launcher = VerificationLauncher {
            folder,
            config: self.config,
            store: self.store,
            count: self.nodes,
            slack: self.slack,
        };
        (launcher, execution)
    }
}

/// Launcher of the Verification Zones.
pub(crate) struct VerificationLauncher {
    pub(crate) folder: PathBuf,
    config: toml::Table,
    store: Option<String>,
    count: usize,
    slack: PlaygroundOptions,
}

impl VerificationLauncher {
    fn is_socket(&self) -> bool {
        self.slack.mode == DeliveryMode::Socket
    }

    /// Starts the Verification Zones against the Slack API at this URL.
    pub(crate) async fn start_nodes(
        &self,
        execution: &ZoneProcess,
        api: &str,
    ) -> Vec<VerificationProcess> {
        let mut nodes = Vec::new();
        for number in 0..self.count {
            let port = free_port();
            let mut config = self.config.clone();
            let url = format!("https://localhost:{port}");
            let store = self.store.clone();
            let store = store.unwrap_or_else(|| "sqlite:verification.db".to_owned());
            let zone_config = format!(
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
            merge(&mut config, zone_config.parse().unwrap());
            if self.is_socket() {
                config["slack"]["mode"] = "socket".into();
            }
            let file = self.folder.join(format!("verification-{number}.toml"));
            fs::write(&file, config.to_string()).unwrap();
            let mut node = VerificationProcess {
                url,
                config: file,
                folder: self.folder.clone(),
                process: None,
            };
            node.start().await;
            nodes.push(node);
        }
        nodes
    }
}

/// Adds the entries of `more` to `config`, recursively. Existing values win.
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

/// Process of a Verification Zone.
pub(crate) struct VerificationProcess {
    pub(crate) url: String,
    pub(crate) config: PathBuf,
    folder: PathBuf,
    process: Option<ServerProcess>,
}

impl VerificationProcess {
    /// Starts or restarts the process.
    pub(crate) async fn start(&mut self) {
        assert!(self.process.is_none(), "the zone is already running");
        let (process, ready) = ServerProcess::start("verification", &self.config, &self.folder);
        self.process = Some(process);
        let line = within_timeout("the startup line", ready).await;
        let line = line.unwrap_or_else(|_| {
            let printed = self.process.as_ref().unwrap().output();
            panic!("the zone exited before it was ready: {printed}")
        });
        assert!(line.contains("ready"), "{line}");
    }

    /// Kills the process (SIGKILL).
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.child.kill().unwrap();
        process.child.wait().unwrap();
    }

    /// Stops the process (SIGTERM) and returns true if it exited with success.
    pub(crate) async fn stop(&mut self) -> bool {
        let mut process = self.process.take().unwrap();
        let pid = process.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(sent.success(), "kill -TERM failed");
        let ended = tokio::task::spawn_blocking(move || process.child.wait().unwrap());
        within_timeout("the zone to exit", ended)
            .await
            .unwrap()
            .success()
    }

    /// Returns everything printed so far.
    pub(crate) fn log(&self) -> String {
        self.process
            .as_ref()
            .map_or_else(String::new, ServerProcess::output)
    }
}

/// Both zones and the Slack playground, running.
pub(crate) struct SlackTest {
    // Dropped first, so that the Verification Zones stop before their peers.
    pub(crate) nodes: Vec<VerificationProcess>,
    pub(crate) slack: Playground,
    pub(crate) execution: ZoneProcess,
}

impl SlackTest {
    /// Directs Slack's events and interactions to this node from now on.
    pub(crate) fn send_to(&self, node: usize) {
        let url = &self.nodes[node].url;
        let (events, interactions) = (
            format!("{url}/slack/events"),
            format!("{url}/slack/interactions"),
        );
        self.slack.send_to(&events, &interactions).unwrap();
    }

    /// Waits until `find` returns a value from the workspace.
    pub(crate) async fn wait<T>(&self, what: &str, find: impl FnMut(&Workspace) -> Option<T>) -> T {
        match self.slack.wait_for(WAIT_TIMEOUT, find).await {
            Some(found) => found,
            None => panic!(
                "timed out: {what}; API calls: {:#?}, deliveries: {:#?}",
                self.slack.inspect(format_calls),
                self.slack.inspect(format_deliveries)
            ),
        }
    }

    /// Waits until a question has this emoji of the bot, and returns the thread.
    pub(crate) async fn wait_for_reaction(
        &self,
        channel: &str,
        ts: &str,
        emoji: &str,
    ) -> Vec<PlaygroundMessage> {
        self.wait(&format!("{emoji} on the question"), |workspace| {
            has_reaction(workspace.message(channel, ts)?, emoji).then_some(())
        })
        .await;
        self.slack.thread(channel, ts)
    }

    /// Posts a question, waits until it is done, and returns the thread.
    pub(crate) async fn ask(
        &self,
        user: &str,
        channel: &str,
        text: &str,
    ) -> Vec<PlaygroundMessage> {
        let ts = self.slack.post(user, channel, text).unwrap();
        self.wait_for_reaction(channel, &ts, DONE).await
    }

    /// Waits for an ephemeral message to this user.
    pub(crate) async fn wait_for_ephemeral(&self, user: &str) -> PlaygroundMessage {
        self.wait("an ephemeral message", |workspace| {
            let for_user =
                |message: &&PlaygroundMessage| message.visible_to.as_deref() == Some(user);
            workspace.ephemerals().find(for_user).cloned()
        })
        .await
    }
}

/// Returns true if a message has this emoji of the bot.
pub(crate) fn has_reaction(message: &PlaygroundMessage, emoji: &str) -> bool {
    let mut reactions = message.reactions.iter();
    reactions.any(|one| one.name == emoji && one.users.iter().any(|user| user == "U0INTERZONE"))
}

/// Returns the displayed text of the bot's messages in a thread.
pub(crate) fn answers(thread: &[PlaygroundMessage]) -> Vec<String> {
    let ours = thread
        .iter()
        .filter(|message| message.user == "U0INTERZONE");
    ours.map(PlaygroundMessage::displayed_text).collect()
}

/// Formats the deliveries so far, one line each.
fn format_deliveries(workspace: &Workspace) -> Vec<String> {
    let line = |one: &interzone_playground::EventDelivery| {
        format!(
            "{} {} {} {:?}",
            one.kind, one.attempt, one.outcome, one.duration
        )
    };
    workspace.deliveries().map(line).collect()
}

/// Formats the API calls so far, one line each.
pub(crate) fn format_calls(workspace: &Workspace) -> Vec<String> {
    let line = |call: &interzone_playground::ApiCall| format!("{} {}", call.method, call.outcome);
    workspace.calls().map(line).collect()
}
