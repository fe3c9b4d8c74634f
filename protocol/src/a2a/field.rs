//! Lenient reader of JSON values that knows the path of each.
//!
//! Names are camelCase or snake_case, null counts as absent, unknown members are ignored. A known member
//! that occurs twice is refused, in any spelling.

use super::base64::Base64Text;
use super::invalid_field::{Expectation, InvalidField};
use super::method::WireFormat;
use super::wire::{Codec, WireObject};
use crate::vocab::{Metadata, Timestamp, VerbatimJson};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Most members of an object that is read, so that a body of tiny members does not take many times its size
/// in memory. Metadata and data are not read, and have no limit.
const MAX_MEMBERS: usize = 1_000;
/// Most elements of an array that is read, for the same reason.
const MAX_ELEMENTS: usize = 100_000;

/// A value with its path.
pub struct Field<'a, 'p> {
    value: FieldValue<'a>,
    path: Path<'p>,
    codec: Codec,
}

/// A value to read.
#[derive(Clone, Debug)]
pub(super) enum FieldValue<'a> {
    /// JSON text without white space around it.
    Json(&'a str),
    /// Text from a path or query, which stands for a value of any scalar type.
    Text(Cow<'a, str>),
    /// An object whose members come from several places.
    Object(&'a [Member<'a>]),
}

/// A member of an object: name and value.
pub(super) type Member<'a> = (Cow<'a, str>, FieldValue<'a>);

/// Path of a field, as a list from the field to the params.
#[derive(Clone, Copy)]
pub(super) enum Path<'p> {
    Root,
    Member(&'p Path<'p>, &'p str),
    Element(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("params"),
            Self::Member(Self::Root, name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Element(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl<'a, 'p> Field<'a, 'p> {
    pub(super) fn new(value: FieldValue<'a>, path: Path<'p>, codec: Codec) -> Self {
        Self { value, path, codec }
    }

    pub(super) fn codec(&self) -> Codec {
        self.codec
    }

    pub(super) fn format(&self) -> WireFormat {
        self.codec.format
    }

    pub(super) fn error(&self, expectation: Expectation) -> InvalidField {
        InvalidField::new(self.path.to_string(), expectation)
    }

    /// Reads an object's members.
    pub(super) fn object(&self) -> Result<ObjectReader<'a, '_>, InvalidField> {
        let members = match &self.value {
            FieldValue::Object(members) => Cow::Borrowed(*members),
            FieldValue::Json(text) if text.starts_with('{') => {
                let members: Members<'a> = self.parse(text)?;
                if members.0.len() > MAX_MEMBERS {
                    return Err(self.error(Expectation::MaxLength(MAX_MEMBERS)));
                }
                Cow::Owned(members.0)
            }
            _ => return Err(self.error(Expectation::Object)),
        };
        Ok(ObjectReader {
            members,
            path: &self.path,
            codec: self.codec,
        })
    }

    /// Reads each element of an array.
    pub(super) fn list<T>(
        &self,
        read: impl Fn(&Field<'a, '_>) -> Result<T, InvalidField>,
    ) -> Result<Vec<T>, InvalidField> {
        let FieldValue::Json(text) = &self.value else {
            return Err(self.error(Expectation::Array));
        };
        if !text.starts_with('[') {
            return Err(self.error(Expectation::Array));
        }
        let Elements(elements) = self.parse(text)?;
        if elements.len() > MAX_ELEMENTS {
            return Err(self.error(Expectation::MaxLength(MAX_ELEMENTS)));
        }
        elements
            .into_iter()
            .enumerate()
            .map(|(index, text)| {
                let path = Path::Element(&self.path, index);
                read(&Field::new(FieldValue::Json(text), path, self.codec))
            })
            .collect()
    }

    /// Reads an object whose member names are data, in order of names.
    pub(super) fn map<T>(
        &self,
        read: impl Fn(&Field<'a, '_>) -> Result<T, InvalidField>,
    ) -> Result<BTreeMap<String, T>, InvalidField> {
        let object = self.object()?;
        let mut map = BTreeMap::new();
        for (name, value) in object.members.iter() {
            let path = Path::Member(&self.path, name);
            let field = Field::new(value.clone(), path, self.codec);
            let value = read(&field)?;
            if map.insert(name.clone().into_owned(), value).is_some() {
                return Err(field.error(Expectation::Single));
            }
        }
        Ok(map)
    }

    pub(super) fn text(&self) -> Result<String, InvalidField> {
        match &self.value {
            FieldValue::Text(text) => Ok(text.clone().into_owned()),
            FieldValue::Json(text) if text.starts_with('"') => {
                serde_json::from_str(text).map_err(|_| self.error(Expectation::Json))
            }
            _ => Err(self.error(Expectation::Text)),
        }
    }

    fn non_empty_text(&self) -> Result<String, InvalidField> {
        let text = self.text()?;
        if text.is_empty() {
            return Err(self.error(Expectation::NonEmptyText));
        }
        Ok(text)
    }

    pub(super) fn boolean(&self) -> Result<bool, InvalidField> {
        let text = match &self.value {
            FieldValue::Json(text) => text,
            FieldValue::Text(text) => &**text,
            FieldValue::Object(_) => "",
        };
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.error(Expectation::Boolean)),
        }
    }

    /// Reads a whole number: `5`, `5.0`, or either as a string.
    pub(super) fn integer(&self, min: i32, max: i32) -> Result<i32, InvalidField> {
        let number = match &self.value {
            FieldValue::Json(text) if !text.starts_with('"') => parse_integer(text),
            FieldValue::Object(_) => None,
            FieldValue::Json(_) | FieldValue::Text(_) => parse_integer(&self.text()?),
        };
        number
            .filter(|number| (min..=max).contains(number))
            .ok_or_else(|| self.error(Expectation::Integer { min, max }))
    }

    pub(super) fn base64(&self) -> Result<Base64Text, InvalidField> {
        let error = || self.error(Expectation::Base64);
        let text = self.text().map_err(|_| error())?;
        Base64Text::parse(text).ok_or_else(error)
    }

    /// Reads a time. To a client, a time without an offset counts as absent.
    fn timestamp(&self) -> Result<Option<Timestamp>, InvalidField> {
        let error = || self.error(Expectation::Time);
        let text = self.text().map_err(|_| error())?;
        let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        match text.parse() {
            // ProtoJSON has nanoseconds at most.
            Ok(time) if digits <= 9 => Ok(Some(time)),
            _ if self.codec.is_lenient() => Ok(None),
            _ => Err(error()),
        }
    }

    /// Reads a value of an enumeration by its name, or by its position in `names` from 0. Position 0 is the
    /// unspecified value, which unknown values count as where the reader is a client.
    pub(super) fn enumeration(
        &self,
        names: &'static [&'static str],
    ) -> Result<usize, InvalidField> {
        let (name, number) = match &self.value {
            FieldValue::Json(text) if text.starts_with('"') => (self.text()?, None),
            FieldValue::Json(text) => (String::new(), parse_integer(text)),
            // A query has no types, so its text may be a name or a number.
            FieldValue::Text(text) => (text.clone().into_owned(), parse_integer(text)),
            FieldValue::Object(_) => (String::new(), None),
        };
        let by_name = || names.iter().position(|known| *known == name);
        let by_number = || {
            number
                .and_then(|number| usize::try_from(number).ok())
                .filter(|number| *number < names.len())
        };
        let is_scalar = !name.is_empty() || number.is_some();
        match by_name().or_else(by_number) {
            Some(position) => Ok(position),
            None if is_scalar && self.codec.is_lenient() => Ok(0),
            None => Err(self.error(Expectation::OneOf(names.get(1..).unwrap_or_default()))),
        }
    }

    pub(super) fn verbatim(&self) -> Result<VerbatimJson, InvalidField> {
        let json = match &self.value {
            FieldValue::Json(text) => VerbatimJson::parse(*text),
            FieldValue::Text(text) => VerbatimJson::from_text(&**text),
            FieldValue::Object(_) => return Err(self.error(Expectation::Json)),
        };
        json.map_err(|_| self.error(Expectation::Json))
    }

    pub(super) fn metadata(&self) -> Result<Metadata, InvalidField> {
        Metadata::new(self.verbatim()?).map_err(|_| self.error(Expectation::Object))
    }

    fn parse<T: Deserialize<'a>>(&self, text: &'a str) -> Result<T, InvalidField> {
        serde_json::from_str(text).map_err(|_| self.error(Expectation::Json))
    }
}

/// Parses a whole number as JSON writes it, with an exponent or a fraction of zeros too.
fn parse_integer(text: &str) -> Option<i32> {
    let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if !is_number {
        return None;
    }
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let number: f64 = text.parse().ok()?;
    let is_whole =
        number.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number);
    is_whole.then(|| format!("{number:.0}").parse().ok())?
}

/// Members of a JSON object, in order, up to the first one over the limit.
struct Members<'a>(Vec<Member<'a>>);

#[derive(Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<MemberName<'de>, &RawValue>()? {
                    members.push((name.0, FieldValue::Json(value.get())));
                    if members.len() > MAX_MEMBERS {
                        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// Elements of a JSON array, up to the first one over the limit.
struct Elements<'a>(Vec<&'a str>);

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ElementsVisitor;
        impl<'de> Visitor<'de> for ElementsVisitor {
            type Value = Elements<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(value) = seq.next_element::<&RawValue>()? {
                    elements.push(value.get());
                    if elements.len() > MAX_ELEMENTS {
                        while seq.next_element::<IgnoredAny>()?.is_some() {}
                    }
                }
                Ok(Elements(elements))
            }
        }
        deserializer.deserialize_seq(ElementsVisitor)
    }
}

/// Parses the members of JSON text, for objects whose members come from several places.
pub(super) fn parse_members(text: &str) -> Result<Vec<Member<'_>>, InvalidField> {
    let text = text.trim();
    let codec = Codec::server(WireFormat::V1);
    let field = Field::new(FieldValue::Json(text), Path::Root, codec);
    Ok(field.object()?.members.into_owned())
}

/// Returns true if `name` is `camel`, or `camel` in snake_case.
pub(super) fn is_named(name: &str, camel: &str) -> bool {
    if name == camel {
        return true;
    }
    let mut bytes = name.bytes();
    camel.bytes().all(|byte| {
        if byte.is_ascii_uppercase() {
            bytes.next() == Some(b'_') && bytes.next() == Some(byte.to_ascii_lowercase())
        } else {
            bytes.next() == Some(byte)
        }
    }) && bytes.next().is_none()
}

/// Members of an object, read by name. Null counts as absent.
pub(super) struct ObjectReader<'a, 'p> {
    members: Cow<'p, [Member<'a>]>,
    path: &'p Path<'p>,
    codec: Codec,
}

impl<'a> ObjectReader<'a, '_> {
    pub(super) fn format(&self) -> WireFormat {
        self.codec.format
    }

    /// Refuses the object itself.
    pub(super) fn error(&self, expectation: Expectation) -> InvalidField {
        InvalidField::new(self.path.to_string(), expectation)
    }

    /// Refuses the member `name`.
    pub(super) fn member_error(&self, name: &str, expectation: Expectation) -> InvalidField {
        InvalidField::new(Path::Member(self.path, name).to_string(), expectation)
    }

    /// The member `name`, which may be null.
    pub(super) fn nullable<'s>(
        &'s self,
        name: &'s str,
    ) -> Result<Option<Field<'a, 's>>, InvalidField> {
        let mut matches = self
            .members
            .iter()
            .filter(|(other, _)| is_named(other, name));
        let Some((_, value)) = matches.next() else {
            return Ok(None);
        };
        if matches.next().is_some() {
            return Err(self.member_error(name, Expectation::Single));
        }
        let path = Path::Member(self.path, name);
        Ok(Some(Field::new(value.clone(), path, self.codec)))
    }

    /// The member `name` if it is present and not null.
    pub(super) fn field<'s>(
        &'s self,
        name: &'s str,
    ) -> Result<Option<Field<'a, 's>>, InvalidField> {
        let field = self.nullable(name)?;
        Ok(field.filter(|field| !matches!(field.value, FieldValue::Json("null"))))
    }

    pub(super) fn required_field<'s>(
        &'s self,
        name: &'s str,
    ) -> Result<Field<'a, 's>, InvalidField> {
        self.field(name)?
            .ok_or_else(|| self.member_error(name, Expectation::Present))
    }

    fn read<T>(
        &self,
        name: &str,
        read: impl Fn(&Field<'a, '_>) -> Result<T, InvalidField>,
    ) -> Result<Option<T>, InvalidField> {
        self.field(name)?.map(|field| read(&field)).transpose()
    }

    /// The text of a member, empty if absent.
    pub(super) fn text(&self, name: &str) -> Result<String, InvalidField> {
        Ok(self.read(name, |field| field.text())?.unwrap_or_default())
    }

    /// The text of a member; an empty one counts as absent.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<String>, InvalidField> {
        Ok(Some(self.text(name)?).filter(|text| !text.is_empty()))
    }

    /// The text of a member that must not be empty.
    pub(super) fn required_text(&self, name: &str) -> Result<String, InvalidField> {
        self.required_field(name)?.non_empty_text()
    }

    /// The text of a member that a server must not leave out, or any text from an agent.
    pub(super) fn expected_text(&self, name: &str) -> Result<String, InvalidField> {
        if self.codec.is_lenient() {
            self.text(name)
        } else {
            self.required_text(name)
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, InvalidField> {
        let texts = self.read(name, |field| field.list(|field| field.text()))?;
        Ok(texts.unwrap_or_default())
    }

    pub(super) fn boolean(&self, name: &str) -> Result<Option<bool>, InvalidField> {
        self.read(name, |field| field.boolean())
    }

    pub(super) fn integer(
        &self,
        name: &str,
        min: i32,
        max: i32,
    ) -> Result<Option<i32>, InvalidField> {
        self.read(name, |field| field.integer(min, max))
    }

    pub(super) fn timestamp(&self, name: &str) -> Result<Option<Timestamp>, InvalidField> {
        Ok(self.read(name, |field| field.timestamp())?.flatten())
    }

    pub(super) fn metadata(&self, name: &str) -> Result<Option<Metadata>, InvalidField> {
        self.read(name, |field| field.metadata())
    }

    pub(super) fn optional<T: WireObject>(&self, name: &str) -> Result<Option<T>, InvalidField> {
        self.read(name, T::read)
    }

    pub(super) fn required<T: WireObject>(&self, name: &str) -> Result<T, InvalidField> {
        T::read(&self.required_field(name)?)
    }

    /// The objects of an array, none if it is absent.
    pub(super) fn list<T: WireObject>(&self, name: &str) -> Result<Vec<T>, InvalidField> {
        Ok(self.optional_list(name)?.unwrap_or_default())
    }

    pub(super) fn optional_list<T: WireObject>(
        &self,
        name: &str,
    ) -> Result<Option<Vec<T>>, InvalidField> {
        self.read(name, |field| field.list(T::read))
    }

    /// The objects of an array that must have one at least, except from an agent.
    pub(super) fn required_list<T: WireObject>(&self, name: &str) -> Result<Vec<T>, InvalidField> {
        if self.codec.is_lenient() {
            return self.list(name);
        }
        let field = self.required_field(name)?;
        let list = field.list(T::read)?;
        if list.is_empty() {
            return Err(field.error(Expectation::NonEmptyArray));
        }
        Ok(list)
    }

    /// Checks the discriminator of 0.3, which may be absent.
    pub(super) fn check_kind(&self, kinds: &'static [&'static str]) -> Result<(), InvalidField> {
        if self.codec.format != WireFormat::V03 {
            return Ok(());
        }
        match self.field("kind")? {
            Some(field) if !kinds.contains(&field.text()?.as_str()) => {
                Err(field.error(Expectation::OneOf(kinds)))
            }
            _ => Ok(()),
        }
    }
}
