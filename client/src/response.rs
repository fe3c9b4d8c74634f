//! Decodes responses of a peer: HTTP status, JSON-RPC envelope, id check and errors. Does no I/O.

use crate::error::{Error, InvalidResponse, RpcError};
use crate::http_exchange::HttpReply;
use http::{HeaderMap, StatusCode, header};
use interzone_jsonrpc::{
    self as jsonrpc, Batches, Message, Parsed, Policy, RawJson, RequestId, Response, parse,
};
use std::time::Duration;

/// Maximum `Retry-After` that is honored. A longer one is a mistake of the peer.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Response batches may be as large as the request, beyond the default limit.
const PARSE_POLICY: Policy = Policy {
    batches: Batches::UpTo(usize::MAX),
    ..Policy::CLIENT
};

/// Decodes the result of the call `id`.
pub(crate) fn decode_result(
    reply: &HttpReply,
    id: &RequestId<'_>,
) -> Result<RawJson<'static>, Error> {
    match parse_body(reply)? {
        Parsed::One(Ok(Message::Response(response))) => {
            check_id(&response, id)?;
            decode_response(reply, response)
        }
        Parsed::One(Err(rejection)) => Err(invalid_message(reply, rejection.kind())),
        Parsed::One(_) | Parsed::Batch(_) => Err(InvalidResponse::UnexpectedKind.into()),
    }
}

/// One event of a streamed response.
pub(crate) enum CallFrame {
    /// A notification before the result.
    Notification(jsonrpc::Notification<'static>),
    /// The result.
    Result(RawJson<'static>),
}

/// Decodes an event of the response to the call `id`.
pub(crate) fn decode_frame(data: &[u8], id: &RequestId<'_>) -> Result<CallFrame, Error> {
    match parse(data, &PARSE_POLICY) {
        Parsed::One(Ok(Message::Notification(note))) => {
            Ok(CallFrame::Notification(note.into_owned()))
        }
        Parsed::One(Ok(Message::Response(response))) => {
            check_id(&response, id)?;
            match response.into_outcome() {
                Ok(result) => Ok(CallFrame::Result(result.into_owned())),
                Err(error) => Err(rpc_error(StatusCode::OK, &HeaderMap::new(), error).into()),
            }
        }
        Parsed::One(Err(rejection)) => Err(InvalidResponse::Envelope(rejection.kind()).into()),
        Parsed::One(Ok(_)) | Parsed::Batch(_) => Err(InvalidResponse::UnexpectedKind.into()),
    }
}

/// Checks the response to a notification: none is due, but the peer may have sent an error.
pub(crate) fn check_notification(reply: &HttpReply) -> Result<(), Error> {
    if let Ok(Parsed::One(Ok(Message::Response(response)))) = parse_body(reply) {
        return decode_response(reply, response).map(drop);
    }
    if reply.status.is_success() {
        Ok(())
    } else {
        Err(http_error(reply))
    }
}

/// Decodes the responses to a batch, in the order received.
pub(crate) fn decode_batch(reply: &HttpReply) -> Result<Vec<Response<'static>>, Error> {
    let items = match parse_body(reply)? {
        Parsed::Batch(items) => items,
        // A single response: the whole batch was rejected.
        Parsed::One(Ok(Message::Response(response))) => {
            decode_response(reply, response)?;
            return Err(InvalidResponse::UnexpectedKind.into());
        }
        Parsed::One(Err(rejection)) => return Err(invalid_message(reply, rejection.kind())),
        Parsed::One(Ok(_)) => return Err(InvalidResponse::UnexpectedKind.into()),
    };
    let response = |item: jsonrpc::Item<'_>| match item {
        Ok(Message::Response(response)) => Ok(response.into_owned()),
        Ok(_) => Err(InvalidResponse::UnexpectedKind.into()),
        Err(rejection) => Err(InvalidResponse::Envelope(rejection.kind()).into()),
    };
    items.into_iter().map(response).collect()
}

fn parse_body(reply: &HttpReply) -> Result<Parsed<'_>, Error> {
    if !is_json(&reply.headers) {
        return Err(if reply.status.is_success() && !reply.body.is_empty() {
            let expected = "application/json";
            InvalidResponse::ContentType { expected }.into()
        } else {
            http_error(reply)
        });
    }
    Ok(parse(&reply.body, &PARSE_POLICY))
}

fn check_id(response: &Response<'_>, id: &RequestId<'_>) -> Result<(), InvalidResponse> {
    match response.id() {
        Some(received) if received == id => Ok(()),
        // A peer that could not parse the call does not know its id.
        None if response.error().is_some() => Ok(()),
        received => Err(InvalidResponse::IdMismatch {
            expected: id.to_string(),
            received: received.map_or_else(|| "null".to_owned(), ToString::to_string),
        }),
    }
}

/// Decodes one response of a reply.
pub(crate) fn decode_response(
    reply: &HttpReply,
    response: Response<'_>,
) -> Result<RawJson<'static>, Error> {
    match response.into_outcome() {
        Ok(result) => Ok(result.into_owned()),
        Err(error) => Err(rpc_error(reply.status, &reply.headers, error).into()),
    }
}

fn rpc_error(status: StatusCode, headers: &HeaderMap, error: jsonrpc::ErrorObject<'_>) -> RpcError {
    let mut error = RpcError {
        code: error.code(),
        message: error.message().to_owned(),
        data: error.data().map(|data| data.borrowed().into_owned()),
        status,
        retry_after: retry_after(headers),
    };
    if error.retry_after.is_none() {
        let seconds = error.data_field::<u64>("retryAfter");
        error.retry_after = seconds
            .map(Duration::from_secs)
            .filter(|w| *w <= MAX_RETRY_AFTER);
    }
    error
}

/// Error for a JSON body that is not a valid message: an HTTP error status takes precedence.
fn invalid_message(reply: &HttpReply, problem: jsonrpc::InvalidMessageKind) -> Error {
    if reply.status.is_success() {
        InvalidResponse::Envelope(problem).into()
    } else {
        http_error(reply)
    }
}

pub(crate) fn http_error(reply: &HttpReply) -> Error {
    Error::Http {
        status: reply.status,
        retry_after: retry_after(&reply.headers),
    }
}

/// Parses `Retry-After` in seconds; the date form would need clocks that agree.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let wait = Duration::from_secs(value.trim().parse().ok()?);
    (wait <= MAX_RETRY_AFTER).then_some(wait)
}

fn is_json(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|media_type| {
        media_type.eq_ignore_ascii_case("application/json")
            || media_type.to_ascii_lowercase().ends_with("+json")
    })
}

/// Returns the media type without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    value.split(';').next().map(str::trim)
}
