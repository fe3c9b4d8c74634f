//! The way in: bytes become classified messages or ready answers, in one pass.

use crate::envelope::{Envelope, ErrorMembers, Refusal};
use crate::policy::{Batches, Policy, ReservedNames, Rulebook};
use crate::position::{Position, Ruler};
use crate::problem::Problem;
use crate::reject::Rejection;
use crate::scan::{AROUND, Scanner, Step};
use crate::{Error, Message, Notification, Request, Response};

/// A valid message, or what is wrong with what stands in its place.
pub type Item<'a> = Result<Message<'a>, Rejection<'a>>;

/// What bytes turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// One message, or bytes that are rejected as a whole.
    One(Item<'a>),
    /// A batch of at least one item, each judged by itself, in the order of their sending.
    Batch(Vec<Item<'a>>),
}

/// Turns bytes into classified messages or ready error responses.
///
/// Every byte is looked at once. Ids, method names and parameters are borrowed from `bytes`, and
/// parameters stay raw until [`Request::decode_params`] is told what they are. No input makes it
/// panic, recurse or allocate more than in proportion to its size; how many bytes to take in the
/// first place is the transport's decision.
///
/// * Text that is not JSON earns -32700 and JSON that is not a valid message -32600, both with a
///   null id; in a batch, each item earns its own, unless the whole text is not JSON.
/// * Members that the envelope defines may stand once; a second one earns -32600, however it is
///   spelt (`"\u0069d"` is `"id"`). Members that it does not define are the [`Policy`]'s
///   business. Within `params`, `result` and `data` nothing is judged but JSON itself.
/// * A value that nests beyond [`Policy::max_depth`] earns -32700.
///
/// ```
/// use interzone_jsonrpc::{parse, Message, Parsed, Policy};
///
/// let bytes = br#"{"jsonrpc":"2.0","method":"tasks.get","params":{"taskId":"t-1"},"id":"req-1"}"#;
/// match parse(bytes, &Policy::SERVER) {
///     Parsed::One(Ok(Message::Request(request))) => {
///         assert_eq!(request.method(), "tasks.get");
///         assert_eq!(request.id().and_then(|id| id.as_str()), Some("req-1"));
///         assert_eq!(request.params().map(|p| p.as_str()), Some(r#"{"taskId":"t-1"}"#));
///     }
///     other => panic!("{other:?}"),
/// }
/// ```
pub fn parse<'a, R: Rulebook + ?Sized>(bytes: &'a [u8], rules: &R) -> Parsed<'a> {
    let mut ruler = Ruler::new(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let position = ruler.locate(error.valid_up_to());
            return Parsed::One(Err(Rejection::new(Problem::NotUtf8, position)));
        }
    };
    let door = rules.door();
    let mut reader = Reader {
        scanner: Scanner::new(text, door.max_depth),
        ruler,
        door,
        rules,
    };
    match reader.document() {
        Ok(parsed) => parsed,
        Err(fault) => {
            // The ruler may have walked on while judging a batch that turns out not to be JSON.
            let position = Ruler::new(bytes).locate(fault.at);
            Parsed::One(Err(Rejection::new(fault.problem, position)))
        }
    }
}

struct Reader<'a, 'r, R: ?Sized> {
    scanner: Scanner<'a>,
    ruler: Ruler<'a>,
    door: Policy,
    rules: &'r R,
}

impl<'a, R: Rulebook + ?Sized> Reader<'a, '_, R> {
    fn document(&mut self) -> Step<Parsed<'a>> {
        let first = self.scanner.peek_token();
        if self.scanner.at_end() {
            return self.scanner.fault(Problem::EmptyBody);
        }
        let start = self.scanner.at;
        let parsed = if first == b'[' {
            self.batch(start)?
        } else {
            Parsed::One(self.item()?)
        };
        if self.scanner.at_end() {
            Ok(parsed)
        } else {
            self.scanner.fault(Problem::TrailingBytes)
        }
    }

    fn batch(&mut self, start: usize) -> Step<Parsed<'a>> {
        let Batches::UpTo(most) = self.door.batches else {
            self.scanner.pass(AROUND)?;
            return Ok(self.refuse_all(Problem::BatchRefused, start));
        };
        self.scanner.at += 1;
        if self.scanner.peek_token() == b']' {
            self.scanner.at += 1;
            return Ok(self.refuse_all(Problem::EmptyBatch, start));
        }
        let mut items = Vec::with_capacity(most.min(16));
        let mut count = 0_usize;
        loop {
            count += 1;
            if count <= most {
                items.push(self.item()?);
            } else {
                // Too many to keep, but the rest must still be JSON for -32600 to be right.
                self.scanner.pass(AROUND - 1)?;
            }
            match self.scanner.peek_token() {
                b',' => self.scanner.at += 1,
                b']' => break self.scanner.at += 1,
                _ => return self.scanner.unexpected(),
            }
        }
        if count > most {
            return Ok(self.refuse_all(Problem::BatchTooLarge(most), start));
        }
        Ok(Parsed::Batch(items))
    }

    /// Rejects the whole document, which begins at `start`.
    fn refuse_all(&self, problem: Problem, start: usize) -> Parsed<'a> {
        Parsed::One(Err(Rejection::new(
            problem,
            self.ruler.restarted().locate(start),
        )))
    }

    /// Reads and judges what stands where a message belongs.
    fn item(&mut self) -> Step<Item<'a>> {
        if self.scanner.peek_token() != b'{' {
            let value = self.scanner.step()?;
            let position = self.ruler.locate(value.at);
            return Ok(Err(Rejection::new(
                Problem::NotAnObject(value.kind),
                position,
            )));
        }
        let mut envelope = Envelope::default();
        envelope.read(&mut self.scanner)?;
        Ok(envelope.judge(self.rules, &self.door).map_err(|refusal| {
            let Refusal { problem, at, call } = refusal;
            let position = self.ruler.locate(at);
            match call {
                Some(call) => Rejection::of_call(problem, position, *call),
                None if envelope.is_answer(&self.door) => Rejection::unanswered(problem, position),
                None => Rejection::new(problem, position),
            }
        }))
    }
}

/// What serde reads is what can be built: one message, and no reserved name.
const SINGLE: Policy = Policy {
    batches: Batches::Refuse,
    reserved_names: ReservedNames::Unknown,
    ..Policy::STANDARD
};

/// Reads any message, for serde.
pub(crate) fn message(text: &str) -> Result<Message<'_>, Rejection<'_>> {
    match parse(text.as_bytes(), &SINGLE) {
        Parsed::One(item) => item,
        Parsed::Batch(_) => Err(misfit(Problem::BatchRefused)),
    }
}

/// Reads a request, for serde.
pub(crate) fn request(text: &str) -> Result<Request<'_>, Rejection<'_>> {
    match message(text)? {
        Message::Request(request) => Ok(request),
        Message::Notification(_) => Err(misfit(Problem::IdMissing)),
        Message::Response(_) => Err(misfit(Problem::MethodMissing)),
    }
}

/// Reads a notification, for serde.
pub(crate) fn notification(text: &str) -> Result<Notification<'_>, Rejection<'_>> {
    match message(text)? {
        Message::Notification(notification) => Ok(notification),
        Message::Request(_) => Err(misfit(Problem::IdPresent)),
        Message::Response(_) => Err(misfit(Problem::MethodMissing)),
    }
}

/// Reads a response, for serde.
pub(crate) fn response(text: &str) -> Result<Response<'_>, Rejection<'_>> {
    match message(text)? {
        Message::Response(response) => Ok(response),
        Message::Request(_) | Message::Notification(_) => Err(misfit(Problem::OutcomeMissing)),
    }
}

/// Reads an error object that stands alone, for serde.
pub(crate) fn error_object(text: &str) -> Result<Error<'_>, Rejection<'_>> {
    let refuse = |problem, at| Rejection::new(problem, Ruler::new(text.as_bytes()).locate(at));
    let mut scanner = Scanner::new(text, Policy::STANDARD.max_depth);
    let first = scanner.peek_token();
    let start = scanner.at;
    let outcome = if first == b'{' {
        ErrorMembers::read(&mut scanner).map(|members| members.judge(start, &Policy::STANDARD))
    } else {
        scanner
            .step()
            .map(|value| Err(Refusal::new(Problem::ErrorKind(value.kind), value.at)))
    };
    match outcome {
        Ok(Ok(error)) => Ok(error),
        Ok(Err(refusal)) => Err(refuse(refusal.problem, refusal.at)),
        Err(fault) => Err(refuse(fault.problem, fault.at)),
    }
}

/// A valid message of another kind than was asked for.
fn misfit(problem: Problem) -> Rejection<'static> {
    Rejection::new(problem, Position::START)
}
