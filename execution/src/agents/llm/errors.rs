//! Errors of models and providers: their error codes in the zone contract and the texts that users see. Texts of the
//! provider go to the log only, truncated and escaped; neither they nor a key may reach a user.

use crate::files::Language;
use http::StatusCode;
use interzone_client::sse::EventTooLarge;
use interzone_edge::Secret;
use interzone_hub::AgentError;
use interzone_protocol::zone::ErrorReason;
use serde::Deserialize;
use std::time::Duration;

/// Maximum length of a provider's text in the log, in characters.
const MAX_LOGGED_CHARS: usize = 300;

/// Kind of a model failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LlmErrorKind {
    #[error("the model took too long")]
    TimedOut,
    #[error("the model is overloaded")]
    Overloaded,
    #[error("access denied: check the key, the permissions and the model name")]
    Denied,
    #[error("the provider is unreachable: check the URL and the network")]
    Unreachable,
    #[error("the provider failed")]
    ProviderFailed,
    #[error("the provider rejected the request")]
    RequestRejected,
    #[error("the conversation is too long for the model")]
    ContextTooLong,
    #[error("the model refused to answer")]
    Refused,
    #[error("the response cannot be used: {0}")]
    BadResponse(&'static str),
    #[error("the answer is too long")]
    AnswerTooLong,
    #[error("the answer is empty")]
    EmptyAnswer,
    /// The request format was adapted because the provider rejected it.
    #[error("the provider rejected the request format")]
    Adapted,
}

/// Failure of a request to the model.
#[derive(Debug)]
pub(super) enum LlmFailure {
    /// Failure of the model or its provider.
    Model {
        kind: LlmErrorKind,
        /// True if a retry may help.
        is_retryable: bool,
        /// Delay requested by the provider.
        retry_after: Option<Duration>,
    },
    /// The run's output could not be written.
    Output(AgentError),
}

/// Error while decoding a stream.
#[derive(Debug)]
pub(super) enum DecodeError {
    /// The stream is malformed.
    Malformed(&'static str),
    /// The provider reported an error.
    Provider(ProviderError),
}

impl From<EventTooLarge> for DecodeError {
    fn from(_: EventTooLarge) -> Self {
        Self::Malformed("an event is too large")
    }
}

impl From<LlmErrorKind> for LlmFailure {
    fn from(kind: LlmErrorKind) -> Self {
        Self::Model {
            kind,
            is_retryable: false,
            retry_after: None,
        }
    }
}

impl LlmFailure {
    /// A failure for which a retry may help.
    pub(super) const fn retryable(kind: LlmErrorKind) -> Self {
        Self::Model {
            kind,
            is_retryable: true,
            retry_after: None,
        }
    }
}

impl LlmErrorKind {
    /// Returns the error code of the zone contract.
    pub(super) const fn code(self) -> ErrorReason {
        match self {
            Self::TimedOut => ErrorReason::ModelTimeout,
            Self::Overloaded => ErrorReason::ModelThrottling,
            Self::Denied | Self::Unreachable => ErrorReason::ModelAccessDenied,
            Self::Refused => ErrorReason::AgentRejected,
            Self::ProviderFailed
            | Self::RequestRejected
            | Self::ContextTooLong
            | Self::BadResponse(_)
            | Self::AnswerTooLong
            | Self::EmptyAnswer
            | Self::Adapted => ErrorReason::InvalidResponse,
        }
    }

    /// Returns the text for the user.
    pub(super) const fn user_message(self, language: Language) -> &'static str {
        match (self, language) {
            (Self::TimedOut, Language::English) => {
                "The model took too long to answer. Please try again later."
            }
            (Self::TimedOut, Language::Japanese) => {
                "モデルの応答に時間がかかりすぎています。しばらくしてからもう一度お試しください。"
            }
            (Self::Overloaded, Language::English) => {
                "The model is busy. Please try again in a minute."
            }
            (Self::Overloaded, Language::Japanese) => {
                "モデルが混雑しています。1分ほどしてからもう一度お試しください。"
            }
            (Self::Denied | Self::Unreachable, Language::English) => {
                "The model cannot be used: a connection or a permission is missing. Please contact the \
                 administrator of this service."
            }
            (Self::Denied | Self::Unreachable, Language::Japanese) => {
                "モデルを利用できません（接続または権限の問題です）。管理者に連絡してください。"
            }
            (Self::ContextTooLong, Language::English) => {
                "This is too long for the model. Please ask for less at once, or attach less."
            }
            (Self::ContextTooLong, Language::Japanese) => {
                "内容がモデルの上限を超えています。質問や添付を減らしてください。"
            }
            (Self::Refused, Language::English) => "The model declined to answer this.",
            (Self::Refused, Language::Japanese) => "モデルはこの内容への回答を控えました。",
            (Self::AnswerTooLong, Language::English) => {
                "The model's answer was longer than is allowed. Please ask for less at once."
            }
            (Self::AnswerTooLong, Language::Japanese) => {
                "モデルの応答が長すぎます。質問を分けてお試しください。"
            }
            (Self::EmptyAnswer, Language::English) => "The model gave no answer. Please try again.",
            (Self::EmptyAnswer, Language::Japanese) => {
                "モデルから応答がありませんでした。もう一度お試しください。"
            }
            (
                Self::ProviderFailed | Self::RequestRejected | Self::BadResponse(_) | Self::Adapted,
                Language::English,
            ) => "The model's answer could not be used. Please try again.",
            (
                Self::ProviderFailed | Self::RequestRejected | Self::BadResponse(_) | Self::Adapted,
                Language::Japanese,
            ) => "モデルから予期しない応答がありました。もう一度お試しください。",
        }
    }
}

/// Error reported by a provider: a code, and a message for the log.
#[derive(Debug, Default)]
pub(super) struct ProviderError {
    pub(super) code: String,
    pub(super) message: String,
}

impl ProviderError {
    /// Parses an error body in any provider's format.
    pub(super) fn parse(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct ErrorBody {
            error: Option<ErrorField>,
            #[serde(alias = "Message")]
            message: Option<String>,
            #[serde(rename = "__type")]
            kind: Option<String>,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum ErrorField {
            Object(ErrorDetails),
            Text(String),
        }
        let Ok(body) = serde_json::from_slice::<ErrorBody>(body) else {
            return Self {
                code: String::new(),
                message: String::from_utf8_lossy(body).into_owned(),
            };
        };
        match body.error {
            Some(ErrorField::Object(details)) => details.into_provider_error(),
            Some(ErrorField::Text(text)) => Self {
                code: body.kind.unwrap_or_default(),
                message: text,
            },
            None => Self {
                code: body.kind.unwrap_or_default(),
                message: body.message.unwrap_or_default(),
            },
        }
    }

    /// Formats the error for the log: truncated, escaped, and without the key, which some providers repeat.
    pub(super) fn to_log(&self, key: Option<&Secret>) -> String {
        let text = format!("{} {}", self.code, self.message);
        let text = match key.filter(|key| !key.is_empty()) {
            Some(key) => text.replace(key.expose(), "[hidden]"),
            None => text,
        };
        let short = text.trim().chars().take(MAX_LOGGED_CHARS);
        short.flat_map(char::escape_debug).collect()
    }

    fn mentions(&self, phrases: &[&str]) -> bool {
        let (code, text) = (self.code.to_lowercase(), self.message.to_lowercase());
        phrases
            .iter()
            .any(|phrase| code.contains(phrase) || text.contains(phrase))
    }
}

/// Error object in a body or in a stream.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorDetails {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    /// A string with some providers, a number with others.
    #[serde(default)]
    code: Option<serde_json::Value>,
    #[serde(default)]
    message: Option<String>,
}

impl ErrorDetails {
    pub(super) fn into_provider_error(self) -> ProviderError {
        let code = match self.code {
            Some(serde_json::Value::String(code)) => code,
            Some(serde_json::Value::Number(code)) => code.to_string(),
            _ => String::new(),
        };
        let kind = self.kind.unwrap_or_default();
        ProviderError {
            code: format!("{kind} {code}").trim().to_owned(),
            message: self.message.unwrap_or_default(),
        }
    }
}

const CONTEXT_TOO_LONG_PHRASES: &[&str] = &[
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
const CONTENT_FILTER_PHRASES: &[&str] = &["content_filter", "content_policy", "responsibleai"];
/// Errors that a retry cannot fix: unpaid accounts, missing permissions and wrong model names.
const ACCESS_DENIED_PHRASES: &[&str] = &[
    "insufficient_quota",
    "credit balance",
    "billing",
    "model_not_found",
    "model identifier is invalid",
    "on-demand throughput",
    "not authorized to perform",
];

/// Classifies an unsuccessful response.
pub(super) fn classify(status: StatusCode, error: &ProviderError) -> LlmFailure {
    if error.mentions(ACCESS_DENIED_PHRASES) {
        return LlmErrorKind::Denied.into();
    }
    match status.as_u16() {
        401..=404 => LlmErrorKind::Denied.into(),
        408 | 504 => LlmFailure::retryable(LlmErrorKind::TimedOut),
        429 | 503 | 529 => LlmFailure::retryable(LlmErrorKind::Overloaded),
        413 => LlmErrorKind::ContextTooLong.into(),
        _ if error.mentions(CONTEXT_TOO_LONG_PHRASES) => LlmErrorKind::ContextTooLong.into(),
        _ if error.mentions(CONTENT_FILTER_PHRASES) => LlmErrorKind::Refused.into(),
        424 | 500..=599 => LlmFailure::retryable(LlmErrorKind::ProviderFailed),
        400..=499 => LlmErrorKind::RequestRejected.into(),
        _ => LlmErrorKind::BadResponse("the status is neither success nor error").into(),
    }
}

/// Classifies an error within a stream: its code determines the equivalent status.
pub(super) fn classify_in_stream(error: &ProviderError) -> LlmFailure {
    let code = error.code.to_lowercase();
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
    let found = status.iter().find(|(name, _)| code.contains(name));
    let status = found.map_or(500, |(_, status)| *status);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    classify(status, error)
}
