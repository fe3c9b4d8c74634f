//! What came of a task: nothing yet, a result, or the error that it ended with.

use super::convert::{Asked, artifact_id};
use super::files::{Candidate, Handed, of_artifact, of_message};
use crate::files::Language;
use crate::memory::MemoryAccount;
use crate::rpc::content::Large;
use crate::rpc::errors::{WireError, zone as errors};
use crate::zone::Zone;
use interzone_hub::{Caller, HubError, Packed, Subject, WholeTask, failure_word};
use interzone_hub::{Event, EventBody};
use interzone_protocol::vocab::{Artifact, Message, PartKind, Role, TaskId, TaskState};
use interzone_protocol::zone::{
    ArtifactPart, ErrorWord, ExecuteResult, ExecuteStatus, Skipped, ZoneArtifact,
};

/// How many of the latest messages are looked at: an answer is seldom more than one.
const LATEST: u32 = 16;

/// How many of the latest events are looked at for what an agent is doing.
const LATEST_EVENTS: usize = 64;

/// What came of a task.
pub(super) enum Came {
    Running,
    Done(Box<Done>),
    Failed(Box<WireError>),
}

/// A result, and what is too large to be written into it.
pub(super) struct Done {
    pub(super) result: ExecuteResult,
    pub(super) large: Vec<Large>,
}

/// Looks what came of a task. Without `asked`, what the task keeps of its call is told back.
pub(super) async fn of(
    zone: &Zone,
    caller: &Caller,
    id: &TaskId,
    asked: Option<&Asked>,
    memory: &MemoryAccount,
) -> Result<Came, HubError> {
    let whole = zone.hub.task_packed(caller, id, LATEST, Some(memory));
    told(zone, &*whole.await?, asked, memory).await
}

/// The same of a task that is known as it is.
pub(super) async fn told(
    zone: &Zone,
    whole: &WholeTask,
    asked: Option<&Asked>,
    memory: &MemoryAccount,
) -> Result<Came, HubError> {
    let state = match whole.task.state {
        TaskState::Submitted | TaskState::Working => return Ok(Came::Running),
        TaskState::Completed => None,
        TaskState::InputRequired => Some("input_required"),
        TaskState::AuthRequired => Some("auth_required"),
        TaskState::Failed | TaskState::Rejected | TaskState::Canceled => {
            return Ok(Came::Failed(Box::new(failed(zone, whole, memory).await?)));
        }
    };
    let kept;
    let asked = match asked {
        Some(asked) => asked,
        None => {
            kept = Asked::of(&whole.task);
            &kept
        }
    };
    let done = done(zone, whole, state, asked, memory).await?;
    Ok(Came::Done(Box::new(done)))
}

async fn done(
    zone: &Zone,
    whole: &WholeTask,
    state: Option<&str>,
    asked: &Asked,
    memory: &MemoryAccount,
) -> Result<Done, HubError> {
    let task = whole.task.id.as_str();
    let answers = answers(whole);
    let mut texts = Vec::new();
    let mut skipped = Vec::new();
    for packed in answers {
        let said = whole_message(zone, packed, memory).await?;
        texts.push(said.text());
        let left: Option<Vec<Skipped>> = said.metadata().and_then(|more| more.get("skipped"));
        skipped.extend(left.unwrap_or_default());
    }
    texts.retain(|text| !text.trim().is_empty());
    let language = language(zone, whole, memory).await?;
    // Words that an agent made into an artifact are the answer if there is no other.
    let spoken = !texts.is_empty();
    if !spoken {
        for packed in &whole.artifacts {
            texts.extend(words(zone, packed, memory).await?);
        }
    }
    let mut handed = Handed::default();
    for candidate in files(whole, answers, spoken) {
        handed.add(zone, task, &candidate, language, memory).await?;
    }
    texts.append(&mut handed.left_out);
    if texts.is_empty() && handed.files.is_empty() {
        texts.push(no_answer(language).to_owned());
    }
    let text = texts.join("\n\n");
    let mut artifacts = Vec::new();
    if !handed.files.is_empty() {
        artifacts.push(ZoneArtifact {
            artifact_id: artifact_id(task, &format!("answer {}", whole.task.messages)),
            name: ZoneArtifact::RESPONSE.to_owned(),
            parts: vec![ArtifactPart::Text { text: text.clone() }],
        });
        artifacts.extend(handed.files);
    }
    let result = ExecuteResult {
        state: state.map(str::to_owned),
        response_text: Some(text),
        file_artifact: artifacts.get(1).cloned(),
        artifacts: Some(artifacts).filter(|artifacts| !artifacts.is_empty()),
        skipped: Some(skipped).filter(|skipped| !skipped.is_empty()),
        ..asked.result(ExecuteStatus::Success, task)
    };
    Ok(Done {
        result,
        large: handed.large,
    })
}

/// What the agent said last, oldest first: all since somebody else spoke.
fn answers(whole: &WholeTask) -> &[Packed<Message>] {
    let others = |packed: &Packed<Message>| packed.without_large().role() != Role::Agent;
    let asked = whole.messages.iter().rposition(others);
    let first = asked.map_or(0, |asked| asked + 1);
    whole.messages.get(first..).unwrap_or_default()
}

/// All that may be a file, in the order in which it was made.
fn files<'w>(
    whole: &'w WholeTask,
    answers: &'w [Packed<Message>],
    with_words: bool,
) -> Vec<Candidate<'w>> {
    let made = whole.artifacts.iter();
    let made = made.flat_map(|packed| of_artifact(packed, with_words));
    let said = answers.iter().enumerate();
    let said = said.flat_map(|(place, packed)| of_message(packed, place));
    made.chain(said).collect()
}

async fn whole_message(
    zone: &Zone,
    packed: &Packed<Message>,
    memory: &MemoryAccount,
) -> Result<Message, HubError> {
    // The files in it are not wanted here, and are most of it.
    let text = |part: &interzone_protocol::vocab::Part| part.kind() == PartKind::Text;
    if packed.is_complete() || !packed.without_large().parts().iter().any(text) {
        return Ok(packed.without_large().clone());
    }
    zone.hub
        .unpack_one_within(packed.clone(), Some(memory))
        .await
}

async fn words(
    zone: &Zone,
    packed: &Packed<Artifact>,
    memory: &MemoryAccount,
) -> Result<Vec<String>, HubError> {
    let is_text = |part: &&interzone_protocol::vocab::Part| part.kind() == PartKind::Text;
    if packed
        .without_large()
        .parts()
        .iter()
        .all(|part| !is_text(&part))
    {
        return Ok(Vec::new());
    }
    let artifact = zone.hub.unpack_one_within(packed.clone(), Some(memory));
    let artifact = artifact.await?;
    let texts = artifact.parts().iter().filter(is_text);
    let texts = texts.filter_map(|part| part.as_text().map(|text| text.into_owned()));
    Ok(texts.filter(|text| !text.trim().is_empty()).collect())
}

/// The language in which the user asked.
async fn language(
    zone: &Zone,
    whole: &WholeTask,
    memory: &MemoryAccount,
) -> Result<Language, HubError> {
    let mut others = whole.messages.iter().rev();
    let asked = others.find(|packed| packed.without_large().role() != Role::Agent);
    let Some(asked) = asked else {
        return Ok(Language::of(""));
    };
    // A long question is elsewhere. A short one with large files is not, and they are not wanted here.
    let text = asked.without_large().text();
    if asked.is_complete() || !text.is_empty() {
        return Ok(Language::of(&text));
    }
    let asked = whole_message(zone, asked, memory).await?;
    Ok(Language::of(&asked.text()))
}

fn no_answer(language: Language) -> &'static str {
    match language {
        Language::English => "The agent gave no answer.",
        Language::Japanese => "エージェントからの応答はありませんでした。",
    }
}

/// Why there is no result. What an agent says to the caller is in the history as well; what is said of an
/// agent that broke is not, and is not told on.
async fn failed(
    zone: &Zone,
    whole: &WholeTask,
    memory: &MemoryAccount,
) -> Result<WireError, HubError> {
    let status = whole.task.status.as_ref();
    let last = whole.messages.last().map(Packed::without_large);
    let told = status
        .filter(|status| last.is_some_and(|last| last.parts() == status.without_large().parts()));
    let said = match told {
        Some(told) => Some(whole_message(zone, told, memory).await?.text()),
        None => None,
    };
    let status = status.map(Packed::without_large);
    let error = match whole.task.state {
        TaskState::Canceled => errors::of_word(ErrorWord::Canceled),
        TaskState::Rejected => {
            errors::detailed(errors::of_word(ErrorWord::AgentRejected), said.as_deref())
        }
        _ => {
            let word = status.and_then(failure_word);
            errors::of_failure(word.as_deref(), said.as_deref())
        }
    };
    Ok(error.and("task_id", whole.task.id.as_str()))
}

/// What an agent says that it is doing, if it said so lately.
pub(super) async fn progress(zone: &Zone, id: &TaskId, seq: u64) -> Option<String> {
    let back = u64::try_from(LATEST_EVENTS).unwrap_or(0);
    let subject = Subject::Task(id.clone());
    let after = seq.saturating_sub(back);
    let events = zone.hub.store().events(&subject, after, LATEST_EVENTS);
    let events: Vec<Event> = events.await.ok()?;
    events.into_iter().rev().find_map(|event| match event.body {
        EventBody::Status { text } => Some(text),
        _ => None,
    })
}
