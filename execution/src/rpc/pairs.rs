//! What happened to a request: for operators, by any name that it has. Content stays where it is.

use super::errors::{self, Fault};
use super::{Context, Reply, acp::convert};
use crate::pairs::written;
use interzone_hub::ports::{Pair, PairQuery};
use interzone_hub::{Caller, EventBody, Hub, HubError, Subject, failure_word};
use interzone_jsonrpc::RequestId;
use interzone_protocol::acp::{PairList, PairObject, PairsFindParams, TaskTrace, TraceEvent};
use interzone_protocol::vocab::TaskId;
use std::collections::HashMap;

/// How many pairs are told to whoever does not say, and at most.
const PAGE: (usize, usize) = (20, 200);
/// Of how many tasks the whole story is told; of more, how it ended.
const STORIES: usize = 10;
/// How many events are looked at for one story, and at a time.
const EVENTS: (usize, usize) = (2_000, 500);

/// Finds pairs.
pub(super) async fn find(cx: &Context<'_>, params: PairsFindParams) -> Result<Reply, Fault> {
    let task = match &params.task_id {
        None => None,
        Some(text) => match convert::task_id(text) {
            Some(id) => Some(id),
            None => return Err(errors::unknown_task(text).into()),
        },
    };
    let limit = params.limit.and_then(|limit| usize::try_from(limit).ok());
    let query = PairQuery {
        id: params.id.as_ref().map(written),
        correlation: params.correlation_id,
        task,
        since: params.since,
        limit: limit.unwrap_or(PAGE.0).clamp(1, PAGE.1),
    };
    let hub = cx.hub();
    if let Some(log) = &cx.zone.pairs {
        log.settled().await;
    }
    let found = hub.store().pairs(&query).await.map_err(HubError::from)?;
    // The scope has been checked: whoever has it sees everybody's.
    let operator = Caller::operator(cx.caller.principal.clone());
    let mut traces: HashMap<TaskId, Option<TaskTrace>> = HashMap::new();
    for id in found.iter().filter_map(|pair| pair.task.as_ref()) {
        if !traces.contains_key(id) {
            let whole = traces.len() < STORIES;
            let trace = trace(hub, &operator, id, whole).await?;
            traces.insert(id.clone(), trace);
        }
    }
    let pairs = found.into_iter().map(|pair| object(pair, &traces));
    Ok(Reply::Pairs(PairList {
        pairs: pairs.collect(),
    }))
}

fn object(pair: Pair, traces: &HashMap<TaskId, Option<TaskTrace>>) -> PairObject {
    let trace = pair.task.as_ref().and_then(|id| traces.get(id).cloned());
    PairObject {
        at: pair.at,
        took_ms: pair.took.as_secs_f64() * 1000.0,
        id: pair
            .id
            .map(|text| serde_json::from_str(&text).unwrap_or_else(|_| RequestId::from(text))),
        method: pair.method,
        who: pair.who,
        client: pair.client,
        correlation_id: pair.correlation,
        outcome: pair.outcome,
        code: pair.code,
        address: pair.address.map(|address| address.to_string()),
        task_id: pair.task.map(|id| id.to_string()),
        task: trace.flatten(),
    }
}

/// What became of a task; nothing if it is kept no longer.
async fn trace(
    hub: &Hub,
    operator: &Caller,
    id: &TaskId,
    whole: bool,
) -> Result<Option<TaskTrace>, Fault> {
    let view = match hub.task_view(operator, id, 0, false).await {
        Ok(view) => view,
        Err(HubError::TaskNotFound(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let events = if whole {
        story(hub, id).await?
    } else {
        Vec::new()
    };
    let task = view.task();
    let word = view.status().and_then(failure_word);
    Ok(Some(TaskTrace {
        state: task.state.name().to_owned(),
        error_code: word.map(|word| Pair::cut(&word).to_owned()),
        agent: task.agent.to_string(),
        owner: task.owner.to_string(),
        created_at: task.created_at,
        updated_at: task.updated_at,
        finished_at: task.finished_at,
        messages: task.messages,
        artifacts: task.artifacts,
        subscriptions: task.pushes,
        events,
    }))
}

/// What happened to a task, told by the kind of each event alone.
async fn story(hub: &Hub, id: &TaskId) -> Result<Vec<TraceEvent>, Fault> {
    let subject = Subject::Task(id.clone());
    let mut told: Vec<TraceEvent> = Vec::new();
    let (mut after, mut seen) = (0, 0);
    while seen < EVENTS.0 {
        let page = hub.store().events(&subject, after, EVENTS.1);
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
            match told.last_mut() {
                Some(last) if last.event == next.event && next.to.is_none() => last.count += 1,
                _ => told.push(next),
            }
        }
        seen += page.len();
        if page.len() < EVENTS.1 {
            break;
        }
    }
    Ok(told)
}
