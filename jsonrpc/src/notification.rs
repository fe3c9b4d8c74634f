//! Notifications: calls without a response.

use crate::call::MethodCall;
use crate::method;
use crate::serde_impls;
use crate::{MethodName, RawJson};
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// A call without a response.
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
    call: MethodCall<'a>,
}

impl<'a> Notification<'a> {
    /// Creates a notification without parameters.
    ///
    /// ```
    /// use interzone_jsonrpc::{InvalidMethod, MethodName, Notification};
    ///
    /// let note = Notification::new(MethodName::new("note")?);
    /// assert_eq!(note.to_string(), r#"{"jsonrpc":"2.0","method":"note"}"#);
    /// # Ok::<(), InvalidMethod>(())
    /// ```
    pub fn new(method: MethodName<'a>) -> Self {
        Self {
            call: MethodCall::new(method),
        }
    }

    /// Sets the parameters. `null` counts as none.
    ///
    /// ```
    /// use interzone_jsonrpc::{MethodName, Notification, RawJson};
    ///
    /// let note = Notification::new(MethodName::new("note")?).with_params(RawJson::from_value(&["hello"])?);
    /// assert_eq!(note.to_string(), r#"{"jsonrpc":"2.0","method":"note","params":["hello"]}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_params(mut self, params: RawJson<'a>) -> Self {
        self.call = self.call.with_params(params);
        self
    }

    /// Creates a notification from parts that the parser has validated.
    pub(crate) fn from_validated(method: Cow<'a, str>, params: Option<RawJson<'a>>) -> Self {
        Self {
            call: MethodCall { method, params },
        }
    }

    /// The method name as received.
    ///
    /// ```
    /// use interzone_jsonrpc::Notification;
    ///
    /// let note: Notification = serde_json::from_str(r#"{"jsonrpc":"2.0","method":"note"}"#)?;
    /// assert_eq!(note.method(), "note");
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
    /// let call = br#"{"jsonrpc":"2.0","method":"rpc.note"}"#;
    /// let Parsed::One(Ok(Message::Notification(note))) = parse(call, &Policy::STANDARD)
    /// else { unreachable!() };
    /// assert!(note.is_reserved());
    /// ```
    pub fn is_reserved(&self) -> bool {
        method::is_reserved(&self.call.method)
    }

    /// The parameters, if any.
    ///
    /// ```
    /// use interzone_jsonrpc::Notification;
    ///
    /// let sent = r#"{"jsonrpc":"2.0","method":"note","params":["hello"]}"#;
    /// let note: Notification = serde_json::from_str(sent)?;
    /// assert_eq!(note.params().map(|params| params.as_str()), Some(r#"["hello"]"#));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn params(&self) -> Option<&RawJson<'a>> {
        self.call.params.as_ref()
    }

    /// Decodes the parameters as a `T`; absent ones are decoded as `null` or as `{}`, whichever `T` accepts.
    ///
    /// # Errors
    /// The parameters do not match `T`. No response is sent, as it is a notification.
    ///
    /// ```
    /// use interzone_jsonrpc::Notification;
    ///
    /// let sent = r#"{"jsonrpc":"2.0","method":"progress","params":[3, 10]}"#;
    /// let note: Notification = serde_json::from_str(sent)?;
    /// assert_eq!(note.decode_params::<(u32, u32)>()?, (3, 10));
    /// # Ok::<(), serde_json::Error>(())
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
    /// use interzone_jsonrpc::Notification;
    /// use std::collections::BTreeMap;
    ///
    /// let sent = r#"{"jsonrpc":"2.0","method":"progress","params":{"done":3}}"#;
    /// let note: Notification = serde_json::from_str(sent)?;
    /// assert_eq!(note.decode_named::<BTreeMap<String, u32>>()?["done"], 3);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn decode_named<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.call.decode_named()
    }

    /// Detaches the notification from the buffer it was parsed from.
    ///
    /// ```
    /// use interzone_jsonrpc::{InvalidMethod, MethodName, Notification};
    ///
    /// fn detach(name: String) -> Result<Notification<'static>, InvalidMethod> {
    ///     Ok(Notification::new(MethodName::new(name.as_str())?).into_owned())
    /// }
    /// assert_eq!(detach("note".to_owned())?.method(), "note");
    /// # Ok::<(), InvalidMethod>(())
    /// ```
    pub fn into_owned(self) -> Notification<'static> {
        Notification {
            call: self.call.into_owned(),
        }
    }

    /// Appends the notification as JSON.
    ///
    /// ```
    /// use interzone_jsonrpc::{InvalidMethod, MethodName, Notification};
    ///
    /// let mut out = Vec::new();
    /// Notification::new(MethodName::new("note")?).write_to(&mut out);
    /// assert_eq!(out, br#"{"jsonrpc":"2.0","method":"note"}"#);
    /// # Ok::<(), InvalidMethod>(())
    /// ```
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.call.approximate_size());
        out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
        self.call.write_to(out);
    }
}

serde_impls::via_text!(Notification, crate::parse::parse_notification);
serde_impls::display!(Notification, r#"{"jsonrpc":"2.0","method":"note"}"#);
