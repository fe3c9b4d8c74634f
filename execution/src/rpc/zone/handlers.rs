//! What each method does: read, ask the hub, say what came of it. Rules live in the hub, shapes in
//! `convert`, codes in `errors`.

use super::came::{self, Came};
use super::convert::{self, Asked};
use super::live::Live;
use super::wait::Waiting;
use super::{Answer, Told};
use crate::card;
use crate::rpc::errors::{self, Fault};
use crate::rpc::{Context, Reply};
use interzone_edge::request::Correlation;
use interzone_hub::{Feedback, HubError, NewTask, Once, Route};
use interzone_protocol::vocab::{Json, Message, TaskId};
use interzone_protocol::zone::{
    CancelResult, ExecuteStatus, ExecuteTaskParams, FeedbackParams, FeedbackResult, TaskIdParams,
    TaskResult, TaskResultStatus, Verdict, WireFault,
};

type Outcome = Result<Reply, Fault>;

fn task_id(text: &str) -> Result<TaskId, Fault> {
    TaskId::new(text).map_err(|_| errors::zone::unknown_task(text).into())
}

fn answered(answer: Answer) -> Outcome {
    Ok(Reply::Zone(answer))
}

pub(crate) async fn execute(cx: &Context<'_>, mut params: ExecuteTaskParams) -> Outcome {
    let given = params.correlation_id.as_deref();
    if let Some(given) = given.and_then(Correlation::given) {
        cx.correlate(given);
    }
    let asked = Asked::by(&params, cx.id, cx.origin.trace.as_ref());
    let once = convert::once(cx.id, &params);
    let attachments = params.attachments.take().unwrap_or_default();
    let room = cx.hub().limits().message_bytes;
    let message = convert::message(&params.text, attachments, room);
    let message = message.map_err(|_| errors::zone::missing(&["text"], true))?;
    // What was begun by the same call before is told from its beginning on.
    let (begun, after) = match params.task_id.take() {
        Some(id) => {
            let begun = go_on(cx, &id, message, once).await?;
            let now = begun.task.seq;
            (begun, now)
        }
        None => (begin(cx, &params, &asked, message, once).await?, 0),
    };
    cx.about(begun.task.id.as_str());
    if let Some(id) = cx.id.filter(|_| cx.origin.live) {
        let live = Live::begin(cx, begun, after, asked, id).await?;
        return Ok(Reply::Live(Box::new(live)));
    }
    let task = begun.task.id.clone();
    match begun.until(cx, &asked).await {
        Came::Running => {
            let accepted = asked.result(ExecuteStatus::Accepted, task.as_str());
            answered(Answer::new(Told::Execute(Box::new(accepted))))
        }
        Came::Done(done) => answered(Answer {
            told: Told::Execute(Box::new(done.result)),
            large: done.large,
        }),
        Came::Failed(error) => Err(Fault::Wire(error)),
    }
}

/// Begins a task, or finds the one that the same call began before.
async fn begin(
    cx: &Context<'_>,
    params: &ExecuteTaskParams,
    asked: &Asked,
    message: Message,
    once: Option<Once>,
) -> Result<Waiting, Fault> {
    let new = NewTask {
        before: convert::before(params.context.as_deref()),
        route: Route {
            channel: Some(params.channel.clone()),
            ..Route::default()
        },
        metadata: asked.metadata(),
        asking: asked.asking(),
        once: once.clone(),
        at_once: true,
        // Who is told as it goes on is told from the beginning.
        at_hand: !cx.origin.live,
        ..NewTask::new(message)
    };
    match (cx.hub().begin_task(cx.caller, new).await, once) {
        (Ok(begun), _) => Ok(begun.into()),
        // Whether there is still an agent for it does not matter to what was begun before.
        (Err(error @ HubError::AgentUnavailable), Some(once)) => {
            let begun = cx.hub().begun_by(cx.caller, &once.key).await?;
            Ok(Waiting::for_old(begun.ok_or(error)?))
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// Answers a task that asked back.
async fn go_on(
    cx: &Context<'_>,
    id: &str,
    message: Message,
    once: Option<Once>,
) -> Result<Waiting, Fault> {
    cx.about(id);
    let id = task_id(id)?;
    let task = cx.hub().answer(cx.caller, &id, message, once).await?;
    Ok(Waiting::for_old(task))
}

pub(crate) async fn result(cx: &Context<'_>, params: TaskIdParams) -> Outcome {
    cx.about(&params.task_id);
    let id = task_id(&params.task_id)?;
    let came = came::of(cx.zone, cx.caller, &id, None, &cx.memory).await?;
    let mut told = TaskResult {
        status: TaskResultStatus::Running,
        task_id: id.to_string(),
        progress: None,
        result: None,
        error: None,
    };
    let mut large = Vec::new();
    match came {
        Came::Running => {
            let task = cx.hub().task(cx.caller, &id).await?;
            told.progress = came::progress(cx.zone, &id, task.seq).await;
        }
        Came::Done(done) => {
            told.status = TaskResultStatus::Completed;
            told.result = Some(done.result);
            large = done.large;
        }
        Came::Failed(error) => {
            told.status = TaskResultStatus::Failed;
            told.error = Some(WireFault {
                code: error.code.get().into(),
                message: error.message.to_string(),
                data: error.data.as_ref().and_then(|data| Json::of(data).ok()),
            });
        }
    }
    answered(Answer {
        told: Told::Task(Box::new(told)),
        large,
    })
}

pub(crate) async fn cancel(cx: &Context<'_>, params: TaskIdParams) -> Outcome {
    cx.about(&params.task_id);
    let id = task_id(&params.task_id)?;
    let task = cx.hub().cancel(cx.caller, &id, None).await?;
    answered(Answer::new(Told::Cancel(CancelResult {
        status: "canceled".to_owned(),
        task_id: task.id.to_string(),
    })))
}

pub(crate) async fn feedback(cx: &Context<'_>, params: FeedbackParams) -> Outcome {
    cx.about(&params.task_id);
    let task_id = task_id(&params.task_id)?;
    let given = Feedback {
        task_id: task_id.clone(),
        who: params.user_id,
        good: params.verdict == Verdict::Up,
        comment: params.comment,
        at: params.given_at.unwrap_or_else(|| cx.hub().now()),
    };
    cx.hub().give_feedback(cx.caller, given).await?;
    answered(Answer::new(Told::Feedback(FeedbackResult {
        status: "kept".to_owned(),
        task_id: task_id.to_string(),
    })))
}

pub(crate) fn card(cx: &Context<'_>) -> Outcome {
    answered(Answer::new(Told::Card(Box::new(card::of(
        cx.zone,
        cx.origin.door,
    )))))
}
