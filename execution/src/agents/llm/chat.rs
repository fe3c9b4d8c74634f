//! Provider-independent chat: messages with files and tool calls, and the events of a model's stream.

use crate::files::FileKind;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Author of a chat message. The system prompt is separate from the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChatRole {
    User,
    Assistant,
}

/// Content block of a message. File contents are borrowed from the turn because they are large.
#[derive(Debug)]
pub(super) enum ContentBlock<'t> {
    Text(Cow<'t, str>),
    /// An image in base64.
    Image {
        kind: FileKind,
        base64: Cow<'t, str>,
    },
    /// A document in base64, for providers that read documents.
    Document {
        name: String,
        kind: FileKind,
        base64: Cow<'t, str>,
    },
    /// A tool call by the model.
    ToolCall {
        id: String,
        name: String,
        arguments: Box<RawValue>,
    },
    /// The result of a tool call.
    ToolResult {
        id: String,
        text: String,
        failed: bool,
    },
}

/// A message of one side.
#[derive(Debug)]
pub(super) struct ChatMessage<'t> {
    pub(super) role: ChatRole,
    pub(super) blocks: Vec<ContentBlock<'t>>,
}

/// A tool that the model may call.
#[derive(Debug)]
pub(super) struct ToolDefinition {
    pub(super) name: &'static str,
    pub(super) description: String,
    /// JSON schema of its arguments.
    pub(super) schema: Value,
}

/// Everything that is sent to the model.
#[derive(Debug, Default)]
pub(super) struct Chat<'t> {
    pub(super) system: Option<String>,
    pub(super) messages: Vec<ChatMessage<'t>>,
    pub(super) tools: Vec<ToolDefinition>,
}

impl<'t> Chat<'t> {
    /// Appends a message. Providers require alternating roles, so consecutive messages of one role are merged; empty
    /// messages are dropped.
    pub(super) fn push(&mut self, role: ChatRole, blocks: Vec<ContentBlock<'t>>) {
        let is_not_blank = |block: &ContentBlock<'_>| !matches!(block, ContentBlock::Text(text) if text.trim().is_empty());
        let mut blocks: Vec<ContentBlock<'t>> = blocks.into_iter().filter(is_not_blank).collect();
        if blocks.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.blocks.append(&mut blocks),
            _ => self.messages.push(ChatMessage { role, blocks }),
        }
    }

    /// Returns true if it contains a document that the provider reads.
    pub(super) fn has_documents(&self) -> bool {
        let mut blocks = self.messages.iter().flat_map(|said| &said.blocks);
        blocks.any(|block| matches!(block, ContentBlock::Document { .. }))
    }
}

/// Reason why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The answer is complete.
    End,
    /// The model waits for tool results.
    Tools,
    /// The token limit was reached.
    Length,
    /// The model refused, or a filter intervened.
    Filtered,
    /// A reason specific to the provider.
    Other,
}

impl StopReason {
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

/// Event of a model's stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ModelEvent {
    /// Progress without text: reasoning, or the start of a block.
    Progress,
    Text(String),
    /// Text of a refusal.
    Refusal(String),
    /// Start of a tool call.
    ToolCall {
        index: u64,
        id: Option<String>,
        name: String,
    },
    /// Part of a tool call's arguments.
    Arguments {
        index: u64,
        piece: String,
    },
    Stop(StopReason),
    /// Tokens so far; absent values are unchanged.
    Usage {
        input: Option<u64>,
        output: Option<u64>,
    },
}
