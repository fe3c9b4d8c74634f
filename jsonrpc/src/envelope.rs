//! The members of a message, collected in one pass and validated once the method is known.

use crate::invalid_message_kind::InvalidMessageKind;
use crate::policy::{
    ExtraMembers, MissingErrorId, MissingId, NullId, ParamsShape, Policy, PolicyResolver,
    ReservedNames, Responses,
};
use crate::scan::{JsonKind, ScanResult, ScannedValue, Scanner};
use crate::{ErrorObject, Message, Notification, RawJson, Request, RequestId, Response, Version};
use crate::{id, method};
use std::borrow::Cow;

/// A violated rule of the envelope, and its byte offset.
pub(crate) struct EnvelopeError<'a> {
    pub(crate) kind: InvalidMessageKind,
    pub(crate) offset: usize,
    /// The call, if it is well formed but calls a reserved method.
    pub(crate) call: Option<Box<Message<'a>>>,
}

impl EnvelopeError<'_> {
    pub(crate) fn new(kind: InvalidMessageKind, offset: usize) -> Self {
        Self {
            kind,
            offset,
            call: None,
        }
    }
}

/// The members of a message, not validated yet.
#[derive(Default)]
pub(crate) struct Envelope<'a> {
    start: usize,
    jsonrpc: Option<ScannedValue<'a>>,
    id: Option<ScannedValue<'a>>,
    method: Option<ScannedValue<'a>>,
    params: Option<ScannedValue<'a>>,
    result: Option<ScannedValue<'a>>,
    error: Option<ScannedValue<'a>>,
    error_object: Option<RawErrorObject<'a>>,
    /// Offset of the first member that the envelope does not define.
    extra_member: Option<usize>,
    /// Name and offset of the first member that appears twice.
    duplicate: Option<(&'static str, usize)>,
}

impl<'a> Envelope<'a> {
    /// Reads the object whose opening brace is at the scanner's offset.
    ///
    /// It fills a fresh envelope in place, which saves moving it.
    pub(crate) fn read(&mut self, scanner: &mut Scanner<'a>) -> ScanResult<()> {
        self.start = scanner.offset;
        for_each_member(scanner, |scanner, name, offset| {
            let (member, slot) = match name {
                "\"jsonrpc\"" => ("jsonrpc", &mut self.jsonrpc),
                "\"id\"" => ("id", &mut self.id),
                "\"method\"" => ("method", &mut self.method),
                "\"params\"" => ("params", &mut self.params),
                "\"result\"" => ("result", &mut self.result),
                "\"error\"" => {
                    if self.error.is_none() && scanner.peek_token() == b'{' {
                        let start = scanner.offset;
                        self.error_object = Some(RawErrorObject::read(scanner)?);
                        self.error = Some(ScannedValue {
                            text: scanner.slice(start, scanner.offset),
                            offset: start,
                            kind: JsonKind::Object,
                            has_escapes: false,
                        });
                        return Ok(());
                    }
                    ("error", &mut self.error)
                }
                _ => {
                    self.extra_member.get_or_insert(offset);
                    scanner.scan_value()?;
                    return Ok(());
                }
            };
            let value = scanner.scan_value()?;
            if slot.replace(value).is_some() {
                self.duplicate.get_or_insert((member, offset));
            }
            Ok(())
        })
    }

    /// Returns true if this is meant as a response and the policy accepts responses.
    pub(crate) fn is_accepted_response(&self, default_policy: &Policy) -> bool {
        let has_outcome = self.result.is_some() || self.error.is_some();
        default_policy.responses == Responses::Admit && has_outcome && self.method.is_none()
    }

    /// Validates and classifies the message, by the policy of its method.
    pub(crate) fn classify<R: PolicyResolver + ?Sized>(
        &self,
        policies: &R,
        default_policy: &Policy,
    ) -> Result<Message<'a>, EnvelopeError<'a>> {
        if let Some((member, at)) = self.duplicate {
            return Err(EnvelopeError::new(
                InvalidMessageKind::DuplicateMember(member),
                at,
            ));
        }
        match &self.jsonrpc {
            None => {
                return Err(EnvelopeError::new(
                    InvalidMessageKind::VersionMissing,
                    self.start,
                ));
            }
            Some(value)
                if value.kind == JsonKind::String && string_value(value) == Version::TEXT => {}
            Some(value) => {
                return Err(EnvelopeError::new(
                    InvalidMessageKind::VersionWrong,
                    value.offset,
                ));
            }
        }
        let outcome = self.result.as_ref().or(self.error.as_ref());
        match (&self.method, outcome) {
            (Some(method), None) => self.classify_call(method, policies),
            (None, Some(_)) => self.classify_response(default_policy),
            (Some(_), Some(outcome)) => Err(EnvelopeError::new(
                InvalidMessageKind::RequestAndResponse,
                outcome.offset,
            )),
            (None, None) => Err(EnvelopeError::new(
                InvalidMessageKind::NotAMessage,
                self.start,
            )),
        }
    }

    fn classify_call<R: PolicyResolver + ?Sized>(
        &self,
        method: &ScannedValue<'a>,
        policies: &R,
    ) -> Result<Message<'a>, EnvelopeError<'a>> {
        if method.kind != JsonKind::String {
            return Err(EnvelopeError::new(
                InvalidMessageKind::MethodKind(method.kind),
                method.offset,
            ));
        }
        let name = string_value(method);
        if name.is_empty() {
            return Err(EnvelopeError::new(
                InvalidMessageKind::MethodEmpty,
                method.offset,
            ));
        }
        let policy = policies.for_method(&name);
        if let (Some(at), ExtraMembers::Refuse) = (self.extra_member, policy.extra_members) {
            return Err(EnvelopeError::new(InvalidMessageKind::ExtraMember, at));
        }
        let params = self.params.filter(|params| params.kind != JsonKind::Null);
        if let Some(ScannedValue {
            kind, offset: at, ..
        }) = params
            && policy.params == ParamsShape::Structured
            && !matches!(kind, JsonKind::Object | JsonKind::Array)
        {
            return Err(EnvelopeError::new(
                InvalidMessageKind::ParamsScalar(kind),
                at,
            ));
        }
        let is_reserved =
            policy.reserved_names == ReservedNames::Unknown && method::is_reserved(&name);
        let params = params.map(|params| RawJson::from_validated(params.text));
        let message = match (&self.id, policy.missing_id) {
            (None, MissingId::Notification) => {
                Message::Notification(Notification::from_validated(name, params))
            }
            (None, MissingId::AnswerNull) => {
                Message::Request(Request::from_validated(None, name, params))
            }
            (None, MissingId::Refuse) => {
                return Err(EnvelopeError::new(
                    InvalidMessageKind::IdMissing,
                    self.start,
                ));
            }
            (Some(value), _) => {
                let id = parse_nullable_id(value)?;
                if id.is_none() && policy.null_id == NullId::Refuse {
                    return Err(EnvelopeError::new(InvalidMessageKind::IdNull, value.offset));
                }
                Message::Request(Request::from_validated(id, name, params))
            }
        };
        if is_reserved {
            return Err(EnvelopeError {
                kind: InvalidMessageKind::MethodReserved,
                offset: method.offset,
                call: Some(Box::new(message)),
            });
        }
        Ok(message)
    }

    fn classify_response(&self, default_policy: &Policy) -> Result<Message<'a>, EnvelopeError<'a>> {
        if default_policy.responses == Responses::Refuse {
            return Err(EnvelopeError::new(
                InvalidMessageKind::ResponseRefused,
                self.start,
            ));
        }
        let extra = self
            .params
            .map(|params| params.offset)
            .into_iter()
            .chain(self.extra_member)
            .min();
        if let (Some(at), ExtraMembers::Refuse) = (extra, default_policy.extra_members) {
            return Err(EnvelopeError::new(InvalidMessageKind::ExtraMember, at));
        }
        let outcome = match (&self.result, &self.error, &self.error_object) {
            (Some(_), Some(error), _) => {
                return Err(EnvelopeError::new(
                    InvalidMessageKind::ResultAndError,
                    error.offset,
                ));
            }
            (Some(result), None, _) => Ok(RawJson::from_validated(result.text)),
            (None, Some(error), Some(members)) => {
                Err(members.validate(error.offset, default_policy)?)
            }
            (None, Some(error), None) => {
                return Err(EnvelopeError::new(
                    InvalidMessageKind::ErrorKind(error.kind),
                    error.offset,
                ));
            }
            (None, None, _) => {
                return Err(EnvelopeError::new(
                    InvalidMessageKind::NotAMessage,
                    self.start,
                ));
            }
        };
        let id = match &self.id {
            Some(value) => {
                let id = parse_nullable_id(value)?;
                // A null id means "the request could not be read", so a result cannot have it, except as the response
                // to a request with a null id.
                if id.is_none() && outcome.is_ok() && default_policy.null_id == NullId::Refuse {
                    return Err(EnvelopeError::new(InvalidMessageKind::IdNull, value.offset));
                }
                id
            }
            None if outcome.is_err() && default_policy.missing_error_id == MissingErrorId::Null => {
                None
            }
            None => {
                return Err(EnvelopeError::new(
                    InvalidMessageKind::IdMissing,
                    self.start,
                ));
            }
        };
        Ok(Message::Response(Response::from_validated(id, outcome)))
    }
}

/// The members of an error object, not validated yet.
#[derive(Default)]
pub(crate) struct RawErrorObject<'a> {
    code: Option<ScannedValue<'a>>,
    message: Option<ScannedValue<'a>>,
    data: Option<ScannedValue<'a>>,
    extra_member: Option<usize>,
    duplicate: Option<(&'static str, usize)>,
}

impl<'a> RawErrorObject<'a> {
    /// Reads the object whose opening brace is at the scanner's offset.
    pub(crate) fn read(scanner: &mut Scanner<'a>) -> ScanResult<Self> {
        let mut error = Self::default();
        for_each_member(scanner, |scanner, name, offset| {
            let (member, slot) = match name {
                "\"code\"" => ("error.code", &mut error.code),
                "\"message\"" => ("error.message", &mut error.message),
                "\"data\"" => ("error.data", &mut error.data),
                _ => {
                    error.extra_member.get_or_insert(offset);
                    scanner.scan_value()?;
                    return Ok(());
                }
            };
            if slot.replace(scanner.scan_value()?).is_some() {
                error.duplicate.get_or_insert((member, offset));
            }
            Ok(())
        })?;
        Ok(error)
    }

    /// Validates the object, which begins at `start`.
    pub(crate) fn validate(
        &self,
        start: usize,
        policy: &Policy,
    ) -> Result<ErrorObject<'a>, EnvelopeError<'a>> {
        if let Some((member, at)) = self.duplicate {
            return Err(EnvelopeError::new(
                InvalidMessageKind::DuplicateMember(member),
                at,
            ));
        }
        if let (Some(at), ExtraMembers::Refuse) = (self.extra_member, policy.extra_members) {
            return Err(EnvelopeError::new(InvalidMessageKind::ExtraMember, at));
        }
        let Some(code) = self.code else {
            return Err(EnvelopeError::new(
                InvalidMessageKind::ErrorCodeMissing,
                start,
            ));
        };
        let number = id::parse_integer(code.text).and_then(|number| i32::try_from(number).ok());
        let Some(number) = number.filter(|_| code.kind == JsonKind::Number) else {
            return Err(EnvelopeError::new(
                InvalidMessageKind::ErrorCodeWrong,
                code.offset,
            ));
        };
        let Some(message) = self.message else {
            return Err(EnvelopeError::new(
                InvalidMessageKind::ErrorMessageMissing,
                start,
            ));
        };
        if message.kind != JsonKind::String {
            return Err(EnvelopeError::new(
                InvalidMessageKind::ErrorMessageKind(message.kind),
                message.offset,
            ));
        }
        let error = ErrorObject::new(number, string_value(&message));
        Ok(match self.data {
            Some(data) => error.with_data(RawJson::from_validated(data.text)),
            None => error,
        })
    }
}

/// Calls `visit` for each member of the object whose opening brace is at the scanner's offset.
///
/// `visit` gets the name of the member and its offset, with the scanner at the value. Names are passed in quotes,
/// which saves removing them, and without escapes: `"\u0069d"` is passed as `"id"`.
#[inline]
fn for_each_member<'a>(
    scanner: &mut Scanner<'a>,
    mut visit: impl FnMut(&mut Scanner<'a>, &str, usize) -> ScanResult<()>,
) -> ScanResult<()> {
    scanner.offset += 1;
    if scanner.peek_token() == b'}' {
        scanner.offset += 1;
        return Ok(());
    }
    loop {
        let name = scanner.scan_member_name()?;
        let unescaped_name;
        let text = if name.has_escapes {
            unescaped_name = format!("\"{}\"", unescape(&name));
            &unescaped_name
        } else {
            name.text
        };
        visit(scanner, text, name.offset)?;
        match scanner.peek_token() {
            b',' => scanner.offset += 1,
            b'}' => {
                scanner.offset += 1;
                return Ok(());
            }
            _ => return scanner.unexpected(),
        }
    }
}

/// The value of a scanned string; borrowed unless it has escapes.
#[inline]
fn string_value<'a>(string: &ScannedValue<'a>) -> Cow<'a, str> {
    if string.has_escapes {
        Cow::Owned(unescape(string))
    } else {
        let inside = string.text.len().saturating_sub(1);
        Cow::Borrowed(string.text.get(1..inside).unwrap_or_default())
    }
}

#[cold]
fn unescape(string: &ScannedValue<'_>) -> String {
    // The scanner has rejected every escape that serde_json would reject.
    serde_json::from_str(string.text).unwrap_or_default()
}

/// Parses an id; `None` if it is null.
fn parse_nullable_id<'a>(
    value: &ScannedValue<'a>,
) -> Result<Option<RequestId<'a>>, EnvelopeError<'a>> {
    match value.kind {
        JsonKind::String => Ok(Some(RequestId::String(string_value(value)))),
        JsonKind::Number => match id::parse_integer(value.text) {
            Some(number) => Ok(Some(RequestId::Number(number))),
            None => Err(EnvelopeError::new(
                InvalidMessageKind::IdNotInteger,
                value.offset,
            )),
        },
        JsonKind::Null => Ok(None),
        kind => Err(EnvelopeError::new(
            InvalidMessageKind::IdKind(kind),
            value.offset,
        )),
    }
}
