//! The place where it happens: both zones as processes, and a workspace with as many people and channels as
//! are needed. What comes of the questions is looked up here.

use crate::event::{Kind, Said, Signer};
use interzone_bench::server::{self, Server};
use interzone_bench::tls;
use interzone_edge::Secret;
use interzone_playground::{
    Channel, Message, Playground, PlaygroundOptions, User, Workspace, seed,
};
use rustls::ClientConfig;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// People, each with a DM and a channel of their own. With as many, no channel gets more than one post a
/// second at the rates that are measured.
pub(crate) const PEOPLE: usize = 120;

const SIGNING_SECRET: &str = "a signing secret for measurements";
const BOT_TOKEN: &str = "xoxb-measurements";
/// Nothing that is measured may be forgotten.
const KEPT: usize = 1_000_000;
/// How long nothing more must come before it is believed that nothing will.
const QUIET: Duration = Duration::from_secs(2);
/// Emoji on a question that is over.
const OVER: [&str; 2] = ["white_check_mark", "x"];

/// Everything, running.
pub(crate) struct Place {
    // The zones go first, so that they do not see Slack go.
    pub(crate) verify: Server,
    pub(crate) execute: Server,
    pub(crate) slack: Playground,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) signer: Signer,
    said: AtomicU64,
}

impl Place {
    pub(crate) async fn start(folder: &Path, binary: &Path) -> Self {
        let options = PlaygroundOptions {
            signing_secret: Secret::new(SIGNING_SECRET),
            bot_token: Secret::new(BOT_TOKEN),
            // Events are sent by the measurement alone; what the playground would tell, nobody hears.
            events_url: None,
            retry_delays: Vec::new(),
            rate_limits: false,
            messages: KEPT,
            log: KEPT,
            ..PlaygroundOptions::default()
        };
        let slack = Playground::start(options).await.unwrap();
        people(&slack);
        let execute = execute(folder, binary);
        let verify = verify(folder, binary, execute.port, &slack.api_url());
        Self {
            verify,
            execute,
            slack,
            tls: tls::client(folder),
            signer: Signer::new(SIGNING_SECRET),
            said: AtomicU64::new(0),
        }
    }

    /// Somebody writes something with a word in it that comes in no other message. Nobody is told yet.
    pub(crate) fn say(&self, person: usize, kind: Kind) -> Said {
        let number = self.said.fetch_add(1, Ordering::Relaxed);
        let person = person % PEOPLE;
        let (user, channel) = match kind {
            Kind::Dm => (user(person), dm(person)),
            Kind::Mention | Kind::Chatter => (user(person), channel(person)),
        };
        let word = format!("hello{number:08}");
        let text = match kind {
            Kind::Dm => format!("echo {word}"),
            Kind::Mention => format!("<@{}> echo {word}", seed::BOT_USER),
            Kind::Chatter => format!("we talk among us: {word}"),
        };
        let ts = self.slack.post(&user, &channel, &text).unwrap();
        Said {
            kind,
            number,
            user,
            channel,
            ts,
            text,
            word,
        }
    }

    /// Waits until all of these questions are over, for a time at most.
    pub(crate) async fn over(&self, questions: &[Said], patience: Duration) -> bool {
        let mut open: Vec<&Said> = questions.iter().collect();
        let find = |workspace: &Workspace| {
            while open.pop_if(|said| is_over(workspace, said)).is_some() {}
            open.is_empty().then_some(())
        };
        self.slack.wait(patience, find).await.is_some()
    }

    /// Waits until Slack is called no more.
    pub(crate) async fn quiet(&self) {
        let newest = |workspace: &Workspace| workspace.calls().next_back().map(|call| call.number);
        loop {
            let seen = self.slack.look(newest);
            let more = |workspace: &Workspace| (newest(workspace) != seen).then_some(());
            if self.slack.wait(QUIET, more).await.is_none() {
                return;
            }
        }
    }

    /// What came of these questions.
    pub(crate) fn outcome(&self, questions: &[Said]) -> Outcome {
        self.slack.look(|workspace| {
            let mut outcome = Outcome::default();
            let mut replies = 0;
            for said in questions {
                let thread = workspace.thread(&said.channel, &said.ts);
                let ours: Vec<&Message> = thread.into_iter().filter(|m| is_ours(m)).collect();
                replies += ours.len();
                match ours.as_slice() {
                    [] => outcome.lost += 1,
                    [one] if one.shown().contains(&said.word) => outcome.once += 1,
                    [_] => outcome.failed += 1,
                    _ => outcome.doubled += 1,
                }
            }
            let channels = (0..PEOPLE).flat_map(|person| [dm(person), channel(person)]);
            let all: usize = channels
                .map(|channel| workspace.messages(&channel).filter(|m| is_ours(m)).count())
                .sum();
            outcome.uncalled = all.saturating_sub(replies);
            outcome
        })
    }

    /// What both zones have used of the processor, in seconds.
    pub(crate) fn processor(&self) -> [f64; 2] {
        [self.verify.processor(), self.execute.processor()]
    }
}

/// What came of questions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// Answered once, and right.
    pub(crate) once: usize,
    /// Not answered.
    pub(crate) lost: usize,
    /// Told that it did not work.
    pub(crate) failed: usize,
    /// Answered more than once.
    pub(crate) doubled: usize,
    /// Replies of ours to what was no question, or another one's.
    pub(crate) uncalled: usize,
}

fn is_ours(message: &Message) -> bool {
    message.user == seed::BOT_USER
}

fn is_over(workspace: &Workspace, said: &Said) -> bool {
    let message = workspace.message(&said.channel, &said.ts);
    let mut reactions = message.iter().flat_map(|message| &message.reactions);
    reactions.any(|reaction| OVER.contains(&reaction.name.as_str()))
}

fn user(person: usize) -> String {
    format!("U0BENCH{person:04}")
}

fn dm(person: usize) -> String {
    format!("D0BENCH{person:04}")
}

fn channel(person: usize) -> String {
    format!("C0BENCH{person:04}")
}

fn people(slack: &Playground) {
    for person in 0..PEOPLE {
        let name = format!("person{person}");
        slack.set_user(User {
            id: user(person),
            name: name.clone(),
            display_name: name.clone(),
            real_name: name.clone(),
            locale: "en-US".to_owned(),
            deleted: false,
            is_bot: false,
            is_restricted: false,
        });
        let places = [
            (dm(person), interzone_playground::Kind::Im),
            (channel(person), interzone_playground::Kind::Public),
        ];
        for (id, kind) in places {
            slack.set_channel(Channel {
                id,
                name: name.clone(),
                kind,
                members: vec![user(person), seed::BOT_USER.to_owned()],
                archived: false,
            });
        }
    }
}

fn execute(folder: &Path, binary: &Path) -> Server {
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
    let server = start(binary, "execute", &config, port);
    let secret = folder.join(format!("secret-{port}.txt"));
    let added = Command::new(binary)
        .args(["client", "add", "--id", "verification", "--name", "slack"])
        .arg("--secret-file")
        .arg(secret)
        .arg("--config")
        .arg(&config)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&added.stderr);
    assert!(added.status.success(), "{said}");
    server
}

fn verify(folder: &Path, binary: &Path, execute: u16, api: &str) -> Server {
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
    start(binary, "verify", &config, port)
}

fn start(binary: &Path, command: &str, config: &Path, port: u16) -> Server {
    let mut process = Command::new(binary);
    process.args([command.as_ref(), "--config".as_ref(), config.as_os_str()]);
    Server::start(process, |line| {
        assert!(line.contains("https://"), "{line}");
        port
    })
}
