//! The members of a message, collected in one pass and judged once the method is known.

use crate::policy::{
    ExtraMembers, MissingErrorId, MissingId, NullId, ParamsShape, Policy, ReservedNames, Responses,
    Rulebook,
};
use crate::problem::Problem;
use crate::scan::{Kind, Scanner, Step, Value};
use crate::{Error, Message, Notification, RawJson, Request, RequestId, Response, Version};
use crate::{id, method};
use std::borrow::Cow;

/// JSON that is no valid message: why, and at which byte.
pub(crate) struct Refusal<'a> {
    pub(crate) problem: Problem,
    pub(crate) at: usize,
    /// The call, where it is well formed and yet cannot be served.
    pub(crate) call: Option<Box<Message<'a>>>,
}

impl Refusal<'_> {
    pub(crate) fn new(problem: Problem, at: usize) -> Self {
        Self {
            problem,
            at,
            call: None,
        }
    }
}

/// A message's members as they stand, none of them judged.
#[derive(Default)]
pub(crate) struct Envelope<'a> {
    start: usize,
    jsonrpc: Option<Value<'a>>,
    id: Option<Value<'a>>,
    method: Option<Value<'a>>,
    params: Option<Value<'a>>,
    result: Option<Value<'a>>,
    error: Option<Value<'a>>,
    error_members: Option<ErrorMembers<'a>>,
    /// The first member that the envelope does not define.
    extra: Option<usize>,
    /// The first member that stands twice.
    duplicate: Option<(&'static str, usize)>,
}

impl<'a> Envelope<'a> {
    /// Reads the object whose brace stands here.
    ///
    /// The members are written where they stay: a fresh envelope is handed in, and not handed back.
    pub(crate) fn read(&mut self, scanner: &mut Scanner<'a>) -> Step<()> {
        self.start = scanner.at;
        members(scanner, |scanner, name, at| {
            let (member, slot) = match name {
                "\"jsonrpc\"" => ("jsonrpc", &mut self.jsonrpc),
                "\"id\"" => ("id", &mut self.id),
                "\"method\"" => ("method", &mut self.method),
                "\"params\"" => ("params", &mut self.params),
                "\"result\"" => ("result", &mut self.result),
                "\"error\"" => {
                    if self.error.is_none() && scanner.peek_token() == b'{' {
                        let start = scanner.at;
                        self.error_members = Some(ErrorMembers::read(scanner)?);
                        self.error = Some(Value {
                            text: scanner.slice(start, scanner.at),
                            at: start,
                            kind: Kind::Object,
                            escaped: false,
                        });
                        return Ok(());
                    }
                    ("error", &mut self.error)
                }
                _ => {
                    self.extra.get_or_insert(at);
                    scanner.step()?;
                    return Ok(());
                }
            };
            let value = scanner.step()?;
            if slot.replace(value).is_some() {
                self.duplicate.get_or_insert((member, at));
            }
            Ok(())
        })
    }

    /// Whether this was meant as an answer to us, at a door where answers come in.
    pub(crate) fn is_answer(&self, door: &Policy) -> bool {
        let answers = self.result.is_some() || self.error.is_some();
        door.responses == Responses::Admit && answers && self.method.is_none()
    }

    /// Decides what the message is, by the policy of its method.
    pub(crate) fn judge<R: Rulebook + ?Sized>(
        &self,
        rules: &R,
        door: &Policy,
    ) -> Result<Message<'a>, Refusal<'a>> {
        if let Some((member, at)) = self.duplicate {
            return Err(Refusal::new(Problem::DuplicateMember(member), at));
        }
        match &self.jsonrpc {
            None => return Err(Refusal::new(Problem::VersionMissing, self.start)),
            Some(value) if value.kind == Kind::String && unquoted(value) == Version::TEXT => {}
            Some(value) => return Err(Refusal::new(Problem::VersionWrong, value.at)),
        }
        let outcome = self.result.as_ref().or(self.error.as_ref());
        match (&self.method, outcome) {
            (Some(method), None) => self.judge_call(method, rules),
            (None, Some(_)) => self.judge_response(door),
            (Some(_), Some(outcome)) => Err(Refusal::new(Problem::RequestAndResponse, outcome.at)),
            (None, None) => Err(Refusal::new(Problem::NotAMessage, self.start)),
        }
    }

    fn judge_call<R: Rulebook + ?Sized>(
        &self,
        method: &Value<'a>,
        rules: &R,
    ) -> Result<Message<'a>, Refusal<'a>> {
        if method.kind != Kind::String {
            return Err(Refusal::new(Problem::MethodKind(method.kind), method.at));
        }
        let name = unquoted(method);
        if name.is_empty() {
            return Err(Refusal::new(Problem::MethodEmpty, method.at));
        }
        let policy = rules.for_method(&name);
        if let (Some(at), ExtraMembers::Refuse) = (self.extra, policy.extra_members) {
            return Err(Refusal::new(Problem::ExtraMember, at));
        }
        let params = self.params.filter(|params| params.kind != Kind::Null);
        if let Some(Value { kind, at, .. }) = params
            && policy.params == ParamsShape::Structured
            && !matches!(kind, Kind::Object | Kind::Array)
        {
            return Err(Refusal::new(Problem::ParamsScalar(kind), at));
        }
        let reserved =
            policy.reserved_names == ReservedNames::Unknown && method::is_reserved(&name);
        let params = params.map(|params| RawJson::checked(params.text));
        let message = match (&self.id, policy.missing_id) {
            (None, MissingId::Notification) => {
                Message::Notification(Notification::judged(name, params))
            }
            (None, MissingId::Refuse) => {
                return Err(Refusal::new(Problem::IdMissing, self.start));
            }
            (Some(value), _) => {
                let id = nullable_id(value)?;
                if id.is_none() && policy.null_id == NullId::Refuse {
                    return Err(Refusal::new(Problem::IdNull, value.at));
                }
                Message::Request(Request::judged(id, name, params))
            }
        };
        if reserved {
            return Err(Refusal {
                problem: Problem::MethodReserved,
                at: method.at,
                call: Some(Box::new(message)),
            });
        }
        Ok(message)
    }

    fn judge_response(&self, door: &Policy) -> Result<Message<'a>, Refusal<'a>> {
        if door.responses == Responses::Refuse {
            return Err(Refusal::new(Problem::ResponseRefused, self.start));
        }
        let extra = self
            .params
            .map(|params| params.at)
            .into_iter()
            .chain(self.extra)
            .min();
        if let (Some(at), ExtraMembers::Refuse) = (extra, door.extra_members) {
            return Err(Refusal::new(Problem::ExtraMember, at));
        }
        let outcome = match (&self.result, &self.error, &self.error_members) {
            (Some(_), Some(error), _) => {
                return Err(Refusal::new(Problem::ResultAndError, error.at));
            }
            (Some(result), None, _) => Ok(RawJson::checked(result.text)),
            (None, Some(error), Some(members)) => Err(members.judge(error.at, door)?),
            (None, Some(error), None) => {
                return Err(Refusal::new(Problem::ErrorKind(error.kind), error.at));
            }
            (None, None, _) => return Err(Refusal::new(Problem::NotAMessage, self.start)),
        };
        let id = match &self.id {
            Some(value) => {
                let id = nullable_id(value)?;
                // A null id says "the request could not be read", so a result cannot carry it,
                // except to a request that had a null id itself.
                if id.is_none() && outcome.is_ok() && door.null_id == NullId::Refuse {
                    return Err(Refusal::new(Problem::IdNull, value.at));
                }
                id
            }
            None if outcome.is_err() && door.missing_error_id == MissingErrorId::Null => None,
            None => return Err(Refusal::new(Problem::IdMissing, self.start)),
        };
        Ok(Message::Response(Response::judged(id, outcome)))
    }
}

/// An error object's members as they stand, none of them judged.
#[derive(Default)]
pub(crate) struct ErrorMembers<'a> {
    code: Option<Value<'a>>,
    message: Option<Value<'a>>,
    data: Option<Value<'a>>,
    extra: Option<usize>,
    duplicate: Option<(&'static str, usize)>,
}

impl<'a> ErrorMembers<'a> {
    /// Reads the object whose brace stands here.
    pub(crate) fn read(scanner: &mut Scanner<'a>) -> Step<Self> {
        let mut error = Self::default();
        members(scanner, |scanner, name, at| {
            let (member, slot) = match name {
                "\"code\"" => ("error.code", &mut error.code),
                "\"message\"" => ("error.message", &mut error.message),
                "\"data\"" => ("error.data", &mut error.data),
                _ => {
                    error.extra.get_or_insert(at);
                    scanner.step()?;
                    return Ok(());
                }
            };
            if slot.replace(scanner.step()?).is_some() {
                error.duplicate.get_or_insert((member, at));
            }
            Ok(())
        })?;
        Ok(error)
    }

    /// Decides whether the object, which begins at `start`, is an error.
    pub(crate) fn judge(&self, start: usize, policy: &Policy) -> Result<Error<'a>, Refusal<'a>> {
        if let Some((member, at)) = self.duplicate {
            return Err(Refusal::new(Problem::DuplicateMember(member), at));
        }
        if let (Some(at), ExtraMembers::Refuse) = (self.extra, policy.extra_members) {
            return Err(Refusal::new(Problem::ExtraMember, at));
        }
        let Some(code) = self.code else {
            return Err(Refusal::new(Problem::ErrorCodeMissing, start));
        };
        let number = id::integer(code.text).and_then(|number| i32::try_from(number).ok());
        let Some(number) = number.filter(|_| code.kind == Kind::Number) else {
            return Err(Refusal::new(Problem::ErrorCodeWrong, code.at));
        };
        let Some(message) = self.message else {
            return Err(Refusal::new(Problem::ErrorMessageMissing, start));
        };
        if message.kind != Kind::String {
            return Err(Refusal::new(
                Problem::ErrorMessageKind(message.kind),
                message.at,
            ));
        }
        let error = Error::new(number, unquoted(&message));
        Ok(match self.data {
            Some(data) => error.with_data(RawJson::checked(data.text)),
            None => error,
        })
    }
}

/// Walks the members of the object whose brace stands here.
///
/// `each` is told a member's name and where that stands, with the scanner at the value. Names come
/// in their quotes, as that saves taking them off, and without escapes: `"\u0069d"` is `"id"`.
#[inline]
fn members<'a>(
    scanner: &mut Scanner<'a>,
    mut each: impl FnMut(&mut Scanner<'a>, &str, usize) -> Step<()>,
) -> Step<()> {
    scanner.at += 1;
    if scanner.peek_token() == b'}' {
        scanner.at += 1;
        return Ok(());
    }
    loop {
        let name = scanner.member_name()?;
        let respelt;
        let text = if name.escaped {
            respelt = format!("\"{}\"", unescaped(&name));
            &respelt
        } else {
            name.text
        };
        each(scanner, text, name.at)?;
        match scanner.peek_token() {
            b',' => scanner.at += 1,
            b'}' => {
                scanner.at += 1;
                return Ok(());
            }
            _ => return scanner.unexpected(),
        }
    }
}

/// The value of a string that the scanner has passed; borrowed unless it has escapes.
#[inline]
fn unquoted<'a>(string: &Value<'a>) -> Cow<'a, str> {
    if string.escaped {
        Cow::Owned(unescaped(string))
    } else {
        let inside = string.text.len().saturating_sub(1);
        Cow::Borrowed(string.text.get(1..inside).unwrap_or_default())
    }
}

#[cold]
fn unescaped(string: &Value<'_>) -> String {
    // The scanner has refused every escape that serde_json would refuse.
    serde_json::from_str(string.text).unwrap_or_default()
}

/// An id, or nothing where it is null.
fn nullable_id<'a>(value: &Value<'a>) -> Result<Option<RequestId<'a>>, Refusal<'a>> {
    match value.kind {
        Kind::String => Ok(Some(RequestId::String(unquoted(value)))),
        Kind::Number => match id::integer(value.text) {
            Some(number) => Ok(Some(RequestId::Number(number))),
            None => Err(Refusal::new(Problem::IdNotInteger, value.at)),
        },
        Kind::Null => Ok(None),
        kind => Err(Refusal::new(Problem::IdKind(kind), value.at)),
    }
}
