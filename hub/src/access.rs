//! Authorization: ownership and operator checks.
//!
//! Authentication happens before this. An id that belongs to another principal gets the same error as
//! an unknown id, so existence is not disclosed.

use crate::error::HubError;
use crate::stream::Stream;
use crate::task::Task;
use crate::topic::Subscription;
use interzone_protocol::vocab::PrincipalId;

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The caller's identity.
    pub principal: PrincipalId,
    /// Operators see everything and approve subscriptions.
    pub is_operator: bool,
}

impl Caller {
    /// A caller that sees only its own objects.
    pub fn new(principal: PrincipalId) -> Self {
        Self {
            principal,
            is_operator: false,
        }
    }

    /// A caller that sees everything.
    pub fn operator(principal: PrincipalId) -> Self {
        Self {
            principal,
            is_operator: true,
        }
    }

    fn owns(&self, owner: &PrincipalId) -> bool {
        self.is_operator || self.principal == *owner
    }

    /// Returns true if the caller may see the task.
    pub(crate) fn can_see(&self, task: &Task) -> bool {
        self.owns(&task.owner)
    }

    /// Returns the task if the caller may see it, else [`HubError::TaskNotFound`].
    pub(crate) fn authorize_task(&self, task: Task) -> Result<Task, HubError> {
        if self.owns(&task.owner) {
            Ok(task)
        } else {
            Err(HubError::TaskNotFound(task.id))
        }
    }

    /// Returns the stream if the caller owns it or is a participant, else [`HubError::StreamNotFound`].
    pub(crate) fn authorize_stream(&self, stream: Stream) -> Result<Stream, HubError> {
        if self.owns(&stream.owner) || stream.is_participant(&self.principal) {
            Ok(stream)
        } else {
            Err(HubError::StreamNotFound(stream.id))
        }
    }

    /// Returns the subscription if the caller owns it, else [`HubError::SubscriptionNotFound`].
    pub(crate) fn authorize_subscription(
        &self,
        subscription: Subscription,
    ) -> Result<Subscription, HubError> {
        if self.owns(&subscription.owner) {
            Ok(subscription)
        } else {
            Err(HubError::SubscriptionNotFound(subscription.id))
        }
    }

    /// Requires the operator role, which decides on subscription requests.
    pub(crate) fn require_operator(&self) -> Result<(), HubError> {
        if self.is_operator {
            Ok(())
        } else {
            Err(HubError::NotAllowed)
        }
    }

    /// Owner that lists are filtered by; `None` (no filter) for operators.
    pub(crate) fn owner_filter(&self) -> Option<PrincipalId> {
        (!self.is_operator).then(|| self.principal.clone())
    }
}

impl Stream {
    /// Returns true if the principal is a participant of the stream.
    pub fn is_participant(&self, principal: &PrincipalId) -> bool {
        self.participants
            .iter()
            .any(|name| name == principal.as_str())
    }
}
