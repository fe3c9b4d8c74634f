//! How the checks reach the server: plain requests, so that nothing is corrected on the way.

use super::answer::Answer;
use super::verdict::Flaw;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderValue, header};
use interzone_client::Secret;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use url::Url;

/// The most of a body that is read. No answer to a check is nearly so large.
const MOST: usize = 16 << 20;

/// Why checks that need a token are left out.
const NO_TOKEN: &str = "no token: give --client-id and --client-secret-file, or --token-file";

/// A way to the server.
pub(super) struct Probe {
    http: reqwest::Client,
    /// Where JSON-RPC is spoken.
    pub(super) endpoint: Url,
    /// A token with every scope, if there is one.
    pub(super) token: Option<Secret>,
    /// A token that may do nothing but be known, if there is one.
    pub(super) narrow: Option<Secret>,
    timeout: Duration,
    next: AtomicI64,
}

/// Who a request says it comes from.
#[derive(Clone, Copy)]
pub(super) enum As<'a> {
    /// The caller with every scope, or nobody if there is no token.
    Caller,
    Nobody,
    /// Whoever this header says.
    Header(&'a str),
}

impl Probe {
    pub(super) fn new(
        http: reqwest::Client,
        endpoint: Url,
        token: Option<Secret>,
        narrow: Option<Secret>,
        timeout: Duration,
    ) -> Self {
        Self {
            http,
            endpoint,
            token,
            narrow,
            timeout,
            next: AtomicI64::new(1),
        }
    }

    /// Posts these bytes to the endpoint.
    pub(super) async fn post(&self, body: impl Into<Bytes>) -> Result<Answer, Flaw> {
        self.post_as(As::Caller, body).await
    }

    pub(super) async fn post_as(
        &self,
        who: As<'_>,
        body: impl Into<Bytes>,
    ) -> Result<Answer, Flaw> {
        let request = self
            .request(Method::POST, self.endpoint.clone(), who)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.into());
        self.send(request).await
    }

    /// Calls a method.
    pub(super) async fn call(&self, method: &str, params: Value) -> Result<Answer, Flaw> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let request = json!({"jsonrpc": "2.0", "method": method, "params": params, "id": id});
        let answer = self.post(request.to_string()).await?;
        let response = answer.response()?;
        match response.get("id") {
            Some(Value::Number(echo)) if echo.as_i64() == Some(id) => Ok(answer),
            _ => Err(Flaw::broken(format!(
                "the answer's id is not the {id} that was asked with: {}",
                answer.told()
            ))),
        }
    }

    /// A page of the server.
    pub(super) async fn get(&self, path: &str, who: As<'_>) -> Result<Answer, Flaw> {
        self.send(self.request(Method::GET, self.at(path), who))
            .await
    }

    /// An address beside the endpoint.
    pub(super) fn at(&self, path: &str) -> Url {
        let mut url = self.endpoint.clone();
        let base = url.path().trim_end_matches('/');
        let base = base.strip_suffix("/jsonrpc").unwrap_or(base).to_owned();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        url.set_path(&format!("{base}{path}"));
        url.set_query(Some(query).filter(|query| !query.is_empty()));
        url
    }

    pub(super) fn request(&self, method: Method, url: Url, who: As<'_>) -> RequestBuilder {
        let request = self.http.request(method, url).timeout(self.timeout);
        let value = match (who, &self.token) {
            (As::Header(value), _) => value.to_owned(),
            (As::Caller, Some(token)) => format!("Bearer {}", token.expose()),
            (As::Caller, None) | (As::Nobody, _) => return request,
        };
        match HeaderValue::from_str(&value) {
            Ok(mut value) => {
                value.set_sensitive(true);
                request.header(header::AUTHORIZATION, value)
            }
            Err(_) => request,
        }
    }

    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Answer, Flaw> {
        let response = request.send().await.map_err(|error| no_answer(&error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut stream = response.bytes_stream();
        let mut body = Vec::new();
        while let Some(piece) = stream.next().await {
            body.extend_from_slice(&piece.map_err(|error| no_answer(&error))?);
            if body.len() > MOST {
                return Err(Flaw::broken("the answer is larger than 16 MiB"));
            }
        }
        Ok(Answer {
            status,
            headers,
            body: body.into(),
        })
    }

    /// Begins to read events; gives the response before its body.
    pub(super) async fn open(
        &self,
        path: &str,
        after: Option<u64>,
    ) -> Result<reqwest::Response, Flaw> {
        let mut request = self
            .request(Method::GET, self.at(path), As::Caller)
            .header(header::ACCEPT, "text/event-stream");
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        request.send().await.map_err(|error| no_answer(&error))
    }

    /// Leaves a check out where it needs a token.
    pub(super) fn need_token(&self) -> Result<(), Flaw> {
        match self.token {
            Some(_) => Ok(()),
            None => Err(Flaw::unseen(NO_TOKEN)),
        }
    }
}

fn no_answer(error: &reqwest::Error) -> Flaw {
    if error.is_timeout() {
        Flaw::broken("no answer in time")
    } else {
        Flaw::broken("the connection broke before there was an answer")
    }
}
