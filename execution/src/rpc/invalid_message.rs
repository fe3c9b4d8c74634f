//! Responses to invalid messages. Their dialect is often unknown, so they have the fields of all dialects.

use super::dialect::MethodRegistry;
use super::zone::errors::from_reason;
use axum::http::StatusCode;
use interzone_jsonrpc::{ErrorCode, InvalidMessage, RawJson, Response};
use interzone_protocol::zone::ErrorReason;

/// Returns the error response, if one is due.
pub(super) fn response<'a>(
    methods: &MethodRegistry,
    rejection: &InvalidMessage<'a>,
) -> Option<Response<'a>> {
    let id = rejection.response()?.id().cloned();
    if let Some(error) = methods.invalid_message(rejection.kind().code()) {
        return Some(Response::failure(id, error));
    }
    let error = rejection.error();
    let reason = reason(rejection.kind().code());
    let data = error.data().and_then(|data| {
        let fields = data.as_str().strip_suffix('}')?;
        let object = format!("{fields},\"error_code\":\"{}\"}}", reason.name());
        RawJson::parse(&object).ok().map(RawJson::into_owned)
    });
    Some(match data {
        Some(data) => Response::failure(id, error.with_data(data)),
        None => Response::failure(id, error),
    })
}

/// Returns the HTTP status.
pub(super) fn http_status(methods: &MethodRegistry, code: ErrorCode) -> StatusCode {
    if methods.invalid_message(code).is_some() {
        return StatusCode::OK;
    }
    from_reason(reason(code)).http
}

fn reason(code: ErrorCode) -> ErrorReason {
    match code {
        ErrorCode::PARSE_ERROR => ErrorReason::ParseError,
        ErrorCode::METHOD_NOT_FOUND => ErrorReason::MethodNotFound,
        _ => ErrorReason::InvalidRequest,
    }
}
