//! Responses to invalid or unauthenticated messages. Their dialect is often unknown, so they have the fields of all
//! dialects.

use super::RpcResponse;
use super::body::ResponseBody;
use super::errors::WireError;
use super::errors::zone::{adapt_to_zone, from_reason};
use axum::http::StatusCode;
use interzone_jsonrpc::{
    ErrorCode, InvalidMessage, Message, Parsed, RawJson, Request, RequestId, Response,
};
use interzone_protocol::Dialect;
use interzone_protocol::zone::ErrorReason;

/// Returns the error response, if one is due.
pub(super) fn response<'a>(rejection: &InvalidMessage<'a>) -> Option<Response<'a>> {
    let id = rejection.response()?.id().cloned();
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
pub(super) fn http_status(code: ErrorCode) -> StatusCode {
    from_reason(reason(code)).http
}

fn reason(code: ErrorCode) -> ErrorReason {
    match code {
        ErrorCode::PARSE_ERROR => ErrorReason::ParseError,
        ErrorCode::METHOD_NOT_FOUND => ErrorReason::MethodNotFound,
        _ => ErrorReason::InvalidRequest,
    }
}

/// Rejects a request without executing any of it.
pub(super) fn reject_request(parsed: &Parsed<'_>, error: WireError) -> RpcResponse {
    let id = sole_request(parsed).and_then(|request| request.id().cloned());
    error_response(id, error)
}

fn sole_request<'p, 'a>(parsed: &'p Parsed<'a>) -> Option<&'p Request<'a>> {
    match parsed {
        Parsed::One(Ok(Message::Request(request))) => Some(request),
        _ => None,
    }
}

/// Rejects a request whose caller is not authenticated.
pub(super) fn unauthenticated(parsed: &Parsed<'_>, error: WireError) -> RpcResponse {
    let request = sole_request(parsed);
    let dialect = request.and_then(|request| Dialect::of_method(request.method()));
    let error = match dialect {
        Some(Dialect::Zone) => adapt_to_zone(error),
        _ => error,
    };
    error_response(request.and_then(|request| request.id().cloned()), error)
}

/// Rejects an unauthenticated request whose body was not read, so that its id and dialect are unknown.
pub(crate) fn unauthenticated_unread(error: WireError) -> RpcResponse {
    error_response(None, adapt_to_zone(error))
}

fn error_response(id: Option<RequestId<'_>>, error: WireError) -> RpcResponse {
    let mut body = Vec::new();
    Response::failure(id, error.to_error_object()).write_to(&mut body);
    RpcResponse {
        error: Some(Box::new(error.clone())),
        ..RpcResponse::new(error.http, Some(ResponseBody::new(body, Vec::new())))
    }
}
