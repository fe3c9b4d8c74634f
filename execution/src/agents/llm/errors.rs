//! What can go wrong between us and a model, what that is called in the zones' contract, and what the
//! user is told. The provider's own words go to the log, cut short and escaped; none of them, and no
//! key, may reach a user.

use crate::files::Language;
use http::StatusCode;
use interzone_edge::Secret;
use interzone_hub::AgentError;
use interzone_protocol::zone::ErrorWord;
use serde::Deserialize;
use std::time::Duration;

/// How much of a provider's words goes to the log, in characters.
const LOGGED: usize = 300;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Why {
    #[error("it took too long")]
    Slow,
    #[error("it has too much to do")]
    Busy,
    #[error("it does not let us in: look at the key, the permissions and the model's name")]
    Denied,
    #[error("it cannot be reached: look at the address and the network")]
    Unreachable,
    #[error("something is wrong with it")]
    Down,
    #[error("it does not take what it was sent")]
    Invalid,
    #[error("the conversation is too long for it")]
    TooLong,
    #[error("it refuses to answer")]
    Refused,
    #[error("what it sent cannot be used: {0}")]
    Broken(&'static str),
    #[error("its answer is longer than is taken")]
    Endless,
    #[error("it said nothing")]
    Silent,
    /// It was spoken to in a way that it does not know; now we know better.
    #[error("it wants to be spoken to differently")]
    Adapted,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// Because of the model.
    Model {
        why: Why,
        /// Whether it may help to try again.
        again: bool,
        /// How long to wait before that, as the provider sees it.
        hint: Option<Duration>,
    },
    /// Because nobody takes what we put out.
    Ours(AgentError),
}

/// Why a stream cannot be read on.
#[derive(Debug)]
pub(super) enum Misread {
    /// It is not what it should be.
    Broken(&'static str),
    /// The provider says that something is wrong.
    Said(Complaint),
}

impl From<Why> for Failure {
    fn from(why: Why) -> Self {
        Self::Model {
            why,
            again: false,
            hint: None,
        }
    }
}

impl Failure {
    /// It may help to try again.
    pub(super) const fn passing(why: Why) -> Self {
        Self::Model {
            why,
            again: true,
            hint: None,
        }
    }
}

impl Why {
    /// The word for programs.
    pub(super) const fn word(self) -> ErrorWord {
        match self {
            Self::Slow => ErrorWord::ModelTimeout,
            Self::Busy => ErrorWord::ModelThrottling,
            Self::Denied | Self::Unreachable => ErrorWord::ModelAccessDenied,
            Self::Refused => ErrorWord::AgentRejected,
            Self::Down
            | Self::Invalid
            | Self::TooLong
            | Self::Broken(_)
            | Self::Endless
            | Self::Silent
            | Self::Adapted => ErrorWord::InvalidResponse,
        }
    }

    /// What the user is told.
    pub(super) const fn sentence(self, language: Language) -> &'static str {
        match (self, language) {
            (Self::Slow, Language::English) => {
                "The model took too long to answer. Please try again later."
            }
            (Self::Slow, Language::Japanese) => {
                "モデルの応答に時間がかかりすぎています。しばらくしてからもう一度お試しください。"
            }
            (Self::Busy, Language::English) => "The model is busy. Please try again in a minute.",
            (Self::Busy, Language::Japanese) => {
                "モデルが混雑しています。1分ほどしてからもう一度お試しください。"
            }
            (Self::Denied | Self::Unreachable, Language::English) => {
                "The model cannot be used: a connection or a permission is missing. Please tell \
                 whoever runs this service."
            }
            (Self::Denied | Self::Unreachable, Language::Japanese) => {
                "モデルを利用できません（接続または権限の問題です）。管理者に連絡してください。"
            }
            (Self::TooLong, Language::English) => {
                "This is too long for the model. Please ask for less at once, or attach less."
            }
            (Self::TooLong, Language::Japanese) => {
                "内容がモデルの上限を超えています。質問や添付を減らしてください。"
            }
            (Self::Refused, Language::English) => "The model declined to answer this.",
            (Self::Refused, Language::Japanese) => "モデルはこの内容への回答を控えました。",
            (Self::Endless, Language::English) => {
                "The model's answer was longer than is allowed. Please ask for less at once."
            }
            (Self::Endless, Language::Japanese) => {
                "モデルの応答が長すぎます。質問を分けてお試しください。"
            }
            (Self::Silent, Language::English) => "The model gave no answer. Please try again.",
            (Self::Silent, Language::Japanese) => {
                "モデルから応答がありませんでした。もう一度お試しください。"
            }
            (Self::Down | Self::Invalid | Self::Broken(_) | Self::Adapted, Language::English) => {
                "The model's answer could not be used. Please try again."
            }
            (Self::Down | Self::Invalid | Self::Broken(_) | Self::Adapted, Language::Japanese) => {
                "モデルから予期しない応答がありました。もう一度お試しください。"
            }
        }
    }
}

/// What a provider says of an error: a word, and a text for whoever reads the log.
#[derive(Debug, Default)]
pub(super) struct Complaint {
    pub(super) word: String,
    pub(super) text: String,
}

impl Complaint {
    /// Reads the body of an error in whichever of the providers' shapes.
    pub(super) fn read(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Body {
            error: Option<Inner>,
            #[serde(alias = "Message")]
            message: Option<String>,
            #[serde(rename = "__type")]
            kind: Option<String>,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Inner {
            Object(Details),
            Text(String),
        }
        let Ok(body) = serde_json::from_slice::<Body>(body) else {
            return Self {
                word: String::new(),
                text: String::from_utf8_lossy(body).into_owned(),
            };
        };
        match body.error {
            Some(Inner::Object(details)) => details.into_complaint(),
            Some(Inner::Text(text)) => Self {
                word: body.kind.unwrap_or_default(),
                text,
            },
            None => Self {
                word: body.kind.unwrap_or_default(),
                text: body.message.unwrap_or_default(),
            },
        }
    }

    /// For the log: cut short, escaped, and without the key, which some providers repeat.
    pub(super) fn logged(&self, key: Option<&Secret>) -> String {
        let whole = format!("{} {}", self.word, self.text);
        let whole = match key.filter(|key| !key.is_empty()) {
            Some(key) => whole.replace(key.expose(), "[hidden]"),
            None => whole,
        };
        let short = whole.trim().chars().take(LOGGED);
        short.flat_map(char::escape_debug).collect()
    }

    fn says(&self, any: &[&str]) -> bool {
        let (word, text) = (self.word.to_lowercase(), self.text.to_lowercase());
        any.iter()
            .any(|phrase| word.contains(phrase) || text.contains(phrase))
    }
}

/// An error as it stands in a body or in a stream.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Details {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    /// A word with some, a number with others.
    #[serde(default)]
    code: Option<serde_json::Value>,
    #[serde(default)]
    message: Option<String>,
}

impl Details {
    pub(super) fn into_complaint(self) -> Complaint {
        let code = match self.code {
            Some(serde_json::Value::String(code)) => code,
            Some(serde_json::Value::Number(code)) => code.to_string(),
            _ => String::new(),
        };
        let kind = self.kind.unwrap_or_default();
        Complaint {
            word: format!("{kind} {code}").trim().to_owned(),
            text: self.message.unwrap_or_default(),
        }
    }
}

const TOO_LONG: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size",
    "maximum context length",
    "context size",
    "context window",
    "prompt is too long",
    "input is too long",
    "too many input tokens",
    "request_too_large",
];
const FILTERED: &[&str] = &["content_filter", "content_policy", "responsibleai"];
/// What no waiting helps against: somebody must pay, or name another model.
const NOT_OURS: &[&str] = &[
    "insufficient_quota",
    "credit balance",
    "billing",
    "model_not_found",
    "model identifier is invalid",
    "on-demand throughput",
    "not authorized to perform",
];

/// What an answer that is no success means.
pub(super) fn classify(status: StatusCode, complaint: &Complaint) -> Failure {
    if complaint.says(NOT_OURS) {
        return Why::Denied.into();
    }
    match status.as_u16() {
        401..=404 => Why::Denied.into(),
        408 | 504 => Failure::passing(Why::Slow),
        429 | 503 | 529 => Failure::passing(Why::Busy),
        413 => Why::TooLong.into(),
        _ if complaint.says(TOO_LONG) => Why::TooLong.into(),
        _ if complaint.says(FILTERED) => Why::Refused.into(),
        424 | 500..=599 => Failure::passing(Why::Down),
        400..=499 => Why::Invalid.into(),
        _ => Why::Broken("it answers with neither success nor error").into(),
    }
}

/// What an error in the midst of a stream means: the word stands for the status that it would have had.
pub(super) fn classify_in_stream(complaint: &Complaint) -> Failure {
    let word = complaint.word.to_lowercase();
    let status = [
        ("overloaded", 529),
        ("throttling", 429),
        ("rate_limit", 429),
        ("unavailable", 503),
        ("timeout", 504),
        ("authentication", 401),
        ("permission", 403),
        ("accessdenied", 403),
        ("not_found", 404),
        ("too_large", 413),
        ("validation", 400),
        ("invalid_request", 400),
        ("429", 429),
        ("400", 400),
    ];
    let found = status.iter().find(|(name, _)| word.contains(name));
    let status = found.map_or(500, |(_, status)| *status);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    classify(status, complaint)
}
