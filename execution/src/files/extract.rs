//! The text of a document.

use super::{Fault, InputRules, Kind};
use bytes::Bytes;
use interzone_protocol::zone::ErrorWord;

/// The text of a document. It may take long and must not be called where others wait: see
/// [`read_text`].
///
/// # Errors
/// Why there is none.
pub fn extract_text(kind: Kind, bytes: &[u8], rules: &InputRules) -> Result<String, Fault> {
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if size > rules.limit(kind) {
        return Err(rules.too_large());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| unreadable())?;
    Ok(text.chars().take(rules.text_chars).collect())
}

/// The text of a document, read beside everything else: few at once, and not for ever.
///
/// # Errors
/// Why there is none.
pub async fn read_text(kind: Kind, bytes: Bytes, rules: &InputRules) -> Result<String, Fault> {
    let own = rules.clone();
    let read = tokio::task::spawn_blocking(move || extract_text(kind, &bytes, &own));
    match tokio::time::timeout(rules.extract_time, read).await {
        Ok(Ok(read)) => read,
        Ok(Err(_)) | Err(_) => Err(unreadable()),
    }
}

fn unreadable() -> Fault {
    Fault::new(
        ErrorWord::ExtractionFailed,
        "the file's text cannot be read: it may be damaged",
    )
}
