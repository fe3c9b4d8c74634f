//! Batches: calls run one after another, or concurrently where order does not matter.
//!
//! Responses can be much larger than their calls. They are therefore collected only up to the body limit and the
//! caller's share of the response memory, and concurrency adapts to the size of the responses so far.

use super::body::ResponseBuilder;
use super::errors::CallError;
use super::{
    AuthenticatedCaller, CallOutcome, IncomingItem, ItemResult, RequestMeta, ResponseTarget,
    invalid_message, map_error, serve_item, write_result,
};
use crate::state::ExecutionState;
use axum::http::StatusCode;
use futures_util::{StreamExt, stream};
use interzone_edge::budget::MemoryBudget;
use interzone_jsonrpc::Message;

/// Initial concurrency.
const INITIAL_CONCURRENCY: usize = 4;
/// Maximum concurrency.
const MAX_CONCURRENCY: usize = 64;
/// Concurrency of blocking calls.
const BLOCKING_CONCURRENCY: usize = 32;
/// Average response size in bytes above which calls run one at a time.
const LARGE_RESPONSE: usize = 64 * 1024;

/// Memory in bytes for the response of a call that is not executed.
const REJECTION_BYTES: usize = 256;

/// Serves the calls of a batch and writes the responses in their order.
pub(super) async fn serve<'a>(
    zone: &ExecutionState,
    caller: &AuthenticatedCaller,
    items: Vec<IncomingItem<'a>>,
    meta: &RequestMeta,
    responses: &mut ResponseBuilder,
) {
    let mut items = items.into_iter().peekable();
    let mut concurrency = INITIAL_CONCURRENCY;
    let share = caller.share();
    while items.peek().is_some() {
        if responses.size() > zone.limits.body_bytes {
            return items.for_each(|item| reject(zone, meta, item, &too_large(), responses));
        }
        // Unordered calls run concurrently, with responses in order; any other call runs alone.
        let limit = match items.peek() {
            Some(item) if item.is_blocking() => BLOCKING_CONCURRENCY,
            _ => concurrency,
        };
        // A call reserves memory for what it reads beyond one page; the first page of each is reserved here.
        let rejections = items.len().saturating_mul(REJECTION_BYTES);
        let needed = |calls: usize| calls.saturating_mul(MemoryBudget::PAGE) + rejections;
        let mut limit = limit.min(items.len());
        while !responses.reserve_more(needed(limit), &zone.limits.response_memory, &share) {
            if limit > 1 {
                limit /= 2;
                continue;
            }
            // As for a single call, one page needs no reservation.
            if responses.size() + rejections > MemoryBudget::PAGE {
                let busy = CallError::Busy("busy");
                return items.for_each(|item| reject(zone, meta, item, &busy, responses));
            }
            break;
        }
        let mut group = Vec::with_capacity(limit);
        while group.len() < limit
            && let Some(item) = items.next_if(IncomingItem::is_unordered)
        {
            group.push(serve_item(zone, caller, item, meta, None));
        }
        if group.is_empty() {
            group.extend(
                items
                    .next()
                    .map(|item| serve_item(zone, caller, item, meta, None)),
            );
        }
        let size_before = responses.size();
        let count = group.len();
        let mut group = stream::iter(group).buffered(MAX_CONCURRENCY);
        while let Some(result) = group.next().await {
            let ItemResult {
                target: due,
                outcome,
                reserved,
                ..
            } = result;
            write_result(responses, due.as_ref(), &outcome, reserved);
        }
        responses.shrink_reservation();
        concurrency = match (responses.size() - size_before) / count.max(1) {
            0..=LARGE_RESPONSE => concurrency.saturating_mul(2).min(MAX_CONCURRENCY),
            _ => 1,
        };
    }
}

fn too_large() -> CallError {
    CallError::transport(
        StatusCode::PAYLOAD_TOO_LARGE,
        "The responses of this batch are too large; send fewer calls per batch",
        "too_large",
    )
}

/// Rejects a call that is not executed.
fn reject<'a>(
    zone: &ExecutionState,
    meta: &RequestMeta,
    item: IncomingItem<'a>,
    error: &CallError,
    responses: &mut ResponseBuilder,
) {
    let target = match item.message {
        Ok(Message::Request(request)) => ResponseTarget::Request(request),
        Ok(Message::Notification(_) | Message::Response(_)) => return,
        Err(rejection) => {
            let methods = zone.methods_at(meta.endpoint.path);
            let response = invalid_message::response(methods, &rejection);
            return response.iter().for_each(|answer| responses.push(answer));
        }
    };
    let error = map_error(zone, meta, item.method, error);
    zone.metrics.record_request("none", error.label, 0.0);
    write_result(
        responses,
        Some(&target),
        &CallOutcome::Failed(Box::new(error)),
        None,
    );
}

impl IncomingItem<'_> {
    fn is_blocking(&self) -> bool {
        let is_request = matches!(self.message, Ok(Message::Request(_)));
        is_request && self.method.is_some_and(|method| method.info.is_blocking)
    }

    fn is_unordered(&self) -> bool {
        self.method.is_none_or(|method| method.info.is_unordered)
    }
}
