//! JSON-RPC messages between Interzone and a program: encodes outgoing lines and decodes incoming ones. The envelope
//! itself is handled by `jsonrpc` alone.

use super::log_throttle::escape_for_log;
use super::process_handle::AgentMessage;
use bytes::Bytes;
use interzone_hub::{AgentError, Turn, TurnOutcome};
use interzone_jsonrpc::{
    Batches, InvalidMethod, MethodName, Notification, Policy, RawJson, Request, Response,
};
use interzone_protocol::vocab::{Artifact, ContextId, Message, Metadata, Role, TaskId};
use serde::{Deserialize, Serialize};

/// Parse policy for program output: responses and notifications, one message per line.
pub(super) const POLICY: Policy = Policy {
    batches: Batches::Refuse,
    ..Policy::CLIENT
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunParams<'a> {
    task_id: &'a TaskId,
    context_id: &'a ContextId,
    message: &'a Message,
    history: &'a [Message],
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    attempt: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CancelParams<'a> {
    task_id: &'a TaskId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusParams {
    task_id: TaskId,
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TextParams {
    task_id: TaskId,
    delta: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactParams {
    task_id: TaskId,
    artifact: Artifact,
    append: Option<bool>,
    last_chunk: Option<bool>,
}

#[derive(Deserialize)]
struct RunResult {
    state: RunResultState,
    message: Option<Message>,
    direct: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RunResultState {
    Completed,
    InputRequired,
    AuthRequired,
    Rejected,
    Failed,
}

/// The fields of an invalid line that identify its run.
#[derive(Deserialize)]
struct RunRefFields {
    id: Option<i64>,
    params: Option<RunRefParams>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunRefParams {
    task_id: Option<TaskId>,
}

/// Reference to the run that a line belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunRef {
    Request(i64),
    Task(TaskId),
}

/// Encodes the `agent.run` request.
pub(super) fn run_request(id: i64, turn: &Turn) -> Result<Bytes, AgentError> {
    let params = RunParams {
        task_id: &turn.task.id,
        context_id: &turn.task.context_id,
        message: &turn.message,
        history: &turn.history,
        metadata: turn.task.metadata.as_ref(),
        attempt: turn.attempt,
    };
    let unwritable = || protocol_error("the turn cannot be encoded");
    let params = RawJson::from_value(&params).map_err(|_| unwritable())?;
    let method = MethodName::new("agent.run").map_err(|_| unwritable())?;
    Ok(to_line(
        Request::new(id, method).with_params(params).to_vec(),
    ))
}

/// Encodes the `agent.cancel` notification.
pub(super) fn cancel_notification(task_id: &TaskId) -> Option<Bytes> {
    let params = RawJson::from_value(&CancelParams { task_id }).ok()?;
    let method: Result<_, InvalidMethod> = MethodName::new("agent.cancel");
    let notification = Notification::new(method.ok()?).with_params(params);
    Some(to_line(notification.to_vec()))
}

/// Encodes one message as one line. User-supplied JSON is embedded unchanged and may have line breaks between its
/// tokens; a JSON string has none, so all of them can be replaced by spaces.
pub(super) fn to_line(mut message: Vec<u8>) -> Bytes {
    for byte in &mut message {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    message.push(b'\n');
    message.into()
}

/// Decodes a notification into its task and message. Returns `None` for an unknown method.
pub(super) fn decode_notification(
    notification: &Notification<'_>,
) -> Option<Result<(TaskId, AgentMessage), String>> {
    fn decode_params<T: serde::de::DeserializeOwned>(
        notification: &Notification<'_>,
        into_message: impl FnOnce(T) -> (TaskId, AgentMessage),
    ) -> Result<(TaskId, AgentMessage), String> {
        notification
            .decode_named::<T>()
            .map(into_message)
            .map_err(|error| format!("{}: {error}", notification.method()))
    }
    Some(match notification.method() {
        "agent.text" => decode_params(notification, |params: TextParams| {
            (params.task_id, AgentMessage::Text(params.delta))
        }),
        "agent.status" => decode_params(notification, |params: StatusParams| {
            (params.task_id, AgentMessage::Status(params.text))
        }),
        "agent.artifact" => decode_params(notification, |params: ArtifactParams| {
            let message = AgentMessage::Artifact {
                artifact: Box::new(params.artifact),
                append: params.append.unwrap_or(false),
                last: params.last_chunk.unwrap_or(true),
            };
            (params.task_id, message)
        }),
        _ => return None,
    })
}

/// Decodes the response that ends a run.
pub(super) fn decode_outcome(response: &Response<'_>) -> Result<TurnOutcome, AgentError> {
    let answer = match (response.decode_result::<RunResult>(), response.error()) {
        (Some(Ok(answer)), _) => answer,
        (Some(Err(error)), _) => return Err(protocol_error(&format!("invalid answer: {error}"))),
        (None, Some(error)) => {
            let text = escape_for_log(error.message().as_bytes());
            return Err(AgentError {
                code: "agent_error",
                detail: format!("the program answered with an error: {text}"),
            });
        }
        (None, None) => return Err(protocol_error("the answer is empty")),
    };
    let message = answer.message;
    if message
        .as_ref()
        .is_some_and(|message| message.role() != Role::Agent)
    {
        return Err(protocol_error(
            "the message of the answer is not from the agent",
        ));
    }
    let require = |message: Option<Message>| {
        message.ok_or_else(|| protocol_error("an answer with this state needs a message"))
    };
    Ok(match answer.state {
        RunResultState::Completed => TurnOutcome::Completed {
            message,
            direct: answer.direct.unwrap_or(false),
        },
        RunResultState::InputRequired => TurnOutcome::InputRequired(require(message)?),
        RunResultState::AuthRequired => TurnOutcome::AuthRequired(require(message)?),
        RunResultState::Rejected => TurnOutcome::Rejected(message),
        RunResultState::Failed => TurnOutcome::Failed(
            message.unwrap_or_else(|| Message::agent_text("The agent could not do this.")),
        ),
    })
}

/// Finds the run that an invalid line belongs to.
pub(super) fn find_run(line: &[u8]) -> Option<RunRef> {
    let fields: RunRefFields = serde_json::from_slice(line).ok()?;
    match fields.params.and_then(|params| params.task_id) {
        Some(task) => Some(RunRef::Task(task)),
        None => fields.id.map(RunRef::Request),
    }
}

/// Error of a program that violated the protocol.
pub(super) fn protocol_error(detail: &str) -> AgentError {
    AgentError {
        code: "agent_protocol",
        detail: detail.to_owned(),
    }
}
