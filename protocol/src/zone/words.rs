//! The stable words of `data.error_code`, the code that each belongs to, and by which key the words
//! for the user are found.

use super::codes;
use interzone_jsonrpc::ErrorCode;

macro_rules! words {
    ($($(#[$doc:meta])* $word:ident = $name:literal, $code:expr, $key:ident;)*) => {
        /// What went wrong, for programs.
        ///
        /// ```
        /// use interzone_protocol::zone::{ErrorWord, MessageKey, codes};
        ///
        /// let word = ErrorWord::from_name("bedrock_timeout").unwrap();
        /// assert_eq!(word.code(), codes::TIMEOUT);
        /// assert_eq!(word.message_key(), MessageKey::ModelSlow);
        /// assert_eq!(ErrorWord::from_name("whatever"), None);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorWord {
            $($(#[$doc])* $word,)*
        }

        impl ErrorWord {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$word),*];

            /// The word on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$word => $name,)* }
            }

            /// The code that it goes with.
            pub const fn code(self) -> ErrorCode {
                match self { $(Self::$word => $code,)* }
            }

            /// What the user is told.
            pub const fn message_key(self) -> MessageKey {
                match self { $(Self::$word => MessageKey::$key,)* }
            }
        }
    };
}

words! {
    /// The body is not JSON.
    ParseError = "parse_error", ErrorCode::PARSE_ERROR, Generic;
    /// It is JSON, and no request.
    InvalidRequest = "invalid_request", ErrorCode::INVALID_REQUEST, Generic;
    /// Nobody has such a method.
    MethodNotFound = "method_not_found", ErrorCode::METHOD_NOT_FOUND, Generic;
    /// A param is absent, blank or of the wrong type.
    InvalidParams = "invalid_params", ErrorCode::INVALID_PARAMS, Generic;
    /// Something is wrong with us.
    InternalError = "internal_error", ErrorCode::INTERNAL_ERROR, Generic;
    /// Something is wrong with us, and will be right again.
    Unavailable = "unavailable", ErrorCode::INTERNAL_ERROR, Busy;
    /// The model took too long.
    ModelTimeout = "bedrock_timeout", codes::TIMEOUT, ModelSlow;
    /// The task took too long.
    AsyncTimeout = "async_timeout", codes::TIMEOUT, OutOfTime;
    /// The model has too much to do.
    ModelThrottling = "bedrock_throttling", codes::DOMAIN, Busy;
    /// The platform has too much to do.
    Throttling = "throttling", codes::DOMAIN, Busy;
    /// The caller asks too often.
    RateLimited = "rate_limited", codes::DOMAIN, Busy;
    /// The model does not let us in.
    ModelAccessDenied = "bedrock_access_denied", codes::DOMAIN, AskAdmin;
    /// The platform does not let us in.
    AccessDenied = "access_denied", codes::DOMAIN, AskAdmin;
    /// What the model said cannot be used.
    InvalidResponse = "invalid_response", codes::DOMAIN, UnexpectedReply;
    /// The answer broke off on its way.
    ResponseReadError = "response_read_error", codes::DOMAIN, UnexpectedReply;
    /// An attachment could not be fetched.
    AttachmentDownloadFailed = "attachment_download_failed", codes::DOMAIN, AttachmentNotFetched;
    /// A file could not be fetched.
    DownloadFailed = "download_failed", codes::DOMAIN, AttachmentNotFetched;
    /// An attachment has neither bytes nor an address that may be asked.
    UrlNotAvailable = "url_not_available", codes::DOMAIN, AttachmentNotFetched;
    /// A file is larger than is taken.
    FileTooLarge = "file_too_large", codes::DOMAIN, FileTooLarge;
    /// A file unpacks to more than is taken.
    FileBomb = "file_bomb", codes::DOMAIN, FileTooLarge;
    /// A file is of a type that is not taken.
    UnsupportedFileType = "unsupported_file_type", codes::DOMAIN, UnsupportedFormat;
    /// A picture is of a type that is not taken, or is not what it says.
    UnsupportedImageType = "unsupported_image_type", codes::DOMAIN, UnsupportedFormat;
    /// Something is of a type that is not taken, or is not what it says.
    UnsupportedType = "unsupported_type", codes::DOMAIN, UnsupportedFormat;
    /// There is nothing to read in a file, or it is damaged.
    ExtractionFailed = "extraction_failed", codes::DOMAIN, Unreadable;
    /// A file is locked with a password.
    FileEncrypted = "file_encrypted", codes::DOMAIN, Unreadable;
    /// No file can be read at the moment, for a reason that is not the file's.
    FileReaderUnavailable = "file_reader_unavailable", codes::DOMAIN, FileReadingUnavailable;
    /// A file could not be made.
    ToolFailure = "tool_failure", codes::DOMAIN, FileNotMade;
    /// The task failed while nobody waited on the line.
    AsyncTaskFailed = "async_task_failed", codes::DOMAIN, BackgroundFailed;
    /// What came of a task could not be asked.
    PollError = "poll_error", codes::DOMAIN, Generic;
    /// There is neither text nor attachment.
    MissingText = "missing_text", ErrorCode::INVALID_PARAMS, AskSomething;
    /// The task was called off.
    Canceled = "canceled", codes::DOMAIN, Stopped;
    /// The agent says that it could not do it.
    AgentFailed = "agent_failed", codes::DOMAIN, Generic;
    /// The agent will not do it.
    AgentRejected = "agent_rejected", codes::DOMAIN, Generic;
    /// No agent is there for it.
    AgentUnavailable = "agent_unavailable", codes::DOMAIN, Busy;
    /// The task has ended and takes nothing any more.
    TaskFinished = "task_finished", codes::DOMAIN, Generic;
    /// The task has asked nothing, or has its answer.
    TaskNotWaiting = "task_not_waiting", codes::DOMAIN, Generic;
    /// There is no such task, as far as the caller may know.
    TaskNotFound = "task_not_found", codes::DOMAIN, Generic;
}

impl ErrorWord {
    /// The word with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|word| word.name() == name)
    }
}

/// What a user is told when something goes wrong, in whichever language: the texts themselves belong to
/// whoever talks to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKey {
    /// Something went wrong; try later.
    Generic,
    /// The model is slow; try later.
    ModelSlow,
    /// It took too long.
    OutOfTime,
    /// There is too much to do; try in a minute.
    Busy,
    /// A connection or a permission is missing; ask whoever runs it.
    AskAdmin,
    /// The answer was not what was expected; try again.
    UnexpectedReply,
    /// An attachment could not be fetched; upload it again.
    AttachmentNotFetched,
    /// A file is too large, and how large it may be.
    FileTooLarge,
    /// A format is not supported, and which are.
    UnsupportedFormat,
    /// A file is damaged or locked.
    Unreadable,
    /// Files cannot be read at the moment; try again in a minute.
    FileReadingUnavailable,
    /// A file could not be made; try again.
    FileNotMade,
    /// What went on in the background failed.
    BackgroundFailed,
    /// There was nothing to answer; ask something.
    AskSomething,
    /// It was stopped as asked.
    Stopped,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_word_is_said_twice() {
        let names: HashSet<_> = ErrorWord::ALL.iter().map(|word| word.name()).collect();
        assert_eq!(names.len(), ErrorWord::ALL.len());
        for word in ErrorWord::ALL {
            assert_eq!(ErrorWord::from_name(word.name()), Some(*word));
        }
    }
}
