//! Runs a turn at an ACP peer: creates or continues a task there and watches it until it ends, or polls it if it
//! cannot be watched.

use super::forwarding::{ForwardingContext, RemoteTaskState, attach_state, find_state};
use super::relay::{OutputRelay, from_peer, split_new_messages, to_peer};
use super::{CANCEL_TIMEOUT, RemoteAgent, errors};
use crate::agents::stopped_error;
use http::StatusCode;
use interzone_client::{Client, Error, InvalidResponse, TransportError, WatchEvent};
use interzone_hub::{AgentError, Turn, TurnOutcome, TurnOutput, failure_message};
use interzone_protocol::acp::{
    TaskObject, TasksCancelParams, TasksCreateParams, TasksGetParams, TasksListParams,
    TasksSendParams,
};
use interzone_protocol::vocab::{Message, Role, TaskState};
use interzone_protocol::zone::ErrorReason;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Number and size of the pages that are searched for the task of an earlier attempt.
const MAX_PAGES: usize = 5;
const PAGE_SIZE: u32 = 100;

/// The task of a turn at the peer.
struct RemoteTask {
    task_id: String,
    /// Last event seen before this turn.
    last_event: Option<u64>,
    /// Number of artifacts before this turn.
    artifact_count: usize,
    /// True if the task existed before this turn.
    is_continued: bool,
}

/// Failure of a turn.
enum RemoteError {
    /// The peer failed.
    Peer(Error),
    /// The run's output could not be written.
    Output(AgentError),
}

impl From<Error> for RemoteError {
    fn from(error: Error) -> Self {
        Self::Peer(error)
    }
}

impl From<AgentError> for RemoteError {
    fn from(error: AgentError) -> Self {
        Self::Output(error)
    }
}

pub(super) async fn run(
    agent: &RemoteAgent,
    client: &Client,
    forwarding: &ForwardingContext,
    turn: &Turn,
    output: &dyn TurnOutput,
) -> Result<TurnOutcome, AgentError> {
    let creation = start_task(agent, client, forwarding, turn);
    tokio::pin!(creation);
    let remote = tokio::select! {
        biased;
        () = turn.cancel_token.cancelled() => {
            // Wait for a task that is being created; otherwise it could not be canceled.
            if let Ok(Ok(remote)) = timeout(CANCEL_TIMEOUT, creation).await {
                cancel_task(client, &remote.task_id).await;
            }
            return Err(stopped_error());
        }
        remote = &mut creation => remote,
    };
    let remote = match remote {
        Ok(remote) => remote,
        Err(error) => return errors::outcome_of_error(&error),
    };
    let followed = tokio::select! {
        biased;
        () = turn.cancel_token.cancelled() => None,
        followed = follow_task(agent, client, &remote, output) => Some(followed),
    };
    match followed {
        Some(Ok(outcome)) => Ok(outcome),
        Some(Err(RemoteError::Peer(error))) => errors::outcome_of_error(&error),
        // The peer's output is no longer accepted, so its task is canceled.
        Some(Err(RemoteError::Output(error))) => {
            cancel_task(client, &remote.task_id).await;
            Err(error)
        }
        None => {
            cancel_task(client, &remote.task_id).await;
            Err(stopped_error())
        }
    }
}

async fn cancel_task(client: &Client, task_id: &str) {
    let params = TasksCancelParams {
        task_id: task_id.to_owned(),
        reason: Some("canceled by the caller".to_owned()),
    };
    let error = match timeout(CANCEL_TIMEOUT, client.tasks_cancel(&params)).await {
        Ok(Ok(_)) => return,
        Ok(Err(error)) if error.reason() == ErrorReason::TaskFinished => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {CANCEL_TIMEOUT:?}"),
    };
    tracing::warn!(error = %error, "failed to cancel task at peer");
}

async fn start_task(
    agent: &RemoteAgent,
    client: &Client,
    forwarding: &ForwardingContext,
    turn: &Turn,
) -> Result<RemoteTask, Error> {
    let is_retry = turn.attempt > 1;
    if let Some((question_index, state)) = find_state(&turn.history, &agent.info.id) {
        // The earlier attempt may have sent the message already.
        if !is_retry || needs_input(&get(client, &state.task, false).await?) {
            let (messages, _) =
                split_new_messages(turn, Some(question_index), forwarding.zone.is_some());
            send_message(client, &state, &messages).await?;
        }
        return Ok(RemoteTask {
            task_id: state.task,
            last_event: state.after,
            artifact_count: state.artifact_count,
            is_continued: true,
        });
    }
    let new_task = |task: String| RemoteTask {
        task_id: task,
        last_event: None,
        artifact_count: 0,
        is_continued: false,
    };
    if is_retry && let Some(task) = find_earlier_task(client, forwarding).await? {
        return Ok(new_task(task));
    }
    let (messages, _) = split_new_messages(turn, None, forwarding.zone.is_some());
    let message = to_peer(&messages).unwrap_or_else(|| Message::user_text(""));
    let params = TasksCreateParams {
        initial_message: message,
        assign_to: agent.assign_to.clone(),
        priority: Some(turn.task.priority),
        metadata: forwarding.metadata(),
    };
    Ok(new_task(client.tasks_create(&params).await?.task_id))
}

async fn send_message(
    client: &Client,
    state: &RemoteTaskState,
    messages: &[&Message],
) -> Result<(), Error> {
    let params = TasksSendParams {
        task_id: state.task.clone(),
        message: to_peer(messages).unwrap_or_else(|| Message::user_text("")),
    };
    client.tasks_send(&params).await.map(drop)
}

/// Finds the task that an earlier attempt created, if the peer can list its tasks and the task was not canceled
/// since. A peer that cannot list its tasks may do the work twice.
async fn find_earlier_task(
    client: &Client,
    forwarding: &ForwardingContext,
) -> Result<Option<String>, Error> {
    let mut params = TasksListParams {
        limit: Some(PAGE_SIZE),
        ..TasksListParams::default()
    };
    for _ in 0..MAX_PAGES {
        let page = match client.tasks_list(&params).await {
            Ok(page) => page,
            Err(error) if error.rpc_error().is_some() => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_ours = |task: &&TaskObject| forwarding.is_same_turn(task.metadata.as_ref());
        if let Some(task) = page.tasks.iter().find(is_ours) {
            let alive = task.status.0 != TaskState::Canceled;
            return Ok(alive.then(|| task.task_id.clone()));
        }
        match page.next {
            Some(next) => params.after = Some(next),
            None => break,
        }
    }
    Ok(None)
}

async fn follow_task(
    agent: &RemoteAgent,
    client: &Client,
    remote: &RemoteTask,
    output: &dyn TurnOutput,
) -> Result<TurnOutcome, RemoteError> {
    let mut relay = OutputRelay::new(output);
    // Without the last event, the old question would be received again.
    let watchable = !remote.is_continued || remote.last_event.is_some();
    if watchable {
        let mut watch = client.watch_task(&remote.task_id, remote.last_event);
        while let Some(event) = watch.next().await {
            match event {
                Ok(WatchEvent::Text { offset, delta, .. }) => relay.text_at(offset, &delta).await?,
                Ok(WatchEvent::StatusLine(line)) => relay.status(&line).await?,
                Ok(WatchEvent::Artifact(artifact)) => relay.artifact(artifact).await?,
                Ok(
                    WatchEvent::StatusChange(task)
                    | WatchEvent::Completed(task)
                    | WatchEvent::Failed(task),
                ) if is_settled(&task) => {
                    let task = with_content(client, task).await?;
                    let after = watch.position();
                    return finish_turn(agent, remote, &task, after, &mut relay).await;
                }
                Ok(_) => {}
                Err(error) if cannot_watch(&error) => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    let task = poll(agent, client, remote).await?;
    finish_turn(agent, remote, &task, None, &mut relay).await
}

/// Returns true if the peer does not support watching; few peers do.
fn cannot_watch(error: &Error) -> bool {
    let unsupported = [
        StatusCode::NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED,
        StatusCode::NOT_ACCEPTABLE,
        StatusCode::NOT_IMPLEMENTED,
    ];
    match error {
        Error::Http { status, .. } => unsupported.contains(status),
        Error::Rpc(refusal) => unsupported.contains(&refusal.status),
        Error::InvalidResponse(InvalidResponse::ContentType { .. }) => true,
        Error::Transport(TransportError::Unsupported(_)) => true,
        _ => false,
    }
}

/// Polls the task until it ends or needs input. The time limit of the turn applies.
async fn poll(
    agent: &RemoteAgent,
    client: &Client,
    remote: &RemoteTask,
) -> Result<TaskObject, Error> {
    let max = agent.poll_interval.saturating_mul(5);
    let mut interval = agent.poll_interval;
    let mut first = true;
    loop {
        match get(client, &remote.task_id, true).await {
            Ok(task)
                if is_settled(&task) && !(remote.is_continued && has_unprocessed_input(&task)) =>
            {
                return Ok(task);
            }
            Ok(_) => {}
            Err(error) if error.is_retryable() && !first => {}
            Err(error) => return Err(error),
        }
        first = false;
        sleep(interval).await;
        interval = next_interval(interval, max);
    }
}

fn next_interval(interval: Duration, max: Duration) -> Duration {
    interval.mul_f64(1.5).min(max)
}

/// Returns true if the task still waits for input although our answer was sent: the peer has not processed it yet.
fn has_unprocessed_input(task: &TaskObject) -> bool {
    let last = task.messages.as_ref().and_then(|messages| messages.last());
    needs_input(task) && last.is_some_and(|message| message.role() != Role::Agent)
}

fn needs_input(task: &TaskObject) -> bool {
    matches!(
        task.status.0,
        TaskState::InputRequired | TaskState::AuthRequired
    )
}

fn is_settled(task: &TaskObject) -> bool {
    task.status.0.is_terminal() || needs_input(task)
}

/// Loads messages and artifacts of the task if its event did not include them.
async fn with_content(client: &Client, task: TaskObject) -> Result<TaskObject, Error> {
    let complete = task.messages.is_some() && (needs_input(&task) || task.artifacts.is_some());
    if complete {
        return Ok(task);
    }
    get(client, &task.task_id, true).await
}

async fn get(client: &Client, task_id: &str, include_content: bool) -> Result<TaskObject, Error> {
    let params = TasksGetParams {
        task_id: task_id.to_owned(),
        include_messages: Some(include_content),
        include_artifacts: Some(include_content),
    };
    client.tasks_get(&params).await
}

async fn finish_turn(
    agent: &RemoteAgent,
    remote: &RemoteTask,
    task: &TaskObject,
    last_event: Option<u64>,
    relay: &mut OutputRelay<'_>,
) -> Result<TurnOutcome, RemoteError> {
    let all = task.artifacts.as_deref().unwrap_or_default();
    for artifact in all.iter().skip(remote.artifact_count) {
        relay.final_artifact(artifact.clone()).await?;
    }
    let messages = task.messages.as_deref().unwrap_or_default();
    let last = messages
        .iter()
        .rev()
        .find(|message| message.role() == Role::Agent);
    let last = last.and_then(from_peer);
    let direct = !relay.has_artifacts();
    let last_or = |text: &str| last.clone().unwrap_or_else(|| Message::agent_text(text));
    let with_state = |question: Message| {
        let artifact_count = match &task.artifacts {
            Some(all) => all.len(),
            None => remote.artifact_count + relay.artifact_count(),
        };
        attach_state(
            question,
            &agent.info.id,
            &remote.task_id,
            last_event,
            artifact_count,
        )
    };
    Ok(match task.status.0 {
        TaskState::InputRequired => {
            TurnOutcome::InputRequired(with_state(last_or("More information is needed.")))
        }
        TaskState::AuthRequired => {
            TurnOutcome::AuthRequired(with_state(last_or("Sign-in is required first.")))
        }
        TaskState::Failed => TurnOutcome::Failed(last_or("The agent failed.")),
        TaskState::Rejected => TurnOutcome::Rejected(last),
        TaskState::Canceled => {
            let text = "The task was canceled by the remote agent.";
            TurnOutcome::Failed(failure_message(ErrorReason::Canceled.name(), text))
        }
        TaskState::Completed | TaskState::Submitted | TaskState::Working => {
            TurnOutcome::Completed {
                message: last,
                direct,
            }
        }
    })
}
