//! Reads files of untrusted senders, each in a child process of its own.
//!
//! A parser of a complex format cannot be trusted to end, to stay within memory, or not to be taken over. A process can
//! be bounded and killed; a thread cannot. Only answers of a known form and within the size limits are accepted.

mod process;
mod slots;
mod start;
#[cfg(test)]
mod tests;

use super::extract::TRUNCATION_MARKER;
use super::{FileError, FileKind, FileProblem, InputRules};
use bytes::Bytes;
use interzone_hub::Task;
use interzone_protocol::zone::ErrorReason;
use process::{ReaderFailure, ReaderProgram};
use serde::{Deserialize, Serialize};
use slots::ReaderSlots;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Hidden CLI command that reads a single file.
pub const EXTRACT_SUBCOMMAND: &str = "extract-file";

/// Wall-clock limit of a child as a multiple of its processor time. A busy machine must not decide whether a file is
/// read, and a child that uses no processor time must not stay.
pub const WALL_TIME_FACTOR: u32 = 3;

/// Maximum size of an answer apart from its text, in bytes.
const ENVELOPE_BYTES: u64 = 4_096;

/// Maximum size of a character in an answer, in bytes: `\u0000`.
const BYTES_PER_CHAR: u64 = 6;

/// Request to a child.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReaderRequest {
    pub(super) job: ReaderJob,
    pub(super) rules: InputRules,
    /// Size of the file in bytes. The file follows the request.
    pub(super) size: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReaderJob {
    /// Detect the kind of the file.
    Identify { declared: String, name: String },
    /// Detect the kind of the file, and check that a document has text.
    Check { declared: String, name: String },
    /// Extract the text of a file of a known kind.
    Text { kind: FileKind },
}

/// Answer of a child.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReaderAnswer {
    Kind(FileKind),
    Text(String),
    Problem(FileProblem),
}

/// Owner of a file, for the fair scheduling of child processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOwner {
    principal: String,
    person: Option<String>,
}

impl FileOwner {
    /// Creates an owner from a principal and the user on whose behalf it asks, if known.
    pub fn new(principal: impl Into<String>, person: Option<String>) -> Self {
        Self {
            principal: principal.into(),
            person,
        }
    }
}

impl From<&Task> for FileOwner {
    fn from(task: &Task) -> Self {
        Self::new(task.owner.as_str(), crate::rpc::zone::task_person(task))
    }
}

/// Reads files in child processes, with limited concurrency.
#[derive(Clone, Debug)]
pub struct FileReader {
    slots: Arc<ReaderSlots>,
    backend: ReaderBackend,
}

#[derive(Clone, Debug)]
enum ReaderBackend {
    Child(ReaderProgram),
    /// Unit tests have no binary to start. Tests of the child itself are in the `cli` crate.
    #[cfg(test)]
    SameProcess,
}

impl FileReader {
    /// Creates a reader that runs this program, which is the binary itself, at most `processes` times at once.
    pub fn new(program: impl Into<PathBuf>, processes: usize) -> Self {
        Self {
            slots: Arc::new(ReaderSlots::new(processes)),
            backend: ReaderBackend::Child(ReaderProgram::new(program.into())),
        }
    }

    /// Reads in this process.
    #[cfg(test)]
    pub(crate) fn in_process() -> Self {
        Self {
            slots: Arc::new(ReaderSlots::new(1)),
            backend: ReaderBackend::SameProcess,
        }
    }

    /// Detects the kind of a file from its bytes and its declared type and name.
    ///
    /// # Errors
    /// The reason why the file is rejected.
    pub async fn identify(
        &self,
        owner: &FileOwner,
        bytes: Bytes,
        (declared, name): (&str, &str),
        rules: &InputRules,
    ) -> Result<FileKind, FileError> {
        let job = ReaderJob::Identify {
            declared: declared.to_owned(),
            name: name.to_owned(),
        };
        self.request_kind(owner, job, bytes, rules).await
    }

    /// Detects the kind of a file. A document must also have text.
    ///
    /// # Errors
    /// The reason why the file is rejected.
    pub async fn check(
        &self,
        owner: &FileOwner,
        bytes: Bytes,
        (declared, name): (&str, &str),
        rules: &InputRules,
    ) -> Result<FileKind, FileError> {
        let job = ReaderJob::Check {
            declared: declared.to_owned(),
            name: name.to_owned(),
        };
        self.request_kind(owner, job, bytes, rules).await
    }

    /// Extracts the text of a file.
    ///
    /// # Errors
    /// The reason why there is no text.
    pub async fn text(
        &self,
        owner: &FileOwner,
        kind: FileKind,
        bytes: Bytes,
        rules: &InputRules,
    ) -> Result<String, FileError> {
        match self
            .read(owner, ReaderJob::Text { kind }, bytes, rules)
            .await?
        {
            ReaderAnswer::Text(text) if rules.fits_text(&text) => Ok(text),
            _ => Err(invalid_answer(rules)),
        }
    }

    async fn request_kind(
        &self,
        owner: &FileOwner,
        job: ReaderJob,
        bytes: Bytes,
        rules: &InputRules,
    ) -> Result<FileKind, FileError> {
        let size = byte_count(&bytes);
        match self.read(owner, job, bytes, rules).await? {
            // The size limit of the kind is enforced here too, because the child is not trusted.
            ReaderAnswer::Kind(kind) if size <= rules.max_bytes_for(kind) => Ok(kind),
            ReaderAnswer::Kind(_) => Err(rules.too_large_error()),
            _ => Err(invalid_answer(rules)),
        }
    }

    /// Waits for a slot and reads one file. A rejection is returned as an error.
    async fn read(
        &self,
        owner: &FileOwner,
        job: ReaderJob,
        bytes: Bytes,
        rules: &InputRules,
    ) -> Result<ReaderAnswer, FileError> {
        let size = byte_count(&bytes);
        // A file that is too large for any kind needs no process.
        if size > rules.max_file_bytes() {
            return Err(rules.too_large_error());
        }
        let request = ReaderRequest {
            job,
            rules: rules.clone(),
            size,
        };
        let Some(_slot) = self.slots.acquire(owner).await else {
            tracing::warn!("file reader queue is full");
            return Err(FileError::reader_unavailable());
        };
        let answer = match &self.backend {
            ReaderBackend::Child(program) => program.run(&request, &bytes).await,
            #[cfg(test)]
            ReaderBackend::SameProcess => Ok(request
                .execute(&bytes)
                .unwrap_or_else(ReaderAnswer::Problem)),
        };
        match answer {
            Ok(ReaderAnswer::Problem(problem)) => Err(problem.into_file_error(rules)),
            Ok(answer) => Ok(answer),
            Err(ending) => Err(ending.into_file_error(rules)),
        }
    }
}

impl ReaderFailure {
    fn into_file_error(self, rules: &InputRules) -> FileError {
        match self {
            Self::OutOfMemory => FileError::new(
                ErrorReason::FileBomb,
                "the file takes more memory to read than is allowed",
            ),
            Self::OutOfTime => FileError::new(
                ErrorReason::ExtractionFailed,
                "the file took too long to be read",
            ),
            Self::Failed => invalid_answer(rules),
            Self::NotStarted => FileError::reader_unavailable(),
        }
    }
}

/// Error of a file whose reader gave an invalid answer.
fn invalid_answer(rules: &InputRules) -> FileError {
    FileProblem::Damaged.into_file_error(rules)
}

impl InputRules {
    /// Returns the processor time limit in whole seconds, as systems count it.
    fn cpu_seconds(&self) -> u64 {
        let fraction = u64::from(self.extract_cpu_time.subsec_nanos() > 0);
        self.extract_cpu_time
            .as_secs()
            .saturating_add(fraction)
            .max(1)
    }

    /// Returns the wall-clock limit of a child.
    fn wall_time(&self) -> Duration {
        self.extract_cpu_time.saturating_mul(WALL_TIME_FACTOR)
    }

    /// Returns true if a text is within the length limit.
    fn fits_text(&self, text: &str) -> bool {
        let max = self
            .text_chars
            .saturating_add(TRUNCATION_MARKER.chars().count());
        text.chars().count() <= max
    }

    /// Returns the maximum size of an answer, in bytes.
    fn max_answer_bytes(&self) -> u64 {
        let chars = u64::try_from(self.text_chars).unwrap_or(u64::MAX);
        let text = chars.saturating_mul(BYTES_PER_CHAR);
        text.saturating_add(ENVELOPE_BYTES)
    }
}

fn byte_count(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
