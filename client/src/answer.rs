//! Reading what a peer answered: whose call it answers, whether it worked, and if not, why.
//! Nothing here sends or waits.

use crate::error::{AnswerFault, Error, Refusal};
use crate::peer::Reply;
use http::{HeaderMap, StatusCode, header};
use interzone_jsonrpc::{
    self as jsonrpc, Batches, Message, Parsed, Policy, RawJson, RequestId, Response, parse,
};
use std::time::Duration;

/// The longest wait that a peer may ask for. More is a mistake of its clock.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Answers come in batches as large as we asked for, whatever the usual limit.
const POLICY: Policy = Policy {
    batches: Batches::UpTo(usize::MAX),
    ..Policy::CLIENT
};

/// The result of the call `id`.
pub(crate) fn result(reply: &Reply, id: &RequestId<'_>) -> Result<RawJson<'static>, Error> {
    match messages(reply)? {
        Parsed::One(Ok(Message::Response(response))) => {
            belongs(&response, id)?;
            outcome(reply, response)
        }
        Parsed::One(Err(rejection)) => Err(unreadable(reply, rejection.problem())),
        Parsed::One(_) | Parsed::Batch(_) => Err(AnswerFault::Kind.into()),
    }
}

/// What one event of a call's answer says.
pub(crate) enum Told {
    /// Something on the way.
    Note(jsonrpc::Notification<'static>),
    /// The result.
    Result(RawJson<'static>),
}

/// Reads an event of the answer to the call `id`.
pub(crate) fn event(data: &[u8], id: &RequestId<'_>) -> Result<Told, Error> {
    match parse(data, &POLICY) {
        Parsed::One(Ok(Message::Notification(note))) => Ok(Told::Note(note.into_owned())),
        Parsed::One(Ok(Message::Response(response))) => {
            belongs(&response, id)?;
            match response.into_outcome() {
                Ok(result) => Ok(Told::Result(result.into_owned())),
                Err(error) => Err(refusal(StatusCode::OK, &HeaderMap::new(), error).into()),
            }
        }
        Parsed::One(Err(rejection)) => Err(AnswerFault::Envelope(rejection.problem()).into()),
        Parsed::One(Ok(_)) | Parsed::Batch(_) => Err(AnswerFault::Kind.into()),
    }
}

/// What became of a notification: nothing is due, but a refusal may have come all the same.
pub(crate) fn taken(reply: &Reply) -> Result<(), Error> {
    if let Ok(Parsed::One(Ok(Message::Response(response)))) = messages(reply) {
        return outcome(reply, response).map(drop);
    }
    if reply.status.is_success() {
        Ok(())
    } else {
        Err(status(reply))
    }
}

/// The responses to a batch, in the order of their coming.
pub(crate) fn results(reply: &Reply) -> Result<Vec<Response<'static>>, Error> {
    let items = match messages(reply)? {
        Parsed::Batch(items) => items,
        // One answer for all: the batch was refused as a whole.
        Parsed::One(Ok(Message::Response(response))) => {
            outcome(reply, response)?;
            return Err(AnswerFault::Kind.into());
        }
        Parsed::One(Err(rejection)) => return Err(unreadable(reply, rejection.problem())),
        Parsed::One(Ok(_)) => return Err(AnswerFault::Kind.into()),
    };
    let response = |item: jsonrpc::Item<'_>| match item {
        Ok(Message::Response(response)) => Ok(response.into_owned()),
        Ok(_) => Err(AnswerFault::Kind.into()),
        Err(rejection) => Err(AnswerFault::Envelope(rejection.problem()).into()),
    };
    items.into_iter().map(response).collect()
}

fn messages(reply: &Reply) -> Result<Parsed<'_>, Error> {
    if !is_json(&reply.headers) {
        return Err(if reply.status.is_success() && !reply.body.is_empty() {
            let expected = "application/json";
            AnswerFault::ContentType { expected }.into()
        } else {
            status(reply)
        });
    }
    Ok(parse(&reply.body, &POLICY))
}

fn belongs(response: &Response<'_>, id: &RequestId<'_>) -> Result<(), AnswerFault> {
    match response.id() {
        Some(received) if received == id => Ok(()),
        // A peer that could not read the call cannot know its id.
        None if response.error().is_some() => Ok(()),
        received => Err(AnswerFault::IdMismatch {
            expected: id.to_string(),
            received: received.map_or_else(|| "null".to_owned(), ToString::to_string),
        }),
    }
}

/// What one response of a reply says.
pub(crate) fn outcome(reply: &Reply, response: Response<'_>) -> Result<RawJson<'static>, Error> {
    match response.into_outcome() {
        Ok(result) => Ok(result.into_owned()),
        Err(error) => Err(refusal(reply.status, &reply.headers, error).into()),
    }
}

fn refusal(status: StatusCode, headers: &HeaderMap, error: jsonrpc::Error<'_>) -> Refusal {
    let mut refusal = Refusal {
        code: error.code(),
        message: error.message().to_owned(),
        data: error.data().map(|data| data.borrowed().into_owned()),
        status,
        retry_after: retry_after(headers),
    };
    if refusal.retry_after.is_none() {
        let seconds = refusal.detail::<u64>("retryAfter");
        refusal.retry_after = seconds
            .map(Duration::from_secs)
            .filter(|w| *w <= LONGEST_WAIT);
    }
    refusal
}

/// A body that says it is JSON and is no message: with a status that tells more, the status counts.
fn unreadable(reply: &Reply, problem: jsonrpc::Problem) -> Error {
    if reply.status.is_success() {
        AnswerFault::Envelope(problem).into()
    } else {
        status(reply)
    }
}

pub(crate) fn status(reply: &Reply) -> Error {
    Error::Http {
        status: reply.status,
        retry_after: retry_after(&reply.headers),
    }
}

/// Seconds only: the form with a date would need a clock that agrees with the peer's.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let wait = Duration::from_secs(value.trim().parse().ok()?);
    (wait <= LONGEST_WAIT).then_some(wait)
}

fn is_json(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|kind| {
        kind.eq_ignore_ascii_case("application/json")
            || kind.to_ascii_lowercase().ends_with("+json")
    })
}

/// The media type without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    value.split(';').next().map(str::trim)
}
