//! Fixture: both zones as processes, and a playground workspace with users and channels; evaluates the
//! answers.

use crate::event::{PostKind, PostedMessage, SlackSigner};
use interzone_bench::server::{self, Server};
use interzone_bench::tls;
use interzone_edge::Secret;
use interzone_playground::{
    Playground, PlaygroundChannel, PlaygroundMessage, PlaygroundOptions, PlaygroundUser, Workspace,
    seed,
};
use rustls::ClientConfig;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of users, each with a DM and a channel. With this many, no channel gets more than one post a
/// second at the measured rates.
pub(crate) const USERS: usize = 120;

const SIGNING_SECRET: &str = "a signing secret for measurements";
const BOT_TOKEN: &str = "xoxb-measurements";
/// Limit of the playground's history, so that nothing measured is dropped.
const HISTORY_LIMIT: usize = 1_000_000;
/// Time without Slack calls after which none are expected.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// Reactions on a finished question.
const FINISHED_REACTIONS: [&str; 2] = ["white_check_mark", "x"];

/// Running zones and playground.
pub(crate) struct SlackFixture {
    // The zones are dropped before Slack.
    pub(crate) verification: Server,
    pub(crate) execution: Server,
    pub(crate) slack: Playground,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) signer: SlackSigner,
    posted: AtomicU64,
}

impl SlackFixture {
    pub(crate) async fn start(folder: &Path, binary: &Path) -> Self {
        let options = PlaygroundOptions {
            signing_secret: Secret::new(SIGNING_SECRET),
            bot_token: Secret::new(BOT_TOKEN),
            // Events are sent by the benchmark only.
            events_url: None,
            retry_delays: Vec::new(),
            rate_limits: false,
            max_messages: HISTORY_LIMIT,
            max_log_entries: HISTORY_LIMIT,
            ..PlaygroundOptions::default()
        };
        let slack = Playground::start(options).await.unwrap();
        add_users(&slack);
        let execute = start_execution(folder, binary);
        let verify = start_verification(folder, binary, execute.port, &slack.api_url());
        Self {
            verification: verify,
            execution: execute,
            slack,
            tls: tls::client_config(folder),
            signer: SlackSigner::new(SIGNING_SECRET),
            posted: AtomicU64::new(0),
        }
    }

    /// Posts a message with a unique word, without sending its event.
    pub(crate) fn post(&self, user_index: usize, kind: PostKind) -> PostedMessage {
        let number = self.posted.fetch_add(1, Ordering::Relaxed);
        let user_index = user_index % USERS;
        let (user, channel) = match kind {
            PostKind::Dm => (user_id(user_index), dm_id(user_index)),
            PostKind::Mention | PostKind::Unrelated => {
                (user_id(user_index), channel_id(user_index))
            }
        };
        let marker = format!("hello{number:08}");
        let text = match kind {
            PostKind::Dm => format!("echo {marker}"),
            PostKind::Mention => format!("<@{}> echo {marker}", seed::BOT_USER),
            PostKind::Unrelated => format!("unrelated message: {marker}"),
        };
        let ts = self.slack.post(&user, &channel, &text).unwrap();
        PostedMessage {
            kind,
            number,
            user,
            channel,
            ts,
            text,
            marker,
        }
    }

    /// Waits until all questions are finished, up to a timeout.
    pub(crate) async fn wait_until_finished(
        &self,
        questions: &[PostedMessage],
        timeout: Duration,
    ) -> bool {
        let mut open: Vec<&PostedMessage> = questions.iter().collect();
        let find = |workspace: &Workspace| {
            while open
                .pop_if(|posted| is_finished(workspace, posted))
                .is_some()
            {}
            open.is_empty().then_some(())
        };
        self.slack.wait_for(timeout, find).await.is_some()
    }

    /// Waits until no more Slack calls arrive.
    pub(crate) async fn wait_until_quiet(&self) {
        let newest = |workspace: &Workspace| workspace.calls().next_back().map(|call| call.number);
        loop {
            let last_call = self.slack.inspect(newest);
            let has_new_call =
                |workspace: &Workspace| (newest(workspace) != last_call).then_some(());
            if self
                .slack
                .wait_for(QUIET_TIME, has_new_call)
                .await
                .is_none()
            {
                return;
            }
        }
    }

    /// Evaluates the answers to these questions.
    pub(crate) fn outcome(&self, questions: &[PostedMessage]) -> AnswerCounts {
        self.slack.inspect(|workspace| {
            let mut outcome = AnswerCounts::default();
            let mut replies = 0;
            for posted in questions {
                let thread = workspace.thread(&posted.channel, &posted.ts);
                let replies_of_bot: Vec<&PlaygroundMessage> =
                    thread.into_iter().filter(|m| is_from_bot(m)).collect();
                replies += replies_of_bot.len();
                match replies_of_bot.as_slice() {
                    [] => outcome.lost += 1,
                    [one] if one.displayed_text().contains(&posted.marker) => outcome.once += 1,
                    [_] => outcome.failed += 1,
                    _ => outcome.duplicated += 1,
                }
            }
            let channels =
                (0..USERS).flat_map(|user_index| [dm_id(user_index), channel_id(user_index)]);
            let all: usize = channels
                .map(|channel| {
                    workspace
                        .messages(&channel)
                        .filter(|m| is_from_bot(m))
                        .count()
                })
                .sum();
            outcome.unsolicited = all.saturating_sub(replies);
            outcome
        })
    }

    /// CPU seconds used by both zones.
    pub(crate) fn cpu_seconds(&self) -> [f64; 2] {
        [
            self.verification.cpu_seconds(),
            self.execution.cpu_seconds(),
        ]
    }
}

/// Outcome of the questions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AnswerCounts {
    /// Answered once and correctly.
    pub(crate) once: usize,
    /// Not answered.
    pub(crate) lost: usize,
    /// Answered with a failure notice.
    pub(crate) failed: usize,
    /// Answered more than once.
    pub(crate) duplicated: usize,
    /// Bot messages that answer none of the questions.
    pub(crate) unsolicited: usize,
}

fn is_from_bot(message: &PlaygroundMessage) -> bool {
    message.user == seed::BOT_USER
}

fn is_finished(workspace: &Workspace, posted: &PostedMessage) -> bool {
    let message = workspace.message(&posted.channel, &posted.ts);
    let mut reactions = message.iter().flat_map(|message| &message.reactions);
    reactions.any(|reaction| FINISHED_REACTIONS.contains(&reaction.name.as_str()))
}

fn user_id(user_index: usize) -> String {
    format!("U0BENCH{user_index:04}")
}

fn dm_id(user_index: usize) -> String {
    format!("D0BENCH{user_index:04}")
}

fn channel_id(user_index: usize) -> String {
    format!("C0BENCH{user_index:04}")
}

fn add_users(slack: &Playground) {
    for user_index in 0..USERS {
        let name = format!("user{user_index}");
        slack.set_user(PlaygroundUser {
            id: user_id(user_index),
            name: name.clone(),
            display_name: name.clone(),
            real_name: name.clone(),
            locale: "en-US".to_owned(),
            deleted: false,
            is_bot: false,
            is_restricted: false,
        });
        let conversations = [
            (dm_id(user_index), interzone_playground::ChannelKind::Im),
            (
                channel_id(user_index),
                interzone_playground::ChannelKind::Public,
            ),
        ];
        for (id, kind) in conversations {
            slack.set_channel(PlaygroundChannel {
                id,
                name: name.clone(),
                kind,
                members: vec![user_id(user_index), seed::BOT_USER.to_owned()],
                archived: false,
            });
        }
    }
}

fn start_execution(folder: &Path, binary: &Path) -> Server {
    let port = server::free_port();
    let config = folder.join(format!("execute-{port}.toml"));
    let text = format!(
        r#"[store]
url = "sqlite:execute-{port}.db"
[tls]
cert = "cert.pem"
key = "key.pem"
[execution]
listen = "127.0.0.1:{port}"
public_url = "https://localhost:{port}"
[[agents]]
id = "demo"
kind = "demo"
"#
    );
    std::fs::write(&config, text).unwrap();
    let server = start(binary, "execution", &config, port);
    let secret = folder.join(format!("secret-{port}.txt"));
    let added = Command::new(binary)
        .args(["client", "add", "--id", "verification", "--name", "slack"])
        .arg("--secret-file")
        .arg(secret)
        .arg("--config")
        .arg(&config)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&added.stderr);
    assert!(added.status.success(), "{stderr}");
    server
}

fn start_verification(folder: &Path, binary: &Path, execute: u16, api: &str) -> Server {
    let port = server::free_port();
    std::fs::write(folder.join("signing.txt"), SIGNING_SECRET).unwrap();
    std::fs::write(folder.join("bot.txt"), BOT_TOKEN).unwrap();
    let config = folder.join(format!("verify-{port}.toml"));
    let text = format!(
        r#"[store]
url = "sqlite:verify-{port}.db"
[tls]
cert = "cert.pem"
key = "key.pem"
trust = ["cert.pem"]
[verification]
listen = "127.0.0.1:{port}"
public_url = "https://localhost:{port}"
execution_url = "https://localhost:{execute}"
[verification.oauth]
token_url = "https://localhost:{execute}/oauth2/token"
client_id = "verification"
client_secret_file = "secret-{execute}.txt"
[slack]
mode = "events"
api_url = "{api}"
signing_secret_file = "signing.txt"
bot_token_file = "bot.txt"
[policy]
teams = ["{team}"]
channels = ["*"]
users = ["*"]
requests_per_minute = 0
"#,
        team = seed::TEAM,
    );
    std::fs::write(&config, text).unwrap();
    start(binary, "verification", &config, port)
}

fn start(binary: &Path, command: &str, config: &Path, port: u16) -> Server {
    let mut process = Command::new(binary);
    process.args(["serve", command, "--config"]).arg(config);
    Server::start(process, |line| {
        assert!(line.contains("https://"), "{line}");
        port
    })
}
