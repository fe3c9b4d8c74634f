//! `interzone.requests.find`: looks up requests in the request log for operators. Returns no content.

use super::acp::{convert, errors};
use super::context::CallContext;
use super::errors::CallError;
use super::reply::CallReply;
use crate::request_log::id_json;
use interzone_hub::ports::{RequestLogEntry, RequestQuery};
use interzone_hub::{Caller, EventBody, Hub, HubError, Subject, failure_code};
use interzone_jsonrpc::RequestId;
use interzone_protocol::acp::{
    RequestList, RequestRecord, RequestsFindParams, TaskTrace, TraceEvent,
};
use interzone_protocol::vocab::TaskId;
use std::collections::HashMap;

/// Default and maximum number of records returned.
const PAGE_SIZE: (usize, usize) = (20, 200);
/// Number of tasks whose events are included; later ones only have their state.
const MAX_TIMELINES: usize = 10;
/// Maximum number of events read per task, and per page.
const EVENT_LIMITS: (usize, usize) = (2_000, 500);

/// Finds requests.
pub(super) async fn requests_find(
    cx: &CallContext<'_>,
    params: RequestsFindParams,
) -> Result<CallReply, CallError> {
    let task = match &params.task_id {
        None => None,
        Some(text) => match convert::task_id(text) {
            Some(id) => Some(id),
            None => return Err(errors::unknown_task(text).into()),
        },
    };
    let limit = params.limit.and_then(|limit| usize::try_from(limit).ok());
    let query = RequestQuery {
        id: params.id.as_ref().map(id_json),
        correlation_id: params.correlation_id,
        task,
        since: params.since,
        limit: limit.unwrap_or(PAGE_SIZE.0).clamp(1, PAGE_SIZE.1),
    };
    let hub = cx.hub();
    if let Some(log) = &cx.zone.request_log {
        log.flushed().await;
    }
    let found = hub
        .store()
        .find_requests(&query)
        .await
        .map_err(HubError::from)?;
    // The scope was checked: operators see requests of all callers.
    let operator = Caller::operator(cx.caller.principal.clone());
    let mut traces: HashMap<TaskId, Option<TaskTrace>> = HashMap::new();
    for id in found.iter().filter_map(|record| record.task.as_ref()) {
        if !traces.contains_key(id) {
            let with_events = traces.len() < MAX_TIMELINES;
            let trace = task_trace(hub, &operator, id, with_events).await?;
            traces.insert(id.clone(), trace);
        }
    }
    let records = found.into_iter().map(|record| to_object(record, &traces));
    Ok(CallReply::json(RequestList {
        requests: records.collect(),
    }))
}

fn to_object(
    record: RequestLogEntry,
    traces: &HashMap<TaskId, Option<TaskTrace>>,
) -> RequestRecord {
    let trace = record.task.as_ref().and_then(|id| traces.get(id).cloned());
    RequestRecord {
        at: record.answered_at,
        took_ms: record.duration.as_secs_f64() * 1000.0,
        id: record
            .id
            .map(|text| serde_json::from_str(&text).unwrap_or_else(|_| RequestId::from(text))),
        method: record.method,
        who: record.principal,
        client: record.client,
        correlation_id: record.correlation_id,
        outcome: record.outcome,
        code: record.code,
        address: record.address.map(|address| address.to_string()),
        task_id: record.task.map(|id| id.to_string()),
        task: trace.flatten(),
    }
}

/// Returns the state and events of a task; `None` if it was deleted.
async fn task_trace(
    hub: &Hub,
    operator: &Caller,
    id: &TaskId,
    with_events: bool,
) -> Result<Option<TaskTrace>, CallError> {
    let view = match hub.task_view(operator, id, 0, false).await {
        Ok(view) => view,
        Err(HubError::TaskNotFound(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let events = if with_events {
        timeline(hub, id).await?
    } else {
        Vec::new()
    };
    let task = view.task();
    let code = view.status_message().and_then(failure_code);
    Ok(Some(TaskTrace {
        state: task.state.name().to_owned(),
        error_code: code.map(|code| RequestLogEntry::truncate(&code).to_owned()),
        agent: task.agent.to_string(),
        owner: task.owner.to_string(),
        created_at: task.created_at,
        updated_at: task.updated_at,
        finished_at: task.finished_at,
        messages: task.message_count,
        artifacts: task.artifact_count,
        subscriptions: task.push_count,
        events,
    }))
}

/// Returns the kinds of a task's events, consecutive ones of the same kind counted.
async fn timeline(hub: &Hub, id: &TaskId) -> Result<Vec<TraceEvent>, CallError> {
    let subject = Subject::Task(id.clone());
    let mut timeline: Vec<TraceEvent> = Vec::new();
    let (mut after, mut count) = (0, 0);
    while count < EVENT_LIMITS.0 {
        let page = hub.store().events(&subject, after, EVENT_LIMITS.1);
        let page = page.await.map_err(HubError::from)?;
        for event in &page {
            after = event.seq;
            let (from, to) = match &event.body {
                EventBody::State { from, to, .. } => (Some(*from), Some(*to)),
                _ => (None, None),
            };
            let next = TraceEvent {
                at: event.at,
                event: event.body.name().to_owned(),
                from: from.map(|state| state.name().to_owned()),
                to: to.map(|state| state.name().to_owned()),
                count: 1,
            };
            match timeline.last_mut() {
                Some(last) if last.event == next.event && next.to.is_none() => last.count += 1,
                _ => timeline.push(next),
            }
        }
        count += page.len();
        if page.len() < EVENT_LIMITS.1 {
            break;
        }
    }
    Ok(timeline)
}
