//! A turn at a peer that speaks ACP: a task is begun or continued there and watched to its end, or
//! asked about again and again where it cannot be watched.

use super::carried::{Carried, Memory, remembered, remembering};
use super::passing::{Passing, inward, outward, since};
use super::{FAREWELL, RemoteAgent, faults};
use crate::agents::stopped;
use http::StatusCode;
use interzone_client::{AnswerFault, Client, Error, TransportError, Watched};
use interzone_hub::{AgentError, Outcome, Output, Turn, failure};
use interzone_protocol::acp::{
    TaskObject, TasksCancelParams, TasksCreateParams, TasksGetParams, TasksListParams,
    TasksSendParams,
};
use interzone_protocol::vocab::{Message, Role, TaskState};
use interzone_protocol::zone::ErrorWord;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// An earlier attempt's task is looked for among so many of the peer's.
const PAGES: usize = 5;
const PAGE: u32 = 100;

/// A turn's place at the peer.
struct Seat {
    task: String,
    /// The last event that was seen before this turn.
    after: Option<u64>,
    /// How many artifacts there were before this turn.
    made: usize,
    /// Whether the task was there before this turn.
    continued: bool,
}

/// Why a turn could not be taken to its end.
enum Trouble {
    /// With the peer.
    Peer(Error),
    /// With what was to be passed on.
    Ours(AgentError),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Peer(error)
    }
}

impl From<AgentError> for Trouble {
    fn from(error: AgentError) -> Self {
        Self::Ours(error)
    }
}

pub(super) async fn run(
    agent: &RemoteAgent,
    client: &Client,
    carried: &Carried,
    turn: &Turn,
    output: &dyn Output,
) -> Result<Outcome, AgentError> {
    let begun = begin(agent, client, carried, turn);
    tokio::pin!(begun);
    let seat = tokio::select! {
        biased;
        () = turn.stop.cancelled() => {
            // A task that is being begun is waited for: else nobody could call it off.
            if let Ok(Ok(seat)) = timeout(FAREWELL, begun).await {
                call_off(client, &seat.task).await;
            }
            return Err(stopped());
        }
        seat = &mut begun => seat,
    };
    let seat = match seat {
        Ok(seat) => seat,
        Err(error) => return faults::ended(&error),
    };
    let followed = tokio::select! {
        biased;
        () = turn.stop.cancelled() => None,
        followed = follow(agent, client, &seat, output) => Some(followed),
    };
    match followed {
        Some(Ok(outcome)) => Ok(outcome),
        Some(Err(Trouble::Peer(error))) => faults::ended(&error),
        // What the peer makes is not taken any more, so it need not go on.
        Some(Err(Trouble::Ours(error))) => {
            call_off(client, &seat.task).await;
            Err(error)
        }
        None => {
            call_off(client, &seat.task).await;
            Err(stopped())
        }
    }
}

async fn call_off(client: &Client, task: &str) {
    let params = TasksCancelParams {
        task_id: task.to_owned(),
        reason: Some("called off by whoever asked".to_owned()),
    };
    let refused = match timeout(FAREWELL, client.tasks_cancel(&params)).await {
        Ok(Ok(_)) => return,
        Ok(Err(error)) if error.error_word() == ErrorWord::TaskFinished => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {FAREWELL:?}"),
    };
    tracing::warn!(error = %refused, "a task could not be called off at the peer");
}

async fn begin(
    agent: &RemoteAgent,
    client: &Client,
    carried: &Carried,
    turn: &Turn,
) -> Result<Seat, Error> {
    let again = turn.attempt > 1;
    if let Some((asked, memory)) = remembered(&turn.history, &agent.info.id) {
        // Whoever died at this turn may have told the peer already.
        if !again || is_waiting(&get(client, &memory.task, false).await?) {
            let (said, _) = since(turn, Some(asked), carried.zone.is_some());
            tell(client, &memory, &said).await?;
        }
        return Ok(Seat {
            task: memory.task,
            after: memory.after,
            made: memory.made,
            continued: true,
        });
    }
    let seat = |task: String| Seat {
        task,
        after: None,
        made: 0,
        continued: false,
    };
    if again && let Some(task) = find(client, carried).await? {
        return Ok(seat(task));
    }
    let (said, _) = since(turn, None, carried.zone.is_some());
    let message = outward(&said).unwrap_or_else(|| Message::user_text(""));
    let params = TasksCreateParams {
        initial_message: message,
        assign_to: agent.assign_to.clone(),
        priority: Some(turn.task.priority),
        metadata: carried.metadata(),
    };
    Ok(seat(client.tasks_create(&params).await?.task_id))
}

async fn tell(client: &Client, memory: &Memory, messages: &[&Message]) -> Result<(), Error> {
    let params = TasksSendParams {
        task_id: memory.task.clone(),
        message: outward(messages).unwrap_or_else(|| Message::user_text("")),
    };
    client.tasks_send(&params).await.map(drop)
}

/// The task that an earlier attempt began, if the peer can list its tasks and it was not called off
/// since. A peer that cannot may do the work twice.
async fn find(client: &Client, carried: &Carried) -> Result<Option<String>, Error> {
    let mut params = TasksListParams {
        limit: Some(PAGE),
        ..TasksListParams::default()
    };
    for _ in 0..PAGES {
        let page = match client.tasks_list(&params).await {
            Ok(page) => page,
            Err(error) if error.refusal().is_some() => return Ok(None),
            Err(error) => return Err(error),
        };
        let ours = |task: &&TaskObject| carried.began(task.metadata.as_ref());
        if let Some(task) = page.tasks.iter().find(ours) {
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

async fn follow(
    agent: &RemoteAgent,
    client: &Client,
    seat: &Seat,
    output: &dyn Output,
) -> Result<Outcome, Trouble> {
    let mut passing = Passing::new(output);
    // Without knowing where it left off, the old question would be seen again.
    let watchable = !seat.continued || seat.after.is_some();
    if watchable {
        let mut watch = client.watch_task(&seat.task, seat.after);
        while let Some(event) = watch.next().await {
            match event {
                Ok(Watched::Text { offset, delta, .. }) => passing.text_at(offset, &delta).await?,
                Ok(Watched::StatusLine(line)) => passing.status(&line).await?,
                Ok(Watched::Artifact(artifact)) => passing.artifact(artifact).await?,
                Ok(
                    Watched::StatusChange(task) | Watched::Completed(task) | Watched::Failed(task),
                ) if is_settled(&task) => {
                    let task = whole(client, task).await?;
                    let after = watch.position();
                    return settled(agent, seat, &task, after, &mut passing).await;
                }
                Ok(_) => {}
                Err(error) if cannot_watch(&error) => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    let task = poll(agent, client, seat).await?;
    settled(agent, seat, &task, None, &mut passing).await
}

/// Whether the peer has no such door, as few have.
fn cannot_watch(error: &Error) -> bool {
    let none = [
        StatusCode::NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED,
        StatusCode::NOT_ACCEPTABLE,
        StatusCode::NOT_IMPLEMENTED,
    ];
    match error {
        Error::Http { status, .. } => none.contains(status),
        Error::Refused(refusal) => none.contains(&refusal.status),
        Error::Answer(AnswerFault::ContentType { .. }) => true,
        Error::Transport(TransportError::Unsupported(_)) => true,
        _ => false,
    }
}

/// Asks until there is something to tell. The turn's own time is the limit.
async fn poll(agent: &RemoteAgent, client: &Client, seat: &Seat) -> Result<TaskObject, Error> {
    let longest = agent.poll.saturating_mul(5);
    let mut wait = agent.poll;
    let mut first = true;
    loop {
        match get(client, &seat.task, true).await {
            Ok(task) if is_settled(&task) && !(seat.continued && is_old(&task)) => return Ok(task),
            Ok(_) => {}
            Err(error) if error.is_retryable() && !first => {}
            Err(error) => return Err(error),
        }
        first = false;
        sleep(wait).await;
        wait = next(wait, longest);
    }
}

fn next(wait: Duration, longest: Duration) -> Duration {
    wait.mul_f64(1.5).min(longest)
}

/// Whether the peer still waits, though it has our answer: it has not come to it yet.
fn is_old(task: &TaskObject) -> bool {
    let last = task.messages.as_ref().and_then(|messages| messages.last());
    is_waiting(task) && last.is_some_and(|message| message.role() != Role::Agent)
}

fn is_waiting(task: &TaskObject) -> bool {
    matches!(
        task.status.0,
        TaskState::InputRequired | TaskState::AuthRequired
    )
}

fn is_settled(task: &TaskObject) -> bool {
    task.status.0.is_terminal() || is_waiting(task)
}

/// The task with what hangs on it; peers need not send that with an event.
async fn whole(client: &Client, task: TaskObject) -> Result<TaskObject, Error> {
    let complete = task.messages.is_some() && (is_waiting(&task) || task.artifacts.is_some());
    if complete {
        return Ok(task);
    }
    get(client, &task.task_id, true).await
}

async fn get(client: &Client, task: &str, whole: bool) -> Result<TaskObject, Error> {
    let params = TasksGetParams {
        task_id: task.to_owned(),
        include_messages: Some(whole),
        include_artifacts: Some(whole),
    };
    client.tasks_get(&params).await
}

async fn settled(
    agent: &RemoteAgent,
    seat: &Seat,
    task: &TaskObject,
    after: Option<u64>,
    passing: &mut Passing<'_>,
) -> Result<Outcome, Trouble> {
    let all = task.artifacts.as_deref().unwrap_or_default();
    for artifact in all.iter().skip(seat.made) {
        passing.whole(artifact.clone()).await?;
    }
    let messages = task.messages.as_deref().unwrap_or_default();
    let last = messages
        .iter()
        .rev()
        .find(|message| message.role() == Role::Agent);
    let last = last.and_then(inward);
    let direct = !passing.made_something();
    let or = |text: &str| last.clone().unwrap_or_else(|| Message::agent_text(text));
    let ask = |question: Message| {
        let made = match &task.artifacts {
            Some(all) => all.len(),
            None => seat.made + passing.count(),
        };
        remembering(question, &agent.info.id, &seat.task, after, made)
    };
    Ok(match task.status.0 {
        TaskState::InputRequired => Outcome::InputRequired(ask(or("What more is there to know?"))),
        TaskState::AuthRequired => Outcome::AuthRequired(ask(or("Somebody must sign in first."))),
        TaskState::Failed => Outcome::Failed(or("The agent could not do it.")),
        TaskState::Rejected => Outcome::Rejected(last),
        TaskState::Canceled => {
            let text = "It was called off where it was done.";
            Outcome::Failed(failure(ErrorWord::Canceled.name(), text))
        }
        TaskState::Completed | TaskState::Submitted | TaskState::Working => Outcome::Completed {
            message: last,
            direct,
        },
    })
}
