//! What is said between Interzone and a program: the lines that go out, and what those that come in
//! mean. The envelope itself is read and written by `jsonrpc` alone.

use super::live::Said;
use super::notes::harmless;
use bytes::Bytes;
use interzone_hub::{AgentError, Outcome, Turn};
use interzone_jsonrpc::{
    Batches, InvalidMethod, MethodName, Notification, Policy, RawJson, Request, Response,
};
use interzone_protocol::vocab::{Artifact, ContextId, Message, Metadata, Role, TaskId};
use serde::{Deserialize, Serialize};

/// A program answers us and notifies us, one message a line.
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
struct Answer {
    state: State,
    message: Option<Message>,
    direct: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Completed,
    InputRequired,
    AuthRequired,
    Rejected,
    Failed,
}

/// Enough of a line that is wrong to know whose it was.
#[derive(Deserialize)]
struct Whose {
    id: Option<i64>,
    params: Option<WhoseTask>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WhoseTask {
    task_id: Option<TaskId>,
}

/// To which run a line belongs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Of {
    Request(i64),
    Task(TaskId),
}

/// The line that begins a run.
pub(super) fn run(id: i64, turn: &Turn) -> Result<Bytes, AgentError> {
    let params = RunParams {
        task_id: &turn.task.id,
        context_id: &turn.task.context_id,
        message: &turn.message,
        history: &turn.history,
        metadata: turn.task.metadata.as_ref(),
        attempt: turn.attempt,
    };
    let unwritable = || misfit("the turn cannot be written");
    let params = RawJson::of(&params).map_err(|_| unwritable())?;
    let method = MethodName::new("agent.run").map_err(|_| unwritable())?;
    Ok(line(Request::new(id, method).with_params(params).to_vec()))
}

/// The line that calls a run off.
pub(super) fn cancel(task_id: &TaskId) -> Option<Bytes> {
    let params = RawJson::of(&CancelParams { task_id }).ok()?;
    let method: Result<_, InvalidMethod> = MethodName::new("agent.cancel");
    let notification = Notification::new(method.ok()?).with_params(params);
    Some(line(notification.to_vec()))
}

/// One message as one line. What users attach is kept letter for letter, line ends between its tokens
/// included; within a string JSON has none, so all of them may become spaces.
pub(super) fn line(mut message: Vec<u8>) -> Bytes {
    for byte in &mut message {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    message.push(b'\n');
    message.into()
}

/// What a notification says, and to which task. Nothing if it is none that we know.
pub(super) fn read(notification: &Notification<'_>) -> Option<Result<(TaskId, Said), String>> {
    fn decoded<T: serde::de::DeserializeOwned>(
        notification: &Notification<'_>,
        said: impl FnOnce(T) -> (TaskId, Said),
    ) -> Result<(TaskId, Said), String> {
        notification
            .decode_named::<T>()
            .map(said)
            .map_err(|error| format!("{}: {error}", notification.method()))
    }
    Some(match notification.method() {
        "agent.text" => decoded(notification, |params: TextParams| {
            (params.task_id, Said::Text(params.delta))
        }),
        "agent.status" => decoded(notification, |params: StatusParams| {
            (params.task_id, Said::Status(params.text))
        }),
        "agent.artifact" => decoded(notification, |params: ArtifactParams| {
            let said = Said::Artifact {
                artifact: Box::new(params.artifact),
                append: params.append.unwrap_or(false),
                last: params.last_chunk.unwrap_or(true),
            };
            (params.task_id, said)
        }),
        _ => return None,
    })
}

/// How a run ended.
pub(super) fn outcome(response: &Response<'_>) -> Result<Outcome, AgentError> {
    let answer = match (response.decode_result::<Answer>(), response.error()) {
        (Some(Ok(answer)), _) => answer,
        (Some(Err(error)), _) => return Err(misfit(&format!("its answer: {error}"))),
        (None, Some(error)) => {
            let said = harmless(error.message().as_bytes());
            return Err(AgentError {
                code: "agent_error",
                detail: format!("it answered with an error: {said}"),
            });
        }
        (None, None) => return Err(misfit("its answer is empty")),
    };
    let message = answer.message;
    if message
        .as_ref()
        .is_some_and(|said| said.role() != Role::Agent)
    {
        return Err(misfit("its answer has a message that is not by the agent"));
    }
    let needed = |message: Option<Message>| {
        message.ok_or_else(|| misfit("its answer has this state and no message"))
    };
    Ok(match answer.state {
        State::Completed => Outcome::Completed {
            message,
            direct: answer.direct.unwrap_or(false),
        },
        State::InputRequired => Outcome::InputRequired(needed(message)?),
        State::AuthRequired => Outcome::AuthRequired(needed(message)?),
        State::Rejected => Outcome::Rejected(message),
        State::Failed => Outcome::Failed(
            message.unwrap_or_else(|| Message::agent_text("The agent could not do this.")),
        ),
    })
}

/// Whose a line is that cannot be understood.
pub(super) fn whose(line: &[u8]) -> Option<Of> {
    let whose: Whose = serde_json::from_slice(line).ok()?;
    match whose.params.and_then(|params| params.task_id) {
        Some(task) => Some(Of::Task(task)),
        None => whose.id.map(Of::Request),
    }
}

/// The program did not keep to what was agreed.
pub(super) fn misfit(what: &str) -> AgentError {
    AgentError {
        code: "agent_protocol",
        detail: what.to_owned(),
    }
}
