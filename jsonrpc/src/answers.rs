//! The way out: responses written one after another into one buffer.

use crate::parse::{Item, Parsed};
use crate::raw;
use crate::response::{RESULT, begin};
use crate::scan::DEEPEST;
use crate::{Error, ErrorCode, Message, Request, Response};
use serde::Serialize;

/// Collects the answers to one message or batch as the bytes to send back.
///
/// Answers may come in any order. Where nothing is due, because there were only notifications,
/// there are no bytes, not even `[]`; and more answers than are due are left out.
///
/// ```
/// use interzone_jsonrpc::{parse, Answers, Message, Parsed, Policy};
///
/// let bytes = br#"[{"jsonrpc":"2.0","method":"sum","params":[1,2],"id":1},{"foo":"boo"},
///                  {"jsonrpc":"2.0","method":"note"}]"#;
/// let parsed = parse(bytes, &Policy::SERVER);
/// let mut answers = Answers::to(&parsed);
/// let Parsed::Batch(items) = parsed else { unreachable!() };
/// for item in items {
///     match item {
///         Ok(Message::Request(request)) => {
///             let sum: u32 = request.decode_params::<Vec<u32>>()?.iter().sum();
///             answers.result(&request, &sum)?;
///         }
///         Ok(Message::Notification(_) | Message::Response(_)) => {}
///         Err(rejection) => answers.extend(rejection.answer().as_ref()),
///     }
/// }
/// let sent = String::from_utf8(answers.finish().unwrap_or_default())?;
/// assert!(sent.starts_with(r#"[{"jsonrpc":"2.0","id":1,"result":3},{"jsonrpc":"2.0","id":null,"error""#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Answers {
    out: Vec<u8>,
    batch: bool,
    /// How many answers may still come.
    due: usize,
}

/// The room that an envelope takes.
const ENVELOPE: usize = 128;
/// The room that an answer is given before its size is known: an envelope and a task with a few words.
const USUAL_ANSWER: usize = 640;
/// The most room to make for answers that nobody has asked to be written yet.
const MOST_AHEAD: usize = 64 * 1024;

impl Answers {
    /// Answers to what was parsed: an array for a batch, else a single response.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Answers, Policy, RawJson, Response};
    ///
    /// let batch = parse(br#"[{"jsonrpc":"2.0","method":"ping","id":1}]"#, &Policy::SERVER);
    /// let mut answers = Answers::to(&batch);
    /// answers.push(&Response::success(1, RawJson::NULL));
    /// assert_eq!(answers.finish(), Some(br#"[{"jsonrpc":"2.0","id":1,"result":null}]"#.to_vec()));
    /// ```
    pub fn to(parsed: &Parsed<'_>) -> Self {
        let due = match parsed {
            Parsed::One(item) => usize::from(is_due(item)),
            Parsed::Batch(items) => items.iter().filter(|item| is_due(item)).count(),
        };
        Self {
            out: Vec::new(),
            batch: matches!(parsed, Parsed::Batch(_)),
            due,
        }
    }

    /// Adds a response, unless all that are due are there.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Answers, Policy, RawJson, Response};
    ///
    /// let mut answers = Answers::to(&parse(br#"{"jsonrpc":"2.0","method":"ping","id":1}"#, &Policy::SERVER));
    /// answers.push(&Response::success(1, RawJson::NULL));
    /// answers.push(&Response::success(2, RawJson::NULL)); // nobody asked for it
    /// assert_eq!(answers.finish(), Some(br#"{"jsonrpc":"2.0","id":1,"result":null}"#.to_vec()));
    /// ```
    pub fn push(&mut self, response: &Response<'_>) {
        if self.separate(USUAL_ANSWER) {
            response.write_to(&mut self.out);
        }
    }

    /// Adds a response if there is one, as [`Rejection::answer`](crate::Rejection::answer) says.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Answers, Parsed, Policy};
    ///
    /// let parsed = parse(b"no JSON", &Policy::SERVER);
    /// let mut answers = Answers::to(&parsed);
    /// let Parsed::One(Err(rejection)) = parsed else { unreachable!() };
    /// answers.extend(rejection.answer().as_ref());
    /// assert!(answers.finish().is_some());
    /// ```
    pub fn extend(&mut self, response: Option<&Response<'_>>) {
        if let Some(response) = response {
            self.push(response);
        }
    }

    /// Adds the result of a request, written straight into the buffer, unless all answers
    /// that are due are there.
    ///
    /// # Errors
    /// The value has no JSON form that a peer could read, as [`RawJson::of`](crate::RawJson::of)
    /// says. The request is then answered with `Internal error`, so that the
    /// caller is not left waiting, and the error is handed back for the log.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Answers, Message, Parsed, Policy};
    ///
    /// let parsed = parse(br#"{"jsonrpc":"2.0","method":"ping","id":1}"#, &Policy::SERVER);
    /// let mut answers = Answers::to(&parsed);
    /// let Parsed::One(Ok(Message::Request(request))) = parsed else { unreachable!() };
    /// answers.result(&request, "pong")?;
    /// assert_eq!(answers.finish(), Some(br#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#.to_vec()));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn result<T: Serialize + ?Sized>(
        &mut self,
        request: &Request<'_>,
        value: &T,
    ) -> Result<(), serde_json::Error> {
        self.result_by(request, |out| serde_json::to_writer(out, value))
    }

    /// As [`Answers::result`], for a value that writes itself as JSON at the end of what it is given, letter
    /// for letter as serde_json would: that it is JSON is not looked at again.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Answers, Message, Parsed, Policy};
    ///
    /// let parsed = parse(br#"{"jsonrpc":"2.0","method":"ping","id":1}"#, &Policy::SERVER);
    /// let mut answers = Answers::to(&parsed);
    /// let Parsed::One(Ok(Message::Request(request))) = parsed else { unreachable!() };
    /// answers.result_by(&request, |out| serde_json::to_writer(out, "pong"))?;
    /// assert_eq!(answers.finish(), Some(br#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#.to_vec()));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Answers::result`].
    pub fn result_by(
        &mut self,
        request: &Request<'_>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
    ) -> Result<(), serde_json::Error> {
        if !self.separate(USUAL_ANSWER) {
            return Ok(());
        }
        let mark = self.out.len();
        begin(request.id(), &mut self.out);
        self.out.extend_from_slice(RESULT);
        let begun = self.out.len();
        let written = write(&mut self.out);
        match written.and_then(|()| readable(self.out.get(begun..).unwrap_or_default())) {
            Ok(()) => {
                self.out.push(b'}');
                Ok(())
            }
            Err(error) => {
                self.out.truncate(mark);
                request
                    .fail(Error::standard(ErrorCode::INTERNAL_ERROR))
                    .write_to(&mut self.out);
                Err(error)
            }
        }
    }

    /// Adds the result of a request whose text is known to be good, because it has been through
    /// [`RawJson`](crate::RawJson) before: what is written once and sent often is checked once. It is
    /// not looked at here.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Answers, Message, Parsed, Policy, RawJson};
    ///
    /// let parsed = parse(br#"{"jsonrpc":"2.0","method":"ping","id":1}"#, &Policy::SERVER);
    /// let mut answers = Answers::to(&parsed);
    /// let Parsed::One(Ok(Message::Request(request))) = parsed else { unreachable!() };
    /// let kept = RawJson::of("pong")?;
    /// answers.written(&request, kept.as_str());
    /// assert_eq!(answers.finish(), Some(br#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#.to_vec()));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn written(&mut self, request: &Request<'_>, text: &str) {
        if self.separate(ENVELOPE + text.len()) {
            begin(request.id(), &mut self.out);
            self.out.extend_from_slice(RESULT);
            self.out.extend_from_slice(text.as_bytes());
            self.out.push(b'}');
        }
    }

    /// How many bytes have been written so far.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Answers, Policy, RawJson, Response};
    ///
    /// let mut answers = Answers::to(&parse(br#"{"jsonrpc":"2.0","method":"ping","id":1}"#, &Policy::SERVER));
    /// assert_eq!(answers.size(), 0);
    /// answers.push(&Response::success(1, RawJson::NULL));
    /// assert_eq!(answers.size(), answers.finish().map_or(0, |bytes| bytes.len()));
    /// ```
    pub fn size(&self) -> usize {
        self.out.len()
    }

    /// The bytes to send, or nothing where nothing is due.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Answers, Policy};
    ///
    /// let notes = parse(br#"[{"jsonrpc":"2.0","method":"note"}]"#, &Policy::SERVER);
    /// assert_eq!(Answers::to(&notes).finish(), None, "not even `[]`");
    /// ```
    pub fn finish(mut self) -> Option<Vec<u8>> {
        if self.out.is_empty() {
            return None;
        }
        if self.batch {
            self.out.push(b']');
        }
        Some(self.out)
    }

    /// Makes way for the next answer, of about so many bytes. Tells whether there may be one.
    fn separate(&mut self, size: usize) -> bool {
        let Some(left) = self.due.checked_sub(1) else {
            return false;
        };
        let first = self.out.is_empty();
        if first {
            let usual = self.due.saturating_mul(USUAL_ANSWER);
            self.out.reserve(MOST_AHEAD.min(usual).max(size));
        }
        self.due = left;
        if self.batch {
            self.out.push(if first { b'[' } else { b',' });
        }
        true
    }
}

/// Whether somebody waits for an answer to this.
fn is_due(item: &Item<'_>) -> bool {
    match item {
        Ok(message) => matches!(message, Message::Request(_)),
        Err(rejection) => rejection.is_answered(),
    }
}

/// What was written must be readable by those who get it.
///
/// serde_json writes JSON, but a raw value may nest too deep, or name half a character, without its minding.
/// Where there are no more brackets than levels, and no escape, neither can be, and nobody need read it again.
fn readable(written: &[u8]) -> Result<(), serde_json::Error> {
    let check = || {
        let text = std::str::from_utf8(written).map_err(serde::ser::Error::custom)?;
        raw::check(text)
    };
    if is_flat(written) {
        debug_assert!(check().is_ok(), "what is flat can be read");
        return Ok(());
    }
    check()
}

/// Whether JSON can neither be too deep nor have an escape in it, by a look at its bytes alone.
fn is_flat(json: &[u8]) -> bool {
    let (mut opened, mut escapes) = (0, 0);
    // Few enough at a time to be counted in a byte, so that the compiler does many at once.
    for block in json.chunks(128) {
        let mut here = 0_u8;
        for byte in block {
            // The two brackets that open differ in this bit.
            here += u8::from(byte | 0x20 == b'{');
            escapes |= u8::from(*byte == b'\\');
        }
        opened += u32::from(here);
    }
    opened <= DEEPEST && escapes == 0
}

/// Messages to send together: at least one, by construction.
///
/// ```
/// use interzone_jsonrpc::{Batch, MethodName, Notification, Request};
///
/// let batch = Batch::new(Request::new(1, MethodName::new("a")?))
///     .with(Notification::new(MethodName::new("b")?));
/// assert_eq!(
///     String::from_utf8(batch.to_vec())?,
///     r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"}]"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    first: Message<'a>,
    rest: Vec<Message<'a>>,
}

impl<'a> Batch<'a> {
    /// A batch of one.
    ///
    /// ```
    /// use interzone_jsonrpc::{Batch, MethodName, Notification};
    ///
    /// let batch = Batch::new(Notification::new(MethodName::new("note")?));
    /// assert_eq!(batch.messages().count(), 1);
    /// # Ok::<(), interzone_jsonrpc::InvalidMethod>(())
    /// ```
    pub fn new(first: impl Into<Message<'a>>) -> Self {
        Self {
            first: first.into(),
            rest: Vec::new(),
        }
    }

    /// Adds a message.
    ///
    /// ```
    /// use interzone_jsonrpc::{Batch, MethodName, Request};
    ///
    /// let calls = ["b", "c"].map(MethodName::new);
    /// let mut batch = Batch::new(Request::new(0, MethodName::new("a")?));
    /// for (id, method) in (1..).zip(calls) {
    ///     batch = batch.with(Request::new(id, method?));
    /// }
    /// assert_eq!(batch.messages().count(), 3);
    /// # Ok::<(), interzone_jsonrpc::InvalidMethod>(())
    /// ```
    #[must_use]
    pub fn with(mut self, next: impl Into<Message<'a>>) -> Self {
        self.rest.push(next.into());
        self
    }

    /// The messages, in order.
    ///
    /// ```
    /// use interzone_jsonrpc::{Batch, Message, MethodName, Notification, Request};
    ///
    /// let batch = Batch::new(Request::new(1, MethodName::new("ping")?))
    ///     .with(Notification::new(MethodName::new("note")?));
    /// let answers = batch.messages().filter(|message| matches!(message, Message::Request(_))).count();
    /// assert_eq!(answers, 1, "to wait for");
    /// # Ok::<(), interzone_jsonrpc::InvalidMethod>(())
    /// ```
    pub fn messages(&self) -> impl Iterator<Item = &Message<'a>> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// The batch as JSON.
    ///
    /// ```
    /// use interzone_jsonrpc::{Batch, MethodName, Notification};
    ///
    /// let batch = Batch::new(Notification::new(MethodName::new("note")?));
    /// assert_eq!(batch.to_vec(), br#"[{"jsonrpc":"2.0","method":"note"}]"#);
    /// # Ok::<(), interzone_jsonrpc::InvalidMethod>(())
    /// ```
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![b'['];
        self.first.write_to(&mut out);
        for message in &self.rest {
            out.push(b',');
            message.write_to(&mut out);
        }
        out.push(b']');
        out
    }
}
