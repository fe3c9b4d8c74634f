//! File uploads, sharing and metadata.

use super::args::Args;
use super::chat::resolve_thread;
use super::{ApiResult, SlackApiError, blocks, writable_channel};
use crate::tokens::TokenHolder;
use crate::workspace::Workspace;
use crate::workspace::files::{PlaygroundFile, mimetype};
use crate::workspace::messages::PlaygroundMessage;
use bytes::Bytes;
use serde_json::{Value, json};

/// Maximum file size at Slack.
const MAX_FILE_BYTES: usize = 1024 * 1024 * 1024;
/// Maximum stored files; the oldest are removed first.
const MAX_FILES: usize = 10_000;

impl Workspace {
    /// Creates a file without bytes.
    pub(crate) fn new_file(
        &mut self,
        name: &str,
        length: usize,
        user: &str,
    ) -> &mut PlaygroundFile {
        let number = self.next_number("file");
        let id = format!("F0PLAY{number:04}");
        let file = PlaygroundFile {
            id: id.clone(),
            name: name.to_owned(),
            title: name.to_owned(),
            mimetype: mimetype(name).to_owned(),
            user: user.to_owned(),
            created: self.clock.unix(),
            length,
            bytes: None,
            shares: Vec::new(),
            is_stub: false,
            is_dropped: false,
            number,
            ticket: format!("{}-{number}", uuid::Uuid::new_v4().simple()),
        };
        if self.files.len() >= MAX_FILES
            && let Some(oldest) = self.oldest_file(|_| true)
        {
            self.files.remove(&oldest);
        }
        self.files.entry(id).or_insert(file)
    }

    fn oldest_file(&self, filter: impl Fn(&PlaygroundFile) -> bool) -> Option<String> {
        let files = self.files.values().filter(|file| filter(file));
        let oldest = files.min_by_key(|file| file.number);
        oldest.map(|file| file.id.clone())
    }

    /// Drops the bytes of the oldest files until `length` more bytes fit.
    fn free_space(&mut self, length: usize) {
        loop {
            let stored = self.files.values().filter_map(|file| file.bytes.as_ref());
            let stored: usize = stored.map(Bytes::len).sum();
            if stored.saturating_add(length) <= self.max_file_bytes {
                return;
            }
            let oldest = self.oldest_file(|file| file.bytes.is_some());
            let Some(file) = oldest.and_then(|id| self.files.get_mut(&id)) else {
                return;
            };
            file.bytes = None;
            file.is_dropped = true;
        }
    }

    /// Stores the bytes of a file if their number is as announced. Drops the oldest files if needed.
    pub(crate) fn upload(
        &mut self,
        id: &str,
        ticket: &str,
        bytes: Bytes,
    ) -> Result<(), &'static str> {
        let file = self.files.get_mut(id).filter(|file| file.ticket == ticket);
        let file = file.ok_or("no such upload")?;
        if file.length != bytes.len() {
            return Err("length mismatch");
        }
        if bytes.len() > self.max_file_bytes {
            return Err("the file is larger than all files of this workspace may be together");
        }
        // A repeated upload replaces the first.
        file.bytes = None;
        self.free_space(bytes.len());
        if let Some(file) = self.files.get_mut(id) {
            file.bytes = Some(bytes);
            file.is_dropped = false;
        }
        Ok(())
    }

    /// Shares files in a message.
    pub(crate) fn share(
        &mut self,
        ids: &[String],
        mut message: PlaygroundMessage,
    ) -> PlaygroundMessage {
        message.files = ids.to_vec();
        message.subtype = Some("file_share");
        for id in ids {
            if let Some(file) = self.files.get_mut(id) {
                file.shares.push((
                    message.channel.clone(),
                    message.ts.clone(),
                    message.thread_ts.clone(),
                ));
            }
        }
        self.insert_message(message.clone());
        self.emit_message_event(&message);
        message
    }
}

pub(super) fn upload_url(
    workspace: &mut Workspace,
    caller: &TokenHolder,
    args: &Args,
) -> ApiResult {
    caller.require_scope("files:write")?;
    let name = args.required("filename")?.to_owned();
    let length = args.number("length").filter(|length| *length > 0);
    let length = length.ok_or(SlackApiError::with_detail(
        "invalid_arguments",
        "missing required field: length",
    ))?;
    if length > MAX_FILE_BYTES {
        return Err(SlackApiError::new("file_too_large"));
    }
    let (base, user) = (workspace.base_url.clone(), workspace.bot_user.clone());
    let file = workspace.new_file(&name, length, &user);
    let url = format!("{base}/upload/v1/{}/{}", file.id, file.ticket);
    Ok(json!({"upload_url": url, "file_id": file.id}))
}

pub(super) fn complete(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("files:write")?;
    let listed = args.json("files", "invalid_arguments")?;
    let listed = match listed {
        Some(Value::Array(listed)) if !listed.is_empty() => listed,
        _ => {
            return Err(SlackApiError::with_detail(
                "invalid_arguments",
                "missing required field: files",
            ));
        }
    };
    let channel = match args.text("channel_id") {
        Some(id) => Some(writable_channel(workspace, id)?.id),
        None => None,
    };
    let thread = match &channel {
        Some(channel) => resolve_thread(workspace, channel, args)?.map(str::to_owned),
        None => None,
    };
    let below = blocks::validate_blocks(args.json("blocks", "invalid_blocks")?)?;
    if below
        .iter()
        .any(|block| block.get("type") == Some(&json!("markdown")))
    {
        return Err(SlackApiError::new("internal_error"));
    }
    let mut ids = Vec::new();
    for item in &listed {
        let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
        let file = workspace.files.get_mut(id);
        let file = file.filter(|file| file.bytes.is_some() && file.shares.is_empty());
        let file = file.ok_or(SlackApiError::new("file_not_found"))?;
        if let Some(title) = item.get("title").and_then(Value::as_str) {
            file.title = title.to_owned();
        }
        ids.push(id.to_owned());
    }
    if let Some(channel) = channel {
        let ts = workspace.next_ts();
        let mut message = PlaygroundMessage::new(&channel, &workspace.bot_user, ts);
        message.thread_ts = thread;
        message.text = args.text("initial_comment").unwrap_or_default().to_owned();
        message.blocks = below;
        workspace.share(&ids, message);
    }
    let shown = ids.iter().filter_map(|id| workspace.files.get(id));
    let shown: Vec<Value> = shown
        .map(|file| file.to_json(&workspace.base_url, &workspace.team))
        .collect();
    Ok(json!({"files": shown}))
}

pub(super) fn info(workspace: &mut Workspace, caller: &TokenHolder, args: &Args) -> ApiResult {
    caller.require_scope("files:read")?;
    let file = args.text("file").and_then(|id| workspace.files.get(id));
    if file.is_some_and(|file| file.is_dropped && can_see(workspace, file)) {
        return Err(SlackApiError::new("file_deleted"));
    }
    let file = file.filter(|file| file.bytes.is_some() && can_see(workspace, file));
    let file = file.ok_or(SlackApiError::new("file_not_found"))?;
    let mut file_json = file.to_json(&workspace.base_url, &workspace.team);
    let mut shares = json!({"public": {}, "private": {}});
    for (channel, ts, thread) in &file.shares {
        let kind = workspace.channels.get(channel).map(|channel| channel.kind);
        let share_list = match kind {
            Some(crate::workspace::channels::ChannelKind::Public) => "public",
            _ => "private",
        };
        let list = shares.get_mut(share_list).and_then(Value::as_object_mut);
        if let Some(list) = list {
            let entry = list.entry(channel.clone()).or_insert_with(|| json!([]));
            if let Some(entry) = entry.as_array_mut() {
                entry.push(json!({"ts": ts, "thread_ts": thread, "reply_count": 0}));
            }
        }
    }
    if let Some(fields) = file_json.as_object_mut() {
        fields.insert("shares".to_owned(), shares);
    }
    Ok(json!({"file": file_json, "comments": [], "response_metadata": {"next_cursor": ""}}))
}

/// Returns true if the bot may see a file: its own, or one shared in its channels.
pub(crate) fn can_see(workspace: &Workspace, file: &PlaygroundFile) -> bool {
    let mut channels = file
        .shares
        .iter()
        .filter_map(|(id, _, _)| workspace.channels.get(id));
    file.user == workspace.bot_user
        || channels.any(|channel| channel.has_member(&workspace.bot_user))
}
