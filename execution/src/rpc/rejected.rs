//! Messages that the envelope turns away. Which dialect they would have been is often not known, so what
//! is told of them has what any dialect asks for.

use super::Served;
use super::content::Content;
use super::errors::WireError;
use super::errors::zone::{dressed, of_word};
use axum::http::StatusCode;
use interzone_jsonrpc::{
    ErrorCode, Message, Parsed, RawJson, Rejection, Request, RequestId, Response,
};
use interzone_protocol::Dialect;
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

/// The answer to a request of which nothing is done, whatever it asks for.
pub(super) fn refused_whole(parsed: &Parsed<'_>, error: WireError) -> Served {
    let id = sole_request(parsed).and_then(|request| request.id().cloned());
    refused(id, error)
}

fn sole_request<'p, 'a>(parsed: &'p Parsed<'a>) -> Option<&'p Request<'a>> {
    match parsed {
        Parsed::One(Ok(Message::Request(request))) => Some(request),
        _ => None,
    }
}

/// What is told to a caller who has not proved who they are.
pub(super) fn unproved(parsed: &Parsed<'_>, error: WireError) -> Served {
    let request = sole_request(parsed);
    let dialect = request.and_then(|request| Dialect::of_method(request.method()));
    let error = match dialect {
        Some(Dialect::Zone) => dressed(error),
        _ => error,
    };
    refused(request.and_then(|request| request.id().cloned()), error)
}

/// The same where the request was not read, so that neither its id nor its dialect is known. It has what any
/// dialect asks for.
pub(crate) fn unproved_unread(error: WireError) -> Served {
    refused(None, dressed(error))
}

fn refused(id: Option<RequestId<'_>>, error: WireError) -> Served {
    let mut body = Vec::new();
    Response::failure(id, error.error()).write_to(&mut body);
    Served {
        error: Some(Box::new(error.clone())),
        ..Served::new(error.http, Some(Content::new(body, Vec::new())))
    }
}
