//! Handlers of the zone dialect. Rules live in the hub, conversions in `convert`, error codes in `errors`.

use super::convert::{self, CallOrigin};
use super::outcome::{self, ZoneOutcome};
use super::stream::ExecuteStream;
use super::waiter::TaskWaiter;
use super::{ZoneReply, ZoneResult, errors};
use crate::card;
use crate::rpc::context::CallContext;
use crate::rpc::errors::CallError;
use crate::rpc::reply::CallReply;
use interzone_edge::request_context::CorrelationId;
use interzone_hub::{Feedback, IdempotencyKey, NewTask, Route};
use interzone_protocol::vocab::{Message, TaskId, VerbatimJson};
use interzone_protocol::zone::{
    CancelResult, ErrorObject, ExecuteStatus, ExecuteTaskParams, FeedbackParams, FeedbackResult,
    FeedbackVerdict, TaskIdParams, TaskResult, TaskResultStatus,
};

type ZoneHandlerResult = Result<CallReply, CallError>;

fn task_id(text: &str) -> Result<TaskId, CallError> {
    TaskId::new(text).map_err(|_| errors::unknown_task(text).into())
}

fn success(reply: ZoneReply) -> ZoneHandlerResult {
    Ok(CallReply::Result(Box::new(reply)))
}

pub(super) async fn execute_task(
    cx: &CallContext<'_>,
    mut params: ExecuteTaskParams,
) -> ZoneHandlerResult {
    let correlation_id = params.correlation_id.as_deref();
    if let Some(correlation) = correlation_id.and_then(CorrelationId::from_text) {
        cx.set_correlation(correlation);
    }
    let origin = CallOrigin::from_params(&params, cx.id, cx.meta.trace.as_ref());
    let idempotency_key = convert::idempotency_key(cx.id, &params);
    let attachments = params.attachments.take().unwrap_or_default();
    let limit = cx.hub().limits().message_bytes;
    let message = convert::message(&params.text, attachments, limit);
    let message = message.map_err(|_| errors::missing_params(&["text"], true))?;
    // A task that an earlier attempt of this call created is streamed from its beginning.
    let (waiter, after) = match params.task_id.take() {
        Some(id) => {
            let waiter = continue_task(cx, &id, message, idempotency_key).await?;
            let last_seq = waiter.task.seq;
            (waiter, last_seq)
        }
        None => (
            create_task(cx, &params, &origin, message, idempotency_key).await?,
            0,
        ),
    };
    cx.set_subject(waiter.task.id.as_str());
    if let Some(id) = cx.id.filter(|_| cx.meta.accepts_sse) {
        let stream = ExecuteStream::start(cx, waiter, after, origin, id).await?;
        return Ok(CallReply::Stream(Box::new(stream)));
    }
    let task = waiter.task.id.clone();
    match waiter.wait_until_deadline(cx, &origin).await {
        ZoneOutcome::Running => {
            let accepted = origin.result(ExecuteStatus::Accepted, task.as_str());
            success(ZoneReply::new(ZoneResult::Execute(Box::new(accepted))))
        }
        ZoneOutcome::Completed(completed) => success(ZoneReply {
            result: ZoneResult::Execute(Box::new(completed.result)),
            spliced: completed.spliced,
        }),
        ZoneOutcome::Failed(error) => Err(CallError::Wire(error)),
    }
}

/// Creates a task, or finds the one that an earlier attempt of this call created.
async fn create_task(
    cx: &CallContext<'_>,
    params: &ExecuteTaskParams,
    origin: &CallOrigin,
    message: Message,
    idempotency_key: Option<IdempotencyKey>,
) -> Result<TaskWaiter, CallError> {
    let new = NewTask {
        history: convert::history(params.context.as_deref()),
        route: Route {
            channel: Some(params.channel.clone()),
            ..cx.default_route()
        },
        metadata: origin.metadata(),
        thread_origin: origin.thread_origin(),
        idempotency_key,
        start_now: true,
        // A streamed call gets its answer as events, so it is not answered inline.
        allow_inline_answer: !cx.meta.accepts_sse,
        ..NewTask::new(message)
    };
    Ok(cx.hub().create_and_start(cx.caller, new).await?.into())
}

/// Answers a task that requires input.
async fn continue_task(
    cx: &CallContext<'_>,
    id: &str,
    message: Message,
    idempotency_key: Option<IdempotencyKey>,
) -> Result<TaskWaiter, CallError> {
    cx.set_subject(id);
    let id = task_id(id)?;
    let task = cx
        .hub()
        .answer_input(cx.caller, &id, message, idempotency_key)
        .await?;
    Ok(TaskWaiter::for_existing(task))
}

pub(super) async fn get_task_result(
    cx: &CallContext<'_>,
    params: TaskIdParams,
) -> ZoneHandlerResult {
    cx.set_subject(&params.task_id);
    let id = task_id(&params.task_id)?;
    let outcome = outcome::load_outcome(cx.zone, cx.caller, &id, None, &cx.memory).await?;
    let mut result = TaskResult {
        status: TaskResultStatus::Running,
        task_id: id.to_string(),
        progress: None,
        result: None,
        error: None,
    };
    let mut spliced = Vec::new();
    match outcome {
        ZoneOutcome::Running => {
            let task = cx.hub().task(cx.caller, &id).await?;
            result.progress = outcome::latest_status(cx.zone, &id, task.seq).await;
        }
        ZoneOutcome::Completed(completed) => {
            result.status = TaskResultStatus::Completed;
            result.result = Some(completed.result);
            spliced = completed.spliced;
        }
        ZoneOutcome::Failed(error) => {
            result.status = TaskResultStatus::Failed;
            result.error = Some(ErrorObject {
                code: error.code.get().into(),
                message: error.message.to_string(),
                data: error
                    .data
                    .as_ref()
                    .and_then(|data| VerbatimJson::from_value(data).ok()),
            });
        }
    }
    success(ZoneReply {
        result: ZoneResult::Task(Box::new(result)),
        spliced,
    })
}

pub(super) async fn cancel_task(cx: &CallContext<'_>, params: TaskIdParams) -> ZoneHandlerResult {
    cx.set_subject(&params.task_id);
    let id = task_id(&params.task_id)?;
    let task = cx.hub().cancel(cx.caller, &id, None).await?;
    success(ZoneReply::new(ZoneResult::Cancel(CancelResult {
        status: "canceled".to_owned(),
        task_id: task.id.to_string(),
    })))
}

pub(super) async fn feedback(cx: &CallContext<'_>, params: FeedbackParams) -> ZoneHandlerResult {
    cx.set_subject(&params.task_id);
    let task_id = task_id(&params.task_id)?;
    let feedback = Feedback {
        task_id: task_id.clone(),
        author: params.user_id,
        is_positive: params.verdict == FeedbackVerdict::Up,
        comment: params.comment,
        given_at: params.given_at.unwrap_or_else(|| cx.hub().now()),
    };
    cx.hub().give_feedback(cx.caller, feedback).await?;
    success(ZoneReply::new(ZoneResult::Feedback(FeedbackResult {
        status: "kept".to_owned(),
        task_id: task_id.to_string(),
    })))
}

pub(super) fn get_agent_card(cx: &CallContext<'_>) -> ZoneHandlerResult {
    success(ZoneReply::new(ZoneResult::Card(Box::new(
        card::agent_card(cx.zone, cx.meta.endpoint.path),
    ))))
}
