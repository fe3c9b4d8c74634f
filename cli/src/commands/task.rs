//! `interzone task`: tasks one step at a time.

use super::ask::ended;
use crate::artifacts;
use crate::attachments;
use crate::connect::{ConnectOptions, Connection};
use crate::exit::{Exit, Failure};
use crate::follow::{Follower, Pause};
use crate::output::{self, Format};
use crate::printable;
use crate::watched;
use clap::{Args, Subcommand, ValueEnum};
use interzone_protocol::acp::{
    Method, TaskObject, TasksCancelParams, TasksCreateParams, TasksGetParams, TasksListParams,
    TasksSendParams,
};
use interzone_protocol::vocab::{Json, Message, Metadata, Priority, Role};
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;

/// Begin, continue, read, list, watch or call off tasks
#[derive(Debug, Args)]
pub(crate) struct Task {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    connect: ConnectOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Begin a task and do not wait for it
    Create {
        /// What to ask; - reads it from standard input
        #[arg(value_name = "TEXT", required_unless_present = "file")]
        text: Vec<String>,
        /// A file to send along; may be given several times
        #[arg(long = "attach", alias = "file", value_name = "FILE")]
        file: Vec<PathBuf>,
        /// The agent to ask; else the server's default
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// How soon
        #[arg(long, value_enum)]
        priority: Option<Urgency>,
        /// A JSON object to attach
        #[arg(long, value_name = "JSON")]
        metadata: Option<String>,
    },
    /// Add a message to a task, such as the answer to a question
    Send {
        /// The task
        id: String,
        /// What to say; - reads it from standard input
        #[arg(value_name = "TEXT", required_unless_present = "file")]
        text: Vec<String>,
        /// A file to send along; may be given several times
        #[arg(long = "attach", alias = "file", value_name = "FILE")]
        file: Vec<PathBuf>,
    },
    /// Show a task
    Get {
        /// The task
        id: String,
        /// Save the files of the task in this folder
        #[arg(long, value_name = "FOLDER")]
        save: Option<PathBuf>,
    },
    /// List your tasks, last changed first
    List {
        /// Only those with this status, such as WORKING
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// At most so many
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
        limit: Option<u32>,
        /// Where the page before ended
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
    },
    /// Watch a task until it ends
    Watch {
        /// The task
        id: String,
        /// Only what came after this event
        #[arg(long, value_name = "SEQUENCE")]
        after: Option<u64>,
        /// Save the files of the task in this folder
        #[arg(long, value_name = "FOLDER")]
        save: Option<PathBuf>,
    },
    /// Call a task off
    Cancel {
        /// The task
        id: String,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// How soon a task is wanted.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Urgency {
    Low,
    Normal,
    High,
    Urgent,
}

impl From<Urgency> for Priority {
    fn from(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Low => Self::Low,
            Urgency::Normal => Self::Normal,
            Urgency::High => Self::High,
            Urgency::Urgent => Self::Urgent,
        }
    }
}

impl Task {
    pub(crate) async fn run(self, format: Format) -> Result<Exit, Failure> {
        let connection = self.connect.find()?;
        let method = self.action.method();
        let done = self.action.run(&connection, format).await;
        connection.explain(done, &[method]).await
    }
}

impl Action {
    fn method(&self) -> Method {
        match self {
            Self::Create { .. } => Method::TasksCreate,
            Self::Send { .. } => Method::TasksSend,
            Self::Get { .. } | Self::Watch { .. } => Method::TasksGet,
            Self::List { .. } => Method::TasksList,
            Self::Cancel { .. } => Method::TasksCancel,
        }
    }

    async fn run(self, connection: &Connection, format: Format) -> Result<Exit, Failure> {
        let client = || connection.client();
        match self {
            Self::Create {
                text,
                file,
                agent,
                priority,
                metadata,
            } => {
                let params = TasksCreateParams {
                    initial_message: attachments::message(&text, &file)?,
                    assign_to: agent,
                    priority: priority.map(Priority::from),
                    metadata: metadata.map(|text| object(&text)).transpose()?,
                };
                let task = client()?.tasks_create(&params).await?;
                tell_task(&task, format, |out| {
                    // Nothing beside it, so that a script can take it as it is.
                    writeln!(out, "{}", printable::text(&task.task_id))
                })?;
                Ok(Exit::Done)
            }
            Self::Send { id, text, file } => {
                let message = attachments::message(&text, &file)?;
                let params = TasksSendParams {
                    task_id: id,
                    message,
                };
                tell_words(&client()?.tasks_send(&params).await?, format)
            }
            Self::Get { id, save } => {
                let params = TasksGetParams {
                    task_id: id,
                    include_messages: None,
                    include_artifacts: None,
                };
                let task = client()?.tasks_get(&params).await?;
                tell_task(&task, format, |out| write_task(out, &task))?;
                keep_files(&task, save, format)?;
                Ok(Exit::Done)
            }
            Self::List {
                status,
                limit,
                after,
            } => {
                let params = TasksListParams {
                    status: status.map(|status| status.to_uppercase()),
                    limit,
                    after,
                };
                let list = client()?.tasks_list(&params).await?;
                output::write(|out| match format {
                    Format::Json => output::write_json(out, &list),
                    Format::Text => {
                        for task in &list.tasks {
                            write_line(out, task)?;
                        }
                        match &list.next {
                            Some(next) => writeln!(out, "more: --after {}", printable::text(next)),
                            None => Ok(()),
                        }
                    }
                })?;
                Ok(Exit::Done)
            }
            Self::Watch { id, after, save } => watch(client()?, &id, after, save, format).await,
            Self::Cancel { id, reason } => {
                let params = TasksCancelParams {
                    task_id: id,
                    reason,
                };
                tell_words(&client()?.tasks_cancel(&params).await?, format)
            }
        }
    }
}

async fn watch(
    client: interzone_client::Client,
    id: &str,
    after: Option<u64>,
    save: Option<PathBuf>,
    format: Format,
) -> Result<Exit, Failure> {
    if format == Format::Json {
        let mut watch = client.watch_task(id, after);
        while let Some(event) = watch.next().await {
            let line = watched::line(&event?, watch.position());
            output::write(|out| output::write_json(out, &line))?;
        }
    }
    let quiet = format == Format::Json;
    let mut follower = Follower::new(client, id, after, quiet, true);
    loop {
        match follower.go_on().await? {
            Pause::Over(task) => {
                keep_files(&task, save, format)?;
                if format == Format::Text {
                    let _ = writeln!(io::stderr(), "{}", task.status.0.acp());
                }
                return Ok(ended(&task, format));
            }
            Pause::Question(task) if format == Format::Text => {
                let id = printable::text(&task.task_id);
                let _ = writeln!(
                    io::stderr(),
                    "the agent waits for an answer: interzone task send {id} \"…\""
                );
            }
            Pause::Question(_) => {}
        }
    }
}

/// Metadata as given on the command line.
pub(super) fn object(text: &str) -> Result<Metadata, Failure> {
    let json = Json::parse(text.to_owned()).ok();
    let metadata = json.and_then(|json| Metadata::new(json).ok());
    metadata.ok_or_else(|| {
        Failure::Misuse("--metadata must be a JSON object, such as '{\"ticket\": 7}'".to_owned())
    })
}

fn keep_files(task: &TaskObject, folder: Option<PathBuf>, format: Format) -> Result<(), Failure> {
    let Some(folder) = folder else {
        return Ok(());
    };
    let artifacts = task.artifacts.as_deref().unwrap_or_default();
    for file in artifacts::save_all(artifacts, &folder)? {
        if format == Format::Text {
            let file = printable::text(&file.to_string_lossy());
            let _ = writeln!(io::stderr(), "saved {file}");
        }
    }
    Ok(())
}

fn tell_task(
    task: &TaskObject,
    format: Format,
    text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    output::write(|out| match format {
        Format::Json => output::write_json(out, task),
        Format::Text => text(out),
    })
}

/// The server's words about what it did.
pub(super) fn tell_words(words: &str, format: Format) -> Result<Exit, Failure> {
    output::write(|out| match format {
        Format::Json => output::write_json(out, &json!({"message": words})),
        Format::Text => writeln!(out, "{}", printable::lines(words)),
    })?;
    Ok(Exit::Done)
}

/// One line about a task.
fn write_line(out: &mut dyn Write, task: &TaskObject) -> io::Result<()> {
    let moment = task.updated_at.unwrap_or(task.created_at);
    let agent = task.assigned_agent.as_deref().unwrap_or("-");
    writeln!(
        out,
        "{}  {:<14}  {moment}  {}",
        printable::text(&task.task_id),
        task.status.0.acp(),
        printable::text(agent)
    )
}

/// A task with what was said and made.
fn write_task(out: &mut dyn Write, task: &TaskObject) -> io::Result<()> {
    write_line(out, task)?;
    for message in task.messages.as_deref().unwrap_or_default() {
        write_message(out, message)?;
    }
    for artifact in task.artifacts.as_deref().unwrap_or_default() {
        let names: Vec<String> = artifact
            .parts()
            .iter()
            .filter_map(|part| part.filename().map(printable::text))
            .collect();
        let name = printable::text(artifact.name());
        writeln!(out, "made: {name} [{}]", names.join(", "))?;
    }
    Ok(())
}

/// What somebody said.
pub(super) fn write_message(out: &mut dyn Write, message: &Message) -> io::Result<()> {
    let who = match message.role() {
        Role::User => "user",
        Role::Agent => "agent",
        Role::System => "system",
    };
    let words = printable::lines(&message.text()).replace('\n', "\n  ");
    writeln!(out, "{who}: {words}")
}
