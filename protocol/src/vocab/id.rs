//! Ids: short strings that are safe in a log line, a header or a path.
//!
//! Ids may come from peers, so their format is not fixed here.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::{Borrow, Cow};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Maximum length of an id in bytes: enough for any id in the field, too short for a payload.
const MAX_ID_LENGTH: usize = 256;

/// Reason why a string is not a valid id. The error never repeats the string.
///
/// ```
/// use interzone_protocol::vocab::{InvalidId, TaskId};
///
/// let Err(error) = TaskId::new("") else { unreachable!() };
/// assert_eq!(error, InvalidId::Empty("a task id"));
/// assert_eq!(error.to_string(), "a task id is empty; give at least one character");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidId {
    /// The empty string.
    #[error("{0} is empty; give at least one character")]
    Empty(&'static str),
    /// Longer than 256 bytes.
    #[error("{0} has more than {MAX_ID_LENGTH} bytes; give a shorter one")]
    TooLong(&'static str),
    /// Contains a control, invisible or bidirectional-control character.
    #[error("{0} has a control or formatting character; give plain text")]
    Unprintable(&'static str),
}

/// Returns true for characters that break a line, are invisible, or change the text direction.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
        )
}

fn check(id_kind: &'static str, text: &str) -> Result<(), InvalidId> {
    if text.is_empty() {
        Err(InvalidId::Empty(id_kind))
    } else if text.len() > MAX_ID_LENGTH {
        Err(InvalidId::TooLong(id_kind))
    // Nearly every id is plain ASCII, which needs no decoding. The fold visits all bytes without an
    // early exit so that the compiler can vectorise it.
    } else if !text.bytes().fold(true, |is_ascii_text, byte| {
        is_ascii_text & matches!(byte, b' '..=b'~')
    }) && text.chars().any(is_unprintable)
    {
        Err(InvalidId::Unprintable(id_kind))
    } else {
        Ok(())
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// 1 to 256 bytes, without control or formatting characters. Clones share the text.
        ///
        /// ```
        #[doc = concat!("use interzone_protocol::vocab::{InvalidId, ", stringify!($name), "};")]
        ///
        #[doc = concat!("let id = ", stringify!($name), "::new(\"x-1\")?;")]
        /// assert_eq!(id.as_str(), "x-1");
        #[doc = concat!("assert_eq!(", stringify!($name), "::new(\"\"), Err(InvalidId::Empty(\"", $what, "\")));")]
        #[doc = concat!("assert!(", stringify!($name), "::new(\"line\\nbreak\").is_err());")]
        /// # Ok::<(), InvalidId>(())
        /// ```
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates a string.
            ///
            /// # Errors
            /// The string is empty, too long, or has unprintable characters.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidId> {
                let text = text.as_ref();
                check($what, text)?;
                Ok(Self(text.into()))
            }

            /// Validates a shared string and shares it instead of copying.
            ///
            /// # Errors
            /// As [`new`](Self::new).
            pub fn from_arc(text: &Arc<str>) -> Result<Self, InvalidId> {
                check($what, text)?;
                Ok(Self(Arc::clone(text)))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &*self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = InvalidId;

            fn try_from(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<str>::deserialize(deserializer)?;
                Self::new(text).map_err(D::Error::custom)
            }
        }
    )*};
}

ids! {
    /// Identifies a task.
    TaskId = "a task id";
    /// Identifies a conversation that several tasks may belong to.
    ContextId = "a context id";
    /// Identifies a message within its task; chosen by the sender.
    MessageId = "a message id";
    /// Identifies an artifact within its task.
    ArtifactId = "an artifact id";
    /// Identifies a stream.
    StreamId = "a stream id";
    /// Identifies a subscription to a task or to topics.
    SubscriptionId = "a subscription id";
    /// Identifies a Cauce session.
    SessionId = "a session id";
    /// Identifies a signal or action; chosen by the publisher and not necessarily unique.
    SignalId = "a signal id";
    /// Identifies one delivery to one receiver, the same on each attempt.
    DeliveryId = "a delivery id";
    /// Identifies an agent.
    AgentId = "an agent id";
    /// Identifies an authenticated principal: a client, a user or a node.
    PrincipalId = "a principal id";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_accepts_only_short_printable_text() {
        for good in ["a", "-", "task 1", "日本", "🦀", &"x".repeat(256)] {
            assert!(TaskId::new(good).is_ok(), "{good}");
        }
        assert_eq!(TaskId::new(""), Err(InvalidId::Empty("a task id")));
        assert_eq!(
            AgentId::new("x".repeat(257)),
            Err(InvalidId::TooLong("an agent id"))
        );
        for bad in [
            "\0",
            "a\nb",
            "a\u{7f}",
            "a\u{85}",
            "\u{202e}a",
            "\u{2028}",
            "\u{feff}x",
            "a\u{200b}",
        ] {
            assert_eq!(
                StreamId::new(bad),
                Err(InvalidId::Unprintable("a stream id")),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn invalid_id_error_does_not_repeat_the_value() {
        let id: TaskId = serde_json::from_str(r#""t\u002d1""#).unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), r#""t-1""#);
        let error = serde_json::from_str::<TaskId>(r#""secret\u0000""#)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("a task id") && !error.contains("secret"),
            "{error}"
        );
        assert!(serde_json::from_str::<TaskId>("1").is_err());
    }
}
