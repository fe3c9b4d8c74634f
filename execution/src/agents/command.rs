//! The command agent: any program in any language, spoken to by JSON-RPC, one message a line.
//!
//! One process serves many runs at once. It is the operator's program, so it is trusted to run, but
//! not to behave: whatever it prints, however it ends, the runs that it does not answer fail with a
//! clear word and nobody else notices. No shell is involved, and nothing of the server's environment
//! reaches the program but what it is given here.

use super::{refused, stopped};
use async_trait::async_trait;
use interzone_hub::{Agent, AgentError, AgentInfo, Outcome, Output, Skill, Turn};
use interzone_protocol::vocab::{AgentId, Message};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

mod lines;
mod listen;
mod live;
mod notes;
mod process;
mod program;
mod signals;
#[cfg(target_os = "linux")]
mod subreaper;
mod supervise;
mod wire;

pub use program::CommandError;
#[cfg(target_os = "linux")]
pub use subreaper::run_program;

use live::{Entered, Live, Said};
use supervise::Presence;

/// The variables that a program may have from the server's own environment. Whoever reads the
/// configuration puts them into [`CommandOptions::env`]; a library does not look them up.
pub const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// A command that runs another one and ends everything that it started: on Linux, what calls
/// [`run_program`]. Without it a process that leaves the program's group outlives the program.
#[derive(Clone, Debug)]
pub struct Supervisor {
    /// The executable.
    pub program: PathBuf,
    /// What it is called in a list of processes.
    pub name: String,
    /// Its arguments, before the command that it runs.
    pub arguments: Vec<String>,
}

/// How a program is run.
#[derive(Clone)]
pub struct CommandOptions {
    /// The agent's id.
    pub id: AgentId,
    /// A name for people.
    pub name: String,
    /// What it does, for people.
    pub description: String,
    /// What it is good at.
    pub skills: Vec<Skill>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What runs it, if anything is between.
    pub supervisor: Option<Supervisor>,
    /// Where it runs; none means where the server does.
    pub cwd: Option<PathBuf>,
    /// Its whole environment: it gets nothing else.
    pub env: BTreeMap<String, String>,
    /// How many runs it takes at once.
    pub concurrency: usize,
    /// The longest line that it may print, in bytes: a file of 25 MB in base64, and words.
    pub line_bytes: usize,
    /// How long a run that was called off may take to answer before it is cut off.
    pub cancel_grace: Duration,
    /// How long the program may leave its input unread while there is some.
    pub write_patience: Duration,
    /// How long a run waits for a program that is being started again.
    pub start_patience: Duration,
    /// How long the program may take to end after its input was closed, and again after it was asked
    /// to by a signal.
    pub exit_grace: Duration,
    /// How long to wait before it is started again; each time twice as long, up to the longest.
    pub restart_first: Duration,
    /// The longest wait before it is started again.
    pub restart_longest: Duration,
}

impl CommandOptions {
    /// The usual settings for a program.
    pub fn new(id: AgentId, command: Vec<String>) -> Self {
        let name = id.to_string();
        Self {
            id,
            description: format!("The program behind {name}."),
            name,
            skills: Vec::new(),
            command,
            supervisor: None,
            cwd: None,
            env: BTreeMap::new(),
            concurrency: 16,
            line_bytes: 48 * 1024 * 1024,
            cancel_grace: Duration::from_secs(5),
            write_patience: Duration::from_secs(30),
            start_patience: Duration::from_secs(30),
            exit_grace: Duration::from_secs(3),
            restart_first: Duration::from_millis(200),
            restart_longest: Duration::from_secs(60),
        }
    }
}

/// An agent that is a program.
pub struct CommandAgent {
    info: AgentInfo,
    options: Arc<CommandOptions>,
    presence: watch::Receiver<Presence>,
    stop: CancellationToken,
}

impl CommandAgent {
    /// Looks for the program and starts it. From then on it is kept running in the background until
    /// told to stop, or until the agent is dropped; it needs a runtime for that. Tell it to stop after
    /// the workers have ended, not with them: they let runs finish.
    ///
    /// # Errors
    /// There is no such program or folder.
    pub fn start(options: CommandOptions, stop: &CancellationToken) -> Result<Self, CommandError> {
        let program = program::find(&options)?;
        let info = AgentInfo {
            id: options.id.clone(),
            name: options.name.clone(),
            description: options.description.clone(),
            skills: options.skills.clone(),
            concurrency: options.concurrency.max(1),
        };
        let options = Arc::new(options);
        let stop = stop.child_token();
        let (here, presence) = watch::channel(Presence::Starting);
        tokio::spawn(supervise::keep_running(
            program,
            options.clone(),
            here,
            stop.clone(),
        ));
        Ok(Self {
            info,
            options,
            presence,
            stop,
        })
    }

    /// Ends the program: its input is closed, then it is asked to end, then it is killed. Returns when
    /// it is gone.
    pub async fn shut_down(&self) {
        self.stop.cancel();
        let mut presence = self.presence.clone();
        // An error means that whoever keeps it running is gone, and the program with it.
        let _ = presence
            .wait_for(|now| matches!(now, Presence::Ended))
            .await;
    }

    /// The running program, as soon as there is one.
    async fn live(&self, stop: &CancellationToken) -> Result<Arc<Live>, AgentError> {
        let mut presence = self.presence.clone();
        let found = async {
            let settled = |now: &Presence| match now {
                Presence::Up(live) => live.is_open(),
                Presence::Ended => true,
                Presence::Starting | Presence::Troubled(_) => false,
            };
            match &*presence.wait_for(settled).await.ok()? {
                Presence::Up(live) => Some(live.clone()),
                _ => None,
            }
        };
        tokio::select! {
            () = stop.cancelled() => Err(stopped()),
            found = tokio::time::timeout(self.options.start_patience, found) => {
                found.ok().flatten().ok_or_else(|| AgentError {
                    code: "agent_unavailable",
                    detail: "the program is not running".to_owned(),
                })
            }
        }
    }

    /// Calls a run off, and waits a little for the program to say that it has understood. One that does
    /// not heed it is started again, as it may be stuck; but not while it works for somebody else too,
    /// unless it `breaks` the rules.
    async fn call_off(&self, mut entered: Entered, breaks: bool) {
        let understood = async {
            entered.call_off().await;
            while let Some(said) = entered.next().await {
                if matches!(said, Said::Done(_)) {
                    break;
                }
            }
        };
        let grace = self.options.cancel_grace;
        if tokio::time::timeout(grace, understood).await.is_ok() {
            return;
        }
        tracing::warn!(agent = %self.info.id, "the program does not heed that a run was called off");
        if breaks || entered.is_alone() {
            entered.give_up();
        }
    }
}

impl Drop for CommandAgent {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[async_trait]
impl Agent for CommandAgent {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    fn is_available(&self) -> bool {
        matches!(
            &*self.presence.borrow(),
            Presence::Starting | Presence::Up(_)
        )
    }

    fn back_in(&self) -> Option<Duration> {
        match &*self.presence.borrow() {
            Presence::Troubled(until) => Some(until.saturating_duration_since(Instant::now())),
            _ => None,
        }
    }

    async fn run(&self, turn: Turn, output: Arc<dyn Output>) -> Result<Outcome, AgentError> {
        // A program may end between being found and being asked; then the next one is.
        let mut entered = loop {
            let live = self.live(&turn.stop).await?;
            if let Some(entered) = live.enter(&turn.task.id) {
                break entered;
            }
        };
        let request = wire::run(entered.id(), &turn)?;
        tokio::select! {
            () = turn.stop.cancelled() => return Err(stopped()),
            sent = entered.send(request) => sent?,
        }
        let mut whole = String::new();
        loop {
            let said = tokio::select! {
                () = turn.stop.cancelled() => {
                    self.call_off(entered, false).await;
                    return Err(stopped());
                }
                said = entered.next() => said,
            };
            match said {
                None => return Err(died()),
                Some(Said::Text(delta)) => {
                    if whole.len().saturating_add(delta.len()) > self.options.line_bytes {
                        self.call_off(entered, true).await;
                        return Err(wire::misfit("its answer has grown too long"));
                    }
                    whole.push_str(&delta);
                    output.text(&delta).await.map_err(refused)?;
                }
                Some(Said::Status(text)) => output.status(&text).await.map_err(refused)?,
                Some(Said::Artifact {
                    artifact,
                    append,
                    last,
                }) => {
                    let put = output.artifact(*artifact, append, last);
                    put.await.map_err(refused)?;
                }
                Some(Said::Done(outcome)) => {
                    entered.done();
                    return Ok(with_the_text((*outcome)?, whole));
                }
            }
        }
    }
}

/// A program that has said all by growing text need not say it again.
fn with_the_text(outcome: Outcome, whole: String) -> Outcome {
    match outcome {
        Outcome::Completed {
            message: None,
            direct,
        } if !whole.is_empty() => Outcome::Completed {
            message: Some(Message::agent_text(whole)),
            direct,
        },
        other => other,
    }
}

fn died() -> AgentError {
    AgentError {
        code: "agent_died",
        detail: "the program ended before it answered".to_owned(),
    }
}

#[cfg(test)]
mod tests;
