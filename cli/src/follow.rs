//! Following a task on the terminal: its answer as it grows, what the agent says it does, its end.
//!
//! Words go to standard output, everything about them to standard error, so that an answer can be
//! piped on. Nothing that an agent says reaches the terminal unescaped.

use crate::exit::Failure;
use crate::output;
use crate::printable;
use interzone_client::{Client, TaskWatch, Watched};
use interzone_protocol::acp::{TaskObject, TasksGetParams};
use interzone_protocol::vocab::{Message, Part, PartKind, Role, TaskState};
use std::io::{self, IsTerminal, Write};

/// Why the following paused.
#[derive(Debug)]
pub(crate) enum Pause {
    /// The task is over.
    Over(TaskObject),
    /// The agent wants to know something, or somebody to sign in.
    Question(TaskObject),
}

/// Follows one task.
pub(crate) struct Follower {
    client: Client,
    id: String,
    watch: TaskWatch,
    /// Whether anything is shown at all.
    quiet: bool,
    /// Whether what the caller said is shown too, and each change of state, terminal or not.
    all: bool,
    /// What has been shown of the answer that is growing.
    grown: String,
    run: Option<u64>,
    /// The last message that was shown whole.
    shown: Option<Message>,
}

impl Follower {
    pub(crate) fn new(
        client: Client,
        id: &str,
        after: Option<u64>,
        quiet: bool,
        all: bool,
    ) -> Self {
        Self {
            watch: client.watch_task(id, after),
            client,
            id: id.to_owned(),
            quiet,
            all,
            grown: String::new(),
            run: None,
            shown: None,
        }
    }

    /// Follows until there is something to decide.
    ///
    /// # Errors
    /// The watch broke for good.
    pub(crate) async fn go_on(&mut self) -> Result<Pause, Failure> {
        while let Some(event) = self.watch.next().await {
            let waits = match event? {
                Watched::Text { run, delta, .. } => self.grow(run, &delta)?,
                Watched::Message(message) => self.say(&message)?,
                Watched::StatusLine(text) => self.note(&text),
                Watched::Artifact(artifact) => self.note(&format!("made {}", artifact.name())),
                Watched::StatusChange(task) => self.moved(task.status.0)?,
                _ => false,
            };
            if waits {
                let task = self.whole().await?;
                // It may have been answered by somebody else meanwhile.
                if task.status.0.is_interrupted() {
                    self.say_last(&task)?;
                    return Ok(Pause::Question(task));
                }
            }
        }
        let task = self.whole().await?;
        if task.status.0 == TaskState::Completed {
            self.say_last(&task)?;
        }
        self.end_line()?;
        Ok(Pause::Over(task))
    }

    /// The task with all that belongs to it.
    async fn whole(&self) -> Result<TaskObject, Failure> {
        let params = TasksGetParams {
            task_id: self.id.clone(),
            include_messages: None,
            include_artifacts: None,
        };
        Ok(self.client.tasks_get(&params).await?)
    }

    /// More of the answer.
    fn grow(&mut self, run: u64, delta: &str) -> Result<bool, Failure> {
        if self.run != Some(run) {
            self.end_line()?;
            self.run = Some(run);
        }
        self.grown.push_str(delta);
        self.show(delta)?;
        Ok(false)
    }

    /// A message as a whole; what has been shown of it while it grew is not repeated.
    fn say(&mut self, message: &Message) -> Result<bool, Failure> {
        if self.shown.as_ref() == Some(message) {
            return Ok(false);
        }
        if message.role() != Role::Agent {
            if self.all && !self.quiet {
                let words = message.text();
                let line = printable::lines(&words).replace('\n', "\n> ");
                output::write(|out| writeln!(out, "> {line}"))?;
            }
            return Ok(false);
        }
        let words = message.text();
        match words.strip_prefix(&self.grown) {
            Some(rest) => self.show(rest)?,
            None => {
                self.end_line()?;
                self.show(&words)?;
            }
        }
        if !words.is_empty() {
            self.grown = words;
        }
        self.end_line()?;
        for part in message.parts() {
            self.name_part(part)?;
        }
        self.shown = Some(message.clone());
        Ok(false)
    }

    /// The agent's last message, if it has not been shown.
    fn say_last(&mut self, task: &TaskObject) -> Result<(), Failure> {
        let messages = task.messages.as_deref().unwrap_or_default();
        let last = messages
            .iter()
            .rfind(|message| message.role() == Role::Agent);
        if let Some(last) = last {
            self.say(last)?;
        }
        Ok(())
    }

    /// What is in a message beside words.
    fn name_part(&self, part: &Part) -> Result<(), Failure> {
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
                let name = part.filename().unwrap_or("a file without a name");
                output::write(|out| writeln!(out, "[{}]", printable::text(name)))
            }
        }
    }

    fn show(&self, words: &str) -> Result<(), Failure> {
        if self.quiet || words.is_empty() {
            return Ok(());
        }
        output::write(|out| out.write_all(printable::lines(words).as_bytes()))
    }

    /// Ends the line in which the answer grows.
    fn end_line(&mut self) -> Result<(), Failure> {
        let open = !self.grown.is_empty() && !self.grown.ends_with('\n');
        self.grown.clear();
        if open && !self.quiet {
            output::write(|out| writeln!(out))?;
        }
        Ok(())
    }

    /// A change of state; the last one is for the command to tell. Answers whether the task waits.
    fn moved(&mut self, state: TaskState) -> Result<bool, Failure> {
        if self.all && !self.quiet && !state.is_terminal() {
            self.end_line()?;
            let _ = writeln!(io::stderr(), "{}", state.acp());
        }
        Ok(state.is_interrupted())
    }

    /// Something about the work, for whoever looks.
    fn note(&mut self, text: &str) -> bool {
        if !self.quiet && (self.all || io::stderr().is_terminal()) {
            let _ = writeln!(io::stderr(), "… {}", printable::text(text));
        }
        false
    }
}
