//! Who may.
//!
//! Who somebody is was proved before they came here. Somebody else's id answers exactly as an
//! unknown one does: that a thing exists is nobody's business but its owner's.

use crate::error::HubError;
use crate::stream::Stream;
use crate::task::Task;
use crate::topic::Subscription;
use interzone_protocol::vocab::PrincipalId;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Who they are.
    pub principal: PrincipalId,
    /// Whether they look after the place, and so see everything and decide on subscriptions.
    pub operator: bool,
}

impl Caller {
    /// Somebody who sees what is their own.
    pub fn new(principal: PrincipalId) -> Self {
        Self {
            principal,
            operator: false,
        }
    }

    /// Somebody who sees everything.
    pub fn operator(principal: PrincipalId) -> Self {
        Self {
            principal,
            operator: true,
        }
    }

    fn owns(&self, owner: &PrincipalId) -> bool {
        self.operator || self.principal == *owner
    }

    /// Whether a task is theirs to see.
    pub(crate) fn sees(&self, task: &Task) -> bool {
        self.owns(&task.owner)
    }

    /// The task, if it is theirs to see.
    pub(crate) fn task(&self, task: Task) -> Result<Task, HubError> {
        if self.owns(&task.owner) {
            Ok(task)
        } else {
            Err(HubError::TaskNotFound(task.id))
        }
    }

    /// The stream, if they began it or were invited to it.
    pub(crate) fn stream(&self, stream: Stream) -> Result<Stream, HubError> {
        if self.owns(&stream.owner) || stream.is_participant(&self.principal) {
            Ok(stream)
        } else {
            Err(HubError::StreamNotFound(stream.id))
        }
    }

    /// The subscription, if it is theirs.
    pub(crate) fn subscription(&self, found: Subscription) -> Result<Subscription, HubError> {
        if self.owns(&found.owner) {
            Ok(found)
        } else {
            Err(HubError::SubscriptionNotFound(found.id))
        }
    }

    /// Whether they may decide on what others ask for.
    pub(crate) fn decide(&self) -> Result<(), HubError> {
        if self.operator {
            Ok(())
        } else {
            Err(HubError::NotAllowed)
        }
    }

    /// Whose things a list shows: their own, or everybody's.
    pub(crate) fn lists(&self) -> Option<PrincipalId> {
        (!self.operator).then(|| self.principal.clone())
    }
}

impl Stream {
    /// Whether somebody was invited to the stream.
    pub fn is_participant(&self, principal: &PrincipalId) -> bool {
        self.participants
            .iter()
            .any(|name| name == principal.as_str())
    }
}
