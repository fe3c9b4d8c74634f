//! Demo agent: built in and deterministic.
//!
//! It demonstrates everything that an agent can do, for new users and for tests. It must not use the network, a model
//! or randomness.

use super::{output_error, stopped_error};
use crate::files::{FileOwner, FileReader, InputRules};
use async_trait::async_trait;
use attachments::DemoReadContext;
use interzone_hub::{
    Agent, AgentError, AgentInfo, AgentProfile, Skill, Turn, TurnOutcome, TurnOutput,
};
use interzone_protocol::vocab::{AgentId, Message};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

mod attachments;
mod files;

/// Maximum number of words of `stream`.
const MAX_STREAM_WORDS: u32 = 1_000;

/// Maximum duration of `wait` in seconds: below the ten-minute limit of a turn.
const MAX_WAIT_SECONDS: u32 = 540;

/// Maximum number of status updates during a wait.
const MAX_STATUS_UPDATES: u32 = 60;

/// Delay between two words of `stream`, slow enough to watch.
const WORD_DELAY: Duration = Duration::from_millis(20);

/// Words of `stream`, repeated.
const STREAM_WORDS: [&str; 12] = [
    "one", "word", "after", "another", "comes", "while", "you", "watch", "and", "none", "is",
    "lost",
];

const HELP: &str =
    "I am the demo agent of Interzone: built in, no model, no network. Try one of these:
help - this text
echo TEXT - the text again
stream N - N words, one by one (up to 1000)
wait SECONDS - status lines while time passes (up to 540), then an answer
ask QUESTION - I ask it back and wait for your answer
fail REASON - the task fails
file csv|json|txt|md TEXT - a file, for example: file csv name,amount
Attach a file, and I name it with its type and size, and quote its first line.";

/// Agent that interprets the first word of a message as a command.
pub struct DemoAgent {
    info: AgentInfo,
    files: Option<(FileReader, InputRules)>,
}

impl DemoAgent {
    /// Creates a demo agent with this id and concurrency limit.
    pub fn new(id: AgentId, concurrency: usize) -> Self {
        let skill = |id: &str, name: &str, description: &str| Skill {
            id: id.to_owned(),
            name: name.to_owned(),
            description: description.to_owned(),
            ..Skill::default()
        };
        Self {
            info: AgentInfo {
                id,
                name: "Demo agent".to_owned(),
                description: "A built-in demo: deterministic, no model, no network. Say \"help\"."
                    .to_owned(),
                skills: vec![
                    skill("echo", "Echo", "Repeats the text."),
                    skill("stream", "Stream", "Answers word by word."),
                    skill("file", "File", "Makes a CSV, JSON, text or Markdown file."),
                ],
                concurrency: concurrency.max(1),
                profile: AgentProfile::default(),
            },
            files: None,
        }
    }

    /// Also quotes the first line of documents, which this reader reads.
    #[must_use]
    pub fn with_reader(self, reader: FileReader, rules: InputRules) -> Self {
        Self {
            files: Some((reader, rules)),
            ..self
        }
    }

    /// Builds an answer that also lists the attachments of the message.
    async fn answer(&self, turn: &Turn, text: String) -> TurnOutcome {
        let owner = FileOwner::from(&turn.task);
        let reading = self.files.as_ref().map(|(reader, rules)| DemoReadContext {
            reader,
            owner: &owner,
            rules,
        });
        let listed = attachments::list(&turn.message, reading).await;
        completed(if listed.is_empty() {
            text
        } else {
            format!("{text}\n{listed}")
        })
    }
}

#[async_trait]
impl Agent for DemoAgent {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    fn answer_inline(&self, message: &Message, history: &[Message]) -> Option<TurnOutcome> {
        if attachments::has_attachments(message) {
            return None;
        }
        match parse_command(&message.text(), message, history) {
            DemoCommand::Answer(text) => Some(completed(text)),
            DemoCommand::Immediate(outcome) => Some(outcome),
            DemoCommand::Stream(_) | DemoCommand::Wait(_) | DemoCommand::File(_) => None,
        }
    }

    async fn run(
        &self,
        turn: Turn,
        output: Arc<dyn TurnOutput>,
    ) -> Result<TurnOutcome, AgentError> {
        let text = turn.message.text();
        match parse_command(&text, &turn.message, &turn.history) {
            DemoCommand::Answer(text) => Ok(self.answer(&turn, text).await),
            DemoCommand::Immediate(outcome) => Ok(outcome),
            DemoCommand::Stream(argument) => {
                stream(argument, &turn.cancel_token, output.as_ref()).await
            }
            DemoCommand::Wait(argument) => {
                wait(argument, &turn.cancel_token, output.as_ref()).await
            }
            DemoCommand::File(argument) => {
                let sequence = turn.history.len().saturating_add(1);
                file(argument, sequence, &self.info.name, output.as_ref()).await
            }
        }
    }
}

/// Parsed command of a message.
enum DemoCommand<'t> {
    /// Answer with this text and list the attachments.
    Answer(String),
    /// Return exactly this outcome.
    Immediate(TurnOutcome),
    Stream(&'t str),
    Wait(&'t str),
    File(&'t str),
}

/// Parses the command in a message.
fn parse_command<'t>(text: &'t str, message: &Message, history: &[Message]) -> DemoCommand<'t> {
    let text = text.trim();
    if answers_a_question(history) {
        return DemoCommand::Answer(format!("You answered: {text}"));
    }
    let (command, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let argument = argument.trim();
    let text_or = |default| {
        Message::agent_text(if argument.is_empty() {
            default
        } else {
            argument
        })
    };
    match command.to_ascii_lowercase().as_str() {
        "help" => DemoCommand::Answer(HELP.to_owned()),
        "echo" if argument.is_empty() => {
            DemoCommand::Immediate(completed("Tell me what to echo, for example: echo hello"))
        }
        "echo" => DemoCommand::Answer(argument.to_owned()),
        "stream" => DemoCommand::Stream(argument),
        "wait" => DemoCommand::Wait(argument),
        "ask" => DemoCommand::Immediate(TurnOutcome::InputRequired(text_or(
            "What would you like to tell me?",
        ))),
        "fail" => DemoCommand::Immediate(TurnOutcome::Failed(text_or(
            "This failed because you asked for it.",
        ))),
        "file" => DemoCommand::File(argument),
        _ => DemoCommand::Answer(unknown_command_text(command, message)),
    }
}

/// Returns true if the message answers a question of `ask`: the last message is the agent's, and it results from
/// that command.
fn answers_a_question(history: &[Message]) -> bool {
    let mut earlier = history.iter().rev();
    let follows_agent = earlier.next().is_some_and(Message::is_agent_output);
    let command = earlier.find(|message| !message.is_agent_output());
    follows_agent
        && command.is_some_and(|message| {
            let text = message.text();
            let word = text.split_whitespace().next().unwrap_or_default();
            word.eq_ignore_ascii_case("ask")
        })
}

fn unknown_command_text(command: &str, message: &Message) -> String {
    if command.is_empty() && attachments::has_attachments(message) {
        return "Thank you, this arrived:".to_owned();
    }
    let problem = if command.is_empty() {
        "You said nothing that I can read.".to_owned()
    } else {
        format!("I do not know \"{}\".", truncate(command, 40))
    };
    format!("{problem} {HELP}")
}

fn completed(text: impl AsRef<str>) -> TurnOutcome {
    TurnOutcome::Completed {
        message: Some(Message::agent_text(text)),
        direct: true,
    }
}

async fn stream(
    argument: &str,
    stop: &CancellationToken,
    output: &dyn TurnOutput,
) -> Result<TurnOutcome, AgentError> {
    let count = match argument.parse::<u32>() {
        Ok(count) if (1..=MAX_STREAM_WORDS).contains(&count) => count,
        _ => {
            return Ok(completed(format!(
                "Tell me how many words, from 1 to {MAX_STREAM_WORDS}, for example: stream 20"
            )));
        }
    };
    let mut text = String::new();
    for (number, word) in (1..=count).zip(STREAM_WORDS.iter().cycle()) {
        let end = if number == count { "." } else { " " };
        let delta = format!("{word}{end}");
        output.text(&delta).await.map_err(output_error)?;
        text.push_str(&delta);
        if number < count {
            pause(WORD_DELAY, stop).await?;
        }
    }
    Ok(completed(text))
}

async fn wait(
    argument: &str,
    stop: &CancellationToken,
    output: &dyn TurnOutput,
) -> Result<TurnOutcome, AgentError> {
    let longest = f64::from(MAX_WAIT_SECONDS);
    let seconds = match argument.parse::<f64>() {
        Ok(seconds) if (0.0..=longest).contains(&seconds) => seconds,
        _ => {
            return Ok(completed(format!(
                "Tell me how many seconds, for example: wait 5. {MAX_WAIT_SECONDS} is the most."
            )));
        }
    };
    let mut left = Duration::from_secs_f64(seconds);
    let step = (left / MAX_STATUS_UPDATES).max(Duration::from_secs(1));
    while !left.is_zero() {
        let line = format!("waiting, {:.0} s left", left.as_secs_f64().ceil());
        output.status(&line).await.map_err(output_error)?;
        let now = step.min(left);
        pause(now, stop).await?;
        left = left.saturating_sub(now);
    }
    Ok(completed(format!("I waited {seconds} s.")))
}

async fn file(
    argument: &str,
    sequence: usize,
    author: &str,
    output: &dyn TurnOutput,
) -> Result<TurnOutcome, AgentError> {
    let (kind, text) = argument
        .split_once(char::is_whitespace)
        .unwrap_or((argument, ""));
    let Some(kind) = files::kind_from_extension(kind) else {
        return Ok(completed(
            "Tell me what kind of file: csv, json, txt or md, for example: file csv name,amount",
        ));
    };
    let generated = match files::generate(kind, text.trim()) {
        Ok(generated) => generated,
        Err(error) => return Ok(completed(error.text)),
    };
    let answer = format!(
        "Here is {} ({} bytes).",
        generated.name,
        generated.bytes.len()
    );
    let artifact =
        files::into_artifact(generated, sequence, author).map_err(|error| AgentError {
            code: "agent_output",
            detail: error.to_string(),
        })?;
    output
        .artifact(artifact, false, true)
        .await
        .map_err(output_error)?;
    Ok(TurnOutcome::Completed {
        message: Some(Message::agent_text(answer)),
        direct: false,
    })
}

/// Sleeps, unless the run is canceled.
async fn pause(time: Duration, stop: &CancellationToken) -> Result<(), AgentError> {
    tokio::select! {
        () = stop.cancelled() => Err(stopped_error()),
        () = tokio::time::sleep(time) => Ok(()),
    }
}

/// Truncates a text to `max_chars` characters on one line; an ellipsis marks the omission.
fn truncate(text: &str, max_chars: usize) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut short: String = text.chars().take(max_chars).map(plain).collect();
    if text.chars().nth(max_chars).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
