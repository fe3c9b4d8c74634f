//! What those who subscribe hear of a task's events: a signal for each, for the task's owner alone.

use crate::event::Subject;
use crate::hub::{Audience, event_topic};
use crate::topic::{Signal, SignalBody};
use interzone_protocol::vocab::{PrincipalId, SignalId, Timestamp};

/// Events of a task that are written together.
pub(in crate::hub) struct TaskEvents {
    pub(super) subject: Subject,
    pub(super) owner: PrincipalId,
    pub(super) at: Timestamp,
    /// The number of the first.
    pub(super) first: u64,
    /// The name of each.
    pub(super) names: Vec<&'static str>,
}

impl TaskEvents {
    /// Who hears them.
    pub(in crate::hub) fn audience(&self) -> Audience {
        Audience::Only(vec![self.owner.to_string()])
    }

    /// The signals that they are.
    pub(in crate::hub) fn signals(&self) -> impl Iterator<Item = Signal> {
        let named = (self.first..).zip(&self.names);
        named.filter_map(|(seq, name)| {
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
