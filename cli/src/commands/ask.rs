//! `interzone ask`: sends a question, streams the answer, and saves the agent's files.

use super::DurationArg;
use crate::artifacts;
use crate::attachments;
use crate::connect::ConnectOptions;
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::printable;
use crate::task_follower::{PauseReason, TaskFollower};
use clap::Args;
use interzone_client::Client;
use interzone_protocol::acp::{Method, TaskObject, TasksCreateParams, TasksSendParams};
use interzone_protocol::vocab::{Message, TaskState};
use serde::Serialize;
use std::cell::OnceCell;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

/// Ask an agent, stream its answer, and save the files it produces
///
/// Files from the agent are saved in the current folder; existing files are not overwritten.
/// If the agent asks a question, you can answer it in the terminal.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Exit codes:
  0  the task completed
  1  the task failed, was canceled, or is waiting for an answer
  2  invalid usage
  3  the server cannot be reached
  4  the server refused the request
  5  timed out (--timeout)

Examples:
  interzone ask \"file csv a,b\"
  interzone ask --attach report.pdf \"what does it say?\"
  interzone ask --attach sales.csv \"sums by month, as a file\"
  git diff | interzone ask -"
)]
pub(crate) struct Ask {
    /// Text to send, or - to read it from standard input
    #[arg(value_name = "TEXT", required_unless_present = "attach")]
    text: Vec<String>,

    /// File to attach (repeatable)
    #[arg(long, alias = "file", value_name = "FILE")]
    attach: Vec<PathBuf>,

    /// Agent to ask [default: the server's default agent]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Folder to save files in
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    save: PathBuf,

    /// Maximum time to wait for the task, such as 30s or 10m
    #[arg(long, value_name = "TIME")]
    timeout: Option<DurationArg>,

    #[command(flatten)]
    connect: ConnectOptions,
}

/// JSON output of the command.
#[derive(Serialize)]
struct AskOutput<'a> {
    task: &'a TaskObject,
    files: &'a [PathBuf],
}

impl Ask {
    pub(crate) async fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let message = attachments::user_message(&self.text, &self.attach)?;
        let connection = self.connect.resolve()?;
        let client = connection.client()?;
        let task_id = OnceCell::new();
        let answer = self.ask(&client, message, format, &task_id);
        let result = match self.timeout {
            None => answer.await,
            Some(DurationArg(limit)) => match tokio::time::timeout(limit, answer).await {
                Ok(result) => result,
                Err(_) => {
                    if let Some(id) = task_id.get() {
                        print_still_running(id);
                    }
                    Err(Failure::TimedOut(limit))
                }
            },
        };
        connection
            .explain_scope_error(result, &[Method::TasksCreate, Method::TasksGet])
            .await
    }

    async fn ask(
        &self,
        client: &Client,
        message: Message,
        format: OutputFormat,
        task_id: &OnceCell<String>,
    ) -> Result<Exit, Failure> {
        let params = TasksCreateParams {
            initial_message: message,
            assign_to: self.agent.clone(),
            priority: None,
            metadata: None,
        };
        let task = client.tasks_create(&params).await?;
        let id = task_id.get_or_init(|| task.task_id).as_str();
        let quiet = format == OutputFormat::Json;
        let mut follower = TaskFollower::new(client.clone(), id, None, quiet, false);
        loop {
            let pause = tokio::select! {
                pause = follower.next_pause() => pause?,
                _ = tokio::signal::ctrl_c() => {
                    print_still_running(id);
                    return Ok(Exit::Failed);
                }
            };
            match pause {
                PauseReason::Finished(task) => return self.finish(&task, format),
                PauseReason::Question(task) => {
                    let answer = match format {
                        OutputFormat::Text => read_answer().await,
                        OutputFormat::Json => None,
                    };
                    let Some(answer) = answer else {
                        return self.report_question(&task, format);
                    };
                    let params = TasksSendParams {
                        task_id: id.to_owned(),
                        message: Message::user_text(answer),
                    };
                    client.tasks_send(&params).await?;
                }
            }
        }
    }

    fn finish(&self, task: &TaskObject, format: OutputFormat) -> Result<Exit, Failure> {
        let artifacts = task.artifacts.as_deref().unwrap_or_default();
        let files = artifacts::save_all(artifacts, &self.save)?;
        if format == OutputFormat::Json {
            let answer = AskOutput {
                task,
                files: &files,
            };
            output::write(|out| output::write_json(out, &answer))?;
        } else {
            for file in &files {
                print_stderr(&format!("saved {}", display_path(file)));
            }
        }
        Ok(report_end(task, format))
    }

    fn report_question(&self, task: &TaskObject, format: OutputFormat) -> Result<Exit, Failure> {
        if format == OutputFormat::Json {
            let answer = AskOutput { task, files: &[] };
            output::write(|out| output::write_json(out, &answer))?;
        } else {
            let id = printable::text(&task.task_id);
            print_stderr("the agent is waiting for an answer; send it, then watch:");
            print_stderr(&format!("  interzone task send {id} \"…\""));
            print_stderr(&format!("  interzone task watch {id}"));
        }
        Ok(Exit::Failed)
    }
}

/// Reports on standard error how a task ended, and returns the exit code.
pub(super) fn report_end(task: &TaskObject, format: OutputFormat) -> Exit {
    let state = task.status.0;
    if state == TaskState::Completed {
        return Exit::Done;
    }
    if format == OutputFormat::Text {
        let last = task.messages.as_deref().and_then(<[Message]>::last);
        let text = last.map(Message::text).unwrap_or_default();
        match state {
            TaskState::Canceled => print_stderr("the task was canceled"),
            _ if text.is_empty() => print_stderr("the task failed"),
            _ => print_stderr(&format!("the task failed: {}", printable::text(&text))),
        }
    }
    Exit::Failed
}

fn display_path(path: &std::path::Path) -> String {
    let path = path.strip_prefix(".").unwrap_or(path);
    printable::text(&path.to_string_lossy())
}

fn print_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn print_still_running(id: &str) {
    let id = printable::text(id);
    print_stderr("the task is still running; watch or cancel it:");
    print_stderr(&format!("  interzone task watch {id}"));
    print_stderr(&format!("  interzone task cancel {id}"));
}

/// Reads an answer from the terminal; `None` if standard input is not a terminal.
async fn read_answer() -> Option<String> {
    if !io::stdin().is_terminal() {
        return None;
    }
    let _ = write!(io::stderr(), "> ");
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        read.ok().filter(|read| *read > 0).map(|_| line)
    });
    let line = read.await.ok().flatten()?;
    Some(line.trim().to_owned()).filter(|line| !line.is_empty())
}
