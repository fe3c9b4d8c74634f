//! The text of a blob: one piece of memory, however many hold it.

use interzone_protocol::vocab::Json;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A part's content as JSON text, shared by all who hold it. It is taken over where it lies, so that
/// a large file is not there twice just because it changed hands.
///
/// ```
/// use interzone_hub::BlobText;
///
/// let text = String::from("\"aGk=\"");
/// let at = text.as_ptr();
/// let blob = BlobText::from(text);
/// assert_eq!(blob.clone().as_ptr(), at);
/// assert_eq!(blob.into_json().map(|json| json.as_str().as_ptr()), Some(at));
/// ```
#[derive(Clone)]
pub struct BlobText(Held);

#[derive(Clone)]
enum Held {
    /// What is known to be JSON.
    Json(Json),
    /// What was read. A shared string has a header before its letters, which would need a copy of them.
    Text(Arc<Box<str>>),
}

impl BlobText {
    /// The JSON that it is; nothing if it is none.
    pub fn into_json(self) -> Option<Json> {
        match self.0 {
            Held::Json(json) => Some(json),
            Held::Text(text) => Json::parse(Arc::unwrap_or_clone(text)).ok(),
        }
    }
}

impl Deref for BlobText {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Held::Json(json) => json.as_str(),
            Held::Text(text) => text,
        }
    }
}

impl AsRef<[u8]> for BlobText {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for BlobText {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for BlobText {}

impl fmt::Debug for BlobText {
    /// The size only: what users send does not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.len())
    }
}

impl From<String> for BlobText {
    fn from(text: String) -> Self {
        Self(Held::Text(Arc::new(text.into_boxed_str())))
    }
}

impl From<&str> for BlobText {
    fn from(text: &str) -> Self {
        Self(Held::Text(Arc::new(text.into())))
    }
}

impl From<Json> for BlobText {
    fn from(json: Json) -> Self {
        Self(Held::Json(json))
    }
}
