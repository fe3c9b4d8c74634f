//! Topics and the patterns that select them. Subscriptions and fan-out are implemented in the hub.

use crate::string_newtype;

/// Maximum length of a topic or pattern in bytes.
const MAX_TOPIC_LENGTH: usize = 255;

string_newtype! {
    /// Subject of published signals: segments of ASCII letters, digits, `-` and `_`, joined by dots;
    /// 1 to 255 bytes; case-sensitive.
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
    #[derive(PartialOrd, Ord)]
    Topic: InvalidTopic = |text: &str| check(text, false);

    /// Topic selector of a subscription: a topic in which `*` matches exactly one segment and `**` one or
    /// more, anywhere and any number of times. A wildcard must be a segment of its own.
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
    #[derive(PartialOrd, Ord)]
    TopicPattern: InvalidTopic = |text: &str| check(text, true);
}

/// Reason why a string is not a topic or pattern, with the offset of the offending byte. The error
/// never repeats the string.
///
/// ```
/// use interzone_protocol::vocab::Topic;
///
/// let Err(error) = Topic::new("signal..email") else { unreachable!() };
/// assert_eq!(error.offset, 7);
/// assert_eq!(error.to_string(), "a topic needs a name before and after every dot (at byte 7)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (at byte {offset})")]
pub struct InvalidTopic {
    /// The rule that was broken.
    pub kind: TopicErrorKind,
    /// Offset of the offending byte, from zero.
    pub offset: usize,
}

/// Rules that a topic or pattern can break.
///
/// ```
/// use interzone_protocol::vocab::{Topic, TopicErrorKind, TopicPattern};
///
/// let kind = |text| Topic::new(text).err().map(|error| error.kind);
/// assert_eq!(kind("signal.*"), Some(TopicErrorKind::Wildcard));
/// assert_eq!(kind("signal email"), Some(TopicErrorKind::Character));
/// let mixed = TopicPattern::new("signal.e*").map_err(|error| error.kind);
/// assert_eq!(mixed, Err(TopicErrorKind::MixedWildcard));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicErrorKind {
    /// The empty string.
    #[error("a topic must not be empty")]
    Empty,
    /// Longer than 255 bytes.
    #[error("a topic has at most 255 bytes")]
    TooLong,
    /// Begins or ends with a dot, or has two in a row.
    #[error("a topic needs a name before and after every dot")]
    EmptySegment,
    /// Contains a character that is not allowed in topics.
    #[error("a topic has only ASCII letters, digits, dots, hyphens and underscores")]
    Character,
    /// Contains a wildcard, but is not a pattern.
    #[error("wildcards select topics; name one topic to publish")]
    Wildcard,
    /// A wildcard is mixed with text in one segment.
    #[error("a wildcard, * or **, must stand alone between dots")]
    MixedWildcard,
}

fn check(text: &str, allow_wildcards: bool) -> Result<(), InvalidTopic> {
    let fail = |kind, offset| Err(InvalidTopic { kind, offset });
    if text.is_empty() {
        return fail(TopicErrorKind::Empty, 0);
    }
    if text.len() > MAX_TOPIC_LENGTH {
        return fail(TopicErrorKind::TooLong, MAX_TOPIC_LENGTH);
    }
    let mut start = 0;
    for segment in text.split('.') {
        if segment.is_empty() {
            return fail(TopicErrorKind::EmptySegment, start);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if let Some((at, invalid)) = segment.char_indices().find(|&(_, c)| !plain(c)) {
            match (invalid, allow_wildcards, segment) {
                ('*', true, "*" | "**") => {}
                ('*', true, _) => return fail(TopicErrorKind::MixedWildcard, start + at),
                ('*', false, _) => return fail(TopicErrorKind::Wildcard, start + at),
                _ => return fail(TopicErrorKind::Character, start + at),
            }
        }
        start += segment.len() + 1;
    }
    Ok(())
}

impl Topic {
    /// Returns the segments between the dots.
    pub fn segments(&self) -> std::str::Split<'_, char> {
        self.0.split('.')
    }
}

impl TopicPattern {
    /// Returns the segments between the dots.
    pub fn segments(&self) -> std::str::Split<'_, char> {
        self.0.split('.')
    }

    /// Returns true if the pattern selects the topic.
    ///
    /// Takes at most pattern length × topic length steps and no allocation: only the last `**` is ever
    /// retried, because any segment that an earlier one could consume, the later one can consume instead.
    pub fn matches(&self, topic: &Topic) -> bool {
        let mut pattern = self.segments();
        let mut segments = topic.segments();
        let mut retry = None;
        loop {
            match (pattern.next(), segments.next()) {
                (None, None) => return true,
                // The topic is exhausted and the pattern is not; a retry would leave even fewer segments.
                (Some(_), None) => return false,
                (Some("**"), Some(_)) => retry = Some((pattern.clone(), segments.clone())),
                (Some(expected), Some(segment)) if expected == "*" || expected == segment => {}
                (_, Some(_)) => {
                    // Let the last `**` consume one more segment.
                    let Some((after_wildcard, mut remaining)) = retry.take() else {
                        return false;
                    };
                    if remaining.next().is_none() {
                        return false;
                    }
                    retry = Some((after_wildcard.clone(), remaining.clone()));
                    (pattern, segments) = (after_wildcard, remaining);
                }
            }
        }
    }

    /// Returns true if the pattern has no wildcard and so selects only the topic of the same name.
    pub fn is_literal(&self) -> bool {
        !self.0.contains('*')
    }
}

#[cfg(test)]
mod tests;
