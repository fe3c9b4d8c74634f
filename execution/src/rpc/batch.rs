//! Batches: calls run one after another, or concurrently where order does not matter.
//!
//! Responses can be much larger than their calls. They are therefore collected only up to the body limit, and
//! concurrency adapts to the size of the responses so far.

use super::body::ResponseBuilder;
use super::{
    AuthenticatedCaller, CallOutcome, ItemResult, RequestMeta, ResponseTarget, dispatch, errors,
    invalid_message, serve_item, write_item,
};
use crate::state::ExecutionState;
use axum::http::StatusCode;
use futures_util::{StreamExt, stream};
use interzone_jsonrpc::{Item, Message};

/// Initial concurrency.
const INITIAL_CONCURRENCY: usize = 4;
/// Maximum concurrency.
const MAX_CONCURRENCY: usize = 64;
/// Concurrency of blocking calls.
const BLOCKING_CONCURRENCY: usize = 32;
/// Average response size in bytes above which calls run one at a time.
const LARGE_RESPONSE: usize = 64 * 1024;

/// Serves the calls of a batch and writes the responses in their order.
pub(super) async fn serve<'a>(
    zone: &ExecutionState,
    caller: Option<&AuthenticatedCaller>,
    items: Vec<Item<'a>>,
    meta: &RequestMeta,
    responses: &mut ResponseBuilder,
) {
    let mut items = items.into_iter().peekable();
    let mut concurrency = INITIAL_CONCURRENCY;
    while items.peek().is_some() {
        if responses.size() > zone.limits.body_bytes {
            return items.for_each(|item| reject_oversize(zone, item, responses));
        }
        // Unordered calls run concurrently, with responses in order; any other call runs alone.
        let limit = match items.peek() {
            Some(item) if is_blocking(item) => BLOCKING_CONCURRENCY,
            _ => concurrency,
        };
        let mut group = Vec::with_capacity(limit);
        while group.len() < limit
            && let Some(item) = items.next_if(is_unordered)
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
            write_item(responses, due.as_ref(), &outcome, reserved);
            responses.shrink_reservation();
        }
        concurrency = match (responses.size() - size_before) / count.max(1) {
            0..=LARGE_RESPONSE => concurrency.saturating_mul(2).min(MAX_CONCURRENCY),
            _ => 1,
        };
    }
}

/// Rejects a call that is not executed because the responses are too large.
fn reject_oversize<'a>(zone: &ExecutionState, item: Item<'a>, responses: &mut ResponseBuilder) {
    let target = match item {
        Ok(Message::Request(request)) => ResponseTarget::Request(request),
        Ok(Message::Notification(_) | Message::Response(_)) => return,
        Err(rejection) => {
            let response = invalid_message::response(&rejection);
            return response.iter().for_each(|answer| responses.push(answer));
        }
    };
    zone.metrics.record_request("none", "too_large", 0.0);
    let error = errors::transport(
        StatusCode::PAYLOAD_TOO_LARGE,
        "The responses of this batch are too large; send fewer calls per batch",
        "too_large",
    );
    write_item(
        responses,
        Some(&target),
        &CallOutcome::Failed(Box::new(error)),
        None,
    );
}

fn is_blocking(item: &Item<'_>) -> bool {
    matches!(item, Ok(Message::Request(request)) if dispatch::is_blocking(request.method()))
}

fn is_unordered(item: &Item<'_>) -> bool {
    match item {
        Ok(Message::Request(request)) => dispatch::is_unordered(request.method()),
        Ok(Message::Notification(notification)) => dispatch::is_unordered(notification.method()),
        Ok(Message::Response(_)) | Err(_) => true,
    }
}
