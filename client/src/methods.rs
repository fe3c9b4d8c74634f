//! Every method of ACP, and ours beside it, with what it takes and gives. `execute_task`, which may take
//! long, is in `zone`.

use crate::client::Client;
use crate::error::{AnswerFault, Error};
use crate::zone::read;
use interzone_jsonrpc::RawJson;
use interzone_protocol::acp::{
    Method, PairList, PairsFindParams, StreamChunk, StreamEndParams, StreamMessageParams,
    StreamObject, StreamStartParams, SubscriptionObject, TaskList, TaskNotification, TaskObject,
    TasksCancelParams, TasksCreateParams, TasksGetParams, TasksListParams, TasksSendParams,
    TasksSubscribeParams, TasksUnsubscribeParams,
};
use interzone_protocol::zone::{
    self, CancelResult, FeedbackParams, FeedbackResult, TaskIdParams, TaskOutcome,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The wrapper of results, member by member. An enum tagged by `type` would have to take the
/// members apart, and content is to be kept letter for letter.
#[derive(Deserialize)]
struct Wrapped {
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

fn wrapped(result: &RawJson<'_>) -> Result<Wrapped, Error> {
    plain(result)
}

pub(crate) fn plain<T: DeserializeOwned>(result: &RawJson<'_>) -> Result<T, Error> {
    let read = result.decode();
    read.map_err(|error| AnswerFault::Result(error.to_string()).into())
}

fn due<T>(kind: &str, expected: &str, member: Option<T>) -> Result<T, Error> {
    let found = member.filter(|_| kind == expected);
    found.ok_or_else(|| AnswerFault::Result(format!("it carries no {expected}")).into())
}

/// How the result of a method is read.
pub(crate) type Reader<T> = fn(&RawJson<'_>) -> Result<T, Error>;

pub(crate) fn task(result: &RawJson<'_>) -> Result<TaskObject, Error> {
    let wrapped = wrapped(result)?;
    due(&wrapped.kind, "task", wrapped.task)
}

pub(crate) fn stream(result: &RawJson<'_>) -> Result<StreamObject, Error> {
    let wrapped = wrapped(result)?;
    due(&wrapped.kind, "stream", wrapped.stream)
}

pub(crate) fn subscription(result: &RawJson<'_>) -> Result<SubscriptionObject, Error> {
    let wrapped = wrapped(result)?;
    due(&wrapped.kind, "subscription", wrapped.subscription)
}

/// The peer's words. Some leave them out, which is no reason to fail what was done.
pub(crate) fn words(result: &RawJson<'_>) -> Result<String, Error> {
    let wrapped = wrapped(result)?;
    match wrapped.kind.as_str() {
        "success" | "notification" => Ok(wrapped.message.unwrap_or_default()),
        _ => Err(AnswerFault::Result("it is not a success".to_owned()).into()),
    }
}

pub(crate) fn list(result: &RawJson<'_>) -> Result<TaskList, Error> {
    plain(result)
}

pub(crate) fn pairs(result: &RawJson<'_>) -> Result<PairList, Error> {
    plain(result)
}

/// The result as it was sent.
pub(crate) fn raw(result: &RawJson<'_>) -> Result<RawJson<'static>, Error> {
    Ok(result.clone().into_owned())
}

/// The methods by name, once for the client and once for batches.
macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($params:ty) -> $result:ty = $method:path, $read:path;)*) => {
        /// Each fails as [`Error`] tells.
        impl Client {
            $($(#[$doc])*
            ///
            /// # Errors
            /// The call failed or was refused, as [`Error`] tells.
            pub async fn $name(&self, params: &$params) -> Result<$result, Error> {
                self.call($method.name(), params, $read).await
            })*
        }

        impl crate::batch::Batch {
            $($(#[$doc])*
            pub fn $name(&mut self, params: &$params) -> crate::batch::Handle<$result> {
                self.add($method.name(), params, $read)
            })*
        }
    };
}

methods! {
    /// Begins a task (`tasks.create`).
    tasks_create(TasksCreateParams) -> TaskObject = Method::TasksCreate, task;
    /// Adds a message to a task (`tasks.send`). Gives the peer's words.
    tasks_send(TasksSendParams) -> String = Method::TasksSend, words;
    /// Reads a task (`tasks.get`).
    tasks_get(TasksGetParams) -> TaskObject = Method::TasksGet, task;
    /// Calls a task off (`tasks.cancel`). Gives the peer's words.
    tasks_cancel(TasksCancelParams) -> String = Method::TasksCancel, words;
    /// Has a task's events sent to a URL (`tasks.subscribe`).
    tasks_subscribe(TasksSubscribeParams) -> SubscriptionObject = Method::TasksSubscribe, subscription;
    /// Begins a stream (`stream.start`).
    stream_start(StreamStartParams) -> StreamObject = Method::StreamStart, stream;
    /// Says something on a stream (`stream.message`). Gives the peer's words.
    stream_message(StreamMessageParams) -> String = Method::StreamMessage, words;
    /// Ends a stream (`stream.end`). Gives the peer's words.
    stream_end(StreamEndParams) -> String = Method::StreamEnd, words;
    /// Tells of a task's event (`task.notification`) and waits until it is taken.
    task_notification(TaskNotification) -> String = Method::TaskNotification, words;
    /// Sends a piece of what is said on a stream (`stream.chunk`) and waits until it is taken.
    stream_chunk(StreamChunk) -> String = Method::StreamChunk, words;
    /// Lists the caller's tasks (`interzone.tasks.list`).
    tasks_list(TasksListParams) -> TaskList = Method::TasksList, list;
    /// Ends a subscription (`interzone.tasks.unsubscribe`). Gives the peer's words.
    tasks_unsubscribe(TasksUnsubscribeParams) -> String = Method::TasksUnsubscribe, words;
    /// Finds requests that were answered (`interzone.pairs.find`), for operators.
    pairs_find(PairsFindParams) -> PairList = Method::PairsFind, pairs;
    /// Asks what came of a task that `execute_task` began (`get_task_result`).
    get_task_result(TaskIdParams) -> TaskOutcome = zone::Method::GetTaskResult, read::task_outcome;
    /// Calls such a task off (`cancel_task`).
    cancel_task(TaskIdParams) -> CancelResult = zone::Method::CancelTask, plain;
    /// Tells what somebody thinks of what came of such a task (`interzone.feedback`).
    give_feedback(FeedbackParams) -> FeedbackResult = zone::Method::Feedback, plain;
}

impl Client {
    pub(crate) async fn call<P: Serialize, T>(
        &self,
        method: &str,
        params: &P,
        read: Reader<T>,
    ) -> Result<T, Error> {
        let result = self.call_raw(method, params).await?;
        read(&result)
    }
}
