//! Errors of playground actions.

use std::net::SocketAddr;

/// Error of a playground action.
#[derive(Debug, thiserror::Error)]
pub enum PlaygroundError {
    /// The address is not loopback.
    #[error("the playground only listens locally: use a loopback address instead of {0}")]
    NotLoopback(String),
    /// The address is in use.
    #[error("cannot listen on {address}: free it, or choose another")]
    Bind {
        /// Address.
        address: SocketAddr,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The HTTP client cannot be created.
    #[error("cannot send events: check the trusted certificates")]
    Client(#[source] reqwest::Error),
    /// Not a URL.
    #[error("{0} is not a URL: write it as http://127.0.0.1:8444/slack/events")]
    BadUrl(String),
    /// No such entity in this workspace.
    #[error("there is no such {0} in this workspace")]
    NotFound(&'static str),
    /// The user may not do that.
    #[error("this user may not do that here")]
    NotAllowed,
    /// Text or file name too long.
    #[error("this {what} is longer than {most} characters: make it shorter")]
    TooLong {
        /// Subject: text or file name.
        what: &'static str,
        /// Maximum characters.
        most: usize,
    },
    /// Empty message.
    #[error("no_text: write something, or delete the message")]
    NoText,
    /// Too many files in one message.
    #[error("more than {0} files: share them in several messages")]
    TooManyFiles(usize),
    /// A file was rejected.
    #[error("file rejected: {0}")]
    FileRejected(&'static str),
    /// Not an emoji name.
    #[error("an emoji is named by up to 100 of a to z, 0 to 9, _, +, - and ', without colons")]
    InvalidEmoji,
    /// The message has the maximum number of different emoji.
    #[error("this message already has {0} different emoji: remove one of them first")]
    TooManyEmoji(usize),
}
