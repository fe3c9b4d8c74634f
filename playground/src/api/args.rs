//! What a method is called with, from whichever of the shapes that Slack takes.

use super::Refused;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::Value;
use std::collections::BTreeMap;

/// A value in the log is cut here.
const LOGGED: usize = 16 * 1024;

/// The arguments of a call, and the token.
#[derive(Debug, Default)]
pub(crate) struct Args {
    values: BTreeMap<String, Value>,
    token: Option<String>,
    basic: Option<(String, String)>,
}

impl Args {
    /// Reads them: the query, a form, or JSON where the method takes that. A token in JSON does not count.
    pub(crate) fn read(
        query: &str,
        headers: &HeaderMap,
        body: &[u8],
        takes_json: bool,
    ) -> Result<Self, Refused> {
        let mut values = BTreeMap::new();
        let kind = headers.get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        let is_json = essence.eq_ignore_ascii_case("application/json");
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            values.insert(name.into_owned(), Value::String(value.into_owned()));
        }
        if is_json && takes_json && !body.is_empty() {
            let read = serde_json::from_slice::<Value>(body);
            match read.map_err(|_| Refused::new("invalid_json"))? {
                Value::Object(fields) => {
                    values.extend(fields.into_iter().filter(|(name, _)| name != "token"));
                }
                _ => return Err(Refused::new("json_not_object")),
            }
        } else if essence.eq_ignore_ascii_case("multipart/form-data") {
            for part in super::multipart::parts(kind, body)? {
                let text = String::from_utf8_lossy(part.bytes).into_owned();
                values.insert(part.name, Value::String(text));
            }
        } else if !is_json && !body.is_empty() {
            let form = essence.eq_ignore_ascii_case("application/x-www-form-urlencoded");
            if !form {
                return Err(Refused::new("invalid_post_type"));
            }
            for (name, value) in url::form_urlencoded::parse(body) {
                values.insert(name.into_owned(), Value::String(value.into_owned()));
            }
        }
        let sent = values.remove("token");
        let sent = sent.and_then(|token| token.as_str().map(str::to_owned));
        Ok(Self {
            values,
            token: bearer(headers).or(sent),
            basic: basic(headers),
        })
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The app's name and secret, from the header or the arguments.
    pub(crate) fn client(&self) -> (String, String) {
        let text = |name| self.text(name).unwrap_or_default().to_owned();
        let sent = || (text("client_id"), text("client_secret"));
        self.basic.clone().unwrap_or_else(sent)
    }

    /// Text that is there and not empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let text = self.values.get(name)?.as_str()?;
        (!text.is_empty()).then_some(text)
    }

    /// Text that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Refused> {
        let missing = || Refused {
            why: vec![format!("[ERROR] missing required field: {name}")],
            ..Refused::new("invalid_arguments")
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

    /// JSON within the arguments: as text in a form, as it is in JSON. `None` if it is not there.
    pub(crate) fn json(&self, name: &str, word: &'static str) -> Result<Option<Value>, Refused> {
        match self.values.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => {
                let read = serde_json::from_str(text);
                read.map(Some).map_err(|_| Refused::new(word))
            }
            Some(value) => Ok(Some(value.clone())),
        }
    }

    /// For the log: no secret, and nothing endless.
    pub(crate) fn logged(&self) -> BTreeMap<String, Value> {
        const HIDDEN: &[&str] = &["client_secret", "refresh_token", "code", "token"];
        let mut shown = self.values.clone();
        for (name, value) in &mut shown {
            if HIDDEN.contains(&name.as_str()) {
                *value = "[hidden]".into();
            } else if let Value::String(text) = value
                && text.len() > LOGGED
            {
                *text = text.chars().take(LOGGED).collect();
            }
        }
        shown
    }
}

/// The token of a bearer header.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let same = scheme.eq_ignore_ascii_case("bearer");
    same.then(|| token.trim().to_owned())
}

fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, text) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(text.trim()).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    Some((id.to_owned(), secret.to_owned()))
}
