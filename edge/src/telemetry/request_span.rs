//! Middleware that runs each request in a tracing span with its correlation id.

use super::traces::{current_context, set_remote_parent};
use crate::request_context::{CORRELATION_HEADER, CorrelationId, TraceParent};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

/// Runs the request in a span `request` with the field `correlation`, as a child of the caller's span if it sent one.
/// Use it with [`axum::middleware::from_fn`].
///
/// A request without a valid correlation id gets a generated one in its header, so that every reader sees the same.
pub async fn trace_request(mut request: Request, next: Next) -> Response {
    let headers = request.headers_mut();
    let correlation = CorrelationId::from_headers(headers);
    headers.insert(CORRELATION_HEADER, correlation.to_header());
    let parent = TraceParent::from_headers(headers);
    // The level is the highest, so that every log filter that lets a line through lets its correlation id through.
    let span = tracing::error_span!("request", %correlation);
    if let Some(parent) = &parent {
        set_remote_parent(&span, parent);
    }
    let mut response = next.run(request).instrument(span.clone()).await;
    if let Some(parent) = parent {
        current_context(&span)
            .unwrap_or_else(|| parent.child())
            .inject(response.headers_mut());
    }
    response
}
