//! Sends idempotent requests to the issuer and retries once if a pooled connection was closed.
//!
//! Never use it for a request that changes something at the issuer.

use reqwest::{Error, RequestBuilder, Response};

/// Sends a request. If the connection closes before a response arrives, the request is sent once more on another
/// connection: an issuer closes idle connections, and may do so just as one is reused.
pub(super) async fn send_with_retry(request: RequestBuilder) -> Result<Response, Error> {
    let retry = request.try_clone();
    let response = match (request.send().await, retry) {
        (Err(error), Some(retry)) if is_connection_closed(&error) => retry.send().await,
        (answer, _) => answer,
    };
    response.and_then(Response::error_for_status)
}

/// Returns true if the request was sent and no response arrived. A connect error or timeout is not worth a retry.
fn is_connection_closed(error: &Error) -> bool {
    error.is_request() && !error.is_connect() && !error.is_timeout()
}
