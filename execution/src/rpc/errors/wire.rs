//! Error response: the JSON-RPC error object and its HTTP headers.

use axum::http::StatusCode;
use interzone_jsonrpc::{ErrorCode, ErrorObject, RawJson};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Error as sent to a caller.
#[derive(Clone, Debug)]
pub(crate) struct WireError {
    pub(crate) code: ErrorCode,
    pub(crate) http: StatusCode,
    pub(crate) message: Cow<'static, str>,
    pub(crate) data: Option<Value>,
    /// Parameters of `WWW-Authenticate: Bearer`, if present.
    pub(crate) challenge: Option<String>,
    /// `Retry-After` in seconds.
    pub(crate) retry_after: Option<u64>,
    /// Stable label for log and metrics.
    pub(crate) label: &'static str,
}

impl WireError {
    pub(super) fn new(
        code: ErrorCode,
        http: StatusCode,
        message: impl Into<Cow<'static, str>>,
        label: &'static str,
    ) -> Self {
        Self {
            code,
            http,
            message: message.into(),
            data: None,
            challenge: None,
            retry_after: None,
            label,
        }
    }

    pub(super) fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Adds a field to `data`.
    pub(crate) fn with_field(mut self, name: &str, value: impl Into<Value>) -> Self {
        let data = self.data.get_or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(fields) = data {
            fields.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Returns the JSON-RPC error object.
    pub(crate) fn to_error_object(&self) -> ErrorObject<'_> {
        let error = ErrorObject::new(self.code, &*self.message);
        match self.data.as_ref().map(RawJson::from_value) {
            Some(Ok(data)) => error.with_data(data),
            _ => error,
        }
    }
}
