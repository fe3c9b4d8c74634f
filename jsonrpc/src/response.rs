//! Responses: exactly one of a result and an error, by construction.

use crate::id::write_nullable;
use crate::serde_form;
use crate::{Error, RawJson, RequestId};
use serde::de::DeserializeOwned;

/// The answer to a request.
///
/// ```
/// use interzone_jsonrpc::{RawJson, RequestId, Response};
///
/// let response = Response::success(RequestId::from(1), RawJson::of("pong")?);
/// assert_eq!(response.to_string(), r#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#);
/// assert_eq!(response.result().map(|r| r.as_str()), Some("\"pong\""));
/// assert!(response.error().is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Response<'a> {
    id: Option<RequestId<'a>>,
    outcome: Result<RawJson<'a>, Error<'a>>,
}

impl<'a> Response<'a> {
    /// The response to a request that worked.
    ///
    /// ```
    /// use interzone_jsonrpc::{RawJson, Response};
    ///
    /// let response = Response::success("req-1", RawJson::of(&[1, 2])?);
    /// assert_eq!(response.to_string(), r#"{"jsonrpc":"2.0","id":"req-1","result":[1,2]}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn success(id: impl Into<RequestId<'a>>, result: RawJson<'a>) -> Self {
        Self {
            id: Some(id.into()),
            outcome: Ok(result),
        }
    }

    /// The response to a request that failed; without an id where none could be read.
    ///
    /// ```
    /// use interzone_jsonrpc::{Error, ErrorCode, Response};
    ///
    /// let response = Response::failure(None, Error::standard(ErrorCode::PARSE_ERROR));
    /// assert_eq!(
    ///     response.to_string(),
    ///     r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#
    /// );
    /// ```
    pub fn failure(id: Option<RequestId<'a>>, error: Error<'a>) -> Self {
        Self {
            id,
            outcome: Err(error),
        }
    }

    /// A response whose parts the parser has judged.
    pub(crate) fn judged(
        id: Option<RequestId<'a>>,
        outcome: Result<RawJson<'a>, Error<'a>>,
    ) -> Self {
        Self { id, outcome }
    }

    /// The id of the request that is answered, or nothing where it is null.
    ///
    /// ```
    /// use interzone_jsonrpc::{RequestId, Response};
    ///
    /// let response: Response = serde_json::from_str(r#"{"jsonrpc":"2.0","id":7,"result":"pong"}"#)?;
    /// assert_eq!(response.id(), Some(&RequestId::from(7)));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn id(&self) -> Option<&RequestId<'a>> {
        self.id.as_ref()
    }

    /// The result, if the request worked.
    ///
    /// ```
    /// use interzone_jsonrpc::Response;
    ///
    /// let response: Response = serde_json::from_str(r#"{"jsonrpc":"2.0","id":7,"result":"pong"}"#)?;
    /// assert_eq!(response.result().map(|result| result.as_str()), Some(r#""pong""#));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn result(&self) -> Option<&RawJson<'a>> {
        self.outcome.as_ref().ok()
    }

    /// The error, if the request failed.
    ///
    /// ```
    /// use interzone_jsonrpc::{Error, Response};
    ///
    /// let response = Response::failure(None, Error::new(1, "out of paper"));
    /// assert_eq!(response.error().map(|error| error.message()), Some("out of paper"));
    /// assert!(response.result().is_none());
    /// ```
    pub fn error(&self) -> Option<&Error<'a>> {
        self.outcome.as_ref().err()
    }

    /// The result, or the error that stands in its place.
    ///
    /// # Errors
    /// The request failed, and this is why.
    ///
    /// ```
    /// use interzone_jsonrpc::{RawJson, Response};
    ///
    /// let response = Response::success(1, RawJson::of("pong")?);
    /// let pong: String = response.into_outcome()?.decode()?;
    /// assert_eq!(pong, "pong");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_outcome(self) -> Result<RawJson<'a>, Error<'a>> {
        self.outcome
    }

    /// Reads the result as a `T`; nothing if the request failed.
    ///
    /// # Errors
    /// The result is not what `T` takes.
    ///
    /// ```
    /// use interzone_jsonrpc::{Error, RawJson, Response};
    ///
    /// let response = Response::success(1, RawJson::of(&[1, 2])?);
    /// assert!(matches!(response.decode_result::<Vec<u8>>(), Some(Ok(list)) if list == [1, 2]));
    /// assert!(Response::failure(None, Error::new(1, "busy")).decode_result::<u8>().is_none());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn decode_result<T: DeserializeOwned>(&self) -> Option<Result<T, serde_json::Error>> {
        self.result().map(RawJson::decode)
    }

    /// The same response, free of the buffer it was read from.
    ///
    /// ```
    /// use interzone_jsonrpc::{RawJson, Response};
    ///
    /// fn keep(id: String) -> Response<'static> {
    ///     Response::success(id.as_str(), RawJson::NULL).into_owned()
    /// }
    /// assert_eq!(keep("req-1".to_owned()).id().and_then(|id| id.as_str()), Some("req-1"));
    /// ```
    pub fn into_owned(self) -> Response<'static> {
        Response {
            id: self.id.map(RequestId::into_owned),
            outcome: match self.outcome {
                Ok(result) => Ok(result.into_owned()),
                Err(error) => Err(error.into_owned()),
            },
        }
    }

    /// Appends the response as JSON.
    ///
    /// ```
    /// use interzone_jsonrpc::{RawJson, Response};
    ///
    /// let mut out = Vec::new();
    /// Response::success(1, RawJson::NULL).write_to(&mut out);
    /// assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"result":null}"#);
    /// ```
    pub fn write_to(&self, out: &mut Vec<u8>) {
        begin(self.id.as_ref(), out);
        match &self.outcome {
            Ok(result) => {
                out.reserve(RESULT.len() + result.as_str().len() + 1);
                out.extend_from_slice(RESULT);
                result.write_to(out);
            }
            Err(error) => {
                out.extend_from_slice(br#","error":"#);
                error.write_to(out);
            }
        }
        out.push(b'}');
    }
}

pub(crate) const RESULT: &[u8] = br#","result":"#;

/// Appends a response up to its id.
pub(crate) fn begin(id: Option<&RequestId<'_>>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    write_nullable(id, out);
}

serde_form::via_text!(Response, crate::parse::response);
serde_form::display!(Response, r#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#);
