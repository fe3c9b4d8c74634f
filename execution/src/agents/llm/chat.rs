//! A conversation as every provider knows it: who said what, with which files, and which tools were
//! called. How a provider writes it down is not known here.

use crate::files::Kind;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Whose turn it was. The setting is beside the conversation, not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Assistant,
}

/// A piece of what was said. Contents of files are borrowed from the turn, for they are large.
#[derive(Debug)]
pub(super) enum Block<'t> {
    Text(Cow<'t, str>),
    /// A picture in base64.
    Image {
        kind: Kind,
        base64: Cow<'t, str>,
    },
    /// A document in base64, which the provider reads by itself.
    Document {
        name: String,
        kind: Kind,
        base64: Cow<'t, str>,
    },
    /// The model wants a tool.
    Call {
        id: String,
        name: String,
        arguments: Box<RawValue>,
    },
    /// What came of it.
    Returned {
        id: String,
        text: String,
        failed: bool,
    },
}

/// What one side said in one go.
#[derive(Debug)]
pub(super) struct Said<'t> {
    pub(super) speaker: Speaker,
    pub(super) blocks: Vec<Block<'t>>,
}

/// A tool that the model may call.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) description: String,
    /// What its arguments look like, as a JSON schema.
    pub(super) schema: Value,
}

/// All that the model is given.
#[derive(Debug, Default)]
pub(super) struct Chat<'t> {
    pub(super) system: Option<String>,
    pub(super) said: Vec<Said<'t>>,
    pub(super) tools: Vec<Tool>,
}

impl<'t> Chat<'t> {
    /// Adds what somebody says. Providers want the two sides to take turns, so whoever goes on speaking
    /// adds to what he said before; and whoever says nothing has not spoken.
    pub(super) fn say(&mut self, speaker: Speaker, blocks: Vec<Block<'t>>) {
        let speaks =
            |block: &Block<'_>| !matches!(block, Block::Text(text) if text.trim().is_empty());
        let mut blocks: Vec<Block<'t>> = blocks.into_iter().filter(speaks).collect();
        if blocks.is_empty() {
            return;
        }
        match self.said.last_mut() {
            Some(last) if last.speaker == speaker => last.blocks.append(&mut blocks),
            _ => self.said.push(Said { speaker, blocks }),
        }
    }

    /// Whether there is a document in it that the provider reads by itself.
    pub(super) fn has_documents(&self) -> bool {
        let mut blocks = self.said.iter().flat_map(|said| &said.blocks);
        blocks.any(|block| matches!(block, Block::Document { .. }))
    }
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has said all.
    End,
    /// It waits for its tools.
    Tools,
    /// It may not say more.
    Length,
    /// It will not say it, or may not.
    Filtered,
    /// For a reason that only the provider knows.
    Other,
}

impl Stop {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Tools => "tool_use",
            Self::Length => "max_tokens",
            Self::Filtered => "refusal",
            Self::Other => "other",
        }
    }
}

/// Something that came from the model.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is at work: it thinks, or begins.
    Alive,
    Text(String),
    /// Words by which it refuses.
    Refusal(String),
    /// It begins to call a tool.
    Call {
        index: u64,
        id: Option<String>,
        name: String,
    },
    /// A piece of a call's arguments.
    Arguments {
        index: u64,
        piece: String,
    },
    Stop(Stop),
    /// Tokens so far; what is not told stays as it was.
    Usage {
        input: Option<u64>,
        output: Option<u64>,
    },
}
