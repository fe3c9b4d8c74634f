//! What requests and notifications share: a method and its parameters, without the envelope.

use crate::write;
use crate::{Kind, MethodName, RawJson};
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// What requests and notifications share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call<'a> {
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Option<RawJson<'a>>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(method: MethodName<'a>) -> Self {
        Self {
            method: method.into_cow(),
            params: None,
        }
    }

    pub(crate) fn with_params(mut self, params: RawJson<'a>) -> Self {
        self.params = Some(params).filter(|params| params.kind() != Kind::Null);
        self
    }

    /// Params that are absent are read as `null` by types that know what that means, such as an
    /// `Option`, and else as `{}`, so that types whose members are all optional need no special case.
    pub(crate) fn decode_params<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match &self.params {
            Some(params) => params.decode(),
            None => serde_json::from_str("null").or_else(|_| serde_json::from_str("{}")),
        }
    }

    /// serde fills a struct from an array too, by position. Where parameters have names, that would
    /// let in what nobody meant to send.
    pub(crate) fn decode_named<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match self.params.as_ref().map(RawJson::kind) {
            None | Some(Kind::Object) => self.decode_params(),
            Some(kind) => Err(serde::de::Error::custom(format_args!(
                "`params` must be an object, and this is {}",
                kind.with_article()
            ))),
        }
    }

    pub(crate) fn into_owned(self) -> Call<'static> {
        Call {
            method: Cow::Owned(self.method.into_owned()),
            params: self.params.map(RawJson::into_owned),
        }
    }

    /// The bytes that a call takes, near enough to reserve them at once.
    pub(crate) fn size(&self) -> usize {
        64 + self.method.len()
            + self
                .params
                .as_ref()
                .map_or(0, |params| params.as_str().len())
    }

    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#""method":"#);
        write::write_string(&self.method, out);
        if let Some(params) = &self.params {
            out.extend_from_slice(br#","params":"#);
            params.write_to(out);
        }
        out.push(b'}');
    }
}
