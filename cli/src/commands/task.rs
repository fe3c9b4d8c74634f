//! `interzone task`: creates, continues, reads, lists, watches and cancels tasks.

use super::ask::report_end;
use crate::artifacts;
use crate::attachments;
use crate::connect::{ConnectOptions, Connection};
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::printable;
use crate::task_follower::{PauseReason, TaskFollower};
use clap::{Args, Subcommand, ValueEnum};
use interzone_protocol::acp::{
    Method, TaskObject, TasksCancelParams, TasksCreateParams, TasksGetParams, TasksListParams,
    TasksSendParams,
};
use interzone_protocol::vocab::{Message, Metadata, Priority, Role, VerbatimJson};
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;

/// Create, continue, list, watch and cancel tasks
#[derive(Debug, Args)]
pub(crate) struct Task {
    #[command(subcommand)]
    action: TaskAction,

    #[command(flatten)]
    connect: ConnectOptions,
}

#[derive(Debug, Subcommand)]
enum TaskAction {
    /// Create a task and print its id, without waiting for the result
    Create {
        /// Text to send, or - to read it from standard input
        #[arg(value_name = "TEXT", required_unless_present = "file")]
        text: Vec<String>,
        /// File to attach (repeatable)
        #[arg(long = "attach", alias = "file", value_name = "FILE")]
        file: Vec<PathBuf>,
        /// Agent to ask [default: the server's default agent]
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// Priority of the task
        #[arg(long, value_enum)]
        priority: Option<TaskPriority>,
        /// Metadata, as a JSON object
        #[arg(long, value_name = "JSON")]
        metadata: Option<String>,
    },
    /// Send a message to a task, such as the answer to a question
    Send {
        /// Task id
        id: String,
        /// Text to send, or - to read it from standard input
        #[arg(value_name = "TEXT", required_unless_present = "file")]
        text: Vec<String>,
        /// File to attach (repeatable)
        #[arg(long = "attach", alias = "file", value_name = "FILE")]
        file: Vec<PathBuf>,
    },
    /// Show a task
    Get {
        /// Task id
        id: String,
        /// Save the task's files in this folder
        #[arg(long, value_name = "FOLDER")]
        save: Option<PathBuf>,
    },
    /// List your tasks, most recently updated first
    List {
        /// Show only tasks with this status, such as WORKING
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Maximum number to show
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
        limit: Option<u32>,
        /// Continue after this cursor, from the previous page
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
    },
    /// Watch a task until it ends
    Watch {
        /// Task id
        id: String,
        /// Show only events after this sequence number
        #[arg(long, value_name = "SEQUENCE")]
        after: Option<u64>,
        /// Save the task's files in this folder
        #[arg(long, value_name = "FOLDER")]
        save: Option<PathBuf>,
    },
    /// Cancel a task
    Cancel {
        /// Task id
        id: String,
        /// Reason
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// Priority of a task.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TaskPriority {
    Low,
    Normal,
    High,
    Urgent,
}

impl From<TaskPriority> for Priority {
    fn from(priority: TaskPriority) -> Self {
        match priority {
            TaskPriority::Low => Self::Low,
            TaskPriority::Normal => Self::Normal,
            TaskPriority::High => Self::High,
            TaskPriority::Urgent => Self::Urgent,
        }
    }
}

impl Task {
    pub(crate) async fn run(self, format: OutputFormat) -> Result<Exit, Failure> {
        let connection = self.connect.resolve()?;
        let method = self.action.method();
        let done = self.action.run(&connection, format).await;
        connection.explain_scope_error(done, &[method]).await
    }
}

impl TaskAction {
    fn method(&self) -> Method {
        match self {
            Self::Create { .. } => Method::TasksCreate,
            Self::Send { .. } => Method::TasksSend,
            Self::Get { .. } | Self::Watch { .. } => Method::TasksGet,
            Self::List { .. } => Method::TasksList,
            Self::Cancel { .. } => Method::TasksCancel,
        }
    }

    async fn run(self, connection: &Connection, format: OutputFormat) -> Result<Exit, Failure> {
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
                    initial_message: attachments::user_message(&text, &file)?,
                    assign_to: agent,
                    priority: priority.map(Priority::from),
                    metadata: metadata.map(|text| parse_metadata(&text)).transpose()?,
                };
                let task = client()?.tasks_create(&params).await?;
                print_task(&task, format, |out| {
                    // Prints only the id, so that scripts can use it directly.
                    writeln!(out, "{}", printable::text(&task.task_id))
                })?;
                Ok(Exit::Done)
            }
            Self::Send { id, text, file } => {
                let message = attachments::user_message(&text, &file)?;
                let params = TasksSendParams {
                    task_id: id,
                    message,
                };
                print_message(&client()?.tasks_send(&params).await?, format)
            }
            Self::Get { id, save } => {
                let params = TasksGetParams {
                    task_id: id,
                    include_messages: None,
                    include_artifacts: None,
                };
                let task = client()?.tasks_get(&params).await?;
                print_task(&task, format, |out| write_task(out, &task))?;
                save_files(&task, save, format)?;
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
                    OutputFormat::Json => output::write_json(out, &list),
                    OutputFormat::Text => {
                        for task in &list.tasks {
                            write_task_line(out, task)?;
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
                print_message(&client()?.tasks_cancel(&params).await?, format)
            }
        }
    }
}

async fn watch(
    client: interzone_client::Client,
    id: &str,
    after: Option<u64>,
    save: Option<PathBuf>,
    format: OutputFormat,
) -> Result<Exit, Failure> {
    if format == OutputFormat::Json {
        let mut watch = client.watch_task(id, after);
        while let Some(event) = watch.next().await {
            let line = output::event_json(&event?, watch.position());
            output::write(|out| output::write_json(out, &line))?;
        }
    }
    let quiet = format == OutputFormat::Json;
    let mut follower = TaskFollower::new(client, id, after, quiet, true);
    loop {
        match follower.next_pause().await? {
            PauseReason::Finished(task) => {
                save_files(&task, save, format)?;
                if format == OutputFormat::Text {
                    let _ = writeln!(io::stderr(), "{}", task.status.0.acp());
                }
                return Ok(report_end(&task, format));
            }
            PauseReason::Question(task) if format == OutputFormat::Text => {
                let id = printable::text(&task.task_id);
                let _ = writeln!(
                    io::stderr(),
                    "the agent is waiting for an answer: interzone task send {id} \"…\""
                );
            }
            PauseReason::Question(_) => {}
        }
    }
}

/// Parses the value of `--metadata`.
pub(super) fn parse_metadata(text: &str) -> Result<Metadata, Failure> {
    let json = VerbatimJson::parse(text.to_owned()).ok();
    let metadata = json.and_then(|json| Metadata::new(json).ok());
    metadata.ok_or_else(|| {
        Failure::Misuse("--metadata must be a JSON object, such as '{\"ticket\": 7}'".to_owned())
    })
}

fn save_files(
    task: &TaskObject,
    folder: Option<PathBuf>,
    format: OutputFormat,
) -> Result<(), Failure> {
    let Some(folder) = folder else {
        return Ok(());
    };
    let artifacts = task.artifacts.as_deref().unwrap_or_default();
    for file in artifacts::save_all(artifacts, &folder)? {
        if format == OutputFormat::Text {
            let file = printable::text(&file.to_string_lossy());
            let _ = writeln!(io::stderr(), "saved {file}");
        }
    }
    Ok(())
}

fn print_task(
    task: &TaskObject,
    format: OutputFormat,
    text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    output::write(|out| match format {
        OutputFormat::Json => output::write_json(out, task),
        OutputFormat::Text => text(out),
    })
}

/// Prints the message that the server returned.
pub(super) fn print_message(message: &str, format: OutputFormat) -> Result<Exit, Failure> {
    output::write(|out| match format {
        OutputFormat::Json => output::write_json(out, &json!({"message": message})),
        OutputFormat::Text => writeln!(out, "{}", printable::lines(message)),
    })?;
    Ok(Exit::Done)
}

/// Writes one line about a task.
fn write_task_line(out: &mut dyn Write, task: &TaskObject) -> io::Result<()> {
    let updated_at = task.updated_at.unwrap_or(task.created_at);
    let agent = task.assigned_agent.as_deref().unwrap_or("-");
    writeln!(
        out,
        "{}  {:<14}  {updated_at}  {}",
        printable::text(&task.task_id),
        task.status.0.acp(),
        printable::text(agent)
    )
}

/// Writes a task with its messages and artifacts.
fn write_task(out: &mut dyn Write, task: &TaskObject) -> io::Result<()> {
    write_task_line(out, task)?;
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
        writeln!(out, "artifact: {name} [{}]", names.join(", "))?;
    }
    Ok(())
}

/// Writes a message with its role.
pub(super) fn write_message(out: &mut dyn Write, message: &Message) -> io::Result<()> {
    let who = match message.role() {
        Role::User => "user",
        Role::Agent => "agent",
        Role::System => "system",
    };
    let text = printable::lines(&message.text()).replace('\n', "\n  ");
    writeln!(out, "{who}: {text}")
}
