//! `interzone ask`: a question, the answer as it comes, and the files that the agent made.

use crate::artifacts;
use crate::attachments;
use crate::connect::ConnectOptions;
use crate::exit::{Exit, Failure};
use crate::follow::{Follower, Pause};
use crate::output::{self, Format};
use crate::printable;
use crate::time::Limit;
use clap::Args;
use interzone_client::Client;
use interzone_protocol::acp::{Method, TaskObject, TasksCreateParams, TasksSendParams};
use interzone_protocol::vocab::{Message, TaskState};
use serde::Serialize;
use std::cell::OnceCell;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

/// Ask an agent, see its answer as it comes, and keep the files that it makes
///
/// What the agent makes is saved in this folder, under a new name where there is one already.
/// A question back is shown; on a terminal you can answer it at once.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Exit codes:
  0  the task is completed
  1  it failed, was called off, or waits for an answer
  2  the command was not understood
  3  the server cannot be reached
  4  the server refuses
  5  it took longer than --timeout

Examples:
  interzone ask \"file csv a,b\"
  interzone ask --attach report.pdf \"what does it say?\"
  interzone ask --attach sales.csv \"sums by month, as a file\"
  git diff | interzone ask -"
)]
pub(crate) struct Ask {
    /// What to ask; - reads it from standard input
    #[arg(value_name = "TEXT", required_unless_present = "attach")]
    text: Vec<String>,

    /// A file to send along; may be given several times
    #[arg(long, alias = "file", value_name = "FILE")]
    attach: Vec<PathBuf>,

    /// The agent to ask; else the server's default
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Where to save files
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    save: PathBuf,

    /// How long to wait for the end, such as 30s or 10m
    #[arg(long, value_name = "TIME")]
    timeout: Option<Limit>,

    #[command(flatten)]
    connect: ConnectOptions,
}

/// What came of it, for programs.
#[derive(Serialize)]
struct Answer<'a> {
    task: &'a TaskObject,
    files: &'a [PathBuf],
}

impl Ask {
    pub(crate) async fn run(&self, format: Format) -> Result<Exit, Failure> {
        let message = attachments::message(&self.text, &self.attach)?;
        let connection = self.connect.find()?;
        let client = connection.client()?;
        let begun = OnceCell::new();
        let asking = self.ask(&client, message, format, &begun);
        let asked = match self.timeout {
            None => asking.await,
            Some(Limit(limit)) => match tokio::time::timeout(limit, asking).await {
                Ok(asked) => asked,
                Err(_) => {
                    if let Some(id) = begun.get() {
                        leave(id);
                    }
                    Err(Failure::TooSlow(limit))
                }
            },
        };
        connection
            .explain(asked, &[Method::TasksCreate, Method::TasksGet])
            .await
    }

    async fn ask(
        &self,
        client: &Client,
        message: Message,
        format: Format,
        begun: &OnceCell<String>,
    ) -> Result<Exit, Failure> {
        let params = TasksCreateParams {
            initial_message: message,
            assign_to: self.agent.clone(),
            priority: None,
            metadata: None,
        };
        let task = client.tasks_create(&params).await?;
        let id = begun.get_or_init(|| task.task_id).as_str();
        let quiet = format == Format::Json;
        let mut follower = Follower::new(client.clone(), id, None, quiet, false);
        loop {
            let pause = tokio::select! {
                pause = follower.go_on() => pause?,
                _ = tokio::signal::ctrl_c() => {
                    leave(id);
                    return Ok(Exit::No);
                }
            };
            match pause {
                Pause::Over(task) => return self.finish(&task, format),
                Pause::Question(task) => {
                    let answer = match format {
                        Format::Text => read_answer().await,
                        Format::Json => None,
                    };
                    let Some(answer) = answer else {
                        return self.wait_for_answer(&task, format);
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

    fn finish(&self, task: &TaskObject, format: Format) -> Result<Exit, Failure> {
        let artifacts = task.artifacts.as_deref().unwrap_or_default();
        let files = artifacts::save_all(artifacts, &self.save)?;
        if format == Format::Json {
            let answer = Answer {
                task,
                files: &files,
            };
            output::write(|out| output::write_json(out, &answer))?;
        } else {
            for file in &files {
                tell(&format!("saved {}", shown(file)));
            }
        }
        Ok(ended(task, format))
    }

    fn wait_for_answer(&self, task: &TaskObject, format: Format) -> Result<Exit, Failure> {
        if format == Format::Json {
            let answer = Answer { task, files: &[] };
            output::write(|out| output::write_json(out, &answer))?;
        } else {
            let id = printable::text(&task.task_id);
            tell("the agent waits for an answer; give it, then watch:");
            tell(&format!("  interzone task send {id} \"…\""));
            tell(&format!("  interzone task watch {id}"));
        }
        Ok(Exit::No)
    }
}

/// Says how a task ended, and how to end for it.
pub(super) fn ended(task: &TaskObject, format: Format) -> Exit {
    let state = task.status.0;
    if state == TaskState::Completed {
        return Exit::Done;
    }
    if format == Format::Text {
        let last = task.messages.as_deref().and_then(<[Message]>::last);
        let words = last.map(Message::text).unwrap_or_default();
        match state {
            TaskState::Canceled => tell("the task was called off"),
            _ if words.is_empty() => tell("the task failed"),
            _ => tell(&format!("the task failed: {}", printable::text(&words))),
        }
    }
    Exit::No
}

fn shown(path: &std::path::Path) -> String {
    let path = path.strip_prefix(".").unwrap_or(path);
    printable::text(&path.to_string_lossy())
}

fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn leave(id: &str) {
    let id = printable::text(id);
    tell("the task goes on; see it or call it off:");
    tell(&format!("  interzone task watch {id}"));
    tell(&format!("  interzone task cancel {id}"));
}

/// An answer from whoever sits at the terminal; none if nobody does.
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
