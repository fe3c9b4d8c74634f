//! Topics and the patterns that select them.
//!
//! Who subscribes to what, and how many patterns are searched at once, is the hub's business.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::{Borrow, Cow};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The most bytes a topic or pattern may have.
const LONGEST: usize = 255;

/// What signals are published under: segments of ASCII letters, digits, `-` and `_`, joined by
/// dots; 1 to 255 bytes; upper and lower case differ.
///
/// ```
/// use interzone_protocol::vocab::{InvalidTopic, Topic};
///
/// let topic = Topic::new("signal.email.received")?;
/// assert_eq!(topic.segments().count(), 3);
/// assert!(Topic::new("signal..email").is_err());
/// assert!(Topic::new("signal.*").is_err());
/// # Ok::<(), InvalidTopic>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

/// What subscriptions select topics by: a topic in which `*` stands for exactly one segment and
/// `**` for one or more, anywhere and as often as wanted. A wildcard is a whole segment.
///
/// ```
/// use interzone_protocol::vocab::{InvalidTopic, Topic, TopicPattern};
///
/// let pattern = TopicPattern::new("signal.**.received")?;
/// assert!(pattern.matches(&Topic::new("signal.email.received")?));
/// assert!(pattern.matches(&Topic::new("signal.email.work.received")?));
/// assert!(!pattern.matches(&Topic::new("signal.received")?));
/// # Ok::<(), InvalidTopic>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPattern(Arc<str>);

/// Why a string is no topic or pattern: what is wrong, and at which byte. It never repeats the
/// string.
///
/// ```
/// use interzone_protocol::vocab::Topic;
///
/// let Err(why) = Topic::new("signal..email") else { unreachable!() };
/// assert_eq!(why.at, 7);
/// assert_eq!(why.to_string(), "a topic needs a word before and after every dot (at byte 7)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} (at byte {at})")]
pub struct InvalidTopic {
    /// What is wrong.
    pub fault: TopicFault,
    /// The byte at which it shows, counted from zero.
    pub at: usize,
}

/// What can be wrong with a topic or pattern.
///
/// ```
/// use interzone_protocol::vocab::{Topic, TopicFault, TopicPattern};
///
/// let fault = |text| Topic::new(text).err().map(|why| why.fault);
/// assert_eq!(fault("signal.*"), Some(TopicFault::Wildcard));
/// assert_eq!(fault("signal email"), Some(TopicFault::Character));
/// let mixed = TopicPattern::new("signal.e*").map_err(|why| why.fault);
/// assert_eq!(mixed, Err(TopicFault::MixedWildcard));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicFault {
    /// It is the empty string.
    #[error("a topic must not be empty")]
    Empty,
    /// It has more than 255 bytes.
    #[error("a topic has at most 255 bytes")]
    TooLong,
    /// It begins or ends with a dot, or has two in a row.
    #[error("a topic needs a word before and after every dot")]
    EmptySegment,
    /// It has a character that topics do not have.
    #[error("a topic has only ASCII letters, digits, dots, hyphens and underscores")]
    Character,
    /// It has a wildcard, and is not a pattern.
    #[error("wildcards select topics; name one topic to publish")]
    Wildcard,
    /// A wildcard is mixed with text.
    #[error("a wildcard, * or **, must stand alone between dots")]
    MixedWildcard,
}

fn check(text: &str, wildcards: bool) -> Result<(), InvalidTopic> {
    let fail = |fault, at| Err(InvalidTopic { fault, at });
    if text.is_empty() {
        return fail(TopicFault::Empty, 0);
    }
    if text.len() > LONGEST {
        return fail(TopicFault::TooLong, LONGEST);
    }
    let mut start = 0;
    for segment in text.split('.') {
        if segment.is_empty() {
            return fail(TopicFault::EmptySegment, start);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if let Some((at, odd)) = segment.char_indices().find(|&(_, c)| !plain(c)) {
            match (odd, wildcards, segment) {
                ('*', true, "*" | "**") => {}
                ('*', true, _) => return fail(TopicFault::MixedWildcard, start + at),
                ('*', false, _) => return fail(TopicFault::Wildcard, start + at),
                _ => return fail(TopicFault::Character, start + at),
            }
        }
        start += segment.len() + 1;
    }
    Ok(())
}

impl Topic {
    /// Checks a string.
    ///
    /// # Errors
    /// It is not a topic.
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidTopic> {
        let text = text.as_ref();
        check(text, false)?;
        Ok(Self(text.into()))
    }
}

impl TopicPattern {
    /// Checks a string.
    ///
    /// # Errors
    /// It is not a pattern.
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidTopic> {
        let text = text.as_ref();
        check(text, true)?;
        Ok(Self(text.into()))
    }

    /// Whether the pattern selects the topic.
    ///
    /// It takes at most as many steps as the product of both lengths, and no memory: only the last
    /// `**` is ever reconsidered, because whatever an earlier one could swallow in addition, the
    /// later one can swallow instead.
    pub fn matches(&self, topic: &Topic) -> bool {
        let mut pattern = self.segments();
        let mut segments = topic.segments();
        let mut retry = None;
        loop {
            match (pattern.next(), segments.next()) {
                (None, None) => return true,
                // Whatever the pattern still wants, nothing is left, and a retry leaves even less.
                (Some(_), None) => return false,
                (Some("**"), Some(_)) => retry = Some((pattern.clone(), segments.clone())),
                (Some(wanted), Some(segment)) if wanted == "*" || wanted == segment => {}
                (_, Some(_)) => {
                    // Let the last `**` swallow one segment more.
                    let Some((after_wildcard, mut left)) = retry.take() else {
                        return false;
                    };
                    if left.next().is_none() {
                        return false;
                    }
                    retry = Some((after_wildcard.clone(), left.clone()));
                    (pattern, segments) = (after_wildcard, left);
                }
            }
        }
    }

    /// Whether the pattern has no wildcard, so that it selects just the topic of its own name.
    pub fn is_literal(&self) -> bool {
        !self.0.contains('*')
    }
}

macro_rules! dotted {
    ($name:ident) => {
        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The segments between the dots.
            pub fn segments(&self) -> std::str::Split<'_, char> {
                self.0.split('.')
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), &*self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidTopic;

            fn from_str(text: &str) -> Result<Self, InvalidTopic> {
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
                Self::new(Cow::<str>::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    };
}

dotted!(Topic);
dotted!(TopicPattern);

#[cfg(test)]
mod tests;
