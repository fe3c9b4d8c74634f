//! Messages that the envelope turns away. Which dialect they would have been is often not known, so what
//! is told of them has what any dialect asks for.

use super::errors::WireError;
use super::errors::zone::of_word;
use axum::http::StatusCode;
use interzone_jsonrpc::{ErrorCode, RawJson, Rejection, RequestId, Response};
use interzone_protocol::zone::ErrorWord;

/// The answer that is due, if one is.
pub(super) fn answer<'a>(rejection: &Rejection<'a>) -> Option<Response<'a>> {
    let id = rejection.answer()?.id().cloned();
    let error = rejection.error();
    let word = word(rejection.problem().code());
    let data = error.data().and_then(|data| {
        let members = data.as_str().strip_suffix('}')?;
        let whole = format!("{members},\"error_code\":\"{}\"}}", word.name());
        RawJson::parse(&whole).ok().map(RawJson::into_owned)
    });
    Some(match data {
        Some(data) => Response::failure(id, error.with_data(data)),
        None => Response::failure(id, error),
    })
}

/// The status that goes with it.
pub(super) fn status(code: ErrorCode) -> StatusCode {
    of_word(word(code)).http
}

fn word(code: ErrorCode) -> ErrorWord {
    match code {
        ErrorCode::PARSE_ERROR => ErrorWord::ParseError,
        ErrorCode::METHOD_NOT_FOUND => ErrorWord::MethodNotFound,
        _ => ErrorWord::InvalidRequest,
    }
}

/// The answer to a request whose sender has not proved who they are.
pub(super) fn unproved(id: Option<RequestId<'_>>, error: &WireError) -> Vec<u8> {
    let mut body = Vec::new();
    Response::failure(id, error.error()).write_to(&mut body);
    body
}
