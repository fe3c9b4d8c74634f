//! An error as it is told: what is in the answer, and what its headers say of it.

use axum::http::StatusCode;
use interzone_jsonrpc::{Error, ErrorCode, RawJson};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// What a caller is told.
#[derive(Clone, Debug)]
pub(crate) struct WireError {
    pub(crate) code: ErrorCode,
    pub(crate) http: StatusCode,
    pub(crate) message: Cow<'static, str>,
    pub(crate) data: Option<Value>,
    /// What the answer's `WWW-Authenticate` says after `Bearer`, if it has one.
    pub(crate) challenge: Option<String>,
    /// What the answer's `Retry-After` says, in seconds.
    pub(crate) retry_after: Option<u64>,
    /// A stable word for the log and the metrics.
    pub(crate) word: &'static str,
}

impl WireError {
    pub(super) fn new(
        code: ErrorCode,
        http: StatusCode,
        message: impl Into<Cow<'static, str>>,
        word: &'static str,
    ) -> Self {
        Self {
            code,
            http,
            message: message.into(),
            data: None,
            challenge: None,
            retry_after: None,
            word,
        }
    }

    pub(super) fn with(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Adds a member to `data`.
    pub(crate) fn and(mut self, name: &str, value: impl Into<Value>) -> Self {
        let data = self.data.get_or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(members) = data {
            members.insert(name.to_owned(), value.into());
        }
        self
    }

    /// The error object of the answer.
    pub(crate) fn error(&self) -> Error<'_> {
        let error = Error::new(self.code, &*self.message);
        match self.data.as_ref().map(RawJson::of) {
            Some(Ok(data)) => error.with_data(data),
            _ => error,
        }
    }
}
