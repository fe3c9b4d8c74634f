//! HTTP client for credential endpoints, with limits for small responses.

use super::environment::CredentialsError;
use crate::{Https, HttpsOptions, Transport};
use bytes::Bytes;
use futures_util::TryStreamExt;
use http::{StatusCode, Uri};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Maximum size of a response; typical ones have a few KiB.
const MAX_RESPONSE: usize = 1 << 20;
/// Waits before the retries of an unreachable or overloaded endpoint.
const RETRY_WAITS: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(400)];

/// HTTP client for credential endpoints.
#[derive(Clone, Debug)]
pub(super) struct CredentialHttp(Https);

/// A response. It may contain credentials, so it has no `Debug`.
pub(super) struct CredentialResponse {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl CredentialHttp {
    pub(super) fn new() -> Result<Self, crate::Error> {
        Https::new(&HttpsOptions::default()).map(Self)
    }

    /// Sends a request with retries. The timeout applies to each attempt.
    pub(super) async fn send(
        &self,
        request: &http::Request<Bytes>,
        attempt_timeout: Duration,
    ) -> Result<CredentialResponse, CredentialsError> {
        let mut waits = RETRY_WAITS.into_iter();
        loop {
            let result = timeout(attempt_timeout, self.exchange(request.clone())).await;
            let result =
                result.unwrap_or_else(|_| Err(format!("no response within {attempt_timeout:?}")));
            let is_final = result
                .as_ref()
                .is_ok_and(|response| !is_transient(response.status));
            match (result, waits.next()) {
                (Ok(response), _) if is_final => return Ok(response),
                (_, Some(wait)) => sleep(wait).await,
                (Ok(response), None) => return Ok(response),
                (Err(error), None) => {
                    let peer = host_and_port(request.uri());
                    return Err(CredentialsError::new(format!(
                        "request to {peer} failed: {error}"
                    )));
                }
            }
        }
    }

    async fn exchange(&self, request: http::Request<Bytes>) -> Result<CredentialResponse, String> {
        let response = self.0.send(request).await;
        let (parts, mut body) = response.map_err(|error| error_chain(&error))?.into_parts();
        let mut buffer = Vec::new();
        while let Some(chunk) = body
            .try_next()
            .await
            .map_err(|error| error_chain(&*error))?
        {
            if buffer.len() + chunk.len() > MAX_RESPONSE {
                return Err(format!("the response is larger than {MAX_RESPONSE} bytes"));
            }
            buffer.extend_from_slice(&chunk);
        }
        Ok(CredentialResponse {
            status: parts.status,
            body: buffer.into(),
        })
    }
}

/// Returns true if a request to `uri` cannot be intercepted: https, loopback, or one of the local hosts.
pub(super) fn is_private(uri: &Uri, local_hosts: &[&str]) -> bool {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match uri.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => {
            host == "localhost"
                || local_hosts.contains(&host)
                || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        _ => false,
    }
}

/// Returns host and port only, because the URL may contain a password.
fn host_and_port(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    match uri.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn is_transient(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// Formats an error with all its causes.
fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
