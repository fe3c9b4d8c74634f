//! Idempotency keys: a call with a key that was used before has no effect and gets the result of the first call.

use super::internal_id;
use crate::access::Caller;
use crate::error::HubError;
use crate::hub::Hub;
use crate::offload::BlobId;
use crate::ports::{IdempotencyClaim, Op};
use crate::task::Task;
use interzone_protocol::vocab::{AgentId, TaskId, Timestamp};
use serde::{Deserialize, Serialize};

/// Idempotency key of a call that creates a task or adds a message to one. It is scoped to the caller and the agent,
/// and remembered for [`Limits::idempotency_retention`](crate::Limits::idempotency_retention).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The key.
    pub key: String,
    /// Hash of the content of the call: a repetition must have the same.
    pub body_hash: [u8; 32],
}

impl IdempotencyKey {
    /// A key for a call with this content.
    pub fn new(key: impl Into<String>, body: &[u8]) -> Self {
        Self {
            key: key.into(),
            body_hash: *BlobId::for_content(body).as_bytes(),
        }
    }
}

/// Result of the first call with a key, as stored.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeyedResult {
    /// The task that it created or added to.
    pub(super) task: TaskId,
    /// Index of the message that it added to an existing task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<u32>,
    /// Hash of its content, in hexadecimal.
    body: String,
}

impl KeyedResult {
    /// Parses a stored result of a call with this key.
    ///
    /// # Errors
    /// The first call had another content.
    pub(super) fn parse(value: &str, key: &IdempotencyKey) -> Result<Self, HubError> {
        let stored = Self::parse_any(value)?;
        match stored.body == hash_text(key) {
            true => Ok(stored),
            false => Err(HubError::IdempotencyKeyReused),
        }
    }

    fn parse_any(value: &str) -> Result<Self, HubError> {
        internal_id(serde_json::from_str(value))
    }
}

impl Hub {
    /// Returns the task that a call with this idempotency key created or added to, if there was such a call.
    ///
    /// # Errors
    /// That call had another content, or the store operation failed.
    pub async fn find_by_idempotency_key(
        &self,
        caller: &Caller,
        agent: &AgentId,
        key: &IdempotencyKey,
    ) -> Result<Option<Task>, HubError> {
        match self.find_keyed_result(caller, agent, key).await? {
            Some(result) => Ok(Some(self.task(caller, &result.task).await?)),
            None => Ok(None),
        }
    }

    pub(super) async fn find_keyed_result(
        &self,
        caller: &Caller,
        agent: &AgentId,
        key: &IdempotencyKey,
    ) -> Result<Option<KeyedResult>, HubError> {
        let storage_key = storage_key(caller, agent, &key.key);
        let value = self.store().claimed_value(&storage_key, self.now()).await?;
        value
            .map(|value| KeyedResult::parse(&value, key))
            .transpose()
    }

    /// Claims the idempotency key of a call.
    pub(super) fn claim_op(
        &self,
        caller: &Caller,
        agent: &AgentId,
        key: &IdempotencyKey,
        (task, message): (&TaskId, Option<u32>),
        at: Timestamp,
    ) -> Result<Op, HubError> {
        let result = KeyedResult {
            task: task.clone(),
            message,
            body: hash_text(key),
        };
        Ok(Op::ClaimKey(IdempotencyClaim {
            key: storage_key(caller, agent, &key.key),
            value: internal_id(serde_json::to_string(&result))?,
            expires_at: at.plus(self.inner.limits.idempotency_retention),
        }))
    }
}

fn hash_text(key: &IdempotencyKey) -> String {
    BlobId::from_bytes(key.body_hash).to_string()
}

/// Storage key of an idempotency key. The lengths make keys of different callers and agents distinct, whatever they
/// contain.
fn storage_key(caller: &Caller, agent: &AgentId, key: &str) -> String {
    let (caller, agent) = (caller.principal.as_str(), agent.as_str());
    let (caller_length, agent_length) = (caller.len(), agent.len());
    format!("call/{caller_length}/{caller}/{agent_length}/{agent}/{key}")
}
