//! Why a task failed, in a word that programs can rely on, kept beside the words for people.

use interzone_protocol::vocab::{Json, Message, Metadata};

/// The member of the message's metadata that holds the word.
const MEMBER: &str = "errorCode";

/// What an agent says of a failure: words for people, and a stable word for programs.
///
/// ```
/// use interzone_hub::{failure, failure_word};
///
/// let said = failure("file_too_large", "The file is larger than 5 MiB.");
/// assert_eq!(said.text(), "The file is larger than 5 MiB.");
/// assert_eq!(failure_word(&said).as_deref(), Some("file_too_large"));
/// ```
pub fn failure(word: &str, text: impl AsRef<str>) -> Message {
    let message = Message::agent_text(text);
    let members = std::collections::BTreeMap::from([(MEMBER, word)]);
    match Json::of(&members).and_then(Metadata::new) {
        Ok(metadata) => message.with_metadata(metadata),
        // A string always has a JSON form.
        Err(_) => message,
    }
}

/// The stable word for why a task failed, from what is said about its state.
pub fn failure_word(message: &Message) -> Option<String> {
    message.metadata()?.get(MEMBER)
}
