//! A response of the server, with assertions for the checks.

use super::check_result::{CheckFailure, CheckOutcome};
use crate::printable;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use interzone_jsonrpc::{ErrorCode, Message, Parsed, Policy, parse};
use serde_json::Value;

/// A response of the server.
#[derive(Debug)]
pub(super) struct ServerResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl ServerResponse {
    pub(super) fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Parses the body as JSON.
    pub(super) fn json(&self) -> Result<Value, CheckFailure> {
        serde_json::from_slice(&self.body).map_err(|_| {
            CheckFailure::violation(format!(
                "the body is not JSON: {} {}",
                self.status,
                self.excerpt()
            ))
        })
    }

    /// Parses the body as a single valid JSON-RPC response.
    pub(super) fn response(&self) -> Result<Value, CheckFailure> {
        match parse(&self.body, &Policy::STANDARD) {
            Parsed::One(Ok(Message::Response(_))) => self.json(),
            Parsed::One(Err(rejection)) => Err(CheckFailure::violation(format!(
                "the body is not a valid response: {} (HTTP {}, {})",
                rejection.kind(),
                self.status.as_u16(),
                self.excerpt()
            ))),
            _ => Err(CheckFailure::violation(format!(
                "the body is not a single response (HTTP {}, {})",
                self.status.as_u16(),
                self.excerpt()
            ))),
        }
    }

    /// Returns the result of a call that should succeed.
    pub(super) fn result(&self) -> Result<Value, CheckFailure> {
        let mut response = self.response()?;
        match response.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(CheckFailure::violation(format!(
                "refused: {}",
                self.summary()
            ))),
        }
    }

    /// Returns the error of a call that should fail.
    pub(super) fn error(&self) -> Result<Value, CheckFailure> {
        let mut response = self.response()?;
        match response.get_mut("error") {
            Some(error) => Ok(error.take()),
            None => Err(CheckFailure::violation("the request was accepted")),
        }
    }

    /// Checks that the error has one of these codes.
    pub(super) fn refused_with(&self, codes: &[ErrorCode]) -> CheckOutcome {
        let error = self.error()?;
        let code = error.get("code").and_then(Value::as_i64);
        if codes
            .iter()
            .any(|wanted| Some(i64::from(wanted.get())) == code)
        {
            return Ok(format!("returns {}", code.unwrap_or_default()));
        }
        let wanted: Vec<String> = codes.iter().map(ToString::to_string).collect();
        Err(CheckFailure::violation(format!(
            "expected {}, got {}",
            wanted.join(" or "),
            code.unwrap_or_default()
        )))
    }

    /// Returns the scopes that the error reports as missing.
    pub(super) fn missing_scopes(&self) -> Option<String> {
        let error = self.error().ok()?;
        let list = |name: &str| {
            let list = error.get("data")?.get(name)?.as_array()?;
            let names = list.iter().filter_map(Value::as_str);
            Some(names.map(printable::text).collect::<Vec<_>>())
        };
        let provided = list("providedScopes").unwrap_or_default();
        let mut lacking = list("requiredScopes")?;
        lacking.retain(|scope| !provided.contains(scope));
        (!lacking.is_empty()).then(|| lacking.join(" and "))
    }

    /// Checks that there is no response body.
    pub(super) fn has_no_response(&self) -> CheckOutcome {
        if !self.body.is_empty() {
            return Err(CheckFailure::violation(format!(
                "expected no response, got {}",
                self.excerpt()
            )));
        }
        if !self.status.is_success() {
            return Err(CheckFailure::violation(format!(
                "expected no response, got {}",
                self.status
            )));
        }
        Ok(format!("HTTP {} without a body", self.status.as_u16()))
    }

    /// Describes the response briefly.
    pub(super) fn summary(&self) -> String {
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

    /// Returns the start of the body, safe to print.
    fn excerpt(&self) -> String {
        if self.body.is_empty() {
            "no body".to_owned()
        } else {
            printable::quoted(&String::from_utf8_lossy(&self.body))
        }
    }
}
