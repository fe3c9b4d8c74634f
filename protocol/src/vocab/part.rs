//! Parts: the pieces that messages and artifacts are made of.

use super::json::Json;
use super::members::{Members, Name, Slot, entry, entry_to, json_to};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// What a part holds.
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
    /// Words.
    #[serde(rename = "TextPart")]
    Text,
    /// Structured data.
    #[serde(rename = "DataPart")]
    Data,
    /// A file of any type.
    #[serde(rename = "FilePart")]
    File,
    /// A picture.
    #[serde(rename = "ImagePart")]
    Image,
    /// Sound.
    #[serde(rename = "AudioPart")]
    Audio,
}

impl PartKind {
    /// The name in ACP.
    const fn name(self) -> &'static str {
        match self {
            Self::Text => "TextPart",
            Self::Data => "DataPart",
            Self::File => "FilePart",
            Self::Image => "ImagePart",
            Self::Audio => "AudioPart",
        }
    }
}

/// How a part's content stands in its string.
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
    /// Text as it is.
    Utf8,
    /// Bytes sent by some other way.
    Binary,
}

/// A piece of a message or artifact: words, data or a file.
///
/// Members that we do not know survive a round trip, values and order alike.
///
/// ```
/// use interzone_protocol::vocab::Part;
///
/// let sent = r#"{"type":"ImagePart","content":"aGk=","encoding":"base64","width":640}"#;
/// let part: Part = serde_json::from_str(sent)?;
/// assert_eq!(serde_json::to_string(&part)?, sent);
/// assert_eq!(Part::text("hello").as_text().as_deref(), Some("hello"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    kind: PartKind,
    /// Kept as JSON text, so that a large file is one string that nobody copies or escapes again.
    content: Option<Json>,
    media_type: Option<String>,
    filename: Option<String>,
    size: Option<u64>,
    encoding: Option<Encoding>,
    extra: Members,
}

impl Part {
    /// A part without content.
    pub fn new(kind: PartKind) -> Self {
        Self {
            kind,
            content: None,
            media_type: None,
            filename: None,
            size: None,
            encoding: None,
            extra: Members::default(),
        }
    }

    /// Words.
    pub fn text(text: impl AsRef<str>) -> Self {
        // A string always has a JSON form.
        Self {
            content: Json::of(text.as_ref()).ok(),
            ..Self::new(PartKind::Text)
        }
    }

    /// Structured data.
    pub fn data(data: Json) -> Self {
        Self::new(PartKind::Data).with_content(data)
    }

    /// A file whose bytes the caller has put into base64.
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
            content: Json::string(base64).ok(),
            encoding: Some(Encoding::Base64),
            ..Self::new(PartKind::File)
        }
    }

    /// Sets the content.
    #[must_use]
    pub fn with_content(mut self, content: Json) -> Self {
        self.content = Some(content).filter(|content| !content.is_null());
        self
    }

    /// Takes the content away, and leaves all that is said about it.
    #[must_use]
    pub fn without_content(mut self) -> Self {
        self.content = None;
        self
    }

    /// Takes the content out, which may be large, and leaves all that is said about it.
    ///
    /// ```
    /// use interzone_protocol::vocab::Part;
    ///
    /// let mut part = Part::file("aGk=").with_filename("hi.txt");
    /// assert_eq!(part.take_content().map(String::from).as_deref(), Some("\"aGk=\""));
    /// assert_eq!(part.content(), None);
    /// assert_eq!(part.filename(), Some("hi.txt"));
    /// ```
    pub fn take_content(&mut self) -> Option<Json> {
        self.content.take()
    }

    /// A copy without the content, which may be large.
    ///
    /// ```
    /// use interzone_protocol::vocab::Part;
    ///
    /// let part = Part::file("aGk=").with_filename("hi.txt");
    /// assert_eq!(part.outline(), part.without_content());
    /// ```
    #[must_use]
    pub fn outline(&self) -> Self {
        Self {
            kind: self.kind,
            content: None,
            media_type: self.media_type.clone(),
            filename: self.filename.clone(),
            size: self.size,
            encoding: self.encoding,
            extra: self.extra.clone(),
        }
    }

    /// Sets the media type.
    #[must_use]
    pub fn with_media_type(mut self, media_type: impl Into<String>) -> Self {
        self.media_type = Some(media_type.into());
        self
    }

    /// Sets the file name. It is a label from outside: never use it as a path.
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

    /// Sets a member beyond the known ones; a known name is left alone.
    #[must_use]
    pub fn with_extra(mut self, name: &str, value: Json) -> Self {
        if !KNOWN.contains(&name) {
            self.extra.set(name, value);
        }
        self
    }

    /// Takes a member beyond the known ones away.
    ///
    /// ```
    /// use interzone_protocol::vocab::{Json, Part};
    ///
    /// let part = Part::text("hi").with_extra("note", Json::of("x")?);
    /// assert_eq!(part.without_extra("note"), Part::text("hi"));
    /// # Ok::<(), interzone_protocol::vocab::InvalidJson>(())
    /// ```
    #[must_use]
    pub fn without_extra(mut self, name: &str) -> Self {
        self.extra.remove(name);
        self
    }

    /// What the part holds.
    pub fn kind(&self) -> PartKind {
        self.kind
    }

    /// The content, if it is in the part.
    pub fn content(&self) -> Option<&Json> {
        self.content.as_ref()
    }

    /// The content of a part whose content is a string: the words of a text, the base64 of a file.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        let text = self.content.as_ref()?.as_str();
        let inside = text.strip_prefix('"')?.strip_suffix('"')?;
        if inside.contains('\\') {
            serde_json::from_str(text).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(inside))
        }
    }

    /// The media type.
    pub fn media_type(&self) -> Option<&str> {
        self.media_type.as_deref()
    }

    /// The file name, a label from outside: never use it as a path.
    pub fn filename(&self) -> Option<&str> {
        self.filename.as_deref()
    }

    /// The size in bytes that the sender declared.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// How the content stands in its string.
    pub fn encoding(&self) -> Option<Encoding> {
        self.encoding
    }

    /// The members that we do not know.
    pub fn extra(&self) -> &Members {
        &self.extra
    }

    /// Writes it as JSON at the end of `out`, as serde would.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(self.kind.name().as_bytes());
        out.push(b'"');
        json_to(out, b",\"content\":", self.content.as_ref());
        entry_to(out, b",\"mimeType\":", self.media_type.as_ref())?;
        entry_to(out, b",\"filename\":", self.filename.as_ref())?;
        entry_to(out, b",\"size\":", self.size.as_ref())?;
        entry_to(out, b",\"encoding\":", self.encoding.as_ref())?;
        self.extra.write_to(out);
        out.push(b'}');
        Ok(())
    }
}

const KNOWN: [&str; 6] = [
    "type", "content", "mimeType", "filename", "size", "encoding",
];

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &self.kind)?;
        entry(&mut map, "content", self.content.as_ref())?;
        entry(&mut map, "mimeType", self.media_type.as_ref())?;
        entry(&mut map, "filename", self.filename.as_ref())?;
        entry(&mut map, "size", self.size.as_ref())?;
        entry(&mut map, "encoding", self.encoding.as_ref())?;
        self.extra.write(&mut map)?;
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
                let mut kind = Slot::new("type");
                let mut content = Slot::<Json>::new("content");
                let mut media_type = Slot::new("mimeType");
                let mut filename = Slot::new("filename");
                let mut size = Slot::new("size");
                let mut encoding = Slot::new("encoding");
                let mut extra = Members::default();
                while let Some(Name(name)) = map.next_key()? {
                    match &*name {
                        "type" => kind.fill(&mut map)?,
                        "content" => content.fill(&mut map)?,
                        "mimeType" => media_type.fill(&mut map)?,
                        "filename" => filename.fill(&mut map)?,
                        "size" => size.fill(&mut map)?,
                        "encoding" => encoding.fill(&mut map)?,
                        other => extra.take_from(other, &mut map)?,
                    }
                }
                Ok(Part {
                    kind: kind.required()?,
                    content: content.optional().filter(|content| !content.is_null()),
                    media_type: media_type.optional(),
                    filename: filename.optional(),
                    size: size.optional(),
                    encoding: encoding.optional(),
                    extra,
                })
            }
        }
        deserializer.deserialize_map(PartVisitor)
    }
}
