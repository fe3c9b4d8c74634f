//! Arguments of a method call, from query, form or JSON.

use super::SlackApiError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum logged length of a value.
const MAX_LOGGED_CHARS: usize = 16 * 1024;

/// Arguments and token of a call.
#[derive(Debug, Default)]
pub(crate) struct Args {
    values: BTreeMap<String, Value>,
    token: Option<String>,
    basic_credentials: Option<(String, String)>,
}

impl Args {
    /// Parses the query, a form, or JSON if the method accepts it. A token in JSON is ignored.
    pub(crate) fn parse(
        query: &str,
        headers: &HeaderMap,
        body: &[u8],
        accepts_json: bool,
    ) -> Result<Self, SlackApiError> {
        let mut values = BTreeMap::new();
        let kind = headers.get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        let is_json = essence.eq_ignore_ascii_case("application/json");
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            values.insert(name.into_owned(), Value::String(value.into_owned()));
        }
        if is_json && accepts_json && !body.is_empty() {
            let parsed = serde_json::from_slice::<Value>(body);
            match parsed.map_err(|_| SlackApiError::new("invalid_json"))? {
                Value::Object(fields) => {
                    values.extend(fields.into_iter().filter(|(name, _)| name != "token"));
                }
                _ => return Err(SlackApiError::new("json_not_object")),
            }
        } else if essence.eq_ignore_ascii_case("multipart/form-data") {
            for part in super::multipart::parse_parts(kind, body)? {
                let text = String::from_utf8_lossy(part.bytes).into_owned();
                values.insert(part.name, Value::String(text));
            }
        } else if !is_json && !body.is_empty() {
            let is_form = essence.eq_ignore_ascii_case("application/x-www-form-urlencoded");
            if !is_form {
                return Err(SlackApiError::new("invalid_post_type"));
            }
            for (name, value) in url::form_urlencoded::parse(body) {
                values.insert(name.into_owned(), Value::String(value.into_owned()));
            }
        }
        let argument_token = values.remove("token");
        let argument_token = argument_token.and_then(|token| token.as_str().map(str::to_owned));
        Ok(Self {
            values,
            token: bearer_token(headers).or(argument_token),
            basic_credentials: basic_auth(headers),
        })
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Returns the client id and secret, from the header or the arguments.
    pub(crate) fn client_credentials(&self) -> (String, String) {
        let text = |name| self.text(name).unwrap_or_default().to_owned();
        let sent = || (text("client_id"), text("client_secret"));
        self.basic_credentials.clone().unwrap_or_else(sent)
    }

    /// Returns a non-empty text argument.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let text = self.values.get(name)?.as_str()?;
        (!text.is_empty()).then_some(text)
    }

    /// Returns a required text argument.
    pub(crate) fn required(&self, name: &str) -> Result<&str, SlackApiError> {
        let missing = || SlackApiError {
            details: vec![format!("[ERROR] missing required field: {name}")],
            ..SlackApiError::new("invalid_arguments")
        };
        self.text(name).ok_or_else(missing)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        match self.values.get(name) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) => matches!(text.as_str(), "true" | "1"),
            Some(Value::Number(number)) => number.as_u64() == Some(1),
            _ => false,
        }
    }

    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        match self.values.get(name)? {
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => usize::try_from(number.as_u64()?).ok(),
            _ => None,
        }
    }

    /// Returns a JSON argument: as text in a form, as is in JSON. `None` if absent.
    pub(crate) fn json(
        &self,
        name: &str,
        error_code: &'static str,
    ) -> Result<Option<Value>, SlackApiError> {
        match self.values.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => {
                let parsed = serde_json::from_str(text);
                parsed.map(Some).map_err(|_| SlackApiError::new(error_code))
            }
            Some(value) => Ok(Some(value.clone())),
        }
    }

    /// Returns the arguments for the log: secrets hidden, long values truncated.
    pub(crate) fn for_log(&self) -> BTreeMap<String, Value> {
        const HIDDEN: &[&str] = &["client_secret", "refresh_token", "code", "token"];
        let mut shown = self.values.clone();
        for (name, value) in &mut shown {
            if HIDDEN.contains(&name.as_str()) {
                *value = "[hidden]".into();
            } else if let Value::String(text) = value
                && text.len() > MAX_LOGGED_CHARS
            {
                *text = text.chars().take(MAX_LOGGED_CHARS).collect();
            }
        }
        shown
    }
}

/// Returns the token of a bearer header.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let same = scheme.eq_ignore_ascii_case("bearer");
    same.then(|| token.trim().to_owned())
}

fn basic_auth(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, text) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(text.trim()).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    Some((id.to_owned(), secret.to_owned()))
}
