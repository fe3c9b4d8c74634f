//! Parameters of a request, as forms and query strings carry them.

use super::answer::Failure;
use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use std::collections::BTreeMap;
use std::time::Duration;
use url::form_urlencoded;

/// More than any request of OAuth needs.
const LARGEST: usize = 64 << 10;
/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// Parameters by their names, each there once.
#[derive(Clone, Default)]
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Reads the body of a request.
    pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<Self, Failure> {
        let kind = headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        let form = "application/x-www-form-urlencoded";
        if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case(form)) {
            return Err(Failure {
                status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
                ..Failure::request("the body must be application/x-www-form-urlencoded")
            });
        }
        let read = tokio::time::timeout(PATIENCE, axum::body::to_bytes(body, LARGEST));
        match read.await {
            Ok(Ok(bytes)) => Self::parse(&bytes),
            Ok(Err(_)) => Err(Failure {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                ..Failure::request("the body is too large or broke off")
            }),
            Err(_) => Err(Failure {
                status: StatusCode::REQUEST_TIMEOUT,
                ..Failure::request("the body took too long")
            }),
        }
    }

    /// Reads parameters. One that is there twice is refused (RFC 6749, 3.1 and 3.2), one without a
    /// value is as good as absent.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Failure> {
        let mut all = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(bytes) {
            // Where bytes were no text, the parser has put this in their place.
            if value.contains(['\0', '\u{fffd}']) {
                return Err(Failure::request("a parameter is not utf-8 text"));
            }
            if all.insert(name.into_owned(), value.into_owned()).is_some() {
                return Err(Failure::request("a parameter is there twice"));
            }
        }
        all.retain(|_, value| !value.is_empty());
        Ok(Self(all))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn need(&self, name: &str, missing: &'static str) -> Result<&str, Failure> {
        self.get(name).ok_or(Failure::request(missing))
    }
}
