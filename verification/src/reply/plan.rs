//! What came of a question, as entries for the outbox: pure, and the same however often it is made. The
//! keys do not depend on what the live reply has left, so that a second plan for a question adds nothing
//! to the first.

use super::effect::{Act, Effect, Ending, Left, POSTS, Place, Standing};
use super::markdown::defuse;
use super::split::{closing, split};
use crate::intake::Stop;
use crate::question::{PlaceKind, Question};
use crate::signs::is_blank;
use crate::slack::ids::UserId;
use crate::texts::{self, Language, LeftOut, Phrase, Refusal};
use interzone_hub::NewEntry;
use interzone_protocol::vocab::{InvalidId, InvalidJson, Json, PrincipalId};
use interzone_protocol::zone::{ArtifactPart, ErrorWord, ExecuteResult, ZoneArtifact};

/// The most characters of a message. Slack takes 12,000 of Markdown.
pub(super) const LONGEST: usize = 11_000;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The workspace cannot be an owner.
    #[error("the workspace's name cannot be used")]
    Owner(#[source] InvalidId),
    /// An entry cannot be written down.
    #[error("an entry for the outbox cannot be written")]
    Payload(#[source] InvalidJson),
}

/// A file that came with a question and that we left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutFile {
    /// What it is called.
    pub name: String,
    /// Why it was left out.
    pub why: LeftOut,
}

/// There is an answer; `notes` are the files that we did not pass on.
///
/// # Errors
/// See [`PlanError`].
pub fn answered(
    question: &Question,
    left: &Left,
    language: Language,
    result: &ExecuteResult,
    notes: &[LeftOutFile],
) -> Result<Vec<NewEntry>, PlanError> {
    let plan = Plan::new(question, language)?;
    let answer = result.response_text.as_deref().unwrap_or_default();
    let mut texts = vec![answer.trim_end().to_owned()];
    let ours = notes.iter();
    texts.extend(ours.map(|note| texts::left_out(language, &note.name, note.why)));
    // What the agent left out it says itself, as a rule.
    let theirs = result.skipped.iter().flatten();
    for skipped in theirs.filter(|skipped| !answer.contains(&skipped.name)) {
        let word = ErrorWord::from_name(&skipped.error_code);
        let why = word.map_or(LeftOut::Unreadable, LeftOut::of);
        texts.push(texts::left_out(language, &skipped.name, why));
    }
    let mut files = Vec::new();
    for (id, name) in generated(result) {
        match &result.task_id {
            Some(task) => files.push(Act::File {
                task: task.clone(),
                artifact: id.to_owned(),
                name: name.to_owned(),
            }),
            // The file is fetched when it is posted, and nobody could be asked for it.
            None => texts.push(texts::file_not_posted(language, name)),
        }
    }
    texts.retain(|text| !is_blank(text));
    if texts.is_empty() && files.is_empty() {
        texts.push(texts::phrase(language, Phrase::NoAnswer).to_owned());
    }
    let mut entries = plan.texts(left, &texts.join("\n\n"), true)?;
    for (number, file) in files.into_iter().enumerate() {
        entries.push(plan.entry(&format!("file/{number}"), file)?);
    }
    entries.push(plan.reaction(Ending::Answered)?);
    Ok(entries)
}

/// There is none, and this is why.
///
/// # Errors
/// See [`PlanError`].
pub fn failed(
    question: &Question,
    left: &Left,
    language: Language,
    word: ErrorWord,
) -> Result<Vec<NewEntry>, PlanError> {
    let why = texts::failure(language, word);
    Plan::new(question, language)?.broken_off(left, why, Ending::Failed)
}

/// It was stopped as asked.
///
/// # Errors
/// See [`PlanError`].
pub fn stopped(
    question: &Question,
    left: &Left,
    language: Language,
) -> Result<Vec<NewEntry>, PlanError> {
    let why = texts::failure(language, ErrorWord::Canceled);
    Plan::new(question, language)?.broken_off(left, why, Ending::Stopped)
}

/// It is not taken, and only who asked is told why.
///
/// # Errors
/// See [`PlanError`].
pub fn refused(
    question: &Question,
    language: Language,
    refusal: &Refusal,
) -> Result<Vec<NewEntry>, PlanError> {
    let tell = Act::Tell {
        user: question.user.clone(),
        text: texts::refusal(language, refusal),
        in_thread: question.in_thread,
        alone: question.place == PlaceKind::Im,
    };
    Ok(vec![Plan::new(question, language)?.entry("refused", tell)?])
}

/// A press of the button that stops an answer came to nothing, and only who pressed it is told why.
///
/// # Errors
/// See [`PlanError`].
pub(crate) fn not_stopped(
    stop: &Stop,
    user: &UserId,
    language: Language,
    why: Phrase,
) -> Result<NewEntry, PlanError> {
    let place = Place {
        team: stop.team.clone(),
        enterprise: stop.enterprise.clone(),
        channel: stop.channel.clone(),
        thread: stop.thread.clone(),
        asked: stop.thread.clone(),
        question: stop.target(),
    };
    let tell = Act::Tell {
        user: user.clone(),
        text: texts::phrase(language, why).to_owned(),
        in_thread: stop.in_thread,
        alone: false,
    };
    let key = format!("{}/{user}", stop.event_id);
    Plan::at(place, language)?.entry(&key, tell)
}

/// The files of a result: their ids and names.
fn generated(result: &ExecuteResult) -> Vec<(&str, &str)> {
    let listed = result.artifacts.iter().flatten();
    let listed = listed.filter(|artifact| artifact.name != ZoneArtifact::RESPONSE);
    let mut files: Vec<(&str, &str)> = listed.filter_map(file).collect();
    if files.is_empty() {
        files.extend(result.file_artifact.as_ref().and_then(file));
    }
    files
}

fn file(artifact: &ZoneArtifact) -> Option<(&str, &str)> {
    artifact.parts.iter().find_map(|part| match part {
        ArtifactPart::File { file_name, .. } => {
            Some((artifact.artifact_id.as_str(), file_name.as_str()))
        }
        ArtifactPart::Text { .. } => None,
    })
}

pub(super) struct Plan {
    place: Place,
    language: Language,
    owner: PrincipalId,
}

impl Plan {
    fn new(question: &Question, language: Language) -> Result<Self, PlanError> {
        Self::at(Place::of(question), language)
    }

    pub(super) fn at(place: Place, language: Language) -> Result<Self, PlanError> {
        let owner = PrincipalId::new(&place.team).map_err(PlanError::Owner)?;
        Ok(Self {
            place,
            language,
            owner,
        })
    }

    pub(super) fn entry(&self, key: &str, act: Act) -> Result<NewEntry, PlanError> {
        let group = match act {
            // Nobody waits for it, and it waits for nobody.
            Act::Tell { .. } => None,
            _ => Some(self.place.group()),
        };
        let effect = Effect {
            place: self.place.clone(),
            language: self.language,
            act,
        };
        Ok(NewEntry {
            channel: POSTS.to_owned(),
            key: format!("{}/{key}", self.place.question),
            group,
            owner: self.owner.clone(),
            subject: None,
            payload: Json::of(&effect).map_err(PlanError::Payload)?,
        })
    }

    fn reaction(&self, ending: Ending) -> Result<NewEntry, PlanError> {
        self.entry("reaction", Act::React { ending })
    }

    /// A text as messages: the first in place of what the live reply has left.
    fn texts(&self, left: &Left, text: &str, answer: bool) -> Result<Vec<NewEntry>, PlanError> {
        let text = defuse(text);
        let mut pieces = split(&text, LONGEST);
        if pieces.is_empty() && left.standing != Standing::Nothing {
            // What was said while it went on is all there is.
            pieces.push(left.said.trim_end().to_owned());
        }
        pieces.retain(|piece| !is_blank(piece));
        let last = pieces.len().saturating_sub(1);
        let acts = pieces.into_iter().enumerate().map(|(number, text)| {
            let feedback = answer && number == last;
            let act = if number == 0 && left.standing != Standing::Nothing {
                let left = left.clone();
                Act::Finish {
                    text,
                    feedback,
                    left,
                }
            } else {
                Act::Post { text, feedback }
            };
            self.entry(&format!("text/{number}"), act)
        });
        acts.collect()
    }

    /// What was said so far stays, and under it stands why there is no more.
    fn broken_off(
        &self,
        left: &Left,
        why: &str,
        ending: Ending,
    ) -> Result<Vec<NewEntry>, PlanError> {
        let said = left.said.trim_end();
        let text = if said.is_empty() {
            why.to_owned()
        } else {
            format!("{said}{}\n\n{why}", closing(said))
        };
        let mut entries = self.texts(left, &text, false)?;
        entries.push(self.reaction(ending)?);
        Ok(entries)
    }
}

#[cfg(test)]
mod tests;
