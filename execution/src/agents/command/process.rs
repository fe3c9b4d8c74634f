//! One child process: spawned with a clean environment, written to with a timeout, reliably killed.

use super::executable::is_executable;
use super::lines::LineError;
use super::process_handle::ProcessHandle;
use super::signals::{self, ProcessSignal};
use super::{CommandOptions, reader};
use bytes::Bytes;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// Time to wait for the last output, or for the exit status, of a program that is ending.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Time that a supervisor has to end everything: slightly more than it waits for processes that it has killed.
const SUPERVISOR_EXIT_TIMEOUT: Duration = Duration::from_secs(6);

/// Capacity of the input queue beyond one line per run.
const SPARE_QUEUE_CAPACITY: usize = 64;

/// Reason why a process ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProcessEnd {
    #[error("stopped")]
    Stopped,
    #[error("exited ({0})")]
    Exited(ExitStatus),
    #[error("closed its output")]
    OutputClosed,
    #[error("{0}")]
    OutputUnreadable(#[from] LineError),
    #[error("does not read its input")]
    InputBlocked,
    #[error("ignored a cancel request")]
    CancelIgnored,
    #[error("cannot be waited for: {0}")]
    WaitFailed(#[from] std::io::Error),
}

/// A spawned process with its reader and writer tasks.
pub(super) struct AgentProcess {
    child: Child,
    leader_pid: Option<u32>,
    /// True if the group leader is a supervisor that runs the program.
    is_supervised: bool,
    pub(super) handle: Arc<ProcessHandle>,
    stdout_reader: JoinHandle<Result<(), LineError>>,
    stdin_writer: JoinHandle<ProcessEnd>,
    /// Aborted when the process is dropped.
    _stderr_logger: JoinSet<()>,
}

impl AgentProcess {
    pub(super) fn start(program: &Path, options: &CommandOptions) -> std::io::Result<Self> {
        let mut command = match &options.supervisor {
            None => Command::new(program),
            // The supervisor starts even if the program is gone.
            Some(_) if !is_executable(program) => return Err(ErrorKind::NotFound.into()),
            Some(supervisor) => {
                let mut command = Command::new(&supervisor.program);
                #[cfg(unix)]
                command.arg0(&supervisor.name);
                command.args(&supervisor.arguments).arg("--").arg(program);
                command
            }
        };
        let supervised = options.supervisor.is_some();
        command
            .args(options.command.iter().skip(1))
            .env_clear()
            .envs(&options.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A supervisor that is killed cannot end what it supervises; dropping it interrupts it.
            .kill_on_drop(!supervised);
        if let Some(folder) = &options.cwd {
            command.current_dir(folder);
        }
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let missing = || std::io::Error::other("a pipe is missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let (input, lines) =
            mpsc::channel(options.concurrency.saturating_add(SPARE_QUEUE_CAPACITY));
        let handle = ProcessHandle::new(input);
        let agent = options.id.clone();
        let read_stdout = reader::read_stdout(
            stdout,
            options.max_line_bytes,
            agent.clone(),
            handle.clone(),
        );
        let mut stderr_logger = JoinSet::new();
        stderr_logger.spawn(reader::log_stderr(stderr, agent));
        Ok(Self {
            leader_pid: child.id(),
            is_supervised: supervised,
            child,
            handle,
            stdout_reader: tokio::spawn(read_stdout),
            stdin_writer: tokio::spawn(write_stdin(stdin, lines, options.write_timeout)),
            _stderr_logger: stderr_logger,
        })
    }

    /// Waits until the process ends or must end, makes sure that it has ended, and ends all its runs. Sets `lost` to
    /// the number of runs that it had not answered.
    pub(super) async fn run_to_end(
        &mut self,
        stop: &CancellationToken,
        grace: Duration,
        lost: &mut usize,
    ) -> ProcessEnd {
        let end = tokio::select! {
            () = stop.cancelled() => ProcessEnd::Stopped,
            () = self.handle.kill_requested() => ProcessEnd::CancelIgnored,
            result = &mut self.stdout_reader => match result {
                Ok(Err(error)) => ProcessEnd::OutputUnreadable(error),
                Ok(Ok(())) | Err(_) => ProcessEnd::OutputClosed,
            },
            written = &mut self.stdin_writer => written.unwrap_or(ProcessEnd::InputBlocked),
            exit = self.child.wait() => match exit {
                Ok(status) => ProcessEnd::Exited(status),
                Err(error) => ProcessEnd::WaitFailed(error),
            },
        };
        let end = match end {
            ProcessEnd::Stopped => {
                self.end_gracefully(grace).await;
                ProcessEnd::Stopped
            }
            // A program that closes its output is usually about to exit, and the exit status is the better reason.
            ProcessEnd::OutputClosed => {
                match tokio::time::timeout(DRAIN_TIMEOUT, self.child.wait()).await {
                    Ok(Ok(status)) => ProcessEnd::Exited(status),
                    _ => ProcessEnd::OutputClosed,
                }
            }
            ProcessEnd::Exited(status) => {
                // Output printed before the exit still counts.
                let _ = tokio::time::timeout(DRAIN_TIMEOUT, &mut self.stdout_reader).await;
                ProcessEnd::Exited(status)
            }
            other => other,
        };
        *lost = self.handle.run_count();
        self.kill_remaining().await;
        end
    }

    /// Closes the program's input, then sends the termination signal; waits up to `grace` after each.
    async fn end_gracefully(&mut self, grace: Duration) {
        self.stdin_writer.abort();
        if tokio::time::timeout(grace, self.child.wait()).await.is_ok() {
            return;
        }
        self.send_signal(ProcessSignal::Terminate);
        // The result does not matter: `kill_remaining` follows in any case.
        let _ = tokio::time::timeout(grace, self.child.wait()).await;
    }

    /// Kills what is left of the process and of the processes that it started.
    async fn kill_remaining(&mut self) {
        if self.is_supervised && matches!(self.child.try_wait(), Ok(None)) {
            self.send_signal(ProcessSignal::InterruptSupervisor);
            // A supervisor that ignores the signal is killed below, with what is left in its group.
            let _ = tokio::time::timeout(SUPERVISOR_EXIT_TIMEOUT, self.child.wait()).await;
        }
        self.send_signal(ProcessSignal::Kill);
        // An error means that it has already exited.
        let _ = self.child.kill().await;
        self.stdout_reader.abort();
        self.stdin_writer.abort();
        self.handle.close();
    }

    fn send_signal(&self, signal: ProcessSignal) {
        if let Some(leader) = self.leader_pid {
            signals::send(leader, signal);
        }
    }
}

/// Kills the process if it is dropped while it runs.
impl Drop for AgentProcess {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.send_signal(match self.is_supervised {
                true => ProcessSignal::InterruptSupervisor,
                false => ProcessSignal::Kill,
            });
        }
        self.stdout_reader.abort();
        self.stdin_writer.abort();
        self.handle.close();
    }
}

/// Writes queued lines to the program's stdin until the queue is closed or the program stops reading.
async fn write_stdin(
    mut stdin: ChildStdin,
    mut lines: mpsc::Receiver<Bytes>,
    timeout: Duration,
) -> ProcessEnd {
    while let Some(mut line) = lines.recv().await {
        while !line.is_empty() {
            // The timeout applies to each write, not to the line: a long line may take long.
            match tokio::time::timeout(timeout, stdin.write_buf(&mut line)).await {
                Ok(Ok(written)) if written > 0 => {}
                Ok(_) | Err(_) => return ProcessEnd::InputBlocked,
            }
        }
    }
    ProcessEnd::OutputClosed
}
