//! One answer of the server, taken apart for the checks.

use super::verdict::{Finding, Flaw};
use crate::printable;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use interzone_jsonrpc::{ErrorCode, Message, Parsed, Policy, parse};
use serde_json::Value;

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON.
    pub(super) fn json(&self) -> Result<Value, Flaw> {
        serde_json::from_slice(&self.body).map_err(|_| {
            Flaw::broken(format!(
                "the body is not JSON: {} {}",
                self.status,
                self.excerpt()
            ))
        })
    }

    /// The body as one response, checked as an envelope.
    pub(super) fn response(&self) -> Result<Value, Flaw> {
        match parse(&self.body, &Policy::STANDARD) {
            Parsed::One(Ok(Message::Response(_))) => self.json(),
            Parsed::One(Err(rejection)) => Err(Flaw::broken(format!(
                "the answer is not a valid response: {} (HTTP {}, {})",
                rejection.problem(),
                self.status.as_u16(),
                self.excerpt()
            ))),
            _ => Err(Flaw::broken(format!(
                "the answer is not one response (HTTP {}, {})",
                self.status.as_u16(),
                self.excerpt()
            ))),
        }
    }

    /// The result of a call that should have worked.
    pub(super) fn result(&self) -> Result<Value, Flaw> {
        let mut response = self.response()?;
        match response.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(Flaw::broken(format!("refused: {}", self.told()))),
        }
    }

    /// The error of a call that should not have worked.
    pub(super) fn error(&self) -> Result<Value, Flaw> {
        let mut response = self.response()?;
        match response.get_mut("error") {
            Some(error) => Ok(error.take()),
            None => Err(Flaw::broken("it was accepted")),
        }
    }

    /// That the error has one of these codes, and no words of the inside.
    pub(super) fn refused_with(&self, codes: &[ErrorCode]) -> Finding {
        let error = self.error()?;
        let code = error.get("code").and_then(Value::as_i64);
        if codes
            .iter()
            .any(|wanted| Some(i64::from(wanted.get())) == code)
        {
            return Ok(format!("answers {}", code.unwrap_or_default()));
        }
        let wanted: Vec<String> = codes.iter().map(ToString::to_string).collect();
        Err(Flaw::broken(format!(
            "{} was due, and {} came",
            wanted.join(" or "),
            code.unwrap_or_default()
        )))
    }

    /// The scopes that a refusal says are missing.
    pub(super) fn lacking_scopes(&self) -> Option<String> {
        let error = self.error().ok()?;
        let list = |name: &str| {
            let list = error.get("data")?.get(name)?.as_array()?;
            let words = list.iter().filter_map(Value::as_str);
            Some(words.map(printable::text).collect::<Vec<_>>())
        };
        let provided = list("providedScopes").unwrap_or_default();
        let mut lacking = list("requiredScopes")?;
        lacking.retain(|scope| !provided.contains(scope));
        (!lacking.is_empty()).then(|| lacking.join(" and "))
    }

    /// That nothing was answered.
    pub(super) fn silent(&self) -> Finding {
        if !self.body.is_empty() {
            return Err(Flaw::broken(format!(
                "nothing was due, and {} came",
                self.excerpt()
            )));
        }
        if !self.status.is_success() {
            return Err(Flaw::broken(format!(
                "nothing was due, and {} came",
                self.status
            )));
        }
        Ok(format!("HTTP {} without a body", self.status.as_u16()))
    }

    /// What the answer says, in a few words.
    pub(super) fn told(&self) -> String {
        let error = self
            .json()
            .ok()
            .and_then(|mut json| json.get_mut("error").map(Value::take));
        match error {
            Some(error) => {
                let code = error
                    .get("code")
                    .and_then(Value::as_i64)
                    .unwrap_or_default();
                let message = error
                    .get("message")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                format!("{code} {}", printable::quoted(message))
            }
            None => format!("HTTP {} {}", self.status.as_u16(), self.excerpt()),
        }
    }

    /// The beginning of the body, safe to show.
    fn excerpt(&self) -> String {
        if self.body.is_empty() {
            "no body".to_owned()
        } else {
            printable::quoted(&String::from_utf8_lossy(&self.body))
        }
    }
}
