//! Requests and notifications: calls with and without an answer.

use crate::id::write_nullable;
use crate::serde_form;
use crate::{Error, Kind, MethodName, RawJson, RequestId, Response};
use crate::{method, write};
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// A call that is answered.
///
/// ```
/// use interzone_jsonrpc::{MethodName, RawJson, Request};
/// use serde_json::json;
///
/// let request = Request::new("req-1", MethodName::new("tasks.get")?)
///     .with_params(RawJson::of(&json!({"taskId": "t-1"}))?);
/// assert_eq!(
///     request.to_string(),
///     r#"{"jsonrpc":"2.0","id":"req-1","method":"tasks.get","params":{"taskId":"t-1"}}"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request<'a> {
    /// Absent for a null id, which only a lenient policy lets in and nobody can build.
    id: Option<RequestId<'a>>,
    call: Call<'a>,
}

/// A call that is never answered.
///
/// ```
/// use interzone_jsonrpc::{MethodName, Notification};
///
/// let note = Notification::new(MethodName::new("task.notification")?);
/// assert_eq!(note.to_string(), r#"{"jsonrpc":"2.0","method":"task.notification"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Notification<'a> {
    call: Call<'a>,
}

/// What requests and notifications share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call<'a> {
    method: Cow<'a, str>,
    params: Option<RawJson<'a>>,
}

impl<'a> Call<'a> {
    fn new(method: MethodName<'a>) -> Self {
        Self {
            method: method.into_cow(),
            params: None,
        }
    }

    fn with_params(mut self, params: RawJson<'a>) -> Self {
        self.params = Some(params).filter(|params| params.kind() != Kind::Null);
        self
    }

    /// Params that are absent are read as `null` by types that know what that means, such as an
    /// `Option`, and else as `{}`, so that types whose members are all optional need no special case.
    fn decode_params<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match &self.params {
            Some(params) => params.decode(),
            None => serde_json::from_str("null").or_else(|_| serde_json::from_str("{}")),
        }
    }

    /// serde fills a struct from an array too, by position. Where parameters have names, that would
    /// let in what nobody meant to send.
    fn decode_named<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match self.params.as_ref().map(RawJson::kind) {
            None | Some(Kind::Object) => self.decode_params(),
            Some(kind) => Err(serde::de::Error::custom(format_args!(
                "`params` must be an object, and this is {}",
                kind.with_article()
            ))),
        }
    }

    fn into_owned(self) -> Call<'static> {
        Call {
            method: Cow::Owned(self.method.into_owned()),
            params: self.params.map(RawJson::into_owned),
        }
    }

    /// The bytes that a call takes, near enough to reserve them at once.
    fn size(&self) -> usize {
        64 + self.method.len()
            + self
                .params
                .as_ref()
                .map_or(0, |params| params.as_str().len())
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#""method":"#);
        write::string(&self.method, out);
        if let Some(params) = &self.params {
            out.extend_from_slice(br#","params":"#);
            params.write_to(out);
        }
        out.push(b'}');
    }
}

impl<'a> Request<'a> {
    /// A request without parameters.
    pub fn new(id: impl Into<RequestId<'a>>, method: MethodName<'a>) -> Self {
        Self {
            id: Some(id.into()),
            call: Call::new(method),
        }
    }

    /// Sets the parameters. `null` counts as none.
    #[must_use]
    pub fn with_params(mut self, params: RawJson<'a>) -> Self {
        self.call = self.call.with_params(params);
        self
    }

    /// A request whose parts the parser has judged.
    pub(crate) fn judged(
        id: Option<RequestId<'a>>,
        method: Cow<'a, str>,
        params: Option<RawJson<'a>>,
    ) -> Self {
        Self {
            id,
            call: Call { method, params },
        }
    }

    /// The id, or nothing where it is null.
    pub fn id(&self) -> Option<&RequestId<'a>> {
        self.id.as_ref()
    }

    pub(crate) fn into_id(self) -> Option<RequestId<'a>> {
        self.id
    }

    /// The method's name as it arrived.
    pub fn method(&self) -> &str {
        &self.call.method
    }

    /// Whether the name begins with `rpc.`, which no server answers to.
    pub fn is_reserved(&self) -> bool {
        method::is_reserved(&self.call.method)
    }

    /// The parameters, if there are any.
    pub fn params(&self) -> Option<&RawJson<'a>> {
        self.call.params.as_ref()
    }

    /// Reads the parameters as a `T`; none are read as `null` or as `{}`, whichever `T` takes.
    ///
    /// # Errors
    /// The parameters are not what `T` takes: an answer of `Invalid params` is due.
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

    /// Reads the parameters by name: as [`decode_params`](Self::decode_params), but an array is
    /// refused, which serde would fill a struct from by position.
    ///
    /// # Errors
    /// The parameters are not an object, or not what `T` takes.
    ///
    /// ```
    /// use interzone_jsonrpc::{MethodName, RawJson, Request};
    ///
    /// #[derive(serde::Deserialize)]
    /// #[expect(non_snake_case, dead_code)] struct Get { taskId: String }
    ///
    /// let request = Request::new(1, MethodName::new("tasks.get")?).with_params(RawJson::of(&["t-1"])?);
    /// assert!(request.decode_params::<Get>().is_ok(), "serde goes by position");
    /// assert!(request.decode_named::<Get>().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decode_named<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.call.decode_named()
    }

    /// The response that says it worked, under this request's id.
    pub fn succeed<'r>(&'r self, result: RawJson<'r>) -> Response<'r> {
        Response::judged(self.id.as_ref().map(RequestId::borrowed), Ok(result))
    }

    /// The response that says why it did not, under this request's id.
    pub fn fail<'r>(&'r self, error: Error<'r>) -> Response<'r> {
        Response::judged(self.id.as_ref().map(RequestId::borrowed), Err(error))
    }

    /// The same request, free of the buffer it was read from.
    pub fn into_owned(self) -> Request<'static> {
        Request {
            id: self.id.map(RequestId::into_owned),
            call: self.call.into_owned(),
        }
    }

    /// Appends the request as JSON.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.call.size());
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        write_nullable(self.id.as_ref(), out);
        out.push(b',');
        self.call.write_to(out);
    }
}

impl<'a> Notification<'a> {
    /// A notification without parameters.
    pub fn new(method: MethodName<'a>) -> Self {
        Self {
            call: Call::new(method),
        }
    }

    /// Sets the parameters. `null` counts as none.
    #[must_use]
    pub fn with_params(mut self, params: RawJson<'a>) -> Self {
        self.call = self.call.with_params(params);
        self
    }

    /// A notification whose parts the parser has judged.
    pub(crate) fn judged(method: Cow<'a, str>, params: Option<RawJson<'a>>) -> Self {
        Self {
            call: Call { method, params },
        }
    }

    /// The method's name as it arrived.
    pub fn method(&self) -> &str {
        &self.call.method
    }

    /// Whether the name begins with `rpc.`, which no server answers to.
    pub fn is_reserved(&self) -> bool {
        method::is_reserved(&self.call.method)
    }

    /// The parameters, if there are any.
    pub fn params(&self) -> Option<&RawJson<'a>> {
        self.call.params.as_ref()
    }

    /// Reads the parameters as a `T`; none are read as `null` or as `{}`, whichever `T` takes.
    ///
    /// # Errors
    /// The parameters are not what `T` takes. Nobody is told: it is a notification.
    pub fn decode_params<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.call.decode_params()
    }

    /// Reads the parameters by name: as [`decode_params`](Self::decode_params), but an array is
    /// refused, which serde would fill a struct from by position.
    ///
    /// # Errors
    /// The parameters are not an object, or not what `T` takes.
    pub fn decode_named<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.call.decode_named()
    }

    /// The same notification, free of the buffer it was read from.
    pub fn into_owned(self) -> Notification<'static> {
        Notification {
            call: self.call.into_owned(),
        }
    }

    /// Appends the notification as JSON.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.call.size());
        out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
        self.call.write_to(out);
    }
}

serde_form::via_text!(Request, crate::parse::request);
serde_form::via_text!(Notification, crate::parse::notification);
serde_form::display!(Request);
serde_form::display!(Notification);
