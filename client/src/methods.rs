//! Typed methods of ACP and of the Interzone extensions. `execute_task`, which may run long, is in `zone`.

use crate::client::Client;
use crate::error::{Error, InvalidResponse};
use crate::zone::decode;
use interzone_jsonrpc::RawJson;
use interzone_protocol::acp::{
    Method, RequestList, RequestsFindParams, StreamChunk, StreamEndParams, StreamMessageParams,
    StreamObject, StreamStartParams, SubscriptionObject, TaskList, TaskNotification, TaskObject,
    TasksCancelParams, TasksCreateParams, TasksGetParams, TasksListParams, TasksSendParams,
    TasksSubscribeParams, TasksUnsubscribeParams,
};
use interzone_protocol::zone::{
    self, CancelResult, FeedbackParams, FeedbackResult, TaskIdParams, TaskOutcome,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Result wrapper with all possible members. An enum tagged by `type` would buffer and re-encode the members,
/// but content must be preserved byte for byte.
#[derive(Deserialize)]
struct WrappedResult {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    task: Option<TaskObject>,
    #[serde(default)]
    stream: Option<StreamObject>,
    #[serde(default)]
    subscription: Option<SubscriptionObject>,
    #[serde(default)]
    message: Option<String>,
}

fn decode_wrapped(result: &RawJson<'_>) -> Result<WrappedResult, Error> {
    decode_plain(result)
}

pub(crate) fn decode_plain<T: DeserializeOwned>(result: &RawJson<'_>) -> Result<T, Error> {
    let decoded = result.decode();
    decoded.map_err(|error| InvalidResponse::InvalidResult(error.to_string()).into())
}

fn require_member<T>(kind: &str, expected: &str, member: Option<T>) -> Result<T, Error> {
    let value = member.filter(|_| kind == expected);
    value.ok_or_else(|| InvalidResponse::InvalidResult(format!("it has no {expected}")).into())
}

/// Decoder of a method's result.
pub(crate) type ResultDecoder<T> = fn(&RawJson<'_>) -> Result<T, Error>;

pub(crate) fn decode_task(result: &RawJson<'_>) -> Result<TaskObject, Error> {
    let wrapped = decode_wrapped(result)?;
    require_member(&wrapped.kind, "task", wrapped.task)
}

pub(crate) fn decode_stream(result: &RawJson<'_>) -> Result<StreamObject, Error> {
    let wrapped = decode_wrapped(result)?;
    require_member(&wrapped.kind, "stream", wrapped.stream)
}

pub(crate) fn decode_subscription(result: &RawJson<'_>) -> Result<SubscriptionObject, Error> {
    let wrapped = decode_wrapped(result)?;
    require_member(&wrapped.kind, "subscription", wrapped.subscription)
}

/// Decodes a confirmation message. Some peers omit it, which is not an error.
pub(crate) fn decode_message(result: &RawJson<'_>) -> Result<String, Error> {
    let wrapped = decode_wrapped(result)?;
    match wrapped.kind.as_str() {
        "success" | "notification" => Ok(wrapped.message.unwrap_or_default()),
        _ => Err(InvalidResponse::InvalidResult("it is not a success".to_owned()).into()),
    }
}

pub(crate) fn decode_task_list(result: &RawJson<'_>) -> Result<TaskList, Error> {
    decode_plain(result)
}

pub(crate) fn decode_request_list(result: &RawJson<'_>) -> Result<RequestList, Error> {
    decode_plain(result)
}

/// Returns the result undecoded.
pub(crate) fn decode_raw(result: &RawJson<'_>) -> Result<RawJson<'static>, Error> {
    Ok(result.clone().into_owned())
}

/// Defines the methods for the client and for batches.
macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($params:ty) -> $result:ty = $method:path, $read:path;)*) => {
        /// Each method returns [`Error`] if the call failed.
        impl Client {
            $($(#[$doc])*
            ///
            /// # Errors
            /// If the call failed; see [`Error`].
            pub async fn $name(&self, params: &$params) -> Result<$result, Error> {
                self.call($method.name(), params, $read).await
            })*
        }

        impl crate::batch::Batch {
            $($(#[$doc])*
            pub fn $name(&mut self, params: &$params) -> crate::batch::BatchHandle<$result> {
                self.add($method.name(), params, $read)
            })*
        }
    };
}

methods! {
    /// Creates a task (`tasks.create`).
    tasks_create(TasksCreateParams) -> TaskObject = Method::TasksCreate, decode_task;
    /// Adds a message to a task (`tasks.send`). Returns the peer's message.
    tasks_send(TasksSendParams) -> String = Method::TasksSend, decode_message;
    /// Returns a task (`tasks.get`).
    tasks_get(TasksGetParams) -> TaskObject = Method::TasksGet, decode_task;
    /// Cancels a task (`tasks.cancel`). Returns the peer's message.
    tasks_cancel(TasksCancelParams) -> String = Method::TasksCancel, decode_message;
    /// Subscribes a webhook URL to a task's events (`tasks.subscribe`).
    tasks_subscribe(TasksSubscribeParams) -> SubscriptionObject = Method::TasksSubscribe, decode_subscription;
    /// Starts a stream (`stream.start`).
    stream_start(StreamStartParams) -> StreamObject = Method::StreamStart, decode_stream;
    /// Sends a message on a stream (`stream.message`). Returns the peer's message.
    stream_message(StreamMessageParams) -> String = Method::StreamMessage, decode_message;
    /// Ends a stream (`stream.end`). Returns the peer's message.
    stream_end(StreamEndParams) -> String = Method::StreamEnd, decode_message;
    /// Sends a task event (`task.notification`) and waits for the confirmation.
    task_notification(TaskNotification) -> String = Method::TaskNotification, decode_message;
    /// Sends a stream chunk (`stream.chunk`) and waits for the confirmation.
    stream_chunk(StreamChunk) -> String = Method::StreamChunk, decode_message;
    /// Lists the caller's tasks (`interzone.tasks.list`).
    tasks_list(TasksListParams) -> TaskList = Method::TasksList, decode_task_list;
    /// Ends a subscription (`interzone.tasks.unsubscribe`). Returns the peer's message.
    tasks_unsubscribe(TasksUnsubscribeParams) -> String = Method::TasksUnsubscribe, decode_message;
    /// Finds logged requests (`interzone.requests.find`), for operators.
    requests_find(RequestsFindParams) -> RequestList = Method::RequestsFind, decode_request_list;
    /// Returns the state or result of a task that `execute_task` created (`get_task_result`).
    get_task_result(TaskIdParams) -> TaskOutcome = zone::Method::GetTaskResult, decode::decode_task_outcome;
    /// Cancels a task that `execute_task` created (`cancel_task`).
    cancel_task(TaskIdParams) -> CancelResult = zone::Method::CancelTask, decode_plain;
    /// Sends a user's feedback on the result of such a task (`interzone.feedback`).
    give_feedback(FeedbackParams) -> FeedbackResult = zone::Method::Feedback, decode_plain;
}

impl Client {
    pub(crate) async fn call<P: Serialize, T>(
        &self,
        method: &str,
        params: &P,
        decode: ResultDecoder<T>,
    ) -> Result<T, Error> {
        let result = self.call_raw(method, params).await?;
        decode(&result)
    }
}
