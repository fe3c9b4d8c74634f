//! The stream of a chat completion: one chunk an event, until `[DONE]`.

use super::super::Quota;
use super::super::chat::{Heard, Stop};
use super::super::errors::{Details, Misread};
use super::super::sse::Sse;
use super::super::wire::Reader;
use serde::Deserialize;

pub(super) struct Chunks {
    sse: Sse,
    state: State,
}

#[derive(Default)]
struct State {
    stopped: bool,
    done: bool,
    /// The call that was begun last, for servers that do not number them.
    last: Option<u64>,
}

impl Chunks {
    pub(super) fn new(quota: Quota) -> Self {
        Self {
            sse: Sse::new(quota.event_bytes),
            state: State::default(),
        }
    }
}

impl Reader for Chunks {
    fn push(&mut self, bytes: &[u8], heard: &mut Vec<Heard>) -> Result<(), Misread> {
        let state = &mut self.state;
        self.sse.push(bytes, |_, data| state.read(data, heard))
    }

    fn is_whole(&self) -> bool {
        self.state.stopped || self.state.done
    }

    fn is_over(&self) -> bool {
        self.state.done
    }
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    error: Option<Details>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
}

impl State {
    fn read(&mut self, data: &[u8], heard: &mut Vec<Heard>) -> Result<(), Misread> {
        if self.done {
            return Ok(());
        }
        if data.trim_ascii() == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_slice(data)
            .map_err(|_| Misread::Broken("an event is not what it should be"))?;
        if let Some(error) = chunk.error {
            return Err(Misread::Said(error.into_complaint()));
        }
        for choice in chunk.choices.into_iter().flatten().take(1) {
            if let Some(delta) = choice.delta {
                self.delta(delta, heard);
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.stopped = true;
                heard.push(Heard::Stop(match reason.as_str() {
                    "stop" => Stop::End,
                    "tool_calls" | "function_call" => Stop::Tools,
                    "length" => Stop::Length,
                    "content_filter" => Stop::Filtered,
                    _ => Stop::Other,
                }));
            }
        }
        if let Some(usage) = chunk.usage {
            heard.push(Heard::Usage {
                input: usage.prompt_tokens,
                output: usage.completion_tokens,
            });
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta, heard: &mut Vec<Heard>) {
        let said = heard.len();
        if let Some(text) = delta.content.filter(|text| !text.is_empty()) {
            heard.push(Heard::Text(text));
        }
        if let Some(text) = delta.refusal.filter(|text| !text.is_empty()) {
            heard.push(Heard::Refusal(text));
        }
        for call in delta.tool_calls.into_iter().flatten() {
            let function = call.function.unwrap_or(Function {
                name: None,
                arguments: None,
            });
            let begins = function.name.filter(|name| !name.is_empty());
            let index = match (call.index, self.last) {
                (Some(index), _) => index,
                (None, None) => 0,
                (None, Some(last)) if begins.is_some() => last.saturating_add(1),
                (None, Some(last)) => last,
            };
            if let Some(name) = begins
                && self.last != Some(index)
            {
                let id = call.id;
                heard.push(Heard::Call { index, id, name });
            }
            self.last = Some(index);
            if let Some(piece) = function.arguments.filter(|piece| !piece.is_empty()) {
                heard.push(Heard::Arguments { index, piece });
            }
        }
        if heard.len() == said {
            heard.push(Heard::Alive);
        }
    }
}
