//! What Bedrock streams: frames with an event or an exception each.

use super::super::Quota;
use super::super::chat::{Heard, Stop};
use super::super::errors::{Complaint, Misread};
use super::super::wire::Reader;
use super::message::{self, Message};
use bytes::BytesMut;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(super) struct Frames {
    limit: usize,
    buffer: BytesMut,
    stopped: bool,
    over: bool,
}

impl Frames {
    pub(super) fn new(quota: Quota) -> Self {
        Self {
            limit: quota.event_bytes,
            buffer: BytesMut::new(),
            stopped: false,
            over: false,
        }
    }

    /// The next frame, if it is there as a whole.
    fn next(&mut self) -> Result<Option<Message>, Misread> {
        let Some(prelude) = self.buffer.first_chunk() else {
            return Ok(None);
        };
        let damaged = Misread::Broken("a frame is damaged");
        let Some(length) = message::length(prelude) else {
            return Err(damaged);
        };
        if length > self.limit {
            return Err(Misread::Broken("a frame is too large"));
        }
        if self.buffer.len() < length {
            return Ok(None);
        }
        let frame = self.buffer.split_to(length).freeze();
        Message::read(&frame).map(Some).ok_or(damaged)
    }
}

impl Reader for Frames {
    fn push(&mut self, bytes: &[u8], heard: &mut Vec<Heard>) -> Result<(), Misread> {
        self.buffer.extend_from_slice(bytes);
        while let Some(message) = self.next()? {
            let header = |name: &str| message.header(name);
            match header(":message-type") {
                Some("event") => match header(":event-type") {
                    Some("messageStop") => {
                        let stop: MessageStop = payload(&message)?;
                        self.stopped = true;
                        heard.push(Heard::Stop(stop.read()));
                    }
                    Some("metadata") => {
                        let metadata: Metadata = payload(&message)?;
                        self.over = self.stopped;
                        heard.extend(metadata.usage.map(|usage| Heard::Usage {
                            input: usage.input_tokens,
                            output: usage.output_tokens,
                        }));
                    }
                    Some("contentBlockStart") => {
                        heard.push(payload::<BlockStart>(&message)?.read());
                    }
                    Some("contentBlockDelta") => {
                        heard.push(payload::<BlockDelta>(&message)?.read());
                    }
                    // The beginning, ends of blocks, and what is yet to be invented.
                    Some(_) => {}
                    None => return Err(Misread::Broken("a frame has no type")),
                },
                Some("exception" | "error") => {
                    let word = header(":exception-type").or(header(":error-code"));
                    let said = Complaint::read(message.payload());
                    let complaint = Complaint {
                        word: word.unwrap_or_default().to_owned(),
                        text: header(":error-message").map_or(said.text, str::to_owned),
                    };
                    return Err(Misread::Said(complaint));
                }
                _ => return Err(Misread::Broken("a frame has no type")),
            }
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.stopped
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

fn payload<T: DeserializeOwned>(message: &Message) -> Result<T, Misread> {
    serde_json::from_slice(message.payload())
        .map_err(|_| Misread::Broken("an event is not what it should be"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageStop {
    stop_reason: String,
}

impl MessageStop {
    fn read(&self) -> Stop {
        match self.stop_reason.as_str() {
            "end_turn" | "stop_sequence" => Stop::End,
            "tool_use" => Stop::Tools,
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "content_filtered" | "guardrail_intervened" | "refusal" => Stop::Filtered,
            _ => Stop::Other,
        }
    }
}

#[derive(Deserialize)]
struct Metadata {
    usage: Option<Usage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStart {
    content_block_index: u64,
    #[serde(default)]
    start: Option<Start>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    tool_use: Option<ToolStart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolStart {
    tool_use_id: String,
    name: String,
}

impl BlockStart {
    fn read(self) -> Heard {
        match self.start.and_then(|start| start.tool_use) {
            Some(tool) => Heard::Call {
                index: self.content_block_index,
                id: Some(tool.tool_use_id),
                name: tool.name,
            },
            None => Heard::Alive,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockDelta {
    content_block_index: u64,
    delta: Delta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta {
    text: Option<String>,
    tool_use: Option<ToolDelta>,
}

#[derive(Deserialize)]
struct ToolDelta {
    #[serde(default)]
    input: String,
}

impl BlockDelta {
    fn read(self) -> Heard {
        match (self.delta.text, self.delta.tool_use) {
            (Some(text), _) => Heard::Text(text),
            (None, Some(tool)) => Heard::Arguments {
                index: self.content_block_index,
                piece: tool.input,
            },
            (None, None) => Heard::Alive,
        }
    }
}
