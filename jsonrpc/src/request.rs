//! Requests: calls that expect a response.

use crate::call::MethodCall;
use crate::id::write_nullable;
use crate::method;
use crate::serde_impls;
use crate::{ErrorObject, MethodName, RawJson, RequestId, Response};
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// A call that expects a response.
///
/// ```
/// use interzone_jsonrpc::{MethodName, RawJson, Request};
/// use serde_json::json;
///
/// let request = Request::new("req-1", MethodName::new("tasks.get")?)
///     .with_params(RawJson::from_value(&json!({"taskId": "t-1"}))?);
/// assert_eq!(
///     request.to_string(),
///     r#"{"jsonrpc":"2.0","id":"req-1","method":"tasks.get","params":{"taskId":"t-1"}}"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request<'a> {
    /// `None` for a null id, which only a lenient policy accepts and which cannot be built.
    id: Option<RequestId<'a>>,
    call: MethodCall<'a>,
}

impl<'a> Request<'a> {
    /// Creates a request without parameters.
    ///
    /// ```
    /// use interzone_jsonrpc::{InvalidMethod, MethodName, Request};
    ///
    /// let request = Request::new(1, MethodName::new("ping")?);
    /// assert_eq!(request.to_string(), r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    /// # Ok::<(), InvalidMethod>(())
    /// ```
    pub fn new(id: impl Into<RequestId<'a>>, method: MethodName<'a>) -> Self {
        Self {
            id: Some(id.into()),
            call: MethodCall::new(method),
        }
    }

    /// Sets the parameters. `null` counts as none.
    ///
    /// ```
    /// use interzone_jsonrpc::{MethodName, RawJson, Request};
    ///
    /// let request = Request::new(1, MethodName::new("sum")?).with_params(RawJson::from_value(&[1, 2])?);
    /// assert_eq!(request.to_string(), r#"{"jsonrpc":"2.0","id":1,"method":"sum","params":[1,2]}"#);
    /// assert_eq!(request.with_params(RawJson::NULL).params(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_params(mut self, params: RawJson<'a>) -> Self {
        self.call = self.call.with_params(params);
        self
    }

    /// Creates a request from parts that the parser has validated.
    pub(crate) fn from_validated(
        id: Option<RequestId<'a>>,
        method: Cow<'a, str>,
        params: Option<RawJson<'a>>,
    ) -> Self {
        Self {
            id,
            call: MethodCall { method, params },
        }
    }

    /// The id, or `None` if it is null.
    ///
    /// ```
    /// use interzone_jsonrpc::{Request, RequestId};
    ///
    /// let request: Request = serde_json::from_str(r#"{"jsonrpc":"2.0","method":"ping","id":"7"}"#)?;
    /// assert_eq!(request.id(), Some(&RequestId::from("7")));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn id(&self) -> Option<&RequestId<'a>> {
        self.id.as_ref()
    }

    pub(crate) fn into_id(self) -> Option<RequestId<'a>> {
        self.id
    }

    /// The method name as received.
    ///
    /// ```
    /// use interzone_jsonrpc::Request;
    ///
    /// let request: Request = serde_json::from_str(r#"{"jsonrpc":"2.0","method":"ping","id":7}"#)?;
    /// assert_eq!(request.method(), "ping");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn method(&self) -> &str {
        &self.call.method
    }

    /// Returns true if the method name begins with `rpc.`, which is reserved.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Message, Parsed, Policy};
    ///
    /// let call = br#"{"jsonrpc":"2.0","method":"rpc.discover","id":1}"#;
    /// let Parsed::One(Ok(Message::Request(request))) = parse(call, &Policy::STANDARD)
    /// else { unreachable!() };
    /// assert!(request.is_reserved());
    /// ```
    pub fn is_reserved(&self) -> bool {
        method::is_reserved(&self.call.method)
    }

    /// The parameters, if any.
    ///
    /// ```
    /// use interzone_jsonrpc::Request;
    ///
    /// let sent = r#"{"jsonrpc":"2.0","id":1,"method":"pay","params":{"sum":1.10}}"#;
    /// let request: Request = serde_json::from_str(sent)?;
    /// assert_eq!(request.params().map(|params| params.as_str()), Some(r#"{"sum":1.10}"#));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn params(&self) -> Option<&RawJson<'a>> {
        self.call.params.as_ref()
    }

    /// Decodes the parameters as a `T`; absent ones are decoded as `null` or as `{}`, whichever `T` accepts.
    ///
    /// # Errors
    /// The parameters do not match `T`: respond with `Invalid params`.
    ///
    /// ```
    /// use interzone_jsonrpc::{MethodName, Request};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Start { #[serde(default)] participants: Vec<String> }
    ///
    /// let start: Start = Request::new(1, MethodName::new("stream.start")?).decode_params()?;
    /// assert!(start.participants.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decode_params<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.call.decode_params()
    }

    /// Decodes parameters by name: like [`decode_params`](Self::decode_params), but rejects an array, from which
    /// serde would fill a struct by position.
    ///
    /// # Errors
    /// The parameters are not an object, or do not match `T`.
    ///
    /// ```
    /// use interzone_jsonrpc::{MethodName, RawJson, Request};
    ///
    /// #[derive(serde::Deserialize)]
    /// #[expect(non_snake_case, dead_code)] struct Get { taskId: String }
    ///
    /// let request = Request::new(1, MethodName::new("tasks.get")?).with_params(RawJson::from_value(&["t-1"])?);
    /// assert!(request.decode_params::<Get>().is_ok(), "serde goes by position");
    /// assert!(request.decode_named::<Get>().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decode_named<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.call.decode_named()
    }

    /// Creates the success response to this request.
    ///
    /// ```
    /// use interzone_jsonrpc::{MethodName, RawJson, Request};
    ///
    /// let request = Request::new("req-1", MethodName::new("ping")?);
    /// let response = request.succeed(RawJson::from_value("pong")?);
    /// assert_eq!(response.to_string(), r#"{"jsonrpc":"2.0","id":"req-1","result":"pong"}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn succeed<'r>(&'r self, result: RawJson<'r>) -> Response<'r> {
        Response::from_validated(self.id.as_ref().map(RequestId::borrowed), Ok(result))
    }

    /// Creates the error response to this request.
    ///
    /// ```
    /// use interzone_jsonrpc::{ErrorObject, InvalidMethod, MethodName, Request};
    ///
    /// let request = Request::new("req-1", MethodName::new("print")?);
    /// let response = request.fail(ErrorObject::new(1, "out of stock"));
    /// assert_eq!(
    ///     response.to_string(),
    ///     r#"{"jsonrpc":"2.0","id":"req-1","error":{"code":1,"message":"out of stock"}}"#
    /// );
    /// # Ok::<(), InvalidMethod>(())
    /// ```
    pub fn fail<'r>(&'r self, error: ErrorObject<'r>) -> Response<'r> {
        Response::from_validated(self.id.as_ref().map(RequestId::borrowed), Err(error))
    }

    /// Detaches the request from the buffer it was parsed from.
    ///
    /// ```
    /// use interzone_jsonrpc::{InvalidMethod, MethodName, Request};
    ///
    /// fn detach(name: String) -> Result<Request<'static>, InvalidMethod> {
    ///     Ok(Request::new(1, MethodName::new(name.as_str())?).into_owned())
    /// }
    /// assert_eq!(detach("ping".to_owned())?.method(), "ping");
    /// # Ok::<(), InvalidMethod>(())
    /// ```
    pub fn into_owned(self) -> Request<'static> {
        Request {
            id: self.id.map(RequestId::into_owned),
            call: self.call.into_owned(),
        }
    }

    /// Appends the request as JSON.
    ///
    /// ```
    /// use interzone_jsonrpc::{InvalidMethod, MethodName, Request};
    ///
    /// let mut out = Vec::new();
    /// Request::new(1, MethodName::new("ping")?).write_to(&mut out);
    /// assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    /// # Ok::<(), InvalidMethod>(())
    /// ```
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.call.approximate_size());
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        write_nullable(self.id.as_ref(), out);
        out.push(b',');
        self.call.write_to(out);
    }
}

serde_impls::via_text!(Request, crate::parse::parse_request);
serde_impls::display!(Request, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
