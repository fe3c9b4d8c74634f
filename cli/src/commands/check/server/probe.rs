//! How the checks reach the server: plain requests, so that nothing is corrected on the way.

use super::Tokens;
use super::answer::Answer;
use super::verdict::Flaw;
use crate::scopes::Lacking;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderValue, StatusCode, header};
use interzone_client::Secret;
use interzone_protocol::acp::codes;
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
    /// A token with every scope that is to be had, if there is one.
    pub(super) token: Option<Secret>,
    /// A token that may do nothing but be known, if there is one.
    pub(super) narrow: Option<Secret>,
    /// The scopes of ACP that the token lacks; nothing if nobody knows.
    pub(super) lacking: Option<Lacking>,
    timeout: Duration,
    next: AtomicI64,
}

/// Who a request says it comes from.
#[derive(Clone, Copy)]
pub(super) enum As<'a> {
    /// The caller with every scope that is to be had, or nobody if there is no token.
    Caller,
    Nobody,
    /// Whoever this header says.
    Header(&'a str),
}

impl Probe {
    pub(super) fn new(
        http: reqwest::Client,
        endpoint: Url,
        tokens: Tokens,
        timeout: Duration,
    ) -> Self {
        Self {
            http,
            endpoint,
            token: tokens.wide,
            narrow: tokens.narrow,
            lacking: tokens.lacking,
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
        let answer = self.send(request).await?;
        match who {
            As::Caller => self.unless_it_lacks(answer),
            _ => Ok(answer),
        }
    }

    /// An answer, unless it only says that our token is not good for the question. Of a token that has every
    /// scope that is no excuse.
    fn unless_it_lacks(&self, answer: Answer) -> Result<Answer, Flaw> {
        if self.token.is_none() || self.lacking.as_ref().is_some_and(Vec::is_empty) {
            return Ok(answer);
        }
        let refused = match answer.error() {
            Ok(_) => answer.refused_with(&[codes::INSUFFICIENT_SCOPE]).is_ok(),
            Err(_) => answer.status == StatusCode::FORBIDDEN,
        };
        match refused {
            true => Err(Flaw::unseen(match answer.lacking_scopes() {
                Some(scopes) => format!("the token lacks {scopes}"),
                None => "the token lacks a scope for it".to_owned(),
            })),
            false => Ok(answer),
        }
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
        let request = self.request(Method::GET, self.at(path), who);
        let answer = self.send(request).await?;
        match who {
            As::Caller => self.unless_it_lacks(answer),
            _ => Ok(answer),
        }
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
        read(request.send().await.map_err(|error| no_answer(&error))?).await
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
        let response = request.send().await.map_err(|error| no_answer(&error))?;
        if response.status() == StatusCode::FORBIDDEN {
            let answer = self.unless_it_lacks(read(response).await?)?;
            return Err(Flaw::broken(format!("refused: {}", answer.told())));
        }
        Ok(response)
    }

    /// Leaves a check out where it needs a token.
    pub(super) fn need_token(&self) -> Result<(), Flaw> {
        match self.token {
            Some(_) => Ok(()),
            None => Err(Flaw::unseen(NO_TOKEN)),
        }
    }
}

async fn read(response: reqwest::Response) -> Result<Answer, Flaw> {
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

fn no_answer(error: &reqwest::Error) -> Flaw {
    if error.is_timeout() {
        Flaw::broken("no answer in time")
    } else {
        Flaw::broken("the connection broke before there was an answer")
    }
}
