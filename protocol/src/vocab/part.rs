//! Parts of messages and artifacts.

use super::extra_fields::{ExtraFields, FieldName, FieldSlot, serialize_some};
use super::json::{Metadata, VerbatimJson};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// Kind of a part's content.
///
/// ```
/// use interzone_protocol::vocab::{Part, PartKind};
///
/// assert_eq!(Part::text("hi").kind(), PartKind::Text);
/// assert_eq!(serde_json::to_string(&PartKind::Image)?, r#""ImagePart""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PartKind {
    /// Text.
    #[serde(rename = "TextPart")]
    Text,
    /// Structured data.
    #[serde(rename = "DataPart")]
    Data,
    /// A file of any type.
    #[serde(rename = "FilePart")]
    File,
    /// An image.
    #[serde(rename = "ImagePart")]
    Image,
    /// Audio.
    #[serde(rename = "AudioPart")]
    Audio,
}

/// Encoding of a part's content in its string.
///
/// ```
/// use interzone_protocol::vocab::{Encoding, Part};
///
/// assert_eq!(Part::file("aGk=").encoding(), Some(Encoding::Base64));
/// assert_eq!(serde_json::to_string(&Encoding::Utf8)?, r#""utf8""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Bytes in base64.
    Base64,
    /// Plain text.
    Utf8,
    /// Bytes transferred out of band.
    Binary,
}

/// A piece of a message or artifact: text, data or a file.
///
/// Extra fields survive a round trip, including their values and order.
///
/// ```
/// use interzone_protocol::vocab::Part;
///
/// let sent = r#"{"type":"ImagePart","content":"aGk=","encoding":"base64","extra":{"width":640}}"#;
/// let part: Part = serde_json::from_str(sent)?;
/// assert_eq!(serde_json::to_string(&part)?, sent);
/// assert_eq!(Part::text("hello").as_text().as_deref(), Some("hello"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    kind: PartKind,
    /// Kept as JSON text, so that a large file is one string that is never copied or escaped again.
    content: Option<VerbatimJson>,
    media_type: Option<String>,
    filename: Option<String>,
    size: Option<u64>,
    encoding: Option<Encoding>,
    url: Option<String>,
    metadata: Option<Metadata>,
    extra: ExtraFields,
}

impl Part {
    /// Creates a part without content.
    pub fn new(kind: PartKind) -> Self {
        Self {
            kind,
            content: None,
            media_type: None,
            filename: None,
            size: None,
            encoding: None,
            url: None,
            metadata: None,
            extra: ExtraFields::default(),
        }
    }

    /// Creates a text part.
    pub fn text(text: impl AsRef<str>) -> Self {
        // A string always has a JSON form.
        Self {
            content: VerbatimJson::from_value(text.as_ref()).ok(),
            ..Self::new(PartKind::Text)
        }
    }

    /// Creates a part of structured data.
    pub fn data(data: VerbatimJson) -> Self {
        Self::new(PartKind::Data).with_content(data)
    }

    /// Creates a file part from base64.
    ///
    /// ```
    /// use interzone_protocol::vocab::Part;
    ///
    /// let part = Part::file("aGk=").with_filename("hi.txt").with_media_type("text/plain").with_size(2);
    /// assert_eq!(
    ///     serde_json::to_string(&part)?,
    ///     r#"{"type":"FilePart","content":"aGk=","mimeType":"text/plain","filename":"hi.txt","size":2,"encoding":"base64"}"#
    /// );
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn file(base64: impl Into<String>) -> Self {
        Self {
            content: VerbatimJson::from_text(base64).ok(),
            encoding: Some(Encoding::Base64),
            ..Self::new(PartKind::File)
        }
    }

    /// Sets the content.
    #[must_use]
    pub fn with_content(mut self, content: VerbatimJson) -> Self {
        self.content = Some(content).filter(|content| !content.is_null());
        self
    }

    /// Removes the content and keeps its description.
    #[must_use]
    pub fn without_content(mut self) -> Self {
        self.content = None;
        self
    }

    /// Takes the content, which may be large, and keeps its description.
    ///
    /// ```
    /// use interzone_protocol::vocab::Part;
    ///
    /// let mut part = Part::file("aGk=").with_filename("hi.txt");
    /// assert_eq!(part.take_content().map(String::from).as_deref(), Some("\"aGk=\""));
    /// assert_eq!(part.content(), None);
    /// assert_eq!(part.filename(), Some("hi.txt"));
    /// ```
    pub fn take_content(&mut self) -> Option<VerbatimJson> {
        self.content.take()
    }

    /// Returns a copy without the content, which may be large.
    ///
    /// ```
    /// use interzone_protocol::vocab::Part;
    ///
    /// let part = Part::file("aGk=").with_filename("hi.txt");
    /// assert_eq!(part.clone_without_content(), part.without_content());
    /// ```
    #[must_use]
    pub fn clone_without_content(&self) -> Self {
        Self {
            kind: self.kind,
            content: None,
            media_type: self.media_type.clone(),
            filename: self.filename.clone(),
            size: self.size,
            encoding: self.encoding,
            url: self.url.clone(),
            metadata: self.metadata.clone(),
            extra: self.extra.clone(),
        }
    }

    /// Sets the media type.
    #[must_use]
    pub fn with_media_type(mut self, media_type: impl Into<String>) -> Self {
        self.media_type = Some(media_type.into());
        self
    }

    /// Sets the file name. It is an untrusted label: never use it as a path.
    #[must_use]
    pub fn with_filename(mut self, filename: impl Into<String>) -> Self {
        self.filename = Some(filename.into());
        self
    }

    /// Sets the size in bytes, before any encoding.
    #[must_use]
    pub fn with_size(mut self, size: u64) -> Self {
        self.size = Some(size);
        self
    }

    /// Sets the encoding.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = Some(encoding);
        self
    }

    /// Sets the URL from which the content can be fetched.
    #[must_use]
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Replaces the extra fields.
    #[must_use]
    pub(crate) fn with_extra_fields(mut self, extra: ExtraFields) -> Self {
        self.extra = extra;
        self
    }

    /// Sets an extra field; names of the known fields are ignored.
    #[must_use]
    pub fn with_extra(mut self, name: &str, value: VerbatimJson) -> Self {
        if !KNOWN_FIELDS.contains(&name) {
            self.extra.set(name, value);
        }
        self
    }

    /// Removes an extra field.
    ///
    /// ```
    /// use interzone_protocol::vocab::{Part, VerbatimJson};
    ///
    /// let part = Part::text("hi").with_extra("note", VerbatimJson::from_value("x")?);
    /// assert_eq!(part.without_extra("note"), Part::text("hi"));
    /// # Ok::<(), interzone_protocol::vocab::InvalidJson>(())
    /// ```
    #[must_use]
    pub fn without_extra(mut self, name: &str) -> Self {
        self.extra.remove(name);
        self
    }

    /// The kind of content.
    pub fn kind(&self) -> PartKind {
        self.kind
    }

    /// The content, if present.
    pub fn content(&self) -> Option<&VerbatimJson> {
        self.content.as_ref()
    }

    /// The content as a string, if it is one: the text of a text part, the base64 of a file.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        let text = self.content.as_ref()?.as_str();
        let unquoted = text.strip_prefix('"')?.strip_suffix('"')?;
        if unquoted.contains('\\') {
            serde_json::from_str(text).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(unquoted))
        }
    }

    /// The media type.
    pub fn media_type(&self) -> Option<&str> {
        self.media_type.as_deref()
    }

    /// The file name, an untrusted label: never use it as a path.
    pub fn filename(&self) -> Option<&str> {
        self.filename.as_deref()
    }

    /// The size in bytes declared by the sender.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The encoding of the content.
    pub fn encoding(&self) -> Option<Encoding> {
        self.encoding
    }

    /// The URL from which the content can be fetched.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// The metadata.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// The fields that ACP callers added.
    pub fn extra(&self) -> &ExtraFields {
        &self.extra
    }
}

const KNOWN_FIELDS: [&str; 6] = [
    "type", "content", "mimeType", "filename", "size", "encoding",
];

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &self.kind)?;
        serialize_some(&mut map, "content", self.content.as_ref())?;
        serialize_some(&mut map, "mimeType", self.media_type.as_ref())?;
        serialize_some(&mut map, "filename", self.filename.as_ref())?;
        serialize_some(&mut map, "size", self.size.as_ref())?;
        serialize_some(&mut map, "encoding", self.encoding.as_ref())?;
        serialize_some(&mut map, "url", self.url.as_ref())?;
        serialize_some(&mut map, "metadata", self.metadata.as_ref())?;
        serialize_some(&mut map, "extra", self.extra.non_empty())?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartVisitor;
        impl<'de> Visitor<'de> for PartVisitor {
            type Value = Part;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a part: an object with a `type`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
                let mut kind = FieldSlot::new("type");
                let mut content = FieldSlot::<VerbatimJson>::new("content");
                let mut media_type = FieldSlot::new("mimeType");
                let mut filename = FieldSlot::new("filename");
                let mut size = FieldSlot::new("size");
                let mut encoding = FieldSlot::new("encoding");
                let mut url = FieldSlot::new("url");
                let mut metadata = FieldSlot::new("metadata");
                let mut extra = FieldSlot::<ExtraFields>::new("extra");
                let mut unknown = ExtraFields::default();
                while let Some(FieldName(name)) = map.next_key()? {
                    match &*name {
                        "type" => kind.fill(&mut map)?,
                        "content" => content.fill(&mut map)?,
                        "mimeType" => media_type.fill(&mut map)?,
                        "filename" => filename.fill(&mut map)?,
                        "size" => size.fill(&mut map)?,
                        "encoding" => encoding.fill(&mut map)?,
                        "url" => url.fill(&mut map)?,
                        "metadata" => metadata.fill(&mut map)?,
                        "extra" => extra.fill(&mut map)?,
                        // Programs may give them without `extra`.
                        other => unknown.read_field(other, &mut map)?,
                    }
                }
                let mut extra = extra.optional().unwrap_or_default();
                extra.append(unknown);
                Ok(Part {
                    kind: kind.required()?,
                    content: content.optional().filter(|content| !content.is_null()),
                    media_type: media_type.optional(),
                    filename: filename.optional(),
                    size: size.optional(),
                    encoding: encoding.optional(),
                    url: url.optional(),
                    metadata: metadata.optional(),
                    extra,
                })
            }
        }
        deserializer.deserialize_map(PartVisitor)
    }
}
