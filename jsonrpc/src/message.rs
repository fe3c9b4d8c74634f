//! A JSON-RPC message of any type.

use crate::serde_impls;
use crate::{Notification, Request, Response};

/// A request, a notification or a response.
///
/// ```
/// use interzone_jsonrpc::Message;
///
/// let message: Message = serde_json::from_str(r#"{"jsonrpc":"2.0","method":"cauce.ping","id":7}"#)?;
/// assert!(matches!(message, Message::Request(request) if request.method() == "cauce.ping"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message<'a> {
    /// A call that expects a response.
    Request(Request<'a>),
    /// A call without a response.
    Notification(Notification<'a>),
    /// The response to a request.
    Response(Response<'a>),
}

impl Message<'_> {
    /// Detaches the message from the buffer it was parsed from.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Message, Parsed, Policy};
    ///
    /// fn detach(buffer: Vec<u8>) -> Option<Message<'static>> {
    ///     match parse(&buffer, &Policy::STANDARD) {
    ///         Parsed::One(item) => item.ok().map(Message::into_owned),
    ///         Parsed::Batch(_) => None,
    ///     }
    /// }
    /// assert!(detach(br#"{"jsonrpc":"2.0","method":"note"}"#.to_vec()).is_some());
    /// ```
    pub fn into_owned(self) -> Message<'static> {
        match self {
            Self::Request(request) => Message::Request(request.into_owned()),
            Self::Notification(notification) => Message::Notification(notification.into_owned()),
            Self::Response(response) => Message::Response(response.into_owned()),
        }
    }

    /// Appends the message as JSON.
    ///
    /// ```
    /// use interzone_jsonrpc::{Message, MethodName, Notification};
    ///
    /// let message = Message::from(Notification::new(MethodName::new("note")?));
    /// let mut line = Vec::new();
    /// message.write_to(&mut line);
    /// line.push(b'\n');
    /// assert_eq!(line, b"{\"jsonrpc\":\"2.0\",\"method\":\"note\"}\n");
    /// # Ok::<(), interzone_jsonrpc::InvalidMethod>(())
    /// ```
    pub fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Request(request) => request.write_to(out),
            Self::Notification(notification) => notification.write_to(out),
            Self::Response(response) => response.write_to(out),
        }
    }
}

impl<'a> From<Request<'a>> for Message<'a> {
    fn from(request: Request<'a>) -> Self {
        Self::Request(request)
    }
}

impl<'a> From<Notification<'a>> for Message<'a> {
    fn from(notification: Notification<'a>) -> Self {
        Self::Notification(notification)
    }
}

impl<'a> From<Response<'a>> for Message<'a> {
    fn from(response: Response<'a>) -> Self {
        Self::Response(response)
    }
}

serde_impls::via_text!(Message, crate::parse::parse_message);
serde_impls::display!(Message, r#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#);
