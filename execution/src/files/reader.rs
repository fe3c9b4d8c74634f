//! Reads files of untrusted senders, each in a child process of its own.
//!
//! A parser of a complex format cannot be trusted to end, to stay within memory, or not to be taken over.
//! A process can be bounded and killed; a thread cannot. What the child answers is trusted in its shape
//! and size alone.

mod process;
mod slots;
mod start;
#[cfg(test)]
mod tests;

use super::extract::CUT;
use super::{Fault, InputRules, Kind, Problem};
use bytes::Bytes;
use interzone_hub::Task;
use interzone_protocol::zone::ErrorWord;
use process::{Ending, Program};
use serde::{Deserialize, Serialize};
use slots::Slots;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The hidden command of the binary that reads one file and ends.
pub const SUBCOMMAND: &str = "extract-file";

/// How many times its processor time a child may take on the clock. A busy machine must not decide whether
/// a file is read, and a child that waits for nothing must not stay.
pub const WALL_TIME_FACTOR: u32 = 3;

/// Bytes of an answer beside the text in it.
const ENVELOPE_BYTES: u64 = 4_096;

/// Bytes that a character of a text takes in an answer at most: `\u0000`.
const BYTES_PER_CHAR: u64 = 6;

/// What a child is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) job: Job,
    pub(super) rules: InputRules,
    /// Bytes of the file, which follow.
    pub(super) size: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Job {
    /// What kind of file it is.
    Identify { declared: String, name: String },
    /// What kind of file it is, and whether a document has text.
    Check { declared: String, name: String },
    /// The text of a file whose kind is known.
    Text { kind: Kind },
}

/// What a child answers.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Kind(Kind),
    Text(String),
    Problem(Problem),
}

/// Whose file it is: those who share a node get their turns one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOwner {
    principal: String,
    person: Option<String>,
}

impl FileOwner {
    /// A principal, and the person on whose behalf it asks, if it says so.
    pub fn new(principal: impl Into<String>, person: Option<String>) -> Self {
        Self {
            principal: principal.into(),
            person,
        }
    }
}

impl From<&Task> for FileOwner {
    fn from(task: &Task) -> Self {
        Self::new(task.owner.as_str(), crate::rpc::zone::asking_person(task))
    }
}

/// Reads files, few at once, each in a process of its own.
#[derive(Clone, Debug)]
pub struct FileReader {
    slots: Arc<Slots>,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Child(Program),
    /// Unit tests have no binary to start. Tests of the child itself are in the `cli` crate.
    #[cfg(test)]
    SameProcess,
}

impl FileReader {
    /// Reads by this program, which is the binary itself, so many files at once.
    pub fn new(program: impl Into<PathBuf>, processes: usize) -> Self {
        Self {
            slots: Arc::new(Slots::new(processes)),
            place: Place::Child(Program::new(program.into())),
        }
    }

    /// Reads in this process.
    #[cfg(test)]
    pub(crate) fn in_process() -> Self {
        Self {
            slots: Arc::new(Slots::new(1)),
            place: Place::SameProcess,
        }
    }

    /// What kind of file it is by its bytes and by what is declared.
    ///
    /// # Errors
    /// Why the file is not taken.
    pub async fn identify(
        &self,
        owner: &FileOwner,
        bytes: Bytes,
        (declared, name): (&str, &str),
        rules: &InputRules,
    ) -> Result<Kind, Fault> {
        let job = Job::Identify {
            declared: declared.to_owned(),
            name: name.to_owned(),
        };
        self.kind(owner, job, bytes, rules).await
    }

    /// What kind of file it is. A document must have text, too.
    ///
    /// # Errors
    /// Why the file is not taken.
    pub async fn check(
        &self,
        owner: &FileOwner,
        bytes: Bytes,
        (declared, name): (&str, &str),
        rules: &InputRules,
    ) -> Result<Kind, Fault> {
        let job = Job::Check {
            declared: declared.to_owned(),
            name: name.to_owned(),
        };
        self.kind(owner, job, bytes, rules).await
    }

    /// The text of a file.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn text(
        &self,
        owner: &FileOwner,
        kind: Kind,
        bytes: Bytes,
        rules: &InputRules,
    ) -> Result<String, Fault> {
        match self.ask(owner, Job::Text { kind }, bytes, rules).await? {
            Answer::Text(text) if rules.holds(&text) => Ok(text),
            _ => Err(unexpected(rules)),
        }
    }

    async fn kind(
        &self,
        owner: &FileOwner,
        job: Job,
        bytes: Bytes,
        rules: &InputRules,
    ) -> Result<Kind, Fault> {
        let size = count(&bytes);
        match self.ask(owner, job, bytes, rules).await? {
            // The limit of the kind that the child names counts, whatever the child says of it.
            Answer::Kind(kind) if size <= rules.limit(kind) => Ok(kind),
            Answer::Kind(_) => Err(rules.too_large()),
            _ => Err(unexpected(rules)),
        }
    }

    /// Waits for a slot, and has one file read. A refusal comes back as an error.
    async fn ask(
        &self,
        owner: &FileOwner,
        job: Job,
        bytes: Bytes,
        rules: &InputRules,
    ) -> Result<Answer, Fault> {
        let size = count(&bytes);
        // What is too large for any kind is not worth a process.
        if size > rules.largest() {
            return Err(rules.too_large());
        }
        let request = Request {
            job,
            rules: rules.clone(),
            size,
        };
        let Some(_slot) = self.slots.acquire(owner).await else {
            tracing::warn!("file refused: the queue of files to read is full");
            return Err(Fault::reader_unavailable());
        };
        let answer = match &self.place {
            Place::Child(program) => program.run(&request, &bytes).await,
            #[cfg(test)]
            Place::SameProcess => Ok(request.answer(&bytes).unwrap_or_else(Answer::Problem)),
        };
        match answer {
            Ok(Answer::Problem(problem)) => Err(problem.into_fault(rules)),
            Ok(answer) => Ok(answer),
            Err(ending) => Err(ending.into_fault(rules)),
        }
    }
}

impl Ending {
    fn into_fault(self, rules: &InputRules) -> Fault {
        match self {
            Self::OutOfMemory => Fault::new(
                ErrorWord::FileBomb,
                "the file takes more memory to read than is allowed",
            ),
            Self::OutOfTime => Fault::new(
                ErrorWord::ExtractionFailed,
                "the file took too long to be read",
            ),
            Self::Failed => unexpected(rules),
            Self::NotStarted => Fault::reader_unavailable(),
        }
    }
}

/// What is said of a file whose reader did not answer as it should.
fn unexpected(rules: &InputRules) -> Fault {
    Problem::Damaged.into_fault(rules)
}

impl InputRules {
    /// Whole seconds of processor time, which is what systems count.
    fn cpu_seconds(&self) -> u64 {
        let part = u64::from(self.extract_time.subsec_nanos() > 0);
        self.extract_time.as_secs().saturating_add(part).max(1)
    }

    /// How long a child may take on the clock.
    fn wall_time(&self) -> Duration {
        self.extract_time.saturating_mul(WALL_TIME_FACTOR)
    }

    /// Whether a text is as long as a child may make it.
    fn holds(&self, text: &str) -> bool {
        let most = self.text_chars.saturating_add(CUT.chars().count());
        text.chars().count() <= most
    }

    /// How many bytes a child may answer.
    fn answer_bytes(&self) -> u64 {
        let chars = u64::try_from(self.text_chars).unwrap_or(u64::MAX);
        let text = chars.saturating_mul(BYTES_PER_CHAR);
        text.saturating_add(ENVELOPE_BYTES)
    }
}

fn count(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
