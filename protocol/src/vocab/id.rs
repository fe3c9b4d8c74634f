//! Ids: short strings that are safe in a log line, a header or a path.
//!
//! Ids may come from peers, so their format is not fixed here.

use crate::string_newtype;

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

/// Returns the check of an id: 1 to 256 bytes, without control or formatting characters.
fn check(id_kind: &'static str) -> impl Fn(&str) -> Result<(), InvalidId> {
    move |text| check_text(id_kind, text)
}

fn check_text(id_kind: &'static str, text: &str) -> Result<(), InvalidId> {
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

string_newtype! {
    /// Identifies a task.
    #[derive(PartialOrd, Ord)]
    TaskId: InvalidId = check("a task id");
    /// Identifies a conversation that several tasks may belong to.
    #[derive(PartialOrd, Ord)]
    ContextId: InvalidId = check("a context id");
    /// Identifies a message within its task; chosen by the sender.
    #[derive(PartialOrd, Ord)]
    MessageId: InvalidId = check("a message id");
    /// Identifies an artifact within its task.
    #[derive(PartialOrd, Ord)]
    ArtifactId: InvalidId = check("an artifact id");
    /// Identifies a stream.
    #[derive(PartialOrd, Ord)]
    StreamId: InvalidId = check("a stream id");
    /// Identifies a subscription to a task or to topics.
    #[derive(PartialOrd, Ord)]
    SubscriptionId: InvalidId = check("a subscription id");
    /// Identifies a Cauce session.
    #[derive(PartialOrd, Ord)]
    SessionId: InvalidId = check("a session id");
    /// Identifies a signal or action; chosen by the publisher and not necessarily unique.
    #[derive(PartialOrd, Ord)]
    SignalId: InvalidId = check("a signal id");
    /// Identifies one delivery to one receiver, the same on each attempt.
    #[derive(PartialOrd, Ord)]
    DeliveryId: InvalidId = check("a delivery id");
    /// Identifies an agent.
    #[derive(PartialOrd, Ord)]
    AgentId: InvalidId = check("an agent id");
    /// Identifies an authenticated principal: a client, a user or a node.
    #[derive(PartialOrd, Ord)]
    PrincipalId: InvalidId = check("a principal id");
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
