//! Responses: exactly one of a result and an error, by construction.

use crate::id::write_nullable;
use crate::serde_impls;
use crate::{ErrorObject, RawJson, RequestId};
use serde::de::DeserializeOwned;

/// The response to a request.
///
/// ```
/// use interzone_jsonrpc::{RawJson, RequestId, Response};
///
/// let response = Response::success(RequestId::from(1), RawJson::from_value("pong")?);
/// assert_eq!(response.to_string(), r#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#);
/// assert_eq!(response.result().map(|r| r.as_str()), Some("\"pong\""));
/// assert!(response.error().is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Response<'a> {
    id: Option<RequestId<'a>>,
    outcome: Result<RawJson<'a>, ErrorObject<'a>>,
}

impl<'a> Response<'a> {
    /// Creates the response to a request that succeeded.
    ///
    /// ```
    /// use interzone_jsonrpc::{RawJson, Response};
    ///
    /// let response = Response::success("req-1", RawJson::from_value(&[1, 2])?);
    /// assert_eq!(response.to_string(), r#"{"jsonrpc":"2.0","id":"req-1","result":[1,2]}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn success(id: impl Into<RequestId<'a>>, result: RawJson<'a>) -> Self {
        Self {
            id: Some(id.into()),
            outcome: Ok(result),
        }
    }

    /// Creates the response to a request that failed; `id` is `None` if it could not be read.
    ///
    /// ```
    /// use interzone_jsonrpc::{ErrorObject, ErrorCode, Response};
    ///
    /// let response = Response::failure(None, ErrorObject::standard(ErrorCode::PARSE_ERROR));
    /// assert_eq!(
    ///     response.to_string(),
    ///     r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#
    /// );
    /// ```
    pub fn failure(id: Option<RequestId<'a>>, error: ErrorObject<'a>) -> Self {
        Self {
            id,
            outcome: Err(error),
        }
    }

    /// Creates a response from parts that the parser has validated.
    pub(crate) fn from_validated(
        id: Option<RequestId<'a>>,
        outcome: Result<RawJson<'a>, ErrorObject<'a>>,
    ) -> Self {
        Self { id, outcome }
    }

    /// The id of the request, or `None` if it is null.
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

    /// The result, if the request succeeded.
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
    /// use interzone_jsonrpc::{ErrorObject, Response};
    ///
    /// let response = Response::failure(None, ErrorObject::new(1, "out of stock"));
    /// assert_eq!(response.error().map(|error| error.message()), Some("out of stock"));
    /// assert!(response.result().is_none());
    /// ```
    pub fn error(&self) -> Option<&ErrorObject<'a>> {
        self.outcome.as_ref().err()
    }

    /// Converts the response into its result or error.
    ///
    /// # Errors
    /// The request failed.
    ///
    /// ```
    /// use interzone_jsonrpc::{RawJson, Response};
    ///
    /// let response = Response::success(1, RawJson::from_value("pong")?);
    /// let pong: String = response.into_outcome()?.decode()?;
    /// assert_eq!(pong, "pong");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_outcome(self) -> Result<RawJson<'a>, ErrorObject<'a>> {
        self.outcome
    }

    /// Decodes the result as a `T`; `None` if the request failed.
    ///
    /// # Errors
    /// The result does not match `T`.
    ///
    /// ```
    /// use interzone_jsonrpc::{ErrorObject, RawJson, Response};
    ///
    /// let response = Response::success(1, RawJson::from_value(&[1, 2])?);
    /// assert!(matches!(response.decode_result::<Vec<u8>>(), Some(Ok(list)) if list == [1, 2]));
    /// assert!(Response::failure(None, ErrorObject::new(1, "busy")).decode_result::<u8>().is_none());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn decode_result<T: DeserializeOwned>(&self) -> Option<Result<T, serde_json::Error>> {
        self.result().map(RawJson::decode)
    }

    /// Detaches the response from the buffer it was parsed from.
    ///
    /// ```
    /// use interzone_jsonrpc::{RawJson, Response};
    ///
    /// fn detach(id: String) -> Response<'static> {
    ///     Response::success(id.as_str(), RawJson::NULL).into_owned()
    /// }
    /// assert_eq!(detach("req-1".to_owned()).id().and_then(|id| id.as_str()), Some("req-1"));
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
        write_response_start(self.id.as_ref(), out);
        match &self.outcome {
            Ok(result) => {
                out.reserve(RESULT_KEY.len() + result.as_str().len() + 1);
                out.extend_from_slice(RESULT_KEY);
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

pub(crate) const RESULT_KEY: &[u8] = br#","result":"#;

/// Appends the start of a response, up to and including its id.
pub(crate) fn write_response_start(id: Option<&RequestId<'_>>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    write_nullable(id, out);
}

serde_impls::via_text!(Response, crate::parse::parse_response);
serde_impls::display!(Response, r#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#);
