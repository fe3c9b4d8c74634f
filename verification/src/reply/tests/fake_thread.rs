//! In-memory Slack thread with fault injection.

use crate::slack::fake::{FakeReply, RecordedRequest};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// A message in the thread.
#[derive(Clone, Debug, Default)]
pub(in crate::reply) struct FakeThreadMessage {
    pub(in crate::reply) ts: String,
    pub(in crate::reply) text: String,
    pub(in crate::reply) is_streaming: bool,
    pub(in crate::reply) metadata: Option<Value>,
    pub(in crate::reply) blocks: Vec<Value>,
    pub(in crate::reply) file: Option<String>,
}

impl FakeThreadMessage {
    pub(in crate::reply) fn has_block(&self, kind: &str) -> bool {
        self.blocks.iter().any(|block| block["type"] == kind)
    }
}

/// Fault injected into the next call of a method.
#[derive(Clone, Copy, Debug)]
pub(in crate::reply) enum SlackFault {
    /// Slack returns this error code and does nothing.
    ErrorCode(&'static str),
    /// Slack returns this error code while the request has blocks.
    ErrorCodeForBlocks(&'static str),
    /// Slack returns 429 with this delay.
    RateLimited(u64),
    /// Not executed; Slack returns 500.
    ServerError,
    /// Executed; the response is lost.
    ResponseLost,
    /// Executed; the response is a redirect.
    Redirect,
    /// Executed; the response is larger than the limit.
    OversizedResponse,
    /// Executed; the response is delayed until it is released.
    DelayedResponse,
    /// Executed; Slack never responds.
    HangsAfter,
    /// Not executed; Slack never responds.
    HangsBefore,
}

/// State of one question's thread in Slack.
#[derive(Default)]
pub(in crate::reply) struct FakeThread {
    pub(in crate::reply) messages: Vec<FakeThreadMessage>,
    pub(in crate::reply) reactions: BTreeSet<String>,
    pub(in crate::reply) ephemerals: Vec<BTreeMap<String, String>>,
    pub(in crate::reply) statuses: Vec<String>,
    uploads: BTreeMap<String, Vec<u8>>,
    pub(in crate::reply) calls: Vec<String>,
    pub(in crate::reply) faults: Vec<(&'static str, SlackFault)>,
    /// Index of the mutating call that fails, and the fault.
    pub(in crate::reply) fault_at: Option<(usize, SlackFault)>,
    /// Maximum message length that is accepted.
    pub(in crate::reply) max_message_len: Option<usize>,
    mutations: usize,
    /// Releases a delayed response.
    pub(in crate::reply) release: Arc<Notify>,
    pub(super) request_hung: Arc<Notify>,
    pub(super) call_count: watch::Sender<usize>,
}

/// Read-only methods, which are not counted as mutating calls.
const READ_ONLY_METHODS: &[&str] = &["auth.test", "conversations.replies"];

impl FakeThread {
    pub(in crate::reply) fn texts(&self) -> Vec<String> {
        let texts = self.messages.iter().filter(|one| one.file.is_none());
        texts.map(|one| one.text.clone()).collect()
    }

    pub(in crate::reply) fn file_count(&self) -> usize {
        self.messages
            .iter()
            .filter(|one| one.file.is_some())
            .count()
    }

    pub(in crate::reply) fn count(&self, method: &str) -> usize {
        self.calls.iter().filter(|call| *call == method).count()
    }

    /// Number of mutating calls.
    pub(in crate::reply) fn mutation_count(&self) -> usize {
        self.mutations
    }

    fn take_fault(&mut self, method: &str) -> Option<SlackFault> {
        if !READ_ONLY_METHODS.contains(&method) {
            self.mutations += 1;
        }
        if let Some((at, fault)) = self.fault_at
            && at == self.mutations
            && !READ_ONLY_METHODS.contains(&method)
        {
            self.fault_at = None;
            return Some(fault);
        }
        let found = self.faults.iter().position(|(name, _)| *name == method)?;
        Some(self.faults.remove(found).1)
    }

    pub(super) fn handle(&mut self, request: &RecordedRequest, origin: &str) -> FakeReply {
        let form = request.form();
        let method = request.method().to_owned();
        let upload = request.uri.path().starts_with("/upload/");
        let name = if upload { "upload" } else { method.as_str() };
        self.calls.push(name.to_owned());
        match self.take_fault(name) {
            Some(SlackFault::ErrorCode(code)) => return FakeReply::error(code),
            Some(SlackFault::ErrorCodeForBlocks(code)) if form.contains_key("blocks") => {
                self.faults
                    .push(("chat.postMessage", SlackFault::ErrorCodeForBlocks(code)));
                return FakeReply::error(code);
            }
            Some(SlackFault::RateLimited(after)) => {
                let after = after.to_string();
                return FakeReply::status(429, &[("retry-after", &after)], "");
            }
            Some(SlackFault::ResponseLost) => {
                // Error responses may be lost too.
                let _ = self.apply(name, &form, request, origin);
                return FakeReply::status(500, &[], "");
            }
            Some(SlackFault::ServerError) => return FakeReply::status(500, &[], ""),
            Some(SlackFault::Redirect) => {
                let _ = self.apply(name, &form, request, origin);
                let elsewhere = format!("{origin}/elsewhere/{name}");
                return FakeReply::status(307, &[("location", elsewhere.as_str())], "");
            }
            Some(SlackFault::OversizedResponse) => {
                let _ = self.apply(name, &form, request, origin);
                return FakeReply::status(200, &[], vec![b' '; (1 << 20) + 1]);
            }
            Some(SlackFault::DelayedResponse) => {
                let result = self.apply(name, &form, request, origin);
                let reply = result.map_or_else(FakeReply::error, FakeReply::Json);
                return FakeReply::Delayed(Box::new(reply), Arc::clone(&self.release));
            }
            Some(SlackFault::HangsAfter) => {
                // Error responses may be lost too.
                let _ = self.apply(name, &form, request, origin);
                self.request_hung.notify_one();
                return FakeReply::NoResponse;
            }
            Some(SlackFault::HangsBefore) => {
                self.request_hung.notify_one();
                return FakeReply::NoResponse;
            }
            Some(SlackFault::ErrorCodeForBlocks(_)) | None => {}
        }
        match self.apply(name, &form, request, origin) {
            Ok(value) => FakeReply::Json(value),
            Err(code) => FakeReply::error(code),
        }
    }

    fn next_ts(&self) -> String {
        format!("2000.{:06}", self.messages.len() + 1)
    }

    fn message(&mut self, ts: &str) -> Result<&mut FakeThreadMessage, &'static str> {
        let found = self.messages.iter_mut().find(|one| one.ts == ts);
        found.ok_or("message_not_found")
    }

    fn apply(
        &mut self,
        method: &str,
        form: &BTreeMap<String, String>,
        request: &RecordedRequest,
        origin: &str,
    ) -> Result<Value, &'static str> {
        let json = |name: &str| -> Option<Value> {
            form.get(name)
                .map(|text| serde_json::from_str(text).unwrap())
        };
        let blocks = || match json("blocks") {
            Some(Value::Array(blocks)) => blocks,
            _ => Vec::new(),
        };
        // The displayed text: the Markdown block, or the text field if there are no blocks.
        let displayed_text = || {
            let blocks = blocks();
            let markdown = blocks.iter().find(|block| block["type"] == "markdown");
            markdown.map_or_else(
                || form.get("text").cloned().unwrap_or_default(),
                |block| block["text"].as_str().unwrap().to_owned(),
            )
        };
        let markdown_text = form.get("markdown_text").cloned().unwrap_or_default();
        Ok(match method {
            "auth.test" => json!({
                "ok": true, "team_id": "T1", "user_id": "UBOT", "bot_id": "B1", "app_id": "A1",
                "url": "https://x.slack.com/", "team": "x", "user": "bot",
            }),
            "chat.postMessage" | "chat.update"
                if self
                    .max_message_len
                    .is_some_and(|max| displayed_text().len() > max) =>
            {
                return Err("msg_too_long");
            }
            "chat.postMessage" => {
                let ts = self.next_ts();
                self.messages.push(FakeThreadMessage {
                    ts: ts.clone(),
                    text: displayed_text(),
                    metadata: json("metadata"),
                    blocks: blocks(),
                    ..FakeThreadMessage::default()
                });
                json!({"ok": true, "ts": ts})
            }
            "chat.update" => {
                let (text, blocks) = (displayed_text(), blocks());
                let message = self.message(&form["ts"])?;
                if message.is_streaming {
                    return Err("streaming_state_conflict");
                }
                message.text = text;
                message.blocks = blocks;
                message.metadata = json("metadata").or(message.metadata.take());
                json!({"ok": true})
            }
            "chat.startStream" => {
                let ts = self.next_ts();
                self.messages.push(FakeThreadMessage {
                    ts: ts.clone(),
                    text: markdown_text,
                    is_streaming: true,
                    ..FakeThreadMessage::default()
                });
                json!({"ok": true, "ts": ts})
            }
            "chat.appendStream" | "chat.stopStream" => {
                let (blocks, metadata) = (blocks(), json("metadata"));
                let message = self.message(&form["ts"])?;
                if !message.is_streaming {
                    return Err("message_not_in_streaming_state");
                }
                message.text.push_str(&markdown_text);
                if method == "chat.stopStream" {
                    message.is_streaming = false;
                    message.blocks = blocks;
                    message.metadata = metadata;
                }
                json!({"ok": true})
            }
            "conversations.replies" => {
                let messages: Vec<Value> = self.messages.iter().map(reply_json).collect();
                json!({"ok": true, "messages": messages})
            }
            "files.getUploadURLExternal" => {
                let id = format!("F{}", self.uploads.len() + 1);
                self.uploads.insert(id.clone(), Vec::new());
                let url = format!("{origin}/upload/{id}");
                json!({"ok": true, "upload_url": url, "file_id": id})
            }
            "upload" => {
                let id = request.method().to_owned();
                self.uploads.insert(id, request.body.to_vec());
                json!({"ok": true})
            }
            "files.completeUploadExternal" => {
                let id = json("files").unwrap()[0]["id"].as_str().unwrap().to_owned();
                let bytes = self.uploads.remove(&id).ok_or("file_not_found")?;
                self.messages.push(FakeThreadMessage {
                    ts: self.next_ts(),
                    text: String::from_utf8(bytes).unwrap(),
                    file: Some(id),
                    ..FakeThreadMessage::default()
                });
                json!({"ok": true})
            }
            "reactions.add" => {
                let inserted = self.reactions.insert(form["name"].clone());
                inserted
                    .then(|| json!({"ok": true}))
                    .ok_or("already_reacted")?
            }
            "reactions.remove" => {
                let removed = self.reactions.remove(&form["name"]);
                removed.then(|| json!({"ok": true})).ok_or("no_reaction")?
            }
            "chat.postEphemeral" => {
                self.ephemerals.push(form.clone());
                json!({"ok": true, "message_ts": "1.1"})
            }
            "assistant.threads.setStatus" => {
                self.statuses.push(form["status"].clone());
                json!({"ok": true})
            }
            _ => return Err("unknown_method"),
        })
    }
}

fn reply_json(message: &FakeThreadMessage) -> Value {
    let files: Vec<Value> = message.file.iter().map(|id| json!({"id": id})).collect();
    json!({
        "ts": message.ts, "bot_id": "B1", "user": "UBOT", "text": message.text,
        "metadata": message.metadata, "files": files,
    })
}
