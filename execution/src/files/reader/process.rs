//! One child process per file: starts it, sends the request, reads the answer and ends it.

use super::start::ChildStarter;
use super::{EXTRACT_SUBCOMMAND, InputRules, ReaderAnswer, ReaderRequest};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Reason why a child gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReaderFailure {
    OutOfMemory,
    OutOfTime,
    Failed,
    /// The child could not be started.
    NotStarted,
}

/// The program that reads a file.
#[derive(Clone, Debug)]
pub(super) struct ReaderProgram {
    path: PathBuf,
    starter: Arc<ChildStarter>,
}

impl ReaderProgram {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            starter: Arc::default(),
        }
    }

    /// Reads one file in a child process. The child is gone afterwards in any case.
    pub(super) async fn run(
        &self,
        request: &ReaderRequest,
        bytes: &[u8],
    ) -> Result<ReaderAnswer, ReaderFailure> {
        let rules = &request.rules;
        let started = self.starter.start(|| self.spawn(rules)).await;
        let mut child = started.map_err(|error| {
            tracing::error!(%error, "file reader cannot be started");
            ReaderFailure::NotStarted
        })?;
        let exchanged =
            tokio::time::timeout(rules.wall_time(), exchange(&mut child, request, bytes));
        let failure = match exchanged.await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(ending)) => ending,
            Err(_) => ReaderFailure::OutOfTime,
        };
        // Kills the child if it still runs, and reaps it in any case.
        let killed = child.kill().await;
        tracing::warn!(
            ?failure,
            bytes = request.size,
            is_gone = killed.is_ok(),
            "file reader ended without an answer"
        );
        Err(failure)
    }

    fn spawn(&self, rules: &InputRules) -> std::io::Result<Child> {
        Command::new(&self.path)
            .arg(EXTRACT_SUBCOMMAND)
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

async fn exchange(
    child: &mut Child,
    request: &ReaderRequest,
    bytes: &[u8],
) -> Result<ReaderAnswer, ReaderFailure> {
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(ReaderFailure::Failed);
    };
    let mut header = serde_json::to_vec(request).map_err(|_| ReaderFailure::Failed)?;
    header.push(b'\n');
    let send = async move {
        // If the child ended early, its exit status tells the reason.
        if stdin.write_all(&header).await.is_ok() {
            let _ = stdin.write_all(bytes).await;
        }
    };
    let max = request.rules.max_answer_bytes();
    let mut answer = Vec::new();
    let mut stdout = stdout.take(max.saturating_add(1));
    let ((), received) = tokio::join!(send, stdout.read_to_end(&mut answer));
    let received = received.map_err(|_| ReaderFailure::Failed)?;
    if u64::try_from(received).unwrap_or(u64::MAX) > max {
        return Err(ReaderFailure::Failed);
    }
    let status = child.wait().await.map_err(|_| ReaderFailure::Failed)?;
    if !status.success() {
        return Err(classify_exit(status));
    }
    serde_json::from_slice(&answer).map_err(|_| ReaderFailure::Failed)
}

/// Classifies an exit status. A failed allocation or a stack overflow aborts the child.
#[cfg(unix)]
fn classify_exit(status: ExitStatus) -> ReaderFailure {
    use rustix::process::Signal;
    use std::os::unix::process::ExitStatusExt;

    match status.signal().and_then(Signal::from_named_raw) {
        Some(Signal::XCPU) => ReaderFailure::OutOfTime,
        // The kernel kills a process that exceeds the memory of its container.
        Some(Signal::ABORT | Signal::SEGV | Signal::BUS | Signal::KILL) => {
            ReaderFailure::OutOfMemory
        }
        _ => ReaderFailure::Failed,
    }
}

#[cfg(not(unix))]
fn classify_exit(_: ExitStatus) -> ReaderFailure {
    ReaderFailure::Failed
}
