//! Why something in the playground cannot be done.

use std::net::SocketAddr;

/// Why something in the playground cannot be.
#[derive(Debug, thiserror::Error)]
pub enum PlaygroundError {
    /// It is for this machine only.
    #[error("the playground keeps to this machine: use a loopback address instead of {0}")]
    NotLoopback(String),
    /// The address cannot be taken.
    #[error("cannot listen on {address}: free it, or choose another")]
    Bind {
        /// Which one.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// There is no way to send events.
    #[error("events cannot be sent: check the certificates that are to be trusted")]
    Client(#[source] reqwest::Error),
    /// It is no URL.
    #[error("{0} is no URL: write it as http://127.0.0.1:8444/slack/events")]
    BadUrl(String),
    /// It is not in this workspace.
    #[error("there is no such {0} in this workspace")]
    NotThere(&'static str),
    /// The user may not do that.
    #[error("this person may not do that here")]
    NotAllowed,
    /// It is more than a person may write at once.
    #[error("this {what} is longer than {most} characters: make it shorter")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// How long it may be.
        most: usize,
    },
    /// A message of nothing.
    #[error("no_text: write something, or delete the message")]
    NoText,
    /// More files than a person may share at once.
    #[error("these are more than {0} files: share them in several messages")]
    TooManyFiles(usize),
    /// A file is not kept.
    #[error("a file is not kept: {0}")]
    NotKept(&'static str),
    /// It is no name of an emoji.
    #[error("an emoji is named by up to 100 of a to z, 0 to 9, _, +, - and ', without colons")]
    NoEmoji,
    /// A message has as many different emoji as it may have.
    #[error("this message has {0} different emoji already: take one of them away first")]
    TooManyEmoji(usize),
}
