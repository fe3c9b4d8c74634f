//! Notifications: calls that nobody answers.

use crate::call::Call;
use crate::method;
use crate::serde_form;
use crate::{MethodName, RawJson};
use serde::de::DeserializeOwned;
use std::borrow::Cow;

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

serde_form::via_text!(Notification, crate::parse::notification);
serde_form::display!(Notification);
