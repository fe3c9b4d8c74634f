//! Validation report of a message or batch.
//!
//! These types define the JSON of `--output json`, which docs/check.md describes: keep both in sync.

use interzone_jsonrpc::{
    Batches, ErrorCode, ExtraMembers, InvalidMessageKind, Item, JsonKind, Message, Parsed, Policy,
    Position, RawJson, RequestId, Response, parse,
};
use serde::{Serialize, Serializer};

/// The standard policy, with a larger batch limit: batches over a typical server's limit only get a note.
const POLICY: Policy = Policy {
    batches: Batches::UpTo(MAX_BATCH_ITEMS),
    ..Policy::STANDARD
};

/// The same policy, but refuses members that the envelope does not define.
const STRICT: Policy = Policy {
    extra_members: ExtraMembers::Refuse,
    ..POLICY
};

/// Maximum batch size, so that a file of `[1,1,1,…` does not exhaust memory.
const MAX_BATCH_ITEMS: usize = 100 * Policy::DEFAULT_BATCH_LIMIT;

/// Result for a message or a batch.
#[derive(Debug, Serialize)]
pub(super) struct MessageReport<'a> {
    pub(super) valid: bool,
    #[serde(flatten)]
    pub(super) finding: Finding<'a>,
    /// Hints for the sender that do not affect validity.
    pub(super) notes: Vec<Note>,
}

/// Kind of message, with its details.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Finding<'a> {
    Request {
        method: String,
        id: Option<RequestId<'a>>,
        /// JSON type of the params.
        params: Option<&'static str>,
    },
    Notification {
        method: String,
        params: Option<&'static str>,
    },
    Response {
        id: Option<RequestId<'a>>,
        #[serde(flatten)]
        outcome: ResponseOutcome,
    },
    Batch {
        items: Vec<MessageReport<'a>>,
    },
    Invalid {
        problem: MessageProblem,
    },
}

/// Outcome in a response.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ResponseOutcome {
    /// JSON type of the result.
    Result(&'static str),
    Error {
        #[serde(serialize_with = "number")]
        code: ErrorCode,
        message: String,
        data: Option<&'static str>,
    },
}

/// Validation error with its position.
#[derive(Debug, Serialize)]
pub(super) struct MessageProblem {
    pub(super) name: &'static str,
    pub(super) details: String,
    field: Option<&'static str>,
    #[serde(flatten, serialize_with = "serialize_position")]
    pub(super) position: Position,
    /// Error code that a server returns.
    #[serde(serialize_with = "number")]
    pub(super) code: ErrorCode,
}

/// Hint about something that other peers may treat differently, or that is invisible.
#[derive(Debug, Serialize)]
pub(super) struct Note {
    name: &'static str,
    pub(super) details: String,
    #[serde(
        flatten,
        serialize_with = "serialize_optional_position",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) position: Option<Position>,
}

/// UTF-8 byte order mark, which some editors write. It is invisible, so it gets a note.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Validates the content of a file.
pub(super) fn validate(bytes: &[u8]) -> MessageReport<'_> {
    let mut report = validate_message(bytes);
    if bytes.starts_with(BYTE_ORDER_MARK) {
        report.notes.push(Note::new(
            "byte_order_mark",
            "the text begins with a byte order mark, which JSON does not allow; save it as UTF-8 without one"
                .to_owned(),
        ));
    }
    report
}

fn validate_message(bytes: &[u8]) -> MessageReport<'_> {
    match (parse(bytes, &POLICY), parse(bytes, &STRICT)) {
        (Parsed::Batch(items), Parsed::Batch(strict)) => validate_batch(items, strict),
        (Parsed::One(item), Parsed::One(strict)) => validate_one(item, Some(strict)),
        // The strict policy never changes whether the text is a batch.
        (Parsed::Batch(items), Parsed::One(_)) => validate_batch(items, Vec::new()),
        (Parsed::One(item), Parsed::Batch(_)) => validate_one(item, None),
    }
}

fn validate_batch<'a>(items: Vec<Item<'a>>, strict: Vec<Item<'a>>) -> MessageReport<'a> {
    let mut notes = Vec::new();
    if items.len() > Policy::DEFAULT_BATCH_LIMIT {
        notes.push(Note::new(
            "batch_large",
            format!(
                "the batch has {} messages; many servers accept at most {}",
                items.len(),
                Policy::DEFAULT_BATCH_LIMIT
            ),
        ));
    }
    let strict = strict.into_iter().map(Some).chain(std::iter::repeat(None));
    let items: Vec<_> = items
        .into_iter()
        .zip(strict)
        .map(|(item, strict)| validate_one(item, strict))
        .collect();
    MessageReport {
        valid: items.iter().all(|item| item.valid),
        finding: Finding::Batch { items },
        notes,
    }
}

fn validate_one<'a>(item: Item<'a>, strict: Option<Item<'a>>) -> MessageReport<'a> {
    let message = match item {
        Ok(message) => message,
        Err(rejection) => {
            return MessageReport {
                valid: false,
                finding: Finding::Invalid {
                    problem: MessageProblem::new(rejection.kind(), rejection.position()),
                },
                notes: Vec::new(),
            };
        }
    };
    let mut notes = Vec::new();
    let (finding, reserved) = match &message {
        Message::Request(request) => (
            Finding::Request {
                method: request.method().to_owned(),
                id: request.id().cloned(),
                params: kind(request.params()),
            },
            request.is_reserved(),
        ),
        Message::Notification(notification) => (
            Finding::Notification {
                method: notification.method().to_owned(),
                params: kind(notification.params()),
            },
            notification.is_reserved(),
        ),
        Message::Response(response) => (Finding::response(response), false),
    };
    if reserved {
        notes.push(Note::new(
            InvalidMessageKind::MethodReserved.name(),
            format!(
                "names that begin with `rpc.` are reserved; a server answers {}",
                describe_code(ErrorCode::METHOD_NOT_FOUND)
            ),
        ));
    }
    if let Finding::Request { params, .. } | Finding::Notification { params, .. } = &finding {
        notes.extend(params.and_then(Note::on_params));
    }
    if let Some(Err(rejection)) = strict
        && rejection.kind() == InvalidMessageKind::ExtraMember
    {
        notes.push(Note {
            position: Some(rejection.position()),
            ..Note::new(
                InvalidMessageKind::ExtraMember.name(),
                "a member is not defined by the envelope; a strict peer refuses it".to_owned(),
            )
        });
    }
    MessageReport {
        valid: true,
        finding,
        notes,
    }
}

impl<'a> Finding<'a> {
    fn response(response: &Response<'a>) -> Self {
        let outcome = match (response.result(), response.error()) {
            (_, Some(error)) => ResponseOutcome::Error {
                code: error.code(),
                message: error.message().to_owned(),
                data: kind(error.data()),
            },
            (result, None) => {
                ResponseOutcome::Result(kind(result).unwrap_or(JsonKind::Null.name()))
            }
        };
        Self::Response {
            id: response.id().cloned(),
            outcome,
        }
    }
}

impl MessageProblem {
    fn new(problem: InvalidMessageKind, position: Position) -> Self {
        Self {
            name: problem.name(),
            details: problem.to_string(),
            field: problem.field(),
            position,
            code: problem.code(),
        }
    }
}

impl Note {
    fn new(name: &'static str, details: String) -> Self {
        Self {
            name,
            details,
            position: None,
        }
    }

    /// Returns a note on params that some peers refuse.
    fn on_params(kind: &'static str) -> Option<Self> {
        if kind == JsonKind::Object.name() {
            None
        } else if kind == JsonKind::Array.name() {
            Some(Self::new(
                "params_array",
                "`params` is an array; ACP accepts only an object".to_owned(),
            ))
        } else {
            let invalid = describe_code(ErrorCode::INVALID_REQUEST);
            Some(Self::new(
                "params_scalar",
                format!(
                    "`params` is a {kind}; a server that accepts only objects and arrays answers {invalid}"
                ),
            ))
        }
    }
}

/// Formats an error code with its standard message.
pub(super) fn describe_code(code: ErrorCode) -> String {
    let message = code.standard_message().unwrap_or_default();
    format!("{code} {message}")
}

fn kind(value: Option<&RawJson<'_>>) -> Option<&'static str> {
    value.map(|value| value.kind().name())
}

fn number<S: Serializer>(code: &ErrorCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i32(code.get())
}

/// A [`Position`] as JSON.
#[derive(Serialize)]
struct PositionJson {
    line: usize,
    column: usize,
    offset: usize,
}

fn serialize_position<S: Serializer>(
    position: &Position,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let Position {
        offset,
        line,
        column,
    } = *position;
    PositionJson {
        line,
        column,
        offset,
    }
    .serialize(serializer)
}

fn serialize_optional_position<S: Serializer>(
    position: &Option<Position>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match position {
        Some(position) => serialize_position(position, serializer),
        None => serializer.serialize_none(),
    }
}
