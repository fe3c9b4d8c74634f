//! What there is to say about a message, before anybody decides how to say it.
//!
//! The shape of these types is the JSON that `--output json` gives, and docs/check.md describes
//! it: a change here is a change there. Nothing is printed from here.

use interzone_jsonrpc::{
    Batches, ErrorCode, ExtraMembers, Item, Kind, Message, Parsed, Policy, Position, Problem,
    RawJson, RequestId, Response, parse,
};
use serde::{Serialize, Serializer};

/// The standard, without the bound on batches: that is a server's own, and gets a note.
const POLICY: Policy = Policy {
    batches: Batches::UpTo(MOST_ITEMS),
    ..Policy::STANDARD
};

/// The same, for finding members beyond the envelope.
const STRICT: Policy = Policy {
    extra_members: ExtraMembers::Refuse,
    ..POLICY
};

/// The largest batch that is looked at, so that a file of `[1,1,1,…` does not fill the memory.
const MOST_ITEMS: usize = 100 * Policy::USUAL_BATCH;

/// The verdict on a message or a batch.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    pub(super) valid: bool,
    #[serde(flatten)]
    pub(super) finding: Finding<'a>,
    /// What a sender should know although it makes nothing invalid.
    pub(super) notes: Vec<Note>,
}

/// What it turned out to be.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Finding<'a> {
    Request {
        method: String,
        id: Option<RequestId<'a>>,
        /// The kind of value that they are.
        params: Option<&'static str>,
    },
    Notification {
        method: String,
        params: Option<&'static str>,
    },
    Response {
        id: Option<RequestId<'a>>,
        #[serde(flatten)]
        outcome: Outcome,
    },
    Batch {
        items: Vec<Report<'a>>,
    },
    Invalid {
        problem: Trouble,
    },
}

/// What a response says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// It worked; the kind of value that came of it.
    Result(&'static str),
    Error {
        #[serde(serialize_with = "number")]
        code: ErrorCode,
        message: String,
        data: Option<&'static str>,
    },
}

/// What is wrong, and where.
#[derive(Debug, Serialize)]
pub(super) struct Trouble {
    pub(super) name: &'static str,
    pub(super) details: String,
    field: Option<&'static str>,
    #[serde(flatten, serialize_with = "place")]
    pub(super) position: Position,
    /// What a server answers with.
    #[serde(serialize_with = "number")]
    pub(super) code: ErrorCode,
}

/// Something that other peers may take otherwise.
#[derive(Debug, Serialize)]
pub(super) struct Note {
    name: &'static str,
    pub(super) details: String,
    #[serde(
        flatten,
        serialize_with = "place_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) position: Option<Position>,
}

/// Judges what stands in a file.
pub(super) fn judge(bytes: &[u8]) -> Report<'_> {
    match (parse(bytes, &POLICY), parse(bytes, &STRICT)) {
        (Parsed::Batch(items), Parsed::Batch(strict)) => batch(items, strict),
        (Parsed::One(item), Parsed::One(strict)) => one(item, Some(strict)),
        // Strictness about members never turns a batch into one message, or back.
        (Parsed::Batch(items), Parsed::One(_)) => batch(items, Vec::new()),
        (Parsed::One(item), Parsed::Batch(_)) => one(item, None),
    }
}

fn batch<'a>(items: Vec<Item<'a>>, strict: Vec<Item<'a>>) -> Report<'a> {
    let mut notes = Vec::new();
    if items.len() > Policy::USUAL_BATCH {
        notes.push(Note::new(
            "batch_large",
            format!(
                "the batch has {} messages; many servers take at most {}",
                items.len(),
                Policy::USUAL_BATCH
            ),
        ));
    }
    let strict = strict.into_iter().map(Some).chain(std::iter::repeat(None));
    let items: Vec<_> = items
        .into_iter()
        .zip(strict)
        .map(|(item, strict)| one(item, strict))
        .collect();
    Report {
        valid: items.iter().all(|item| item.valid),
        finding: Finding::Batch { items },
        notes,
    }
}

fn one<'a>(item: Item<'a>, strict: Option<Item<'a>>) -> Report<'a> {
    let message = match item {
        Ok(message) => message,
        Err(rejection) => {
            return Report {
                valid: false,
                finding: Finding::Invalid {
                    problem: Trouble::new(rejection.problem(), rejection.position()),
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
            Problem::MethodReserved.name(),
            format!(
                "names that begin with `rpc.` are reserved; a server answers {}",
                answer(ErrorCode::METHOD_NOT_FOUND)
            ),
        ));
    }
    if let Finding::Request { params, .. } | Finding::Notification { params, .. } = &finding {
        notes.extend(params.and_then(Note::on_params));
    }
    if let Some(Err(rejection)) = strict
        && rejection.problem() == Problem::ExtraMember
    {
        notes.push(Note {
            position: Some(rejection.position()),
            ..Note::new(
                Problem::ExtraMember.name(),
                "there is a member that the envelope does not define; a strict peer refuses it"
                    .to_owned(),
            )
        });
    }
    Report {
        valid: true,
        finding,
        notes,
    }
}

impl<'a> Finding<'a> {
    fn response(response: &Response<'a>) -> Self {
        let outcome = match (response.result(), response.error()) {
            (_, Some(error)) => Outcome::Error {
                code: error.code(),
                message: error.message().to_owned(),
                data: kind(error.data()),
            },
            (result, None) => Outcome::Result(kind(result).unwrap_or(Kind::Null.name())),
        };
        Self::Response {
            id: response.id().cloned(),
            outcome,
        }
    }
}

impl Trouble {
    fn new(problem: Problem, position: Position) -> Self {
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

    /// What some peers have against params of this kind.
    fn on_params(kind: &'static str) -> Option<Self> {
        if kind == Kind::Object.name() {
            None
        } else if kind == Kind::Array.name() {
            Some(Self::new(
                "params_array",
                "`params` is an array; ACP takes only an object".to_owned(),
            ))
        } else {
            let invalid = answer(ErrorCode::INVALID_REQUEST);
            Some(Self::new(
                "params_scalar",
                format!(
                    "`params` is a {kind}; a server that takes only objects and arrays answers {invalid}"
                ),
            ))
        }
    }
}

/// A code with its words.
pub(super) fn answer(code: ErrorCode) -> String {
    let words = code.standard_message().unwrap_or_default();
    format!("{code} {words}")
}

fn kind(value: Option<&RawJson<'_>>) -> Option<&'static str> {
    value.map(|value| value.kind().name())
}

fn number<S: Serializer>(code: &ErrorCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i32(code.get())
}

/// A [`Position`] as JSON.
#[derive(Serialize)]
struct Place {
    line: usize,
    column: usize,
    offset: usize,
}

fn place<S: Serializer>(position: &Position, serializer: S) -> Result<S::Ok, S::Error> {
    let Position {
        offset,
        line,
        column,
    } = *position;
    Place {
        line,
        column,
        offset,
    }
    .serialize(serializer)
}

fn place_if_any<S: Serializer>(
    position: &Option<Position>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match position {
        Some(position) => place(position, serializer),
        None => serializer.serialize_none(),
    }
}
