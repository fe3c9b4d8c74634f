//! A thread of Slack's in memory, with faults on request.

use crate::slack::fake::{Reply, Seen};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// A message in the thread.
#[derive(Clone, Debug, Default)]
pub(in crate::reply) struct Posted {
    pub(in crate::reply) ts: String,
    pub(in crate::reply) text: String,
    pub(in crate::reply) streams: bool,
    pub(in crate::reply) metadata: Option<Value>,
    pub(in crate::reply) blocks: Vec<Value>,
    pub(in crate::reply) file: Option<String>,
}

impl Posted {
    pub(in crate::reply) fn has(&self, kind: &str) -> bool {
        self.blocks.iter().any(|block| block["type"] == kind)
    }
}

/// What goes wrong with the next call of a method.
#[derive(Clone, Copy, Debug)]
pub(in crate::reply) enum Fault {
    /// Slack says this word and does nothing.
    Word(&'static str),
    /// Slack says this word as long as there are blocks.
    WordForBlocks(&'static str),
    /// Too many calls.
    Limited(u64),
    /// It is not done, and Slack has other troubles.
    Broken,
    /// It is done, and the answer is lost.
    Lost,
    /// It is done, and the answer points elsewhere.
    SentOn,
    /// It is done, and the answer has no end.
    Endless,
    /// It is done, and the answer is on its way until it is let go.
    Held,
    /// It is done, and then nobody answers any more.
    HangsAfter,
    /// It is not done, and nobody answers any more.
    HangsBefore,
}

/// A thread of one question, as Slack has it.
#[derive(Default)]
pub(in crate::reply) struct World {
    pub(in crate::reply) messages: Vec<Posted>,
    pub(in crate::reply) reactions: BTreeSet<String>,
    pub(in crate::reply) told: Vec<BTreeMap<String, String>>,
    pub(in crate::reply) statuses: Vec<String>,
    uploads: BTreeMap<String, Vec<u8>>,
    pub(in crate::reply) calls: Vec<String>,
    pub(in crate::reply) faults: Vec<(&'static str, Fault)>,
    /// Which call, of all that change something, goes wrong, and how.
    pub(in crate::reply) fault_at: Option<(usize, Fault)>,
    /// The longest message that is taken.
    pub(in crate::reply) longest: Option<usize>,
    changes: usize,
    /// Lets an answer go that is held.
    pub(in crate::reply) go: Arc<Notify>,
    pub(super) hung: Arc<Notify>,
    pub(super) heard: watch::Sender<usize>,
}

/// What only looks is not counted among what can go wrong at a step.
const LOOKS: &[&str] = &["auth.test", "conversations.replies"];

impl World {
    pub(in crate::reply) fn texts(&self) -> Vec<String> {
        let said = self.messages.iter().filter(|one| one.file.is_none());
        said.map(|one| one.text.clone()).collect()
    }

    pub(in crate::reply) fn files(&self) -> usize {
        self.messages
            .iter()
            .filter(|one| one.file.is_some())
            .count()
    }

    pub(in crate::reply) fn count(&self, method: &str) -> usize {
        self.calls.iter().filter(|call| *call == method).count()
    }

    /// How many calls changed something.
    pub(in crate::reply) fn steps(&self) -> usize {
        self.changes
    }

    fn fault(&mut self, method: &str) -> Option<Fault> {
        if !LOOKS.contains(&method) {
            self.changes += 1;
        }
        if let Some((at, fault)) = self.fault_at
            && at == self.changes
            && !LOOKS.contains(&method)
        {
            self.fault_at = None;
            return Some(fault);
        }
        let found = self.faults.iter().position(|(of, _)| *of == method)?;
        Some(self.faults.remove(found).1)
    }

    pub(super) fn answer(&mut self, seen: &Seen, origin: &str) -> Reply {
        let form = seen.form();
        let method = seen.method().to_owned();
        let upload = seen.uri.path().starts_with("/upload/");
        let name = if upload { "upload" } else { method.as_str() };
        self.calls.push(name.to_owned());
        match self.fault(name) {
            Some(Fault::Word(word)) => return Reply::said(word),
            Some(Fault::WordForBlocks(word)) if form.contains_key("blocks") => {
                self.faults
                    .push(("chat.postMessage", Fault::WordForBlocks(word)));
                return Reply::said(word);
            }
            Some(Fault::Limited(after)) => {
                let after = after.to_string();
                return Reply::status(429, &[("retry-after", &after)], "");
            }
            Some(Fault::Lost) => {
                // Even a refusal may be lost.
                let _ = self.act(name, &form, seen, origin);
                return Reply::status(500, &[], "");
            }
            Some(Fault::Broken) => return Reply::status(500, &[], ""),
            Some(Fault::SentOn) => {
                let _ = self.act(name, &form, seen, origin);
                let elsewhere = format!("{origin}/elsewhere/{name}");
                return Reply::status(307, &[("location", elsewhere.as_str())], "");
            }
            Some(Fault::Endless) => {
                let _ = self.act(name, &form, seen, origin);
                return Reply::status(200, &[], vec![b' '; (1 << 20) + 1]);
            }
            Some(Fault::Held) => {
                let done = self.act(name, &form, seen, origin);
                let reply = done.map_or_else(Reply::said, Reply::Json);
                return Reply::Held(Box::new(reply), Arc::clone(&self.go));
            }
            Some(Fault::HangsAfter) => {
                // Even a refusal may be lost.
                let _ = self.act(name, &form, seen, origin);
                self.hung.notify_one();
                return Reply::Never;
            }
            Some(Fault::HangsBefore) => {
                self.hung.notify_one();
                return Reply::Never;
            }
            Some(Fault::WordForBlocks(_)) | None => {}
        }
        match self.act(name, &form, seen, origin) {
            Ok(value) => Reply::Json(value),
            Err(word) => Reply::said(word),
        }
    }

    fn next_ts(&self) -> String {
        format!("2000.{:06}", self.messages.len() + 1)
    }

    fn message(&mut self, ts: &str) -> Result<&mut Posted, &'static str> {
        let found = self.messages.iter_mut().find(|one| one.ts == ts);
        found.ok_or("message_not_found")
    }

    fn act(
        &mut self,
        method: &str,
        form: &BTreeMap<String, String>,
        seen: &Seen,
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
        // What the message shows: its Markdown, or without blocks its text.
        let shown = || {
            let blocks = blocks();
            let markdown = blocks.iter().find(|block| block["type"] == "markdown");
            markdown.map_or_else(
                || form.get("text").cloned().unwrap_or_default(),
                |block| block["text"].as_str().unwrap().to_owned(),
            )
        };
        let more = form.get("markdown_text").cloned().unwrap_or_default();
        Ok(match method {
            "auth.test" => json!({
                "ok": true, "team_id": "T1", "user_id": "UBOT", "bot_id": "B1", "app_id": "A1",
                "url": "https://x.slack.com/", "team": "x", "user": "bot",
            }),
            "chat.postMessage" | "chat.update"
                if self.longest.is_some_and(|most| shown().len() > most) =>
            {
                return Err("msg_too_long");
            }
            "chat.postMessage" => {
                let ts = self.next_ts();
                self.messages.push(Posted {
                    ts: ts.clone(),
                    text: shown(),
                    metadata: json("metadata"),
                    blocks: blocks(),
                    ..Posted::default()
                });
                json!({"ok": true, "ts": ts})
            }
            "chat.update" => {
                let (text, blocks) = (shown(), blocks());
                let message = self.message(&form["ts"])?;
                if message.streams {
                    return Err("streaming_state_conflict");
                }
                message.text = text;
                message.blocks = blocks;
                message.metadata = json("metadata").or(message.metadata.take());
                json!({"ok": true})
            }
            "chat.startStream" => {
                let ts = self.next_ts();
                self.messages.push(Posted {
                    ts: ts.clone(),
                    text: more,
                    streams: true,
                    ..Posted::default()
                });
                json!({"ok": true, "ts": ts})
            }
            "chat.appendStream" | "chat.stopStream" => {
                let (blocks, metadata) = (blocks(), json("metadata"));
                let message = self.message(&form["ts"])?;
                if !message.streams {
                    return Err("message_not_in_streaming_state");
                }
                message.text.push_str(&more);
                if method == "chat.stopStream" {
                    message.streams = false;
                    message.blocks = blocks;
                    message.metadata = metadata;
                }
                json!({"ok": true})
            }
            "conversations.replies" => {
                let messages: Vec<Value> = self.messages.iter().map(as_reply).collect();
                json!({"ok": true, "messages": messages})
            }
            "files.getUploadURLExternal" => {
                let id = format!("F{}", self.uploads.len() + 1);
                self.uploads.insert(id.clone(), Vec::new());
                let url = format!("{origin}/upload/{id}");
                json!({"ok": true, "upload_url": url, "file_id": id})
            }
            "upload" => {
                let id = seen.method().to_owned();
                self.uploads.insert(id, seen.body.to_vec());
                json!({"ok": true})
            }
            "files.completeUploadExternal" => {
                let id = json("files").unwrap()[0]["id"].as_str().unwrap().to_owned();
                let bytes = self.uploads.remove(&id).ok_or("file_not_found")?;
                self.messages.push(Posted {
                    ts: self.next_ts(),
                    text: String::from_utf8(bytes).unwrap(),
                    file: Some(id),
                    ..Posted::default()
                });
                json!({"ok": true})
            }
            "reactions.add" => {
                let new = self.reactions.insert(form["name"].clone());
                new.then(|| json!({"ok": true})).ok_or("already_reacted")?
            }
            "reactions.remove" => {
                let gone = self.reactions.remove(&form["name"]);
                gone.then(|| json!({"ok": true})).ok_or("no_reaction")?
            }
            "chat.postEphemeral" => {
                self.told.push(form.clone());
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

fn as_reply(message: &Posted) -> Value {
    let files: Vec<Value> = message.file.iter().map(|id| json!({"id": id})).collect();
    json!({
        "ts": message.ts, "bot_id": "B1", "user": "UBOT", "text": message.text,
        "metadata": message.metadata, "files": files,
    })
}
