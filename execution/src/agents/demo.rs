//! The demo agent: deterministic, built in, and honest about being a demo.
//!
//! It shows everything that an agent can do, so that a newcomer has something to talk to and a test
//! something to rely on. No network, no model and no randomness may enter.

use super::{refused, stopped};
use crate::files::{FileOwner, FileReader, InputRules};
use async_trait::async_trait;
use attachments::Reading;
use interzone_hub::{Agent, AgentError, AgentInfo, Outcome, Output, Skill, Turn};
use interzone_protocol::vocab::{AgentId, Message, Role};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

mod attachments;
mod files;

/// The most words that `stream` gives.
const MOST_WORDS: u32 = 1_000;

/// The longest that `wait` waits, in seconds: less than the ten minutes after which a turn is cut off.
const LONGEST_WAIT: u32 = 540;

/// How many status lines a wait has at most.
const MOST_LINES: u32 = 60;

/// Between two words of `stream`: slow enough to see it grow.
const PACE: Duration = Duration::from_millis(20);

/// What `stream` says, over and over.
const WORDS: [&str; 12] = [
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

/// An agent that does as its first word says.
pub struct DemoAgent {
    info: AgentInfo,
    files: Option<(FileReader, InputRules)>,
}

impl DemoAgent {
    /// A demo agent that is called so and takes this many runs at once.
    pub fn new(id: AgentId, concurrency: usize) -> Self {
        let skill = |id: &str, name: &str, description: &str| Skill {
            id: id.to_owned(),
            name: name.to_owned(),
            description: description.to_owned(),
        };
        Self {
            info: AgentInfo {
                id,
                name: "Demo agent".to_owned(),
                description: "A built-in demo: deterministic, no model, no network. Say \"help\"."
                    .to_owned(),
                skills: vec![
                    skill("echo", "Echo", "Says again what it was told."),
                    skill("stream", "Stream", "Answers word by word."),
                    skill("file", "File", "Makes a CSV, JSON, text or Markdown file."),
                ],
                concurrency: concurrency.max(1),
            },
            files: None,
        }
    }

    /// The same, which quotes documents too, as this reads them.
    #[must_use]
    pub fn with_reader(self, reader: FileReader, rules: InputRules) -> Self {
        Self {
            files: Some((reader, rules)),
            ..self
        }
    }

    /// An answer, with what was attached to the question.
    async fn answer(&self, turn: &Turn, text: String) -> Outcome {
        let owner = FileOwner::from(&turn.task);
        let reading = self.files.as_ref().map(|(reader, rules)| Reading {
            reader,
            owner: &owner,
            rules,
        });
        let listed = attachments::list(&turn.message, reading).await;
        say(if listed.is_empty() {
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

    fn at_hand(&self, message: &Message, history: &[Message]) -> Option<Outcome> {
        if attachments::any(message) {
            return None;
        }
        match does(&message.text(), message, history) {
            Does::Answer(text) => Some(say(text)),
            Does::Say(outcome) => Some(outcome),
            Does::Stream(_) | Does::Wait(_) | Does::File(_) => None,
        }
    }

    async fn run(&self, turn: Turn, output: Arc<dyn Output>) -> Result<Outcome, AgentError> {
        let text = turn.message.text();
        match does(&text, &turn.message, &turn.history) {
            Does::Answer(text) => Ok(self.answer(&turn, text).await),
            Does::Say(outcome) => Ok(outcome),
            Does::Stream(rest) => stream(rest, &turn.stop, output.as_ref()).await,
            Does::Wait(rest) => wait(rest, &turn.stop, output.as_ref()).await,
            Does::File(rest) => {
                let place = turn.history.len().saturating_add(1);
                file(rest, place, &self.info.name, output.as_ref()).await
            }
        }
    }
}

/// What it does about a message.
enum Does<'t> {
    /// Answers, and names what is attached.
    Answer(String),
    /// Says no more than this.
    Say(Outcome),
    Stream(&'t str),
    Wait(&'t str),
    File(&'t str),
}

/// What to do about a message of this text.
fn does<'t>(text: &'t str, message: &Message, history: &[Message]) -> Does<'t> {
    let text = text.trim();
    if answers_a_question(history) {
        return Does::Answer(format!("You answered: {text}"));
    }
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let or = |usual| Message::agent_text(if rest.is_empty() { usual } else { rest });
    match word.to_ascii_lowercase().as_str() {
        "help" => Does::Answer(HELP.to_owned()),
        "echo" if rest.is_empty() => {
            Does::Say(say("Tell me what to echo, for example: echo hello"))
        }
        "echo" => Does::Answer(rest.to_owned()),
        "stream" => Does::Stream(rest),
        "wait" => Does::Wait(rest),
        "ask" => Does::Say(Outcome::InputRequired(or(
            "What would you like to tell me?",
        ))),
        "fail" => Does::Say(Outcome::Failed(or("This failed because you asked for it."))),
        "file" => Does::File(rest),
        _ => Does::Answer(unknown(word, message)),
    }
}

/// Whether what is said now answers a question of `ask`: the last words were ours, and they came of
/// that command.
fn answers_a_question(history: &[Message]) -> bool {
    let mut before = history.iter().rev();
    let asked = before.next().is_some_and(|last| last.role() == Role::Agent);
    let command = before.find(|message| message.role() != Role::Agent);
    asked
        && command.is_some_and(|message| {
            let text = message.text();
            let word = text.split_whitespace().next().unwrap_or_default();
            word.eq_ignore_ascii_case("ask")
        })
}

fn unknown(word: &str, message: &Message) -> String {
    if word.is_empty() && attachments::any(message) {
        return "Thank you, this arrived:".to_owned();
    }
    let heard = if word.is_empty() {
        "You said nothing that I can read.".to_owned()
    } else {
        format!("I do not know \"{}\".", shortened(word, 40))
    };
    format!("{heard} {HELP}")
}

fn say(text: impl AsRef<str>) -> Outcome {
    Outcome::Completed {
        message: Some(Message::agent_text(text)),
        direct: true,
    }
}

async fn stream(
    rest: &str,
    stop: &CancellationToken,
    output: &dyn Output,
) -> Result<Outcome, AgentError> {
    let count = match rest.parse::<u32>() {
        Ok(count) if (1..=MOST_WORDS).contains(&count) => count,
        _ => {
            return Ok(say(format!(
                "Tell me how many words, from 1 to {MOST_WORDS}, for example: stream 20"
            )));
        }
    };
    let mut whole = String::new();
    for (number, word) in (1..=count).zip(WORDS.iter().cycle()) {
        let end = if number == count { "." } else { " " };
        let delta = format!("{word}{end}");
        output.text(&delta).await.map_err(refused)?;
        whole.push_str(&delta);
        if number < count {
            pause(PACE, stop).await?;
        }
    }
    Ok(say(whole))
}

async fn wait(
    rest: &str,
    stop: &CancellationToken,
    output: &dyn Output,
) -> Result<Outcome, AgentError> {
    let longest = f64::from(LONGEST_WAIT);
    let seconds = match rest.parse::<f64>() {
        Ok(seconds) if (0.0..=longest).contains(&seconds) => seconds,
        _ => {
            return Ok(say(format!(
                "Tell me how many seconds, for example: wait 5. {LONGEST_WAIT} is the most."
            )));
        }
    };
    let mut left = Duration::from_secs_f64(seconds);
    let step = (left / MOST_LINES).max(Duration::from_secs(1));
    while !left.is_zero() {
        let line = format!("waiting, {:.0} s left", left.as_secs_f64().ceil());
        output.status(&line).await.map_err(refused)?;
        let now = step.min(left);
        pause(now, stop).await?;
        left = left.saturating_sub(now);
    }
    Ok(say(format!("I waited {seconds} s.")))
}

async fn file(
    rest: &str,
    place: usize,
    by: &str,
    output: &dyn Output,
) -> Result<Outcome, AgentError> {
    let (kind, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let Some(kind) = files::kind(kind) else {
        return Ok(say(
            "Tell me what kind of file: csv, json, txt or md, for example: file csv name,amount",
        ));
    };
    let made = match files::make(kind, text.trim()) {
        Ok(made) => made,
        Err(fault) => return Ok(say(fault.text)),
    };
    let said = format!("Here is {} ({} bytes).", made.name, made.bytes.len());
    let artifact = files::into_artifact(made, place, by).map_err(|error| AgentError {
        code: "agent_output",
        detail: error.to_string(),
    })?;
    output
        .artifact(artifact, false, true)
        .await
        .map_err(refused)?;
    Ok(Outcome::Completed {
        message: Some(Message::agent_text(said)),
        direct: false,
    })
}

/// Lets time pass, unless told to stop.
async fn pause(time: Duration, stop: &CancellationToken) -> Result<(), AgentError> {
    tokio::select! {
        () = stop.cancelled() => Err(stopped()),
        () = tokio::time::sleep(time) => Ok(()),
    }
}

/// At most so many characters, on one line, with a sign of what was left out.
fn shortened(text: &str, most: usize) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut short: String = text.chars().take(most).map(plain).collect();
    if text.chars().nth(most).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
