//! One child process for one file: started, given its request, heard out, and ended.

use super::start::Starter;
use super::{Answer, InputRules, Request, SUBCOMMAND};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// How a child ended that did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    OutOfMemory,
    OutOfTime,
    Failed,
    /// There was no child: the zone could not start one.
    NotStarted,
}

/// The program whose command reads a file.
#[derive(Clone, Debug)]
pub(super) struct Program {
    path: PathBuf,
    starter: Arc<Starter>,
}

impl Program {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            starter: Arc::default(),
        }
    }

    /// Has one file read. Whatever happens, the child is gone afterwards.
    pub(super) async fn run(&self, request: &Request, bytes: &[u8]) -> Result<Answer, Ending> {
        let rules = &request.rules;
        let started = self.starter.start(|| self.start(rules)).await;
        let mut child = started.map_err(|error| {
            tracing::error!(%error, "file reader cannot be started");
            Ending::NotStarted
        })?;
        let exchanged =
            tokio::time::timeout(rules.wall_time(), exchange(&mut child, request, bytes));
        let ending = match exchanged.await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(ending)) => ending,
            Err(_) => Ending::OutOfTime,
        };
        // Kills it if it is still there, and takes its exit status either way.
        let killed = child.kill().await;
        tracing::warn!(
            ?ending,
            bytes = request.size,
            is_gone = killed.is_ok(),
            "file reader ended without an answer"
        );
        Err(ending)
    }

    fn start(&self, rules: &InputRules) -> std::io::Result<Child> {
        Command::new(&self.path)
            .arg(SUBCOMMAND)
            .arg("--memory")
            .arg(rules.extract_memory.to_string())
            .arg("--cpu-seconds")
            .arg(rules.cpu_seconds().to_string())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
    }
}

async fn exchange(child: &mut Child, request: &Request, bytes: &[u8]) -> Result<Answer, Ending> {
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Ending::Failed);
    };
    let mut header = serde_json::to_vec(request).map_err(|_| Ending::Failed)?;
    header.push(b'\n');
    let send = async move {
        // A child that ended early is known by how it ended.
        if stdin.write_all(&header).await.is_ok() {
            let _ = stdin.write_all(bytes).await;
        }
    };
    let most = request.rules.answer_bytes();
    let mut answer = Vec::new();
    let mut stdout = stdout.take(most.saturating_add(1));
    let ((), received) = tokio::join!(send, stdout.read_to_end(&mut answer));
    let received = received.map_err(|_| Ending::Failed)?;
    if u64::try_from(received).unwrap_or(u64::MAX) > most {
        return Err(Ending::Failed);
    }
    let status = child.wait().await.map_err(|_| Ending::Failed)?;
    if !status.success() {
        return Err(ending(status));
    }
    serde_json::from_slice(&answer).map_err(|_| Ending::Failed)
}

/// Why a child ended. An allocation that fails, and a stack that overflows, abort it.
#[cfg(unix)]
fn ending(status: ExitStatus) -> Ending {
    use rustix::process::Signal;
    use std::os::unix::process::ExitStatusExt;

    match status.signal().and_then(Signal::from_named_raw) {
        Some(Signal::XCPU) => Ending::OutOfTime,
        // The kernel kills what uses up a container's memory.
        Some(Signal::ABORT | Signal::SEGV | Signal::BUS | Signal::KILL) => Ending::OutOfMemory,
        _ => Ending::Failed,
    }
}

#[cfg(not(unix))]
fn ending(_: ExitStatus) -> Ending {
    Ending::Failed
}
