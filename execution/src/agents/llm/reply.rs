//! What the caller gets: text as it grows, files, and at the end the whole, with what it cost.

use super::super::refused;
use super::attachments::Skipped;
use super::chat::Stop;
use super::errors::{Failure, Why};
use super::tools;
use crate::files::{Language, Made};
use interzone_hub::{AgentError, Output};
use interzone_protocol::vocab::{InvalidJson, Json, Message, Metadata};
use serde::Serialize;

/// An answer in the making.
pub(super) struct Reply<'a> {
    output: &'a dyn Output,
    limit: usize,
    text: String,
    /// Where the model began to speak after its tools: what it says then is a paragraph of its own.
    paragraph: bool,
    files: Vec<String>,
    usage: Usage,
}

/// What an answer cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) stop: Option<Stop>,
}

impl<'a> Reply<'a> {
    pub(super) fn new(output: &'a dyn Output, limit: usize) -> Self {
        Self {
            output,
            limit,
            text: String::new(),
            paragraph: false,
            files: Vec::new(),
            usage: Usage::default(),
        }
    }

    /// How much has been said.
    pub(super) fn length(&self) -> usize {
        self.text.len()
    }

    pub(super) fn has_text(&self) -> bool {
        !self.text.trim().is_empty()
    }

    pub(super) fn files(&self) -> &[String] {
        &self.files
    }

    /// What is said from now on begins a paragraph.
    pub(super) fn begin_paragraph(&mut self) {
        self.paragraph = self.has_text();
    }

    /// Passes on what the model says, at once.
    pub(super) async fn text(&mut self, delta: &str) -> Result<(), Failure> {
        if self.text.len().saturating_add(delta.len()) > self.limit {
            return Err(Why::Endless.into());
        }
        self.put(delta).await.map_err(Failure::Ours)
    }

    /// Adds a sentence of our own.
    pub(super) async fn note(&mut self, sentence: &str) -> Result<(), AgentError> {
        self.begin_paragraph();
        self.put(sentence).await
    }

    async fn put(&mut self, delta: &str) -> Result<(), AgentError> {
        if delta.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.paragraph) {
            let missing = "\n\n"
                .get(self.text.len() - self.text.trim_end_matches('\n').len()..)
                .unwrap_or_default();
            if !missing.is_empty() {
                self.text.push_str(missing);
                self.output.text(missing).await.map_err(refused)?;
            }
        }
        self.text.push_str(delta);
        self.output.text(delta).await.map_err(refused)
    }

    /// Says what is going on.
    pub(super) async fn status(&self, text: &str) -> Result<(), AgentError> {
        self.output.status(text).await.map_err(refused)
    }

    /// Hands a file over.
    pub(super) async fn file(
        &mut self,
        made: Made,
        turn: usize,
        by: &str,
    ) -> Result<(), AgentError> {
        let name = made.name.clone();
        let place = format!("{turn}-{}", self.files.len().saturating_add(1));
        let artifact = tools::artifact(made, &place, by).map_err(|error| AgentError {
            code: "agent_output",
            detail: error.to_string(),
        })?;
        let put = self.output.artifact(artifact, false, true);
        put.await.map_err(refused)?;
        self.files.push(name);
        Ok(())
    }

    /// Adds to what it cost.
    pub(super) fn spend(&mut self, usage: Usage) {
        self.usage.input = self.usage.input.saturating_add(usage.input);
        self.usage.output = self.usage.output.saturating_add(usage.output);
        self.usage.stop = usage.stop;
    }

    /// The whole, as a message.
    pub(super) fn into_message(
        self,
        provider: &str,
        model: &str,
        skipped: &[Skipped],
    ) -> Result<Message, InvalidJson> {
        let usage = self.usage;
        let skipped = skipped.iter().map(|one| Left {
            name: &one.name,
            error_code: one.fault.word.name(),
        });
        let told = Told {
            usage: Spent {
                input_tokens: usage.input,
                output_tokens: usage.output,
                total_tokens: usage.input.saturating_add(usage.output),
                model,
                provider,
                stop_reason: usage.stop.unwrap_or(Stop::Other).name(),
            },
            skipped: skipped.collect(),
        };
        let metadata = Metadata::new(Json::of(&told)?)?;
        Ok(Message::agent_text(self.text).with_metadata(metadata))
    }
}

#[derive(Serialize)]
struct Told<'a> {
    usage: Spent<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<Left<'a>>,
}

#[derive(Serialize)]
struct Spent<'a> {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    model: &'a str,
    provider: &'a str,
    stop_reason: &'a str,
}

#[derive(Serialize)]
struct Left<'a> {
    name: &'a str,
    error_code: &'a str,
}

/// The sentences that we add to what a model says.
pub(super) enum Note<'a> {
    /// The model wanted more tools than it may have.
    Unfinished,
    /// The model may not say more.
    CutOff,
    /// There is nothing to say but that there is a file.
    Here(&'a [String]),
    /// A file is being made.
    Making,
    /// A file was not read.
    Skipped(&'a Skipped),
}

impl Note<'_> {
    pub(super) fn told(&self, language: Language) -> String {
        match (self, language) {
            (Self::Unfinished, Language::English) => "(Part of this was not finished.)".to_owned(),
            (Self::Unfinished, Language::Japanese) => {
                "（一部の処理は完了していません。）".to_owned()
            }
            (Self::CutOff, Language::English) => {
                "(The answer ends here because it reached its longest.)".to_owned()
            }
            (Self::CutOff, Language::Japanese) => {
                "（上限に達したため、応答はここで終わっています。）".to_owned()
            }
            (Self::Here(names), Language::English) => format!("Here is {}.", names.join(", ")),
            (Self::Here(names), Language::Japanese) => {
                format!("ファイルを作成しました: {}", names.join("、"))
            }
            (Self::Making, Language::English) => "Making a file.".to_owned(),
            (Self::Making, Language::Japanese) => "ファイルを作成しています。".to_owned(),
            (Self::Skipped(one), Language::English) => {
                format!(
                    "The file \"{}\" was left out: {}.",
                    one.name, one.fault.text
                )
            }
            (Self::Skipped(one), Language::Japanese) => format!(
                "ファイル「{}」は読み取れませんでした（{}）。",
                one.name,
                one.fault.told(language)
            ),
        }
    }
}
