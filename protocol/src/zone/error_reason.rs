//! Stable error reasons (`data.error_code`), with their JSON-RPC code and user message key.

use super::codes;
use interzone_jsonrpc::ErrorCode;

macro_rules! error_reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal, $code:expr, $key:ident;)*) => {
        /// Machine-readable reason of an error.
        ///
        /// ```
        /// use interzone_protocol::zone::{ErrorReason, UserMessageKey, codes};
        ///
        /// let reason = ErrorReason::from_name("bedrock_timeout").unwrap();
        /// assert_eq!(reason.code(), codes::TIMEOUT);
        /// assert_eq!(reason.message_key(), UserMessageKey::ModelSlow);
        /// assert_eq!(ErrorReason::from_name("whatever"), None);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorReason {
            $($(#[$doc])* $reason,)*
        }

        impl ErrorReason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$reason),*];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$reason => $name,)* }
            }

            /// The JSON-RPC error code sent with it.
            pub const fn code(self) -> ErrorCode {
                match self { $(Self::$reason => $code,)* }
            }

            /// Key of the message that users see.
            pub const fn message_key(self) -> UserMessageKey {
                match self { $(Self::$reason => UserMessageKey::$key,)* }
            }
        }
    };
}

error_reasons! {
    /// The body is not JSON.
    ParseError = "parse_error", ErrorCode::PARSE_ERROR, Generic;
    /// Valid JSON, but not a valid request.
    InvalidRequest = "invalid_request", ErrorCode::INVALID_REQUEST, Generic;
    /// Unknown method.
    MethodNotFound = "method_not_found", ErrorCode::METHOD_NOT_FOUND, Generic;
    /// A param is missing, blank or of the wrong type.
    InvalidParams = "invalid_params", ErrorCode::INVALID_PARAMS, Generic;
    /// Internal error.
    InternalError = "internal_error", ErrorCode::INTERNAL_ERROR, Generic;
    /// Temporary internal error.
    Unavailable = "unavailable", ErrorCode::INTERNAL_ERROR, Busy;
    /// The model took too long.
    ModelTimeout = "bedrock_timeout", codes::TIMEOUT, ModelSlow;
    /// The task took too long.
    AsyncTimeout = "async_timeout", codes::TIMEOUT, OutOfTime;
    /// The model is throttling.
    ModelThrottling = "bedrock_throttling", codes::DOMAIN, Busy;
    /// The platform is throttling.
    Throttling = "throttling", codes::DOMAIN, Busy;
    /// The caller exceeded its rate limit.
    RateLimited = "rate_limited", codes::DOMAIN, Busy;
    /// Access to the model was denied.
    ModelAccessDenied = "bedrock_access_denied", codes::DOMAIN, AskAdmin;
    /// The platform denied access.
    AccessDenied = "access_denied", codes::DOMAIN, AskAdmin;
    /// The model's response is invalid.
    InvalidResponse = "invalid_response", codes::DOMAIN, UnexpectedReply;
    /// The response was truncated.
    ResponseReadError = "response_read_error", codes::DOMAIN, UnexpectedReply;
    /// An attachment could not be downloaded.
    AttachmentDownloadFailed = "attachment_download_failed", codes::DOMAIN, AttachmentNotFetched;
    /// A file could not be downloaded.
    DownloadFailed = "download_failed", codes::DOMAIN, AttachmentNotFetched;
    /// An attachment has neither content nor an allowed URL.
    UrlNotAvailable = "url_not_available", codes::DOMAIN, AttachmentNotFetched;
    /// A file exceeds the size limit.
    FileTooLarge = "file_too_large", codes::DOMAIN, FileTooLarge;
    /// A file decompresses to more than the limit.
    FileBomb = "file_bomb", codes::DOMAIN, FileTooLarge;
    /// Unsupported file type.
    UnsupportedFileType = "unsupported_file_type", codes::DOMAIN, UnsupportedFormat;
    /// Unsupported image type, or content that does not match the declared type.
    UnsupportedImageType = "unsupported_image_type", codes::DOMAIN, UnsupportedFormat;
    /// Unsupported type, or content that does not match the declared type.
    UnsupportedType = "unsupported_type", codes::DOMAIN, UnsupportedFormat;
    /// A file has no readable text, or is damaged.
    ExtractionFailed = "extraction_failed", codes::DOMAIN, Unreadable;
    /// A file is password-protected.
    FileEncrypted = "file_encrypted", codes::DOMAIN, Unreadable;
    /// File reading is temporarily unavailable, independent of the file.
    FileReaderUnavailable = "file_reader_unavailable", codes::DOMAIN, FileReadingUnavailable;
    /// A file could not be generated.
    ToolFailure = "tool_failure", codes::DOMAIN, FileNotMade;
    /// The task failed after the call had returned `accepted`.
    AsyncTaskFailed = "async_task_failed", codes::DOMAIN, BackgroundFailed;
    /// The task's result could not be polled.
    PollError = "poll_error", codes::DOMAIN, Generic;
    /// Neither text nor attachments were sent.
    MissingText = "missing_text", ErrorCode::INVALID_PARAMS, AskSomething;
    /// The task was canceled.
    Canceled = "canceled", codes::DOMAIN, Stopped;
    /// The agent reported a failure.
    AgentFailed = "agent_failed", codes::DOMAIN, Generic;
    /// The agent rejected the task.
    AgentRejected = "agent_rejected", codes::DOMAIN, Generic;
    /// No agent is available.
    AgentUnavailable = "agent_unavailable", codes::DOMAIN, Busy;
    /// The task has already finished.
    TaskFinished = "task_finished", codes::DOMAIN, Generic;
    /// The task is not waiting for an answer.
    TaskNotWaiting = "task_not_waiting", codes::DOMAIN, Generic;
    /// The task does not exist or is not visible to the caller.
    TaskNotFound = "task_not_found", codes::DOMAIN, Generic;
}

impl ErrorReason {
    /// Finds a reason by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.name() == name)
    }
}

/// Key of the message shown to a user when a request fails. The texts themselves are defined by the
/// Verification Zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UserMessageKey {
    /// Something went wrong; try later.
    Generic,
    /// The model is slow; try later.
    ModelSlow,
    /// The task took too long.
    OutOfTime,
    /// Overloaded; try again in a minute.
    Busy,
    /// A connection or permission is missing; ask the administrator.
    AskAdmin,
    /// The model's reply was unexpected; try again.
    UnexpectedReply,
    /// An attachment could not be downloaded; upload it again.
    AttachmentNotFetched,
    /// A file is too large; states the limit.
    FileTooLarge,
    /// A format is not supported; lists the supported ones.
    UnsupportedFormat,
    /// A file is damaged or password-protected.
    Unreadable,
    /// Files cannot be read right now; try again in a minute.
    FileReadingUnavailable,
    /// A file could not be generated; try again.
    FileNotMade,
    /// A background task failed.
    BackgroundFailed,
    /// The request was empty; ask something.
    AskSomething,
    /// Stopped at the user's request.
    Stopped,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn error_reason_names_are_unique() {
        let names: HashSet<_> = ErrorReason::ALL
            .iter()
            .map(|reason| reason.name())
            .collect();
        assert_eq!(names.len(), ErrorReason::ALL.len());
        for reason in ErrorReason::ALL {
            assert_eq!(ErrorReason::from_name(reason.name()), Some(*reason));
        }
    }
}
