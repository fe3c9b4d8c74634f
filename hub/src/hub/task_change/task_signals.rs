//! Topic signals of task events: one per event, visible to the task's owner only.

use crate::event::Subject;
use crate::hub::{SignalAudience, event_topic};
use crate::topic::{Signal, SignalBody};
use interzone_protocol::vocab::{PrincipalId, SignalId, Timestamp};

/// Task events written in one commit.
pub(in crate::hub) struct TaskSignals {
    pub(super) subject: Subject,
    pub(super) owner: PrincipalId,
    pub(super) at: Timestamp,
    /// Sequence number of the first event.
    pub(super) first_seq: u64,
    /// Names of the events.
    pub(super) event_names: Vec<&'static str>,
}

impl TaskSignals {
    /// The receivers: the task's owner.
    pub(in crate::hub) fn audience(&self) -> SignalAudience {
        SignalAudience::Only(vec![self.owner.to_string()])
    }

    /// Builds one signal per event.
    pub(in crate::hub) fn signals(&self) -> impl Iterator<Item = Signal> {
        let numbered = (self.first_seq..).zip(&self.event_names);
        numbered.filter_map(|(seq, name)| {
            let id = match &self.subject {
                Subject::Task(id) => id.as_str(),
                Subject::Stream(id) => id.as_str(),
            };
            Some(Signal {
                topic: event_topic(&self.subject, name)?,
                id: SignalId::new(format!("{id}.{seq}")).ok()?,
                publisher: self.owner.clone(),
                at: self.at,
                body: SignalBody::Event(self.subject.clone(), seq),
            })
        })
    }
}
