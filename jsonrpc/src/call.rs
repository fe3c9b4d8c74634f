//! Method and parameters: the common part of requests and notifications.

use crate::json_writer;
use crate::{JsonKind, MethodName, RawJson};
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// The common part of requests and notifications.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MethodCall<'a> {
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Option<RawJson<'a>>,
}

impl<'a> MethodCall<'a> {
    pub(crate) fn new(method: MethodName<'a>) -> Self {
        Self {
            method: method.into_cow(),
            params: None,
        }
    }

    pub(crate) fn with_params(mut self, params: RawJson<'a>) -> Self {
        self.params = Some(params).filter(|params| params.kind() != JsonKind::Null);
        self
    }

    /// Decodes the parameters. Absent ones are decoded as `null` by types that accept it, such as an `Option`, else as
    /// `{}`, so that types whose members are all optional need no special case.
    pub(crate) fn decode_params<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match &self.params {
            Some(params) => params.decode(),
            None => serde_json::from_str("null").or_else(|_| serde_json::from_str("{}")),
        }
    }

    /// Decodes parameters by name. serde would also fill a struct from an array, by position, which named parameters
    /// must not allow.
    pub(crate) fn decode_named<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match self.params.as_ref().map(RawJson::kind) {
            None | Some(JsonKind::Object) => self.decode_params(),
            Some(kind) => Err(serde::de::Error::custom(format_args!(
                "`params` must be an object, and this is {}",
                kind.with_article()
            ))),
        }
    }

    pub(crate) fn into_owned(self) -> MethodCall<'static> {
        MethodCall {
            method: Cow::Owned(self.method.into_owned()),
            params: self.params.map(RawJson::into_owned),
        }
    }

    /// Approximate size in bytes, for reserving them at once.
    pub(crate) fn approximate_size(&self) -> usize {
        64 + self.method.len()
            + self
                .params
                .as_ref()
                .map_or(0, |params| params.as_str().len())
    }

    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#""method":"#);
        json_writer::write_string(&self.method, out);
        if let Some(params) = &self.params {
            out.extend_from_slice(br#","params":"#);
            params.write_to(out);
        }
        out.push(b'}');
    }
}
