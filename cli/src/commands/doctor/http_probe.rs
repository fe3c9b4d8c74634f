//! HTTP probe: sends one request, without retries, and reads the status, body and clock difference.

use crate::connect_error::{ConnectFailure, root_cause};
use http::{HeaderMap, header};
use interzone_edge::Secret;
use interzone_edge::limited_body::{self, BodyReadError};
use interzone_edge::tls::{TlsError, TrustRoots};
use reqwest::{Client, RequestBuilder};
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use url::Url;

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response body; all expected responses are small.
const MAX_BODY_BYTES: usize = 256 * 1024;

/// HTTP client with the CAs of the configuration.
pub(super) struct HttpProbe {
    http: Client,
}

/// A response.
#[derive(Debug)]
pub(super) struct ProbeResponse {
    pub(super) status: u16,
    /// Seconds that our clock is ahead of the server's; negative if behind.
    pub(super) clock_offset: Option<i64>,
    /// Scopes of the token, if Slack reports them.
    pub(super) scopes: Option<Vec<String>>,
    /// Null if the body is not JSON.
    pub(super) body: Value,
}

/// Reason why there was no response.
#[derive(Debug)]
pub(super) struct ProbeFailure {
    pub(super) failure: ConnectFailure,
    /// Description for users.
    pub(super) reason: String,
}

impl ProbeFailure {
    /// Returns what to do; `address` is the configuration key of the URL.
    pub(super) fn advice(&self, address: &str) -> String {
        self.failure.hint("tls.trust", address)
    }

    pub(super) fn new(why: impl Into<String>) -> Self {
        Self {
            failure: ConnectFailure::Other,
            reason: why.into(),
        }
    }
}

/// Reason why the client could not be built.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpProbeError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot set up outgoing connections: {0}")]
    Http(#[from] reqwest::Error),
}

impl HttpProbe {
    pub(super) fn new(trust: &[PathBuf]) -> Result<Self, HttpProbeError> {
        let http = TrustRoots::system_and_files(trust)?
            .client()
            .timeout(REQUEST_TIMEOUT)
            .build()?;
        Ok(Self { http })
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// There is no response.
    pub(super) async fn get(&self, url: Url) -> Result<ProbeResponse, ProbeFailure> {
        send(self.http.get(url)).await
    }

    /// Calls a Slack method without arguments.
    ///
    /// # Errors
    /// There is no response.
    pub(super) async fn slack(
        &self,
        api: &Url,
        method: &str,
        token: &Secret,
    ) -> Result<ProbeResponse, ProbeFailure> {
        let url = api
            .join(method)
            .map_err(|error| ProbeFailure::new(error.to_string()))?;
        let request = self.http.post(url).bearer_auth(token.expose());
        let form = "application/x-www-form-urlencoded";
        send(request.header(header::CONTENT_TYPE, form)).await
    }
}

async fn send(request: RequestBuilder) -> Result<ProbeResponse, ProbeFailure> {
    let response = request.send().await.map_err(to_failure)?;
    let status = response.status().as_u16();
    let clock_offset = clock_offset(response.headers(), SystemTime::now());
    let scopes = scopes(response.headers());
    let body = limited_body::read_all(response, MAX_BODY_BYTES).await;
    let body = body.map_err(|error| match error {
        BodyReadError::TooLong { .. } => ProbeFailure::new("the response is too large"),
        BodyReadError::Connection(error) => to_failure(error),
    })?;
    Ok(ProbeResponse {
        status,
        clock_offset,
        scopes,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}

/// Describes the root cause, without the URL, which the report shows already.
fn to_failure(error: reqwest::Error) -> ProbeFailure {
    let error = error.without_url();
    let away = ConnectFailure::from_error(&error);
    let reason = match (away, away.message()) {
        (ConnectFailure::TimedOut, _) => {
            format!("no response within {}s", REQUEST_TIMEOUT.as_secs())
        }
        (_, Some(message)) => message.to_owned(),
        (_, None) => root_cause(&error),
    };
    ProbeFailure {
        failure: away,
        reason,
    }
}

fn clock_offset(headers: &HeaderMap, now: SystemTime) -> Option<i64> {
    let theirs = headers.get(header::DATE)?.to_str().ok()?;
    let theirs = httpdate::parse_http_date(theirs).ok()?;
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Some(match now.duration_since(theirs) {
        Ok(ahead) => seconds(ahead),
        Err(behind) => -seconds(behind.duration()),
    })
}

fn scopes(headers: &HeaderMap) -> Option<Vec<String>> {
    let list = headers.get("x-oauth-scopes")?.to_str().ok()?;
    let names = list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    Some(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::{clock_offset, scopes};
    use http::{HeaderMap, HeaderValue};
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn clock_offset_and_scopes_are_read() {
        let mut headers = HeaderMap::new();
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        assert_eq!(
            (clock_offset(&headers, now), scopes(&headers)),
            (None, None)
        );
        let date = HeaderValue::from_static("Sun, 09 Sep 2001 01:46:10 GMT");
        headers.insert("date", date);
        headers.insert(
            "x-oauth-scopes",
            HeaderValue::from_static("chat:write, im:read"),
        );
        assert_eq!(clock_offset(&headers, now), Some(30));
        assert_eq!(
            clock_offset(&headers, now - Duration::from_secs(60)),
            Some(-30)
        );
        assert_eq!(scopes(&headers).unwrap(), ["chat:write", "im:read"]);
    }
}
