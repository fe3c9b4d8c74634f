//! Shared text of a blob.

use interzone_protocol::vocab::VerbatimJson;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A part's content as JSON text, shared between clones. Conversions reuse the allocation, so a large file is
/// not duplicated when it changes hands.
///
/// ```
/// use interzone_hub::BlobContent;
///
/// let text = String::from("\"aGk=\"");
/// let address = text.as_ptr();
/// let blob = BlobContent::from(text);
/// assert_eq!(blob.clone().as_ptr(), address);
/// assert_eq!(blob.into_json().map(|json| json.as_str().as_ptr()), Some(address));
/// ```
#[derive(Clone)]
pub struct BlobContent(BlobRepr);

#[derive(Clone)]
enum BlobRepr {
    /// Validated JSON.
    Json(VerbatimJson),
    /// Text as read from the store. `Arc<str>` has a header before its bytes and would require a copy.
    Text(Arc<Box<str>>),
}

impl BlobContent {
    /// Returns the text as JSON; `None` if it is invalid.
    pub fn into_json(self) -> Option<VerbatimJson> {
        match self.0 {
            BlobRepr::Json(json) => Some(json),
            BlobRepr::Text(text) => VerbatimJson::parse(Arc::unwrap_or_clone(text)).ok(),
        }
    }
}

impl Deref for BlobContent {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            BlobRepr::Json(json) => json.as_str(),
            BlobRepr::Text(text) => text,
        }
    }
}

impl AsRef<[u8]> for BlobContent {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for BlobContent {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for BlobContent {}

impl fmt::Debug for BlobContent {
    /// Prints only the size: user content must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.len())
    }
}

impl From<String> for BlobContent {
    fn from(text: String) -> Self {
        Self(BlobRepr::Text(Arc::new(text.into_boxed_str())))
    }
}

impl From<&str> for BlobContent {
    fn from(text: &str) -> Self {
        Self(BlobRepr::Text(Arc::new(text.into())))
    }
}

impl From<VerbatimJson> for BlobContent {
    fn from(json: VerbatimJson) -> Self {
        Self(BlobRepr::Json(json))
    }
}
