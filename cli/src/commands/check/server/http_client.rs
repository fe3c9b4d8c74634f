//! HTTP client of the checks: sends plain requests, so that nothing is corrected on the way.

use super::CheckTokens;
use super::check_result::CheckFailure;
use super::response::ServerResponse;
use crate::scopes::MissingScopeNames;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use interzone_client::Secret;
use interzone_edge::limited_body::{self, BodyReadError};
use interzone_protocol::acp::codes;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use url::Url;

/// Maximum size of a response body, far larger than any expected response.
const MAX_BODY_BYTES: usize = 16 << 20;

/// Reason to skip checks that need a token.
const NO_TOKEN: &str = "no token: pass --client-id and --client-secret-file, or --token-file";

/// HTTP client for the server under test.
pub(super) struct CheckClient {
    http: reqwest::Client,
    /// The JSON-RPC endpoint.
    pub(super) endpoint: Url,
    /// Token with all available scopes, if there is one.
    pub(super) token: Option<Secret>,
    /// Token with only the identify scope, if there is one.
    pub(super) narrow: Option<Secret>,
    /// ACP scopes that the token is missing; `None` if unknown.
    pub(super) lacking: Option<MissingScopeNames>,
    timeout: Duration,
    next_id: AtomicI64,
}

/// Identity of a request.
#[derive(Clone, Copy)]
pub(super) enum RequestIdentity<'a> {
    /// The token with all available scopes, or no token if there is none.
    Caller,
    Anonymous,
    /// An `Authorization` header with this value.
    Header(&'a str),
}

impl CheckClient {
    pub(super) fn new(
        http: reqwest::Client,
        endpoint: Url,
        tokens: CheckTokens,
        timeout: Duration,
    ) -> Self {
        Self {
            http,
            endpoint,
            token: tokens.wide,
            narrow: tokens.narrow,
            lacking: tokens.lacking,
            timeout,
            next_id: AtomicI64::new(1),
        }
    }

    /// Posts a body to the endpoint.
    pub(super) async fn post(
        &self,
        body: impl Into<Bytes>,
    ) -> Result<ServerResponse, CheckFailure> {
        self.post_as(RequestIdentity::Caller, body).await
    }

    pub(super) async fn post_as(
        &self,
        who: RequestIdentity<'_>,
        body: impl Into<Bytes>,
    ) -> Result<ServerResponse, CheckFailure> {
        let request = self
            .request(Method::POST, self.endpoint.clone(), who)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.into());
        let answer = self.send(request).await?;
        match who {
            RequestIdentity::Caller => self.skip_if_scope_missing(answer),
            _ => Ok(answer),
        }
    }

    /// Returns the response, unless it reports a scope that the token is missing: then the check is skipped. A token
    /// with all scopes gets no such exception.
    fn skip_if_scope_missing(
        &self,
        answer: ServerResponse,
    ) -> Result<ServerResponse, CheckFailure> {
        if self.token.is_none() || self.lacking.as_ref().is_some_and(Vec::is_empty) {
            return Ok(answer);
        }
        let refused = match answer.error() {
            Ok(_) => answer.refused_with(&[codes::INSUFFICIENT_SCOPE]).is_ok(),
            Err(_) => answer.status == StatusCode::FORBIDDEN,
        };
        match refused {
            true => Err(CheckFailure::skipped(match answer.missing_scopes() {
                Some(scopes) => format!("the token is missing {scopes}"),
                None => "the token is missing a required scope".to_owned(),
            })),
            false => Ok(answer),
        }
    }

    /// Calls a method and checks the id of the response.
    pub(super) async fn call(
        &self,
        method: &str,
        params: Value,
    ) -> Result<ServerResponse, CheckFailure> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let request = json!({"jsonrpc": "2.0", "method": method, "params": params, "id": id});
        let answer = self.post(request.to_string()).await?;
        let response = answer.response()?;
        match response.get("id") {
            Some(Value::Number(echo)) if echo.as_i64() == Some(id) => Ok(answer),
            _ => Err(CheckFailure::violation(format!(
                "the response id does not match the request id {id}: {}",
                answer.summary()
            ))),
        }
    }

    /// Sends a GET request to a path next to the endpoint.
    pub(super) async fn get(
        &self,
        path: &str,
        who: RequestIdentity<'_>,
    ) -> Result<ServerResponse, CheckFailure> {
        let request = self.request(Method::GET, self.url_for(path), who);
        let answer = self.send(request).await?;
        match who {
            RequestIdentity::Caller => self.skip_if_scope_missing(answer),
            _ => Ok(answer),
        }
    }

    /// Returns the URL of a path next to the endpoint.
    pub(super) fn url_for(&self, path: &str) -> Url {
        let mut url = self.endpoint.clone();
        let base = url.path().trim_end_matches('/');
        let base = base.strip_suffix("/jsonrpc").unwrap_or(base).to_owned();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        url.set_path(&format!("{base}{path}"));
        url.set_query(Some(query).filter(|query| !query.is_empty()));
        url
    }

    pub(super) fn request(
        &self,
        method: Method,
        url: Url,
        who: RequestIdentity<'_>,
    ) -> RequestBuilder {
        let request = self.http.request(method, url).timeout(self.timeout);
        let value = match (who, &self.token) {
            (RequestIdentity::Header(value), _) => value.to_owned(),
            (RequestIdentity::Caller, Some(token)) => format!("Bearer {}", token.expose()),
            (RequestIdentity::Caller, None) | (RequestIdentity::Anonymous, _) => return request,
        };
        match HeaderValue::from_str(&value) {
            Ok(mut value) => {
                value.set_sensitive(true);
                request.header(header::AUTHORIZATION, value)
            }
            Err(_) => request,
        }
    }

    pub(super) async fn send(
        &self,
        request: RequestBuilder,
    ) -> Result<ServerResponse, CheckFailure> {
        read(
            request
                .send()
                .await
                .map_err(|error| transport_failure(&error))?,
        )
        .await
    }

    /// Opens an event stream; returns the response before its body.
    pub(super) async fn open(
        &self,
        path: &str,
        after: Option<u64>,
    ) -> Result<reqwest::Response, CheckFailure> {
        let mut request = self
            .request(Method::GET, self.url_for(path), RequestIdentity::Caller)
            .header(header::ACCEPT, "text/event-stream");
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let response = request
            .send()
            .await
            .map_err(|error| transport_failure(&error))?;
        if response.status() == StatusCode::FORBIDDEN {
            let answer = self.skip_if_scope_missing(read(response).await?)?;
            return Err(CheckFailure::violation(format!(
                "refused: {}",
                answer.summary()
            )));
        }
        Ok(response)
    }

    /// Skips a check that needs a token if there is none.
    pub(super) fn require_token(&self) -> Result<(), CheckFailure> {
        match self.token {
            Some(_) => Ok(()),
            None => Err(CheckFailure::skipped(NO_TOKEN)),
        }
    }
}

async fn read(response: reqwest::Response) -> Result<ServerResponse, CheckFailure> {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = limited_body::read_all(response, MAX_BODY_BYTES).await;
    let body = body.map_err(|error| match error {
        BodyReadError::TooLong { .. } => {
            CheckFailure::violation("the response is larger than 16 MiB")
        }
        BodyReadError::Connection(error) => transport_failure(&error),
    })?;
    Ok(ServerResponse {
        status,
        headers,
        body,
    })
}

fn transport_failure(error: &reqwest::Error) -> CheckFailure {
    if error.is_timeout() {
        CheckFailure::violation("timed out")
    } else {
        CheckFailure::violation("the connection was closed before a response")
    }
}
