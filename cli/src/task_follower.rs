//! Follows a task on the terminal: the answer as it grows, status lines, and the end.
//!
//! The answer goes to standard output and everything else to standard error, so that the answer can be
//! piped. All agent output is escaped.

use crate::exit::Failure;
use crate::output;
use crate::printable;
use interzone_client::{Client, TaskWatch, WatchEvent};
use interzone_protocol::acp::{TaskObject, TasksGetParams};
use interzone_protocol::vocab::{Message, Part, PartKind, Role, TaskState};
use std::io::{self, IsTerminal, Write};

/// Reason for a pause.
#[derive(Debug)]
pub(crate) enum PauseReason {
    /// The task has finished.
    Finished(TaskObject),
    /// The agent asks for input, or for a user to sign in.
    Question(TaskObject),
}

/// Follows one task.
pub(crate) struct TaskFollower {
    client: Client,
    id: String,
    watch: TaskWatch,
    /// Shows nothing.
    quiet: bool,
    /// Also shows the user's messages and every state change, even if not on a terminal.
    verbose: bool,
    /// Part of the growing answer that has been shown.
    partial_answer: String,
    run: Option<u64>,
    /// The last complete message that was shown.
    last_message: Option<Message>,
}

impl TaskFollower {
    pub(crate) fn new(
        client: Client,
        id: &str,
        after: Option<u64>,
        quiet: bool,
        verbose: bool,
    ) -> Self {
        Self {
            watch: client.watch_task(id, after),
            client,
            id: id.to_owned(),
            quiet,
            verbose,
            partial_answer: String::new(),
            run: None,
            last_message: None,
        }
    }

    /// Follows until the task needs input or has finished.
    ///
    /// # Errors
    /// The watch failed permanently.
    pub(crate) async fn next_pause(&mut self) -> Result<PauseReason, Failure> {
        while let Some(event) = self.watch.next().await {
            let is_waiting = match event? {
                WatchEvent::Text { run, delta, .. } => self.show_delta(run, &delta)?,
                WatchEvent::Message(message) => self.show_message(&message)?,
                WatchEvent::StatusLine(text) => self.show_status(&text),
                WatchEvent::Artifact(artifact) => {
                    self.show_status(&format!("created {}", artifact.name()))
                }
                WatchEvent::StatusChange(task) => self.show_state(task.status.0)?,
                _ => false,
            };
            if is_waiting {
                let task = self.fetch_task().await?;
                // It may have been answered by another client in the meantime.
                if task.status.0.is_interrupted() {
                    self.show_last_message(&task)?;
                    return Ok(PauseReason::Question(task));
                }
            }
        }
        let task = self.fetch_task().await?;
        if task.status.0 == TaskState::Completed {
            self.show_last_message(&task)?;
        }
        self.end_line()?;
        Ok(PauseReason::Finished(task))
    }

    /// Fetches the task with its messages and artifacts.
    async fn fetch_task(&self) -> Result<TaskObject, Failure> {
        let params = TasksGetParams {
            task_id: self.id.clone(),
            include_messages: None,
            include_artifacts: None,
        };
        Ok(self.client.tasks_get(&params).await?)
    }

    /// Shows more of the answer.
    fn show_delta(&mut self, run: u64, delta: &str) -> Result<bool, Failure> {
        if self.run != Some(run) {
            self.end_line()?;
            self.run = Some(run);
        }
        self.partial_answer.push_str(delta);
        self.show(delta)?;
        Ok(false)
    }

    /// Shows a complete message, without the part that was already shown.
    fn show_message(&mut self, message: &Message) -> Result<bool, Failure> {
        if self.last_message.as_ref() == Some(message) {
            return Ok(false);
        }
        if message.role() != Role::Agent {
            if self.verbose && !self.quiet {
                let text = message.text();
                let line = printable::lines(&text).replace('\n', "\n> ");
                output::write(|out| writeln!(out, "> {line}"))?;
            }
            return Ok(false);
        }
        let text = message.text();
        match text.strip_prefix(&self.partial_answer) {
            Some(remainder) => self.show(remainder)?,
            None => {
                self.end_line()?;
                self.show(&text)?;
            }
        }
        if !text.is_empty() {
            self.partial_answer = text;
        }
        self.end_line()?;
        for part in message.parts() {
            self.show_part(part)?;
        }
        self.last_message = Some(message.clone());
        Ok(false)
    }

    /// Shows the agent's last message, if it has not been shown.
    fn show_last_message(&mut self, task: &TaskObject) -> Result<(), Failure> {
        let messages = task.messages.as_deref().unwrap_or_default();
        let last = messages
            .iter()
            .rfind(|message| message.role() == Role::Agent);
        if let Some(last) = last {
            self.show_message(last)?;
        }
        Ok(())
    }

    /// Shows a part of a message that is not text.
    fn show_part(&self, part: &Part) -> Result<(), Failure> {
        if self.quiet {
            return Ok(());
        }
        match (part.kind(), part.content()) {
            (PartKind::Text, _) => Ok(()),
            (PartKind::Data, Some(data)) => output::write(|out| {
                output::write_raw_json(out, data.as_str())?;
                writeln!(out)
            }),
            _ => {
                let name = part.filename().unwrap_or("unnamed file");
                output::write(|out| writeln!(out, "[{}]", printable::text(name)))
            }
        }
    }

    fn show(&self, text: &str) -> Result<(), Failure> {
        if self.quiet || text.is_empty() {
            return Ok(());
        }
        output::write(|out| out.write_all(printable::lines(text).as_bytes()))
    }

    /// Ends the line of the growing answer.
    fn end_line(&mut self) -> Result<(), Failure> {
        let open = !self.partial_answer.is_empty() && !self.partial_answer.ends_with('\n');
        self.partial_answer.clear();
        if open && !self.quiet {
            output::write(|out| writeln!(out))?;
        }
        Ok(())
    }

    /// Shows a state change, except the last, which the command reports. Returns true if the task is waiting.
    fn show_state(&mut self, state: TaskState) -> Result<bool, Failure> {
        if self.verbose && !self.quiet && !state.is_terminal() {
            self.end_line()?;
            let _ = writeln!(io::stderr(), "{}", state.acp());
        }
        Ok(state.is_interrupted())
    }

    /// Shows a status line, on a terminal or if verbose.
    fn show_status(&mut self, text: &str) -> bool {
        if !self.quiet && (self.verbose || io::stderr().is_terminal()) {
            let _ = writeln!(io::stderr(), "… {}", printable::text(text));
        }
        false
    }
}
