//! Passing on what the peer says and makes, each piece once.

use super::super::refused;
use interzone_hub::{AgentError, Output, Turn};
use interzone_protocol::vocab::{Artifact, Message, Part, Role};
use std::collections::HashSet;

/// What was passed on in this turn.
pub(super) struct Passing<'o> {
    output: &'o dyn Output,
    /// How many bytes of the answer.
    told: u64,
    /// Which artifacts.
    made: HashSet<String>,
    /// Which of them have grown since.
    grown: HashSet<String>,
}

impl<'o> Passing<'o> {
    pub(super) fn new(output: &'o dyn Output) -> Self {
        Self {
            output,
            told: 0,
            made: HashSet::new(),
            grown: HashSet::new(),
        }
    }

    /// Passes on a piece of the answer that begins so many bytes into it. A peer that begins its answer
    /// anew is heard again from where it was; what was said cannot be taken back, and the whole answer
    /// comes at the end.
    pub(super) async fn text_at(&mut self, offset: u64, delta: &str) -> Result<(), AgentError> {
        let length = u64::try_from(delta.len()).unwrap_or(u64::MAX);
        let end = offset.saturating_add(length);
        if end <= self.told {
            return Ok(());
        }
        let known = usize::try_from(self.told.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.told = end;
        // A peer whose second answer differs may cut a character in two here.
        let new = (known..=delta.len()).find_map(|from| delta.get(from..));
        match new.filter(|new| !new.is_empty()) {
            Some(new) => self.output.text(new).await.map_err(refused),
            None => Ok(()),
        }
    }

    pub(super) async fn text(&mut self, delta: &str) -> Result<(), AgentError> {
        self.text_at(self.told, delta).await
    }

    pub(super) async fn status(&self, line: &str) -> Result<(), AgentError> {
        self.output.status(line).await.map_err(refused)
    }

    /// Passes on an artifact, or what is there of it. More of one that was passed on waits until all of
    /// it is there.
    pub(super) async fn artifact(&mut self, artifact: Artifact) -> Result<(), AgentError> {
        let id = artifact.artifact_id().to_string();
        if self.made.contains(&id) {
            self.grown.insert(id);
            return Ok(());
        }
        self.made.insert(id);
        let put = self.output.artifact(artifact, false, true);
        put.await.map_err(refused)
    }

    /// Passes on an artifact as it is at the end, unless that is how it was passed on.
    pub(super) async fn whole(&mut self, artifact: Artifact) -> Result<(), AgentError> {
        let id = artifact.artifact_id().to_string();
        if !self.made.insert(id.clone()) && !self.grown.remove(&id) {
            return Ok(());
        }
        let put = self.output.artifact(artifact, false, true);
        put.await.map_err(refused)
    }

    /// How many artifacts were passed on.
    pub(super) fn count(&self) -> usize {
        self.made.len()
    }

    /// Whether anything but words was passed on.
    pub(super) fn made_something(&self) -> bool {
        !self.made.is_empty()
    }
}

/// What was said since the question at `asked`, or else since an agent last spoke, and what was said
/// before. What a thread said before the task began is context, and was not said to us.
pub(super) fn since(
    turn: &Turn,
    asked: Option<usize>,
    from_thread: bool,
) -> (Vec<&Message>, &[Message]) {
    let history = &turn.history;
    let spoken = || {
        history
            .iter()
            .rposition(|message| message.role() == Role::Agent)
    };
    let from = match asked {
        Some(asked) => asked + 1,
        None if from_thread => history.len(),
        None => spoken().map_or(0, |last| last + 1),
    };
    let (before, now) = history.split_at(from.min(history.len()));
    (now.iter().chain([&turn.message]).collect(), before)
}

/// What the peer is told: the parts, and nothing that means something only here. `None` if there is
/// nothing to tell.
pub(super) fn outward(messages: &[&Message]) -> Option<Message> {
    let parts = messages.iter().flat_map(|message| message.parts());
    let parts = parts.map(plain).collect();
    Message::new(Role::User, parts).ok()
}

/// What the peer said, as ours: its ids are its own, its metadata may hold why it failed.
pub(super) fn inward(message: &Message) -> Option<Message> {
    let said = Message::new(Role::Agent, message.parts().to_vec()).ok()?;
    Some(match message.metadata() {
        Some(metadata) => said.with_metadata(metadata.clone()),
        None => said,
    })
}

/// A part without members that were added here, such as where it was fetched from.
fn plain(part: &Part) -> Part {
    let mut plain = Part::new(part.kind());
    if let Some(content) = part.content() {
        plain = plain.with_content(content.clone());
    }
    if let Some(media_type) = part.media_type() {
        plain = plain.with_media_type(media_type);
    }
    if let Some(filename) = part.filename() {
        plain = plain.with_filename(filename);
    }
    if let Some(size) = part.size() {
        plain = plain.with_size(size);
    }
    if let Some(encoding) = part.encoding() {
        plain = plain.with_encoding(encoding);
    }
    plain
}
