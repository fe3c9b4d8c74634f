//! One process: started clean, written to with patience, ended for certain.

use super::lines::LineError;
use super::live::Live;
use super::program::can_run;
use super::signals::{self, Ask};
use super::{CommandOptions, listen};
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

/// How long a program's last words are waited for after it has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long a supervisor may take to end everything: a little more than it gives to what it has killed.
const SUPERVISOR: Duration = Duration::from_secs(6);

/// Lines beyond one for each run that may wait to be written.
const SPARE: usize = 64;

/// Why a process is no more.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("it was told to")]
    Stopped,
    #[error("it ended by itself ({0})")]
    Exited(ExitStatus),
    #[error("it closed its output")]
    Silent,
    #[error("{0}")]
    Unheard(#[from] LineError),
    #[error("it does not read its input")]
    Deaf,
    #[error("it did not stop a run when it was told to")]
    Stuck,
    #[error("it cannot be waited for: {0}")]
    Lost(#[from] std::io::Error),
}

/// A process that has just been started.
pub(super) struct Process {
    child: Child,
    leader: Option<u32>,
    /// Whether the leader is a supervisor of the program, not the program itself.
    supervised: bool,
    pub(super) live: Arc<Live>,
    hearing: JoinHandle<Result<(), LineError>>,
    writing: JoinHandle<End>,
    /// Ends with the process.
    _overhearing: JoinSet<()>,
}

impl Process {
    pub(super) fn start(program: &Path, options: &CommandOptions) -> std::io::Result<Self> {
        let mut command = match &options.supervisor {
            None => Command::new(program),
            // The supervisor starts even if the program is gone.
            Some(_) if !can_run(program) => return Err(ErrorKind::NotFound.into()),
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
        let (to, lines) = mpsc::channel(options.concurrency.saturating_add(SPARE));
        let live = Live::new(to);
        let agent = options.id.clone();
        let hear = listen::hear(stdout, options.line_bytes, agent.clone(), live.clone());
        let mut overhearing = JoinSet::new();
        overhearing.spawn(listen::overhear(stderr, agent));
        Ok(Self {
            leader: child.id(),
            supervised,
            child,
            live,
            hearing: tokio::spawn(hear),
            writing: tokio::spawn(write(stdin, lines, options.write_patience)),
            _overhearing: overhearing,
        })
    }

    /// Waits until the process must end or has, and sees to it that it has. All its runs are over
    /// then; `lost` says how many it had not answered.
    pub(super) async fn attend(
        &mut self,
        stop: &CancellationToken,
        grace: Duration,
        lost: &mut usize,
    ) -> End {
        let end = tokio::select! {
            () = stop.cancelled() => End::Stopped,
            () = self.live.given_up() => End::Stuck,
            heard = &mut self.hearing => match heard {
                Ok(Err(error)) => End::Unheard(error),
                Ok(Ok(())) | Err(_) => End::Silent,
            },
            written = &mut self.writing => written.unwrap_or(End::Deaf),
            exit = self.child.wait() => match exit {
                Ok(status) => End::Exited(status),
                Err(error) => End::Lost(error),
            },
        };
        let end = match end {
            End::Stopped => {
                self.end_kindly(grace).await;
                End::Stopped
            }
            // One that closes its output is mostly about to end, and then that is the better reason.
            End::Silent => match tokio::time::timeout(LAST_WORDS, self.child.wait()).await {
                Ok(Ok(status)) => End::Exited(status),
                _ => End::Silent,
            },
            End::Exited(status) => {
                // What it printed before it ended still counts.
                let _ = tokio::time::timeout(LAST_WORDS, &mut self.hearing).await;
                End::Exited(status)
            }
            other => other,
        };
        *lost = self.live.count();
        self.finish().await;
        end
    }

    /// Closes its input, then asks it to end; between them it has time.
    async fn end_kindly(&mut self, grace: Duration) {
        self.writing.abort();
        if tokio::time::timeout(grace, self.child.wait()).await.is_ok() {
            return;
        }
        self.signal(Ask::End);
        // Whether it has ended by then or not, what follows is the same.
        let _ = tokio::time::timeout(grace, self.child.wait()).await;
    }

    /// Kills what is left, of the process and of what it started.
    async fn finish(&mut self) {
        if self.supervised && matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Ask::EndAll);
            // One that does not heed it is killed, with what is left in its group.
            let _ = tokio::time::timeout(SUPERVISOR, self.child.wait()).await;
        }
        self.signal(Ask::Die);
        // An error means that it has ended already.
        let _ = self.child.kill().await;
        self.hearing.abort();
        self.writing.abort();
        self.live.close();
    }

    fn signal(&self, ask: Ask) {
        if let Some(leader) = self.leader {
            signals::send(leader, ask);
        }
    }
}

/// Whoever drops a process in the middle leaves nothing behind either.
impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(match self.supervised {
                true => Ask::EndAll,
                false => Ask::Die,
            });
        }
        self.hearing.abort();
        self.writing.abort();
        self.live.close();
    }
}

/// Writes lines to a program for as long as it reads.
async fn write(mut to: ChildStdin, mut lines: mpsc::Receiver<Bytes>, patience: Duration) -> End {
    while let Some(mut line) = lines.recv().await {
        while !line.is_empty() {
            // Each step has its time, not the whole line: a large one may take long.
            match tokio::time::timeout(patience, to.write_buf(&mut line)).await {
                Ok(Ok(written)) if written > 0 => {}
                Ok(_) | Err(_) => return End::Deaf,
            }
        }
    }
    End::Silent
}
