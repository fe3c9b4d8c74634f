//! Outcome of a task in terms of the zone dialect: running, a result, or the error it ended with.

use super::convert::{CallOrigin, artifact_id};
use super::errors;
use super::reply_files::{FileCandidate, ReplyFiles, artifact_files, message_files};
use crate::files::Language;
use crate::memory::MemoryAccount;
use crate::rpc::body::SplicedText;
use crate::rpc::errors::WireError;
use crate::state::ExecutionState;
use interzone_hub::{Caller, HubError, Offloaded, Subject, TaskSnapshot, failure_code};
use interzone_hub::{Event, EventBody};
use interzone_protocol::vocab::{Artifact, Message, PartKind, TaskId, TaskState};
use interzone_protocol::zone::{
    ArtifactPart, ErrorReason, ExecuteResult, ExecuteStatus, SkippedAttachment, ZoneArtifact,
};

/// Number of latest messages that are read: an answer is seldom more than one.
const LATEST_MESSAGES: u32 = 16;

/// Number of latest events that are searched for a status line.
const LATEST_EVENTS: usize = 64;

/// Outcome of a task.
pub(super) enum ZoneOutcome {
    Running,
    Completed(Box<CompletedTask>),
    Failed(Box<WireError>),
}

/// A result with the texts that are spliced in when it is sent.
pub(super) struct CompletedTask {
    pub(super) result: ExecuteResult,
    pub(super) spliced: Vec<SplicedText>,
}

/// Loads the outcome of a task. Without `asked`, the call's origin is read from the task.
pub(super) async fn load_outcome(
    zone: &ExecutionState,
    caller: &Caller,
    id: &TaskId,
    origin: Option<&CallOrigin>,
    memory: &MemoryAccount,
) -> Result<ZoneOutcome, HubError> {
    let snapshot = zone
        .hub
        .task_without_blobs(caller, id, LATEST_MESSAGES, Some(memory));
    outcome_of(zone, &*snapshot.await?, origin, memory).await
}

/// Returns the outcome of a task snapshot.
pub(super) async fn outcome_of(
    zone: &ExecutionState,
    snapshot: &TaskSnapshot,
    origin: Option<&CallOrigin>,
    memory: &MemoryAccount,
) -> Result<ZoneOutcome, HubError> {
    let state = match snapshot.task.state {
        TaskState::Submitted | TaskState::Working => return Ok(ZoneOutcome::Running),
        TaskState::Completed => None,
        TaskState::InputRequired => Some("input_required"),
        TaskState::AuthRequired => Some("auth_required"),
        TaskState::Failed | TaskState::Rejected | TaskState::Canceled => {
            return Ok(ZoneOutcome::Failed(Box::new(
                failure(zone, snapshot, memory).await?,
            )));
        }
    };
    let stored;
    let origin = match origin {
        Some(origin) => origin,
        None => {
            stored = CallOrigin::from_task(&snapshot.task);
            &stored
        }
    };
    let completed_task = completed(zone, snapshot, state, origin, memory).await?;
    Ok(ZoneOutcome::Completed(Box::new(completed_task)))
}

async fn completed(
    zone: &ExecutionState,
    snapshot: &TaskSnapshot,
    state: Option<&str>,
    origin: &CallOrigin,
    memory: &MemoryAccount,
) -> Result<CompletedTask, HubError> {
    let task = snapshot.task.id.as_str();
    let messages = agent_messages(snapshot);
    let mut texts = Vec::new();
    let mut skipped = Vec::new();
    for offloaded in messages {
        let message = load_message(zone, offloaded, memory).await?;
        texts.push(message.text());
        let listed: Option<Vec<SkippedAttachment>> = message
            .metadata()
            .and_then(|metadata| metadata.get("skipped"));
        skipped.extend(listed.unwrap_or_default());
    }
    texts.retain(|text| !text.trim().is_empty());
    let language = language(zone, snapshot, memory).await?;
    // Text artifacts are the answer if there are no messages.
    let has_text = !texts.is_empty();
    if !has_text {
        for offloaded in &snapshot.artifacts {
            texts.extend(artifact_texts(zone, offloaded, memory).await?);
        }
    }
    let mut reply_files = ReplyFiles::default();
    for candidate in file_candidates(snapshot, messages, has_text) {
        reply_files
            .add(zone, task, &candidate, language, memory)
            .await?;
    }
    texts.append(&mut reply_files.skipped);
    if texts.is_empty() && reply_files.files.is_empty() {
        texts.push(no_answer(language).to_owned());
    }
    let text = texts.join("\n\n");
    let mut artifacts = Vec::new();
    if !reply_files.files.is_empty() {
        artifacts.push(ZoneArtifact {
            artifact_id: artifact_id(task, &format!("answer {}", snapshot.task.message_count)),
            name: ZoneArtifact::RESPONSE_NAME.to_owned(),
            parts: vec![ArtifactPart::Text { text: text.clone() }],
        });
        artifacts.extend(reply_files.files);
    }
    let result = ExecuteResult {
        state: state.map(str::to_owned),
        response_text: Some(text),
        file_artifact: artifacts.get(1).cloned(),
        artifacts: Some(artifacts).filter(|artifacts| !artifacts.is_empty()),
        skipped: Some(skipped).filter(|skipped| !skipped.is_empty()),
        ..origin.result(ExecuteStatus::Success, task)
    };
    Ok(CompletedTask {
        result,
        spliced: reply_files.spliced,
    })
}

/// Returns the agent's last messages, oldest first: all since the last message of another role.
fn agent_messages(snapshot: &TaskSnapshot) -> &[Offloaded<Message>] {
    let is_other = |packed: &Offloaded<Message>| !packed.inline().is_agent_output();
    let last_other = snapshot.messages.iter().rposition(is_other);
    let first = last_other.map_or(0, |index| index + 1);
    snapshot.messages.get(first..).unwrap_or_default()
}

/// Returns all parts that may be files, in the order of their creation.
fn file_candidates<'w>(
    snapshot: &'w TaskSnapshot,
    messages: &'w [Offloaded<Message>],
    include_text: bool,
) -> Vec<FileCandidate<'w>> {
    let from_artifacts = snapshot.artifacts.iter();
    let from_artifacts = from_artifacts.flat_map(|packed| artifact_files(packed, include_text));
    let from_messages = messages.iter().enumerate();
    let from_messages = from_messages.flat_map(|(place, packed)| message_files(packed, place));
    from_artifacts.chain(from_messages).collect()
}

async fn load_message(
    zone: &ExecutionState,
    offloaded: &Offloaded<Message>,
    memory: &MemoryAccount,
) -> Result<Message, HubError> {
    // Skips loading the blobs if there is no text part: files are not needed here and are most of the content.
    let is_text = |part: &interzone_protocol::vocab::Part| part.kind() == PartKind::Text;
    if offloaded.is_inline() || !offloaded.inline().parts().iter().any(is_text) {
        return Ok(offloaded.inline().clone());
    }
    zone.hub
        .restore_within(offloaded.clone(), Some(memory))
        .await
}

async fn artifact_texts(
    zone: &ExecutionState,
    offloaded: &Offloaded<Artifact>,
    memory: &MemoryAccount,
) -> Result<Vec<String>, HubError> {
    let is_text = |part: &&interzone_protocol::vocab::Part| part.kind() == PartKind::Text;
    if offloaded
        .inline()
        .parts()
        .iter()
        .all(|part| !is_text(&part))
    {
        return Ok(Vec::new());
    }
    let artifact = zone.hub.restore_within(offloaded.clone(), Some(memory));
    let artifact = artifact.await?;
    let texts = artifact.parts().iter().filter(is_text);
    let texts = texts.filter_map(|part| part.as_text().map(|text| text.into_owned()));
    Ok(texts.filter(|text| !text.trim().is_empty()).collect())
}

/// Detects the language of the user's last message.
async fn language(
    zone: &ExecutionState,
    snapshot: &TaskSnapshot,
    memory: &MemoryAccount,
) -> Result<Language, HubError> {
    let mut messages = snapshot.messages.iter().rev();
    let question = messages.find(|packed| !packed.inline().is_agent_output());
    let Some(question) = question else {
        return Ok(Language::detect(""));
    };
    // A long question is offloaded. A short one with large files has its text inline, and the files are not needed.
    let text = question.inline().text();
    if question.is_inline() || !text.is_empty() {
        return Ok(Language::detect(&text));
    }
    let question = load_message(zone, question, memory).await?;
    Ok(Language::detect(&question.text()))
}

fn no_answer(language: Language) -> &'static str {
    match language {
        Language::English => "The agent gave no answer.",
        Language::Japanese => "エージェントからの応答はありませんでした。",
    }
}

/// Builds the error of a failed task. An agent's own failure message is also in the history; the internal detail
/// of an agent error is not, and is not forwarded.
async fn failure(
    zone: &ExecutionState,
    snapshot: &TaskSnapshot,
    memory: &MemoryAccount,
) -> Result<WireError, HubError> {
    let status = snapshot.task.status_message.as_ref();
    let last = snapshot.messages.last().map(Offloaded::inline);
    let public_status =
        status.filter(|status| last.is_some_and(|last| last.parts() == status.inline().parts()));
    let detail = match public_status {
        Some(status) => Some(load_message(zone, status, memory).await?.text()),
        None => None,
    };
    let status = status.map(Offloaded::inline);
    let error = match snapshot.task.state {
        TaskState::Canceled => errors::from_reason(ErrorReason::Canceled),
        TaskState::Rejected => errors::with_detail(
            errors::from_reason(ErrorReason::AgentRejected),
            detail.as_deref(),
        ),
        _ => {
            let code = status.and_then(failure_code);
            errors::from_agent_failure(code.as_deref(), detail.as_deref())
        }
    };
    Ok(error.with_field("task_id", snapshot.task.id.as_str()))
}

/// Returns the latest status line of an agent, if it is recent.
pub(super) async fn latest_status(zone: &ExecutionState, id: &TaskId, seq: u64) -> Option<String> {
    let window = u64::try_from(LATEST_EVENTS).unwrap_or(0);
    let subject = Subject::Task(id.clone());
    let after = seq.saturating_sub(window);
    let events = zone.hub.store().events(&subject, after, LATEST_EVENTS);
    let events: Vec<Event> = events.await.ok()?;
    events.into_iter().rev().find_map(|event| match event.body {
        EventBody::Status { text } => Some(text),
        _ => None,
    })
}
