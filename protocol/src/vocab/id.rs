//! Ids: short strings that can stand in a log line, a header or a path without breaking it.
//!
//! Who makes ids, and how they look, is not decided here: peers send ids of their own making.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::{Borrow, Cow};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The most bytes an id may have: room for any id seen in the field, and no room for a payload.
const LONGEST: usize = 256;

/// Why a string cannot be an id. It never repeats the string.
///
/// ```
/// use interzone_protocol::vocab::{InvalidId, TaskId};
///
/// let Err(why) = TaskId::new("") else { unreachable!() };
/// assert_eq!(why, InvalidId::Empty("a task id"));
/// assert_eq!(why.to_string(), "a task id is empty; give at least one character");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidId {
    /// It is the empty string.
    #[error("{0} is empty; give at least one character")]
    Empty(&'static str),
    /// It is too long.
    #[error("{0} has more than {LONGEST} bytes; give a shorter one")]
    TooLong(&'static str),
    /// It has a character that does not show, or that changes how others show.
    #[error("{0} has a control or formatting character; give plain text")]
    Unprintable(&'static str),
}

/// Whether a character could break a line, hide, or turn the reading direction around.
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

fn check(what: &'static str, text: &str) -> Result<(), InvalidId> {
    if text.is_empty() {
        Err(InvalidId::Empty(what))
    } else if text.len() > LONGEST {
        Err(InvalidId::TooLong(what))
    // Nearly every id is plain ASCII, which is seen without taking it apart. All bytes are looked at, whatever
    // comes: without a way out the compiler does many at once.
    } else if !text
        .bytes()
        .fold(true, |plain, byte| plain & matches!(byte, b' '..=b'~'))
        && text.chars().any(is_unprintable)
    {
        Err(InvalidId::Unprintable(what))
    } else {
        Ok(())
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// One to 256 bytes, without control or formatting characters. Copies share the text.
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
            /// Checks a string.
            ///
            /// # Errors
            /// It is empty, too long, or has characters that do not print.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidId> {
                let text = text.as_ref();
                check($what, text)?;
                Ok(Self(text.into()))
            }

            /// Checks a string that somebody holds already, and holds it too.
            ///
            /// # Errors
            /// As [`new`](Self::new).
            pub fn shared(text: &Arc<str>) -> Result<Self, InvalidId> {
                check($what, text)?;
                Ok(Self(Arc::clone(text)))
            }

            /// The id as it was given.
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
    /// Names a task.
    TaskId = "a task id";
    /// Names a conversation that several tasks may belong to.
    ContextId = "a context id";
    /// Names a message within its task, as its sender chose.
    MessageId = "a message id";
    /// Names an artifact within its task.
    ArtifactId = "an artifact id";
    /// Names a stream.
    StreamId = "a stream id";
    /// Names a subscription, to a task or to topics.
    SubscriptionId = "a subscription id";
    /// Names a Cauce session.
    SessionId = "a session id";
    /// Names a signal or action, as its publisher chose; it may be used again.
    SignalId = "a signal id";
    /// Names one delivery to one receiver, the same on each attempt.
    DeliveryId = "a delivery id";
    /// Names an agent.
    AgentId = "an agent id";
    /// Names whoever was proved to be asking: a client, a user, a node.
    PrincipalId = "a principal id";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_printable() {
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
    fn serde_checks_and_never_repeats_the_value() {
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
