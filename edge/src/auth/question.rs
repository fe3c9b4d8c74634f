//! A question to the issuer: it changes nothing there, so it may be put twice.
//!
//! What changes something at the issuer must never be sent from here.

use reqwest::{Error, RequestBuilder, Response};

/// Puts a question. If the connection breaks before there is an answer, it is put once more on another: an issuer
/// closes connections that it takes for idle, and may do so at the very moment we use one again.
pub(super) async fn put(question: RequestBuilder) -> Result<Response, Error> {
    let again = question.try_clone();
    let answer = match (question.send().await, again) {
        (Err(error), Some(again)) if broke(&error) => again.send().await,
        (answer, _) => answer,
    };
    answer.and_then(Response::error_for_status)
}

/// Whether it was sent, and nothing came back. Whoever cannot be reached, or is slow, stays so for a second try.
fn broke(error: &Error) -> bool {
    error.is_request() && !error.is_connect() && !error.is_timeout()
}
