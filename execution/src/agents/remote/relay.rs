//! Relays the peer's output, each part once.

use super::super::output_error;
use interzone_hub::{AgentError, Turn, TurnOutput};
use interzone_protocol::vocab::{Artifact, Message, Part, Role};
use std::collections::HashSet;

/// Relay of one turn, with what was already relayed.
pub(super) struct OutputRelay<'o> {
    output: &'o dyn TurnOutput,
    /// Number of relayed bytes of the answer.
    text_bytes: u64,
    /// Relayed artifacts.
    relayed: HashSet<String>,
    /// Relayed artifacts that have changed since.
    changed: HashSet<String>,
}

impl<'o> OutputRelay<'o> {
    pub(super) fn new(output: &'o dyn TurnOutput) -> Self {
        Self {
            output,
            text_bytes: 0,
            relayed: HashSet::new(),
            changed: HashSet::new(),
        }
    }

    /// Relays text that starts at this byte offset of the answer. If the peer restarts its answer, only text beyond
    /// what was relayed is forwarded; relayed text cannot be withdrawn, and the complete answer follows at the end.
    pub(super) async fn text_at(&mut self, offset: u64, delta: &str) -> Result<(), AgentError> {
        let length = u64::try_from(delta.len()).unwrap_or(u64::MAX);
        let end = offset.saturating_add(length);
        if end <= self.text_bytes {
            return Ok(());
        }
        let overlap = usize::try_from(self.text_bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.text_bytes = end;
        // If the peer's second answer differs, the offset may be within a character.
        let new = (overlap..=delta.len()).find_map(|from| delta.get(from..));
        match new.filter(|new| !new.is_empty()) {
            Some(new) => self.output.text(new).await.map_err(output_error),
            None => Ok(()),
        }
    }

    pub(super) async fn text(&mut self, delta: &str) -> Result<(), AgentError> {
        self.text_at(self.text_bytes, delta).await
    }

    pub(super) async fn status(&self, line: &str) -> Result<(), AgentError> {
        self.output.status(line).await.map_err(output_error)
    }

    /// Relays an artifact, or the part of it that exists. Additions to a relayed artifact wait until it is complete.
    pub(super) async fn artifact(&mut self, artifact: Artifact) -> Result<(), AgentError> {
        let id = artifact.artifact_id().to_string();
        if self.relayed.contains(&id) {
            self.changed.insert(id);
            return Ok(());
        }
        self.relayed.insert(id);
        let write = self.output.artifact(artifact, false, true);
        write.await.map_err(output_error)
    }

    /// Relays the final state of an artifact, unless that was already relayed.
    pub(super) async fn final_artifact(&mut self, artifact: Artifact) -> Result<(), AgentError> {
        let id = artifact.artifact_id().to_string();
        if !self.relayed.insert(id.clone()) && !self.changed.remove(&id) {
            return Ok(());
        }
        let write = self.output.artifact(artifact, false, true);
        write.await.map_err(output_error)
    }

    /// Returns the number of relayed artifacts.
    pub(super) fn artifact_count(&self) -> usize {
        self.relayed.len()
    }

    /// Returns true if any artifact was relayed.
    pub(super) fn has_artifacts(&self) -> bool {
        !self.relayed.is_empty()
    }
}

/// Returns the messages since the question, or else since the last agent message, and the messages before them.
/// Messages of a thread before the task began are context, not addressed to this agent.
pub(super) fn split_new_messages(
    turn: &Turn,
    question_index: Option<usize>,
    from_thread: bool,
) -> (Vec<&Message>, &[Message]) {
    let history = &turn.history;
    let last_agent_message = || history.iter().rposition(Message::is_agent_output);
    let from = match question_index {
        Some(asked) => asked + 1,
        None if from_thread => history.len(),
        None => last_agent_message().map_or(0, |last| last + 1),
    };
    let (before, new) = history.split_at(from.min(history.len()));
    (new.iter().chain([&turn.message]).collect(), before)
}

/// Builds the message for the peer from the parts, without metadata that only applies here. Returns `None` if there is
/// nothing to send.
pub(super) fn to_peer(messages: &[&Message]) -> Option<Message> {
    let parts = messages.iter().flat_map(|message| message.parts());
    let parts = parts.map(without_local_fields).collect();
    Message::new(Role::User, parts).ok()
}

/// Converts a message of the peer. Its ids are dropped; its metadata is kept, as it may contain the error code.
pub(super) fn from_peer(message: &Message) -> Option<Message> {
    let converted = Message::new(Role::Agent, message.parts().to_vec()).ok()?;
    Some(match message.metadata() {
        Some(metadata) => converted.with_metadata(metadata.clone()),
        None => converted,
    })
}

/// Copies a part without fields that were added here, such as its download URL.
fn without_local_fields(part: &Part) -> Part {
    let mut copy = Part::new(part.kind());
    if let Some(content) = part.content() {
        copy = copy.with_content(content.clone());
    }
    if let Some(media_type) = part.media_type() {
        copy = copy.with_media_type(media_type);
    }
    if let Some(filename) = part.filename() {
        copy = copy.with_filename(filename);
    }
    if let Some(size) = part.size() {
        copy = copy.with_size(size);
    }
    if let Some(encoding) = part.encoding() {
        copy = copy.with_encoding(encoding);
    }
    copy
}
