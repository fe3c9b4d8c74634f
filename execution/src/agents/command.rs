//! Command agent: runs any program as an agent and exchanges JSON-RPC messages with it, one message per line.
//!
//! One process serves many runs concurrently. The operator chose the program, but its output is not
//! trusted: if it prints invalid messages or ends, only the runs that it has not answered fail, with a specific
//! error. No shell is involved, and the program's environment contains only what is configured here.

use super::{output_error, stopped_error};
use async_trait::async_trait;
use interzone_hub::{
    Agent, AgentError, AgentInfo, AgentProfile, Skill, Turn, TurnOutcome, TurnOutput,
};
use interzone_protocol::vocab::{AgentId, Message};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

mod executable;
mod lines;
mod log_throttle;
mod process;
mod process_handle;
mod protocol;
mod reader;
mod signals;
#[cfg(target_os = "linux")]
mod subreaper;
mod supervise;

pub use executable::CommandError;
#[cfg(target_os = "linux")]
pub use subreaper::run_program;

use process_handle::{AgentMessage, ProcessHandle, RunHandle};
use supervise::ProcessState;

/// Environment variables that a program may inherit from the server. The code that reads the configuration copies
/// them into [`CommandOptions::env`]; this library does not read the environment.
pub const INHERITED_ENV_VARS: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// A command that runs another command and ends every process that it started: on Linux, one that calls
/// [`run_program`]. Without it a process that leaves the program's process group outlives the program.
#[derive(Clone, Debug)]
pub struct Supervisor {
    /// The executable.
    pub program: PathBuf,
    /// Its name in the process list (`argv[0]`).
    pub name: String,
    /// Its arguments, placed before the command to run.
    pub arguments: Vec<String>,
}

/// Options of a command agent.
#[derive(Clone)]
pub struct CommandOptions {
    /// The agent's id.
    pub id: AgentId,
    /// Display name.
    pub name: String,
    /// Description shown to users.
    pub description: String,
    /// Advertised skills.
    pub skills: Vec<Skill>,
    /// Further details of its public description.
    pub profile: AgentProfile,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Supervisor process that runs the program, if any.
    pub supervisor: Option<Supervisor>,
    /// Working directory; `None` means the server's.
    pub cwd: Option<PathBuf>,
    /// Complete environment of the program; nothing else is inherited.
    pub env: BTreeMap<String, String>,
    /// Maximum number of concurrent runs.
    pub concurrency: usize,
    /// Maximum length of an output line in bytes: a 25 MB file in base64, plus text.
    pub max_line_bytes: usize,
    /// Time that a canceled run has to answer before it is aborted.
    pub cancel_grace: Duration,
    /// Time that the program may leave pending input unread.
    pub write_timeout: Duration,
    /// Time that a run waits for a program that is being restarted.
    pub start_timeout: Duration,
    /// Time that the program has to exit after its input is closed, and again after the termination signal.
    pub exit_grace: Duration,
    /// Delay before the first restart; doubled each time, up to `max_restart_delay`.
    pub initial_restart_delay: Duration,
    /// Maximum delay before a restart.
    pub max_restart_delay: Duration,
}

impl CommandOptions {
    /// Default options for a program.
    pub fn new(id: AgentId, command: Vec<String>) -> Self {
        let name = id.to_string();
        Self {
            id,
            description: format!("The program behind {name}."),
            name,
            skills: Vec::new(),
            profile: AgentProfile::default(),
            command,
            supervisor: None,
            cwd: None,
            env: BTreeMap::new(),
            concurrency: 16,
            max_line_bytes: 48 * 1024 * 1024,
            cancel_grace: Duration::from_secs(5),
            write_timeout: Duration::from_secs(30),
            start_timeout: Duration::from_secs(30),
            exit_grace: Duration::from_secs(3),
            initial_restart_delay: Duration::from_millis(200),
            max_restart_delay: Duration::from_secs(60),
        }
    }
}

/// Agent implemented by an external program.
pub struct CommandAgent {
    info: AgentInfo,
    options: Arc<CommandOptions>,
    state: watch::Receiver<ProcessState>,
    stop: CancellationToken,
}

impl CommandAgent {
    /// Resolves the program and starts it. A background task keeps it running until `stop` is canceled or the agent is
    /// dropped; this needs a tokio runtime. Cancel `stop` after the workers have ended, not together with them: they
    /// let runs finish.
    ///
    /// # Errors
    /// The program or its working directory does not exist.
    pub fn start(options: CommandOptions, stop: &CancellationToken) -> Result<Self, CommandError> {
        let program = executable::resolve(&options)?;
        let info = AgentInfo {
            id: options.id.clone(),
            name: options.name.clone(),
            description: options.description.clone(),
            skills: options.skills.clone(),
            concurrency: options.concurrency.max(1),
            profile: options.profile.clone(),
        };
        let options = Arc::new(options);
        let stop = stop.child_token();
        let (state_sender, state) = watch::channel(ProcessState::Starting);
        tokio::spawn(supervise::supervise_process(
            program,
            options.clone(),
            state_sender,
            stop.clone(),
        ));
        Ok(Self {
            info,
            options,
            state,
            stop,
        })
    }

    /// Shuts the program down: closes its input, then sends the termination signal, then kills it. Returns once it
    /// has exited.
    pub async fn shut_down(&self) {
        self.stop.cancel();
        let mut state = self.state.clone();
        // An error means that the supervising task, and with it the program, is gone.
        let _ = state
            .wait_for(|now| matches!(now, ProcessState::Ended))
            .await;
    }

    /// Waits for a running program and returns its handle.
    async fn wait_for_process(
        &self,
        stop: &CancellationToken,
    ) -> Result<Arc<ProcessHandle>, AgentError> {
        let mut state = self.state.clone();
        let found = async {
            let settled = |now: &ProcessState| match now {
                ProcessState::Running(live) => live.is_open(),
                ProcessState::Ended => true,
                ProcessState::Starting | ProcessState::Failing(_) => false,
            };
            match &*state.wait_for(settled).await.ok()? {
                ProcessState::Running(live) => Some(live.clone()),
                _ => None,
            }
        };
        tokio::select! {
            () = stop.cancelled() => Err(stopped_error()),
            found = tokio::time::timeout(self.options.start_timeout, found) => {
                found.ok().flatten().ok_or_else(|| AgentError {
                    code: "agent_unavailable",
                    detail: "the program is not running".to_owned(),
                })
            }
        }
    }

    /// Cancels a run and waits briefly for the program to acknowledge it. A program that ignores the request may be
    /// stuck and is restarted, but not while it serves other active runs, unless it violated the protocol.
    async fn cancel_run(&self, mut run: RunHandle, violated_protocol: bool) {
        let acknowledged = async {
            run.cancel().await;
            while let Some(message) = run.next_message().await {
                if matches!(message, AgentMessage::Done(_)) {
                    break;
                }
            }
        };
        let grace = self.options.cancel_grace;
        if tokio::time::timeout(grace, acknowledged).await.is_ok() {
            return;
        }
        tracing::warn!(agent = %self.info.id, "agent ignored a cancel request");
        if violated_protocol || run.all_runs_canceled() {
            run.kill_process();
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
            &*self.state.borrow(),
            ProcessState::Starting | ProcessState::Running(_)
        )
    }

    fn retry_after(&self) -> Option<Duration> {
        match &*self.state.borrow() {
            ProcessState::Failing(until) => Some(until.saturating_duration_since(Instant::now())),
            _ => None,
        }
    }

    async fn run(
        &self,
        turn: Turn,
        output: Arc<dyn TurnOutput>,
    ) -> Result<TurnOutcome, AgentError> {
        // The program may exit between the lookup and the start of the run; then wait for its replacement.
        let mut run = loop {
            let live = self.wait_for_process(&turn.cancel_token).await?;
            if let Some(run) = live.start_run(&turn.task.id) {
                break run;
            }
        };
        let request = protocol::run_request(run.id(), &turn)?;
        tokio::select! {
            () = turn.cancel_token.cancelled() => return Err(stopped_error()),
            sent = run.send(request) => sent?,
        }
        let mut text = String::new();
        loop {
            let message = tokio::select! {
                () = turn.cancel_token.cancelled() => {
                    self.cancel_run(run, false).await;
                    return Err(stopped_error());
                }
                message = run.next_message() => message,
            };
            match message {
                None => return Err(process_died_error()),
                Some(AgentMessage::Text(delta)) => {
                    if text.len().saturating_add(delta.len()) > self.options.max_line_bytes {
                        self.cancel_run(run, true).await;
                        return Err(protocol::protocol_error("the answer is too long"));
                    }
                    text.push_str(&delta);
                    output.text(&delta).await.map_err(output_error)?;
                }
                Some(AgentMessage::Status(text)) => {
                    output.status(&text).await.map_err(output_error)?
                }
                Some(AgentMessage::Artifact {
                    artifact,
                    append,
                    last,
                }) => {
                    let put = output.artifact(*artifact, append, last);
                    put.await.map_err(output_error)?;
                }
                Some(AgentMessage::Done(outcome)) => {
                    run.mark_done();
                    return Ok(with_streamed_text((*outcome)?, text));
                }
            }
        }
    }
}

/// Uses the streamed text as the message of a completed outcome that has none.
fn with_streamed_text(outcome: TurnOutcome, text: String) -> TurnOutcome {
    match outcome {
        TurnOutcome::Completed {
            message: None,
            direct,
        } if !text.is_empty() => TurnOutcome::Completed {
            message: Some(Message::agent_text(text)),
            direct,
        },
        other => other,
    }
}

fn process_died_error() -> AgentError {
    AgentError {
        code: "agent_died",
        detail: "the program ended before it answered".to_owned(),
    }
}

#[cfg(test)]
mod tests;
