//! Parts of messages and artifacts.
//!
//! 0.3 has no file name and media type for text and data, and only objects as data. They ride in metadata
//! and return from it, so that a part survives the way through 0.3.

use super::base64::Base64Text;
use super::field::{Field, ObjectReader};
use super::invalid_field::{Expectation, InvalidField};
use super::metadata::{edit_metadata, take_members};
use super::method::WireFormat;
use super::wire::WireObject;
use crate::vocab::{Metadata, VerbatimJson};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// Metadata in which 0.3 carries the file name of a text or data part.
const FILENAME: &str = "interzone.filename";
/// Metadata in which 0.3 carries the media type of a text or data part.
const MEDIA_TYPE: &str = "interzone.mediaType";
/// Metadata that marks data other than an object, wrapped as `{"value": …}`. The official SDKs use it too.
const DATA_PART_COMPAT: &str = "data_part_compat";

const CONTENTS_V1: &[&str] = &["text", "raw", "url", "data"];
const CONTENTS_V03: &[&str] = &["text", "file", "data"];
const FILE_CONTENTS_V03: &[&str] = &["bytes", "uri"];
const FILE_CONTENTS_REST_V03: &[&str] = &["fileWithBytes", "fileWithUri"];

/// A part of a message or artifact.
///
/// ```
/// use interzone_protocol::a2a::{A2aPart, Codec, WireFormat, WireObject};
///
/// let part = A2aPart::decode(r#"{"data":[1.0],"filename":"a"}"#, Codec::server(WireFormat::V1))?;
/// let v03 = serde_json::to_string(&part.encode(WireFormat::V03)).unwrap();
/// assert_eq!(
///     v03,
///     r#"{"kind":"data","data":{"value":[1.0]},"metadata":{"data_part_compat":true,"interzone.filename":"a"}}"#
/// );
/// assert_eq!(A2aPart::decode(&v03, Codec::server(WireFormat::V03))?, part);
/// # Ok::<(), interzone_protocol::a2a::InvalidField>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aPart {
    /// Content.
    pub content: PartContent,
    /// File name.
    pub filename: Option<String>,
    /// Media type of the content.
    pub media_type: Option<String>,
    /// The sender's metadata.
    pub metadata: Option<Metadata>,
}

impl From<PartContent> for A2aPart {
    fn from(content: PartContent) -> Self {
        Self {
            content,
            filename: None,
            media_type: None,
            metadata: None,
        }
    }
}

/// Content of a part.
#[derive(Clone, PartialEq, Eq)]
pub enum PartContent {
    /// Text.
    Text(String),
    /// Bytes.
    Raw(Base64Text),
    /// URL of bytes.
    Url(String),
    /// Any JSON value, null too.
    Data(VerbatimJson),
}

impl fmt::Debug for PartContent {
    /// Shows kind and size only: user content must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "<{} bytes of text>", text.len()),
            Self::Raw(raw) => raw.fmt(f),
            Self::Url(url) => write!(f, "<URL of {} bytes>", url.len()),
            Self::Data(data) => data.fmt(f),
        }
    }
}

impl WireObject for A2aPart {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        match field.format() {
            WireFormat::V1 => read_v1(&object),
            WireFormat::V03 | WireFormat::RestV03 => read_v03(&object),
        }
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        match format {
            WireFormat::V1 => self.view_v1().serialize(serializer),
            WireFormat::V03 | WireFormat::RestV03 => self.view_v03(format).serialize(serializer),
        }
    }
}

fn read_v1(object: &ObjectReader<'_, '_>) -> Result<A2aPart, InvalidField> {
    let mut contents = Vec::new();
    if let Some(field) = object.field("text")? {
        contents.push(PartContent::Text(field.text()?));
    }
    if let Some(field) = object.field("raw")? {
        contents.push(PartContent::Raw(field.base64()?));
    }
    if let Some(field) = object.field("url")? {
        contents.push(PartContent::Url(field.text()?));
    }
    if let Some(field) = object.nullable("data")? {
        contents.push(PartContent::Data(field.verbatim()?));
    }
    let (Some(content), true) = (contents.pop(), contents.is_empty()) else {
        return Err(object.error(Expectation::OneMember(CONTENTS_V1)));
    };
    Ok(A2aPart {
        content,
        filename: object.optional_text("filename")?,
        media_type: object.optional_text("mediaType")?,
        metadata: object.metadata("metadata")?,
    })
}

/// Content of a 0.3 part, and file name and media type of a file.
type ContentV03 = (PartContent, Option<String>, Option<String>);

fn read_v03(object: &ObjectReader<'_, '_>) -> Result<A2aPart, InvalidField> {
    object.check_kind(CONTENTS_V03)?;
    let kind = match object.format() {
        WireFormat::V03 => object.optional_text("kind")?,
        WireFormat::V1 | WireFormat::RestV03 => None,
    };
    let mut contents: Vec<(&str, ContentV03)> = Vec::new();
    if let Some(field) = object.field("text")? {
        contents.push(("text", (PartContent::Text(field.text()?), None, None)));
    }
    if let Some(field) = object.field("file")? {
        contents.push(("file", read_file(&field.object()?)?));
    }
    // Null is the content of a data part, and counts as absent in a part of another kind.
    let data = match &kind {
        Some(kind) if kind != "data" => object.field("data")?,
        _ => object.nullable("data")?,
    };
    if let Some(field) = data {
        let data = match object.format() {
            // The 0.3 proto wraps data in a message with one field.
            WireFormat::RestV03 => field.object()?.required_field("data")?.verbatim()?,
            WireFormat::V1 | WireFormat::V03 => field.verbatim()?,
        };
        contents.push(("data", (PartContent::Data(data), None, None)));
    }
    let (Some((member, (content, filename, media_type))), true) =
        (contents.pop(), contents.is_empty())
    else {
        return Err(object.error(Expectation::OneMember(CONTENTS_V03)));
    };
    if let Some(kind) = kind.filter(|kind| kind != member) {
        return Err(object.member_error(&kind, Expectation::Present));
    }
    let mut part = A2aPart {
        content,
        filename,
        media_type,
        metadata: object.metadata("metadata")?,
    };
    part.restore_from_metadata();
    Ok(part)
}

fn read_file(file: &ObjectReader<'_, '_>) -> Result<ContentV03, InvalidField> {
    let names = match file.format() {
        WireFormat::RestV03 => FILE_CONTENTS_REST_V03,
        WireFormat::V1 | WireFormat::V03 => FILE_CONTENTS_V03,
    };
    let field = |index: usize| names.get(index).map_or(Ok(None), |name| file.field(name));
    // The bytes win over the link.
    let content = match (field(0)?, field(1)?) {
        (Some(bytes), _) => PartContent::Raw(bytes.base64()?),
        (None, Some(uri)) => PartContent::Url(uri.text()?),
        (None, None) => return Err(file.error(Expectation::OneMember(names))),
    };
    let name = file.optional_text("name")?;
    Ok((content, name, file.optional_text("mimeType")?))
}

/// A part of 1.0.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PartV1<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a Base64Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a VerbatimJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
}

/// A part of 0.3, of either binding.
#[derive(Serialize)]
struct PartV03<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<FileV03<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<DataV03<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Cow<'a, Metadata>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FileV03<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<&'a Base64Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_with_bytes: Option<&'a Base64Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_with_uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

/// Data of 0.3, which is always an object.
#[derive(Serialize)]
#[serde(untagged)]
enum DataV03<'a> {
    Object(&'a VerbatimJson),
    Wrapped {
        value: &'a VerbatimJson,
    },
    /// The message around the data in the 0.3 proto.
    Message {
        data: Box<DataV03<'a>>,
    },
}

impl A2aPart {
    fn view_v1(&self) -> PartV1<'_> {
        let mut view = PartV1 {
            text: None,
            raw: None,
            url: None,
            data: None,
            filename: self.filename.as_deref(),
            media_type: self.media_type.as_deref(),
            metadata: self.metadata.as_ref(),
        };
        match &self.content {
            PartContent::Text(text) => view.text = Some(text),
            PartContent::Raw(raw) => view.raw = Some(raw),
            PartContent::Url(url) => view.url = Some(url),
            PartContent::Data(data) => view.data = Some(data),
        }
        view
    }

    fn view_v03(&self, format: WireFormat) -> PartV03<'_> {
        let is_rest = format == WireFormat::RestV03;
        let file = FileV03 {
            mime_type: self.media_type.as_deref(),
            name: self.filename.as_deref(),
            ..FileV03::default()
        };
        let (mut text, mut data) = (None, None);
        let (kind, file) = match &self.content {
            PartContent::Text(content) => {
                text = Some(content.as_str());
                ("text", None)
            }
            PartContent::Raw(raw) => {
                let (bytes, file_with_bytes) = either(!is_rest, raw);
                let file = FileV03 {
                    bytes,
                    file_with_bytes,
                    ..file
                };
                ("file", Some(file))
            }
            PartContent::Url(url) => {
                let (uri, file_with_uri) = either(!is_rest, url.as_str());
                let file = FileV03 {
                    uri,
                    file_with_uri,
                    ..file
                };
                ("file", Some(file))
            }
            PartContent::Data(value) => {
                data = Some(if value.is_object() {
                    DataV03::Object(value)
                } else {
                    DataV03::Wrapped { value }
                });
                ("data", None)
            }
        };
        if is_rest {
            data = data.map(Box::new).map(|data| DataV03::Message { data });
        }
        PartV03 {
            kind: (!is_rest).then_some(kind),
            text,
            file,
            data,
            metadata: self.metadata_v03(),
        }
    }

    /// Metadata with the members that 0.3 has no place for.
    fn metadata_v03(&self) -> Option<Cow<'_, Metadata>> {
        let mut added: Vec<(&str, VerbatimJson)> = Vec::new();
        if let PartContent::Data(data) = &self.content
            && !data.is_object()
        {
            added.extend(VerbatimJson::from_value(&true).map(|value| (DATA_PART_COMPAT, value)));
        }
        if matches!(self.content, PartContent::Text(_) | PartContent::Data(_)) {
            for (name, value) in [(FILENAME, &self.filename), (MEDIA_TYPE, &self.media_type)] {
                let value = value.as_deref().map(VerbatimJson::from_text);
                added.extend(value.transpose().ok().flatten().map(|value| (name, value)));
            }
        }
        if added.is_empty() {
            return self.metadata.as_ref().map(Cow::Borrowed);
        }
        edit_metadata(self.metadata.as_ref(), &added).map(Cow::Owned)
    }

    /// Moves members that 0.3 has no place for out of the metadata.
    fn restore_from_metadata(&mut self) {
        let Some(metadata) = &self.metadata else {
            return;
        };
        let names: &[&str] = match self.content {
            PartContent::Text(_) => &[FILENAME, MEDIA_TYPE],
            PartContent::Data(_) => &[FILENAME, MEDIA_TYPE, DATA_PART_COMPAT],
            PartContent::Raw(_) | PartContent::Url(_) => return,
        };
        let Some((taken, remaining)) = take_members(metadata, names) else {
            return;
        };
        self.metadata = remaining;
        for (name, value) in taken {
            match (name, &self.content) {
                (FILENAME, _) => self.filename = value.decode().ok(),
                (MEDIA_TYPE, _) => self.media_type = value.decode().ok(),
                (_, PartContent::Data(data)) if value.as_str() == "true" => {
                    if let Some(value) = unwrap_value(data) {
                        self.content = PartContent::Data(value);
                    }
                }
                _ => {}
            }
        }
    }
}

/// The value in the first place if the condition holds, else in the second.
fn either<T>(is_first: bool, value: T) -> (Option<T>, Option<T>) {
    if is_first {
        (Some(value), None)
    } else {
        (None, Some(value))
    }
}

/// The value in `{"value": …}`.
fn unwrap_value(data: &VerbatimJson) -> Option<VerbatimJson> {
    #[derive(serde::Deserialize)]
    struct Wrapped {
        value: Box<serde_json::value::RawValue>,
    }
    let wrapped: Wrapped = data.decode().ok()?;
    VerbatimJson::parse(wrapped.value.get()).ok()
}
