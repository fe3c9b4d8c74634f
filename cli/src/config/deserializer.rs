//! Deserializes a merged table into the options structs. Every error names the full key and the source of its value.
//!
//! In addition to what serde does: values of environment variables, which are strings, are converted to the type of
//! the field; a [`Duration`](std::time::Duration) is written with its unit; a single string counts as a list of
//! one; and a field named `..x` is a part: it is read from the table of its parent. (serde's `flatten` would lose the
//! types and the sources of the values.) A part that is an enum is selected by the key with the enum's name.

use super::error::{ConfigError, ConfigErrorKind, suggest};
use super::key_recorder as recorder;
use super::layer::{Node, Table, Value, ValueSource};
use super::secrets;
use interzone_options::{EXPECTED_DURATION, parse_duration};
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer, StringDeserializer};
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer,
    MapAccess, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::slice;

type Result<T> = std::result::Result<T, ConfigError>;

/// Prefix of the name of a part.
const PART_PREFIX: &str = "..";

/// Deserializes a table. `ignored` are keys of another zone. Relative paths start from `folder`.
///
/// # Errors
/// A value is missing or invalid, or a key is unknown.
pub(super) fn read<'de, T: de::Deserialize<'de>>(
    table: &'de Table,
    folder: &'de Path,
    ignored: &[&'static str],
) -> Result<T> {
    let root = TableReader::new(String::new(), table, &ValueSource::Default, folder);
    root.known_keys
        .borrow_mut()
        .extend(ignored.iter().map(|key| (*key).to_owned()));
    root.read_all(T::deserialize)
}

/// Deserializes one section of the root table, and nothing else. An absent one counts as empty.
///
/// # Errors
/// As [`read`].
pub(super) fn read_section<'de, T: de::Deserialize<'de> + Default>(
    table: &'de Table,
    folder: &'de Path,
    key: &str,
) -> Result<T> {
    match table.get(key) {
        None => Ok(T::default()),
        Some(node) => T::deserialize(NodeReader {
            path: key.to_owned(),
            node,
            folder,
        })
        .map_err(|error| error.with_location(key, &node.source)),
    }
}

/// Reads one value.
struct NodeReader<'de> {
    path: String,
    node: &'de Node,
    folder: &'de Path,
}

impl<'de> NodeReader<'de> {
    fn wrong_type(&self, expected: &str) -> ConfigError {
        let found = self.node.value.type_name();
        let kind = match (&self.node.value, &self.node.source) {
            // The variable sets a key of a table where the field is a list.
            (Value::Table(_), ValueSource::Variable(_)) => ConfigErrorKind::NotInEnvironment,
            _ => ConfigErrorKind::WrongType {
                expected: expected.to_owned(),
                found,
            },
        };
        ConfigError::new(&self.path, self.node.source.clone(), kind)
    }

    fn refuse(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError::refused(&self.path, &self.node.source, reason)
    }

    fn text(&self, expected: &str) -> Result<&'de str> {
        recorder::record(&self.path, expected);
        match &self.node.value {
            Value::Text(text) | Value::EnvString(text) => Ok(text),
            _ => Err(self.wrong_type(expected)),
        }
    }

    fn integer<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        const EXPECTED: &str = "an integer";
        recorder::record(&self.path, EXPECTED);
        match &self.node.value {
            Value::Number(number) => visitor.visit_i64(*number),
            Value::EnvString(text) => match text.trim().parse() {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => Err(self.wrong_type(EXPECTED)),
            },
            _ => Err(self.wrong_type(EXPECTED)),
        }
    }

    fn list<V: Visitor<'de>>(self, nodes: &'de [Node], visitor: V) -> Result<V::Value> {
        let element = |(index, node)| NodeReader {
            path: format!("{}[{index}]", self.path),
            node,
            folder: self.folder,
        };
        let elements = nodes.iter().enumerate().map(element);
        visitor.visit_seq(SeqDeserializer::new(elements))
    }

    fn table(&self) -> Result<TableReader<'de>> {
        match &self.node.value {
            Value::Table(table) => Ok(TableReader::new(
                self.path.clone(),
                table,
                &self.node.source,
                self.folder,
            )),
            _ => Err(self.wrong_type("a table")),
        }
    }
}

impl<'de> Deserializer<'de> for NodeReader<'de> {
    type Error = ConfigError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let expected = (&visitor as &dyn Expected).to_string();
        recorder::record(&self.path, &expected);
        match &self.node.value {
            Value::Text(text) | Value::EnvString(text) => visitor.visit_borrowed_str(text),
            Value::Number(number) => visitor.visit_i64(*number),
            Value::Flag(flag) => visitor.visit_bool(*flag),
            Value::Fraction(number) => visitor.visit_f64(*number),
            Value::List(_) | Value::Table(_) | Value::Other(_) => Err(self.wrong_type(&expected)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        const EXPECTED: &str = "true or false";
        recorder::record(&self.path, EXPECTED);
        match &self.node.value {
            Value::Flag(flag) => visitor.visit_bool(*flag),
            Value::EnvString(text) => match text.parse() {
                Ok(flag) => visitor.visit_bool(flag),
                Err(_) => Err(self.wrong_type(EXPECTED)),
            },
            _ => Err(self.wrong_type(EXPECTED)),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.integer(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.integer(visitor)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        const EXPECTED: &str = "a number";
        recorder::record(&self.path, EXPECTED);
        match &self.node.value {
            Value::Fraction(number) => visitor.visit_f64(*number),
            Value::Number(number) => visitor.visit_i64(*number),
            Value::EnvString(text) => match text.trim().parse() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => Err(self.wrong_type(EXPECTED)),
            },
            _ => Err(self.wrong_type(EXPECTED)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_str(self.text("a string")?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        if name != "FilePath" {
            return visitor.visit_newtype_struct(self);
        }
        let text = self.text("the path of a file")?;
        if text.is_empty() {
            return Err(self.refuse("must not be empty; name a file"));
        }
        let Some(path) = self.folder.join(text).to_str().map(str::to_owned) else {
            return Err(self.refuse("the folder's name is not UTF-8; use another folder"));
        };
        let path: StringDeserializer<ConfigError> = path.into_deserializer();
        visitor.visit_newtype_struct(path)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        recorder::record(&self.path, "a list of strings");
        match &self.node.value {
            Value::List(nodes) => self.list(nodes, visitor),
            // A single string is a list of one.
            Value::Text(_) => {
                let is_scalar = self.wrong_type("a list of tables");
                let node = slice::from_ref(self.node);
                let read = self.list(node, visitor);
                read.map_err(|error| match error.expects_table() {
                    true => is_scalar,
                    false => error,
                })
            }
            Value::EnvString(text) => {
                let items = text.split(',').map(str::trim);
                let items = items.filter(|item| !item.is_empty());
                visitor.visit_seq(SeqDeserializer::new(items))
            }
            _ => Err(self.wrong_type("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        recorder::record(&self.path, recorder::STRING_MAP);
        let reader = self.table()?;
        let entry = |(key, node): (&'de String, &'de Node)| {
            let path = reader.full_key(key);
            let folder = reader.folder;
            (key.as_str(), NodeReader { path, node, folder })
        };
        let entries = reader.table.iter().map(entry);
        visitor.visit_map(MapDeserializer::new(entries))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        if name != "Duration" {
            let reader = self.table()?;
            return reader.read_all(|reader| reader.deserialize_struct(name, fields, visitor));
        }
        let duration = parse_duration(self.text(EXPECTED_DURATION)?);
        let Some(duration) = duration.filter(|duration| !duration.is_zero()) else {
            return Err(self.refuse(format!("write {EXPECTED_DURATION}")));
        };
        let parts = [duration.as_secs(), u64::from(duration.subsec_nanos())];
        visitor.visit_seq(SeqDeserializer::new(parts.into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let text: StrDeserializer<'de, ConfigError> = self.text("a string")?.into_deserializer();
        visitor.visit_enum(text)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
        ignored_any
    }
}

impl<'de> IntoDeserializer<'de, ConfigError> for NodeReader<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Reads a table, or a part of it, as a struct.
#[derive(Clone)]
pub(super) struct TableReader<'de> {
    pub(super) path: String,
    pub(super) table: &'de Table,
    pub(super) source: &'de ValueSource,
    pub(super) folder: &'de Path,
    /// Name of the part, if it is one.
    pub(super) part: &'static str,
    /// Keys that the struct and its parts have.
    known_keys: Rc<RefCell<BTreeSet<String>>>,
}

impl<'de> TableReader<'de> {
    fn new(path: String, table: &'de Table, source: &'de ValueSource, folder: &'de Path) -> Self {
        Self {
            path,
            table,
            source,
            folder,
            part: "",
            known_keys: Rc::default(),
        }
    }

    /// Reads the table with all its parts, and rejects keys that none of them has.
    fn read_all<T>(self, read: impl FnOnce(Self) -> Result<T>) -> Result<T> {
        let value =
            read(self.clone()).map_err(|error| error.with_location(&self.path, self.source))?;
        let known_keys = self.known_keys.borrow();
        match self
            .table
            .iter()
            .find(|(key, _)| !known_keys.contains(*key))
        {
            None => Ok(value),
            Some((key, node)) => {
                let near = suggest(key, known_keys.iter().map(String::as_str));
                let kind = ConfigErrorKind::UnknownKey(near.map(|near| self.full_key(near)));
                let source = node.source.clone();
                Err(ConfigError::new(&self.full_key(key), source, kind))
            }
        }
    }

    /// Marks a key as known.
    pub(super) fn declare(&self, key: &str) {
        recorder::record(&self.full_key(key), recorder::UNKNOWN);
        self.known_keys.borrow_mut().insert(key.to_owned());
    }

    pub(super) fn full_key(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// Reads the string of a key.
    pub(super) fn text(&self, key: &str, expected: &str) -> Result<Option<(&'de str, &'de Node)>> {
        self.declare(key);
        let path = self.full_key(key);
        recorder::record(&path, expected);
        let Some(node) = self.table.get(key) else {
            return Ok(None);
        };
        let reader = NodeReader {
            path,
            node,
            folder: self.folder,
        };
        Ok(Some((reader.text(expected)?, node)))
    }
}

impl<'de> Deserializer<'de> for TableReader<'de> {
    type Error = ConfigError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        Err(ConfigError::invalid_type(
            de::Unexpected::Other("a table"),
            &visitor,
        ))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match secrets::is_set(&self)? {
            true => visitor.visit_some(self),
            false => visitor.visit_none(),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        if let Some(inline) = secrets::allows_inline(name) {
            let entries = secrets::resolve(&self, inline)?;
            return visitor.visit_map(MapDeserializer::new(entries.into_iter()));
        }
        for field in fields {
            if !field.starts_with(PART_PREFIX) {
                self.declare(field);
            }
        }
        visitor.visit_map(FieldAccess {
            reader: self,
            fields: fields.iter(),
            field: "",
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        tag: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.text(tag, "a string")? {
            None => Err(ConfigError::missing_field(tag)),
            Some((variant, node)) => visitor.visit_enum(TagAccess {
                path: self.full_key(tag),
                variant,
                node,
                reader: self,
            }),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq
        tuple tuple_struct map identifier ignored_any
    }
}

/// Reads the fields of a struct that are set, in the order of the struct.
struct FieldAccess<'de> {
    reader: TableReader<'de>,
    fields: slice::Iter<'static, &'static str>,
    field: &'static str,
}

impl<'de> MapAccess<'de> for FieldAccess<'de> {
    type Error = ConfigError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        let table = self.reader.table;
        let is_set = |field: &&&str| field.starts_with(PART_PREFIX) || table.contains_key(**field);
        let Some(field) = self.fields.find(is_set) else {
            return Ok(None);
        };
        self.field = field;
        let field: StrDeserializer<'_, ConfigError> = (*field).into_deserializer();
        seed.deserialize(field).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        if let Some(part) = self.field.strip_prefix(PART_PREFIX) {
            let mut reader = self.reader.clone();
            reader.part = part;
            return seed
                .deserialize(reader)
                .map_err(|error| secrets::locate(error, part, &self.reader));
        }
        match self.reader.table.get(self.field) {
            Some(node) => {
                let path = self.reader.full_key(self.field);
                let reader = NodeReader {
                    path: path.clone(),
                    node,
                    folder: self.reader.folder,
                };
                let value = seed.deserialize(reader);
                value.map_err(|error| error.with_location(&path, &node.source))
            }
            None => Err(ConfigError::missing_field(self.field)),
        }
    }
}

/// Reads an enum whose variant is named by one key of the table, and whose fields are other keys.
struct TagAccess<'de> {
    path: String,
    variant: &'de str,
    node: &'de Node,
    reader: TableReader<'de>,
}

impl<'de> EnumAccess<'de> for TagAccess<'de> {
    type Error = ConfigError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self)> {
        let variant: StrDeserializer<'_, ConfigError> = self.variant.into_deserializer();
        match seed.deserialize(variant) {
            Ok(variant) => Ok((variant, self)),
            Err(error) => Err(error.with_location(&self.path, &self.node.source)),
        }
    }
}

impl<'de> VariantAccess<'de> for TagAccess<'de> {
    type Error = ConfigError;

    fn unit_variant(self) -> Result<()> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.reader.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.reader.deserialize_struct("", fields, visitor)
    }
}
