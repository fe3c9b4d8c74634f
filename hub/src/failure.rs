//! Failure messages with a stable error code for programs beside the text for people.

use interzone_protocol::vocab::{Message, Metadata, VerbatimJson};

/// The metadata field that contains the error code.
const ERROR_CODE_FIELD: &str = "errorCode";

/// Builds a failure message: text for people and a stable error code for programs.
///
/// ```
/// use interzone_hub::{failure_code, failure_message};
///
/// let message = failure_message("file_too_large", "The file is larger than 5 MiB.");
/// assert_eq!(message.text(), "The file is larger than 5 MiB.");
/// assert_eq!(failure_code(&message).as_deref(), Some("file_too_large"));
/// ```
pub fn failure_message(code: &str, text: impl AsRef<str>) -> Message {
    let message = Message::agent_text(text);
    let fields = std::collections::BTreeMap::from([(ERROR_CODE_FIELD, code)]);
    match VerbatimJson::from_value(&fields).and_then(Metadata::new) {
        Ok(metadata) => message.with_metadata(metadata),
        // A string always has a JSON form.
        Err(_) => message,
    }
}

/// Returns the stable error code of a failure message.
pub fn failure_code(message: &Message) -> Option<String> {
    message.metadata()?.get(ERROR_CODE_FIELD)
}
