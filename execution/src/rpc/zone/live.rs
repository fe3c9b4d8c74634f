//! A call that is answered while it goes on: what happens to its task as notifications, and last the
//! response itself.
//!
//! It is looked at when its connection can take more, and has no queue: whoever reads slowly reads on in
//! the log, and never holds an agent up. How the messages travel is not known here.

use super::came::{self, Came};
use super::convert::{Asked, is_settled};
use super::files::{Handed, of_artifact};
use super::wait::{Waiting, settles};
use super::{Answer, Told};
use crate::files::Language;
use crate::memory::MemoryAccount;
use crate::rpc::content::{Content, Large};
use crate::rpc::errors::{Fault, WireError};
use crate::rpc::record::Line;
use crate::rpc::{Context, Origin};
use crate::zone::Zone;
use interzone_edge::auth::Identity;
use interzone_edge::budget::ShareKey;
use interzone_edge::request::Correlation;
use interzone_hub::{Caller, EventBody, HubError, Seen, Watch};
use interzone_jsonrpc::{MethodName, Notification, RawJson, RequestId, Response};
use interzone_protocol::vocab::{ArtifactId, TaskId};
use interzone_protocol::zone::{ExecuteStatus, Method, PROGRESS, TaskProgress};
use std::sync::Arc;
use std::time::Instant;

/// The status that tells the task, before anything happens to it.
const ACCEPTED: &str = "accepted";
/// The status that says that the text begins anew.
const RESTARTED: &str = "restarted";

/// A call that goes on.
pub(crate) struct Live {
    id: RequestId<'static>,
    task: TaskId,
    caller: Caller,
    asked: Asked,
    watch: Option<Watch>,
    /// How many notifications there were.
    sequence: u64,
    /// The run whose text is being told.
    run: Option<u64>,
    handed: usize,
    /// What is said before anything else happens.
    ahead: Option<Said>,
    record: Recorded,
}

/// What is noted when the call is over.
struct Recorded {
    identity: Arc<Identity>,
    correlation: Correlation,
    began: Instant,
}

/// What is said next.
pub(crate) enum Said {
    /// A notification.
    Note(Content),
    /// The response, after which there is nothing more.
    Last(Content),
    /// Nothing that anybody is told.
    Nothing,
}

impl Said {
    /// The same with the memory that was reserved for it.
    fn with_reservation(self, memory: MemoryAccount) -> Self {
        let reserved = memory.into_reservation();
        match self {
            Self::Note(note) => Self::Note(note.with_reservation(reserved)),
            Self::Last(last) => Self::Last(last.with_reservation(reserved)),
            Self::Nothing => Self::Nothing,
        }
    }
}

impl Live {
    pub(super) async fn begin(
        cx: &Context<'_>,
        mut begun: Waiting,
        after: u64,
        asked: Asked,
        id: &RequestId<'_>,
    ) -> Result<Self, Fault> {
        // Of what has an answer, nothing that happened before is told.
        let watch = if is_settled(begun.task.state) {
            None
        } else {
            Some(begun.watch(cx.zone, cx.caller, after).await?)
        };
        let mut live = Self {
            id: id.clone().into_owned(),
            task: begun.task.id,
            caller: cx.caller.clone(),
            asked,
            watch,
            sequence: 0,
            run: None,
            handed: 0,
            ahead: None,
            record: Recorded {
                identity: Arc::clone(&cx.known.identity),
                correlation: cx.correlation().clone(),
                began: Instant::now(),
            },
        };
        // Whoever wants to call it off needs its name before the agent says anything. Also where the answer is
        // there already, so that a repetition begins as the call itself did.
        live.ahead = Some(live.note(|note| note.status = Some(ACCEPTED.to_owned())));
        Ok(live)
    }

    /// What is said next. It may be dropped while waiting, and called again.
    pub(crate) async fn next(&mut self, zone: &Zone, origin: &Origin) -> Said {
        if let Some(said) = self.ahead.take() {
            return said;
        }
        let seen = match &mut self.watch {
            None => None,
            Some(watch) => match watch.next().await {
                Ok(seen) => seen,
                Err(error) => return self.broken(zone, origin, &error),
            },
        };
        // Boxed: what it takes to say something is large, and most of the time nothing is said.
        match Box::pin(self.said(zone, origin, seen)).await {
            Ok(said) => said,
            Err(error) => self.broken(zone, origin, &error),
        }
    }

    async fn said(
        &mut self,
        zone: &Zone,
        origin: &Origin,
        seen: Option<Seen>,
    ) -> Result<Said, HubError> {
        if seen.as_ref().is_none_or(settles) {
            let asked = Some(&self.asked);
            let memory = self.memory(zone);
            let came = came::of(zone, &self.caller, &self.task, asked, &memory).await?;
            return Ok(match came {
                Came::Running if seen.is_some() => Said::Nothing,
                Came::Running => self.accepted(zone, origin),
                Came::Done(done) => {
                    let told = Told::Execute(Box::new(done.result));
                    let large = done.large;
                    let said = self.done(zone, origin, Answer { told, large }, "ok");
                    said.with_reservation(memory)
                }
                Came::Failed(error) => self.failed(zone, origin, &error),
            });
        }
        Ok(match seen {
            Some(Seen::Text { run, delta, .. }) => self.text(run, &delta),
            Some(Seen::Event(event)) => match &event.body {
                EventBody::Text { run, delta, .. } => self.text(*run, delta),
                EventBody::Status { text } => self.note(|note| note.status = Some(text.clone())),
                EventBody::Artifact {
                    artifact,
                    last: true,
                    ..
                } => {
                    let id = artifact.without_large().artifact_id().clone();
                    self.artifact(zone, &id).await?
                }
                _ => Said::Nothing,
            },
            None => Said::Nothing,
        })
    }

    fn text(&mut self, run: u64, delta: &str) -> Said {
        if delta.is_empty() {
            return Said::Nothing;
        }
        // A node that died leaves a text unfinished, and the next one begins it anew.
        let anew = self.run.is_some_and(|told| told != run);
        self.run = Some(run);
        let first = anew.then(|| self.note(|note| note.status = Some(RESTARTED.to_owned())));
        let text = self.note(|note| note.text_delta = Some(delta.to_owned()));
        match first {
            None => text,
            Some(first) => {
                self.ahead = Some(text);
                first
            }
        }
    }

    /// The files of an artifact that is complete. What is left out is told with the answer.
    async fn artifact(&mut self, zone: &Zone, id: &ArtifactId) -> Result<Said, HubError> {
        let memory = self.memory(zone);
        let whole = zone
            .hub
            .task_packed(&self.caller, &self.task, 1, Some(&memory))
            .await?;
        let made = whole.artifacts.iter();
        let mut made = made.filter(|packed| packed.without_large().artifact_id() == id);
        let Some(packed) = made.next() else {
            return Ok(Said::Nothing);
        };
        if zone.files.check_count(self.handed + 1).is_err() {
            return Ok(Said::Nothing);
        }
        let mut handed = Handed::default();
        for candidate in of_artifact(packed, false) {
            let task = self.task.as_str();
            handed
                .add(zone, task, &candidate, Language::English, &memory)
                .await?;
        }
        let Some(file) = handed.files.into_iter().next() else {
            return Ok(Said::Nothing);
        };
        self.handed += 1;
        let large = handed.large;
        let said = self.note_with(|note| note.artifact = Some(file), large);
        Ok(said.with_reservation(memory))
    }

    /// Memory for what is read for the next message.
    fn memory(&self, zone: &Zone) -> MemoryAccount {
        let principal = Arc::clone(&self.record.identity.principal);
        MemoryAccount::new(&zone.limits.answers, ShareKey::Principal(principal))
    }

    fn note(&mut self, say: impl FnOnce(&mut TaskProgress)) -> Said {
        self.note_with(say, Vec::new())
    }

    fn note_with(&mut self, say: impl FnOnce(&mut TaskProgress), large: Vec<Large>) -> Said {
        self.sequence += 1;
        let mut note = TaskProgress {
            task_id: self.task.to_string(),
            sequence: self.sequence,
            status: None,
            text_delta: None,
            artifact: None,
        };
        say(&mut note);
        let (Ok(method), Ok(params)) = (MethodName::new(PROGRESS), RawJson::of(&note)) else {
            return Said::Nothing;
        };
        let mut json = Vec::new();
        Notification::new(method)
            .with_params(params)
            .write_to(&mut json);
        Said::Note(Content::new(json, large))
    }

    /// The last word to whoever cannot be told more: the task goes on, and can be asked for.
    pub(crate) fn accepted(&mut self, zone: &Zone, origin: &Origin) -> Said {
        let answer = self.acceptance();
        self.done(zone, origin, answer, "accepted")
    }

    /// The same in place of a last word that was made and cannot be sent: that one has been recorded.
    pub(crate) fn postponed(&self) -> Content {
        self.response(self.acceptance())
    }

    fn acceptance(&self) -> Answer {
        let accepted = self
            .asked
            .result(ExecuteStatus::Accepted, self.task.as_str());
        Answer::new(Told::Execute(Box::new(accepted)))
    }

    fn broken(&mut self, zone: &Zone, origin: &Origin, error: &HubError) -> Said {
        tracing::warn!(task = %self.task, %error, "a call cannot be told more");
        self.accepted(zone, origin)
    }

    fn done(&mut self, zone: &Zone, origin: &Origin, answer: Answer, word: &'static str) -> Said {
        self.leave(zone, origin, word, None);
        Said::Last(self.response(answer))
    }

    fn response(&self, answer: Answer) -> Content {
        let mut json = Vec::new();
        if let Ok(result) = RawJson::of(&answer) {
            Response::success(self.id.borrowed(), result).write_to(&mut json);
        }
        Content::new(json, answer.large)
    }

    fn failed(&mut self, zone: &Zone, origin: &Origin, error: &WireError) -> Said {
        self.leave(zone, origin, error.word, Some(error.code.get()));
        let mut json = Vec::new();
        Response::failure(Some(self.id.borrowed()), error.error()).write_to(&mut json);
        Said::Last(Content::new(json, Vec::new()))
    }

    fn leave(&self, zone: &Zone, origin: &Origin, word: &'static str, code: Option<i32>) {
        Line {
            identity: &self.record.identity,
            method: Method::ExecuteTask.name(),
            id: Some(&self.id),
            subject: Some(self.task.as_str()),
            outcome: word,
            code,
            took: self.record.began.elapsed(),
            correlation: &self.record.correlation,
            peer: origin.peer.as_deref(),
            zone_call: true,
        }
        .leave(zone);
    }
}
