//! Sends the answer to the caller: streamed text, files, and the final message with its token usage.

use super::super::output_error;
use super::attachments::SkippedFile;
use super::chat::StopReason;
use super::errors::{LlmErrorKind, LlmFailure};
use super::tools;
use crate::files::{GeneratedFile, Language};
use interzone_hub::{AgentError, TurnOutput};
use interzone_protocol::vocab::{InvalidJson, Message, Metadata, VerbatimJson};
use serde::Serialize;

/// Receives an answer and writes it to the run's output.
pub(super) struct AnswerSink<'a> {
    output: &'a dyn TurnOutput,
    max_bytes: usize,
    text: String,
    /// The next text starts a new paragraph, because the model continues after tool calls.
    starts_paragraph: bool,
    files: Vec<String>,
    usage: TokenUsage,
}

/// Token usage of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TokenUsage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) stop: Option<StopReason>,
}

impl<'a> AnswerSink<'a> {
    pub(super) fn new(output: &'a dyn TurnOutput, limit: usize) -> Self {
        Self {
            output,
            max_bytes: limit,
            text: String::new(),
            starts_paragraph: false,
            files: Vec::new(),
            usage: TokenUsage::default(),
        }
    }

    /// Returns the length of the text so far, in bytes.
    pub(super) fn length(&self) -> usize {
        self.text.len()
    }

    pub(super) fn has_text(&self) -> bool {
        !self.text.trim().is_empty()
    }

    pub(super) fn files(&self) -> &[String] {
        &self.files
    }

    /// Starts a new paragraph with the next text.
    pub(super) fn begin_paragraph(&mut self) {
        self.starts_paragraph = self.has_text();
    }

    /// Passes on text of the model immediately.
    pub(super) async fn text(&mut self, delta: &str) -> Result<(), LlmFailure> {
        if self.text.len().saturating_add(delta.len()) > self.max_bytes {
            return Err(LlmErrorKind::AnswerTooLong.into());
        }
        self.write_text(delta).await.map_err(LlmFailure::Output)
    }

    /// Appends a sentence of our own.
    pub(super) async fn append_notice(&mut self, sentence: &str) -> Result<(), AgentError> {
        self.begin_paragraph();
        self.write_text(sentence).await
    }

    async fn write_text(&mut self, delta: &str) -> Result<(), AgentError> {
        if delta.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.starts_paragraph) {
            let missing = "\n\n"
                .get(self.text.len() - self.text.trim_end_matches('\n').len()..)
                .unwrap_or_default();
            if !missing.is_empty() {
                self.text.push_str(missing);
                self.output.text(missing).await.map_err(output_error)?;
            }
        }
        self.text.push_str(delta);
        self.output.text(delta).await.map_err(output_error)
    }

    /// Sends a progress status.
    pub(super) async fn status(&self, text: &str) -> Result<(), AgentError> {
        self.output.status(text).await.map_err(output_error)
    }

    /// Sends a generated file.
    pub(super) async fn send_file(
        &mut self,
        file: GeneratedFile,
        turn_number: usize,
        author: &str,
    ) -> Result<(), AgentError> {
        let name = file.name.clone();
        let sequence = format!("{turn_number}-{}", self.files.len().saturating_add(1));
        let artifact =
            tools::into_artifact(file, &sequence, author).map_err(|error| AgentError {
                code: "agent_output",
                detail: error.to_string(),
            })?;
        let write = self.output.artifact(artifact, false, true);
        write.await.map_err(output_error)?;
        self.files.push(name);
        Ok(())
    }

    /// Adds token usage.
    pub(super) fn add_usage(&mut self, usage: TokenUsage) {
        self.usage.input = self.usage.input.saturating_add(usage.input);
        self.usage.output = self.usage.output.saturating_add(usage.output);
        self.usage.stop = usage.stop;
    }

    /// Builds the final message.
    pub(super) fn into_message(
        self,
        provider: &str,
        model: &str,
        skipped: &[SkippedFile],
    ) -> Result<Message, InvalidJson> {
        let usage = self.usage;
        let skipped = skipped.iter().map(|one| SkippedFileMetadata {
            name: &one.name,
            error_code: one.error.code.name(),
        });
        let content = AnswerMetadata {
            usage: UsageMetadata {
                input_tokens: usage.input,
                output_tokens: usage.output,
                total_tokens: usage.input.saturating_add(usage.output),
                model,
                provider,
                stop_reason: usage.stop.unwrap_or(StopReason::Other).name(),
            },
            skipped: skipped.collect(),
        };
        let metadata = Metadata::new(VerbatimJson::from_value(&content)?)?;
        Ok(Message::agent_text(self.text).with_metadata(metadata))
    }
}

#[derive(Serialize)]
struct AnswerMetadata<'a> {
    usage: UsageMetadata<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<SkippedFileMetadata<'a>>,
}

#[derive(Serialize)]
struct UsageMetadata<'a> {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    model: &'a str,
    provider: &'a str,
    stop_reason: &'a str,
}

#[derive(Serialize)]
struct SkippedFileMetadata<'a> {
    name: &'a str,
    error_code: &'a str,
}

/// Sentences added to a model's answer.
pub(super) enum AnswerNotice<'a> {
    /// The model needed more tool rounds than allowed.
    Unfinished,
    /// The answer reached its maximum length.
    CutOff,
    /// The answer consists of files only.
    FilesOnly(&'a [String]),
    /// A file is being generated.
    GeneratingFile,
    /// An attached file was not read.
    Skipped(&'a SkippedFile),
}

impl AnswerNotice<'_> {
    pub(super) fn to_text(&self, language: Language) -> String {
        match (self, language) {
            (Self::Unfinished, Language::English) => "(Part of this was not finished.)".to_owned(),
            (Self::Unfinished, Language::Japanese) => {
                "（一部の処理は完了していません。）".to_owned()
            }
            (Self::CutOff, Language::English) => {
                "(The answer was cut off at its maximum length.)".to_owned()
            }
            (Self::CutOff, Language::Japanese) => {
                "（上限に達したため、応答はここで終わっています。）".to_owned()
            }
            (Self::FilesOnly(names), Language::English) => format!("Here is {}.", names.join(", ")),
            (Self::FilesOnly(names), Language::Japanese) => {
                format!("ファイルを作成しました: {}", names.join("、"))
            }
            (Self::GeneratingFile, Language::English) => "Making a file.".to_owned(),
            (Self::GeneratingFile, Language::Japanese) => "ファイルを作成しています。".to_owned(),
            (Self::Skipped(one), Language::English) => {
                format!(
                    "The file \"{}\" was left out: {}.",
                    one.name, one.error.text
                )
            }
            (Self::Skipped(one), Language::Japanese) => format!(
                "ファイル「{}」は読み取れませんでした（{}）。",
                one.name,
                one.error.localized(language)
            ),
        }
    }
}
