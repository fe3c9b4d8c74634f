//! How a call is sent: with a token, within its time, again where that cannot do harm. What it says
//! and what the answer means is not known here.

use super::Client;
use crate::Secret;
use crate::answer;
use crate::error::{AnswerFault, ConfigError, Error, TokenError};
use crate::peer::{self, Deadline, Reply};
use crate::retry::{self, Safety};
use crate::transport::ByteStream;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use interzone_protocol::acp::codes;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The media type of server-sent events.
const EVENTS: &str = "text/event-stream";

/// What is sent, and under which rules.
pub(crate) struct Outgoing {
    pub(crate) body: Bytes,
    pub(crate) scopes: Vec<String>,
    pub(crate) safety: Safety,
    pub(crate) limit: Duration,
}

impl Client {
    /// Sends a message until it is answered, its time is over, or trying again would not be right.
    pub(crate) async fn post<T>(
        &self,
        outgoing: &Outgoing,
        read: impl Fn(&Reply) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let deadline = Deadline::within(outgoing.limit);
        // All tries of one call are one call to whoever reads the logs.
        let correlation = self.correlation();
        let mut renewed = false;
        let mut attempt = 0;
        loop {
            let token = deadline.limit(self.tokens.get(&outgoing.scopes)).await??;
            let request = self.request(outgoing, &correlation, token.as_ref())?;
            let reply =
                self.inner
                    .peers
                    .exchange(request, self.inner.settings.max_response, deadline);
            let error = match reply.await.and_then(|reply| read(&reply)) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if !renewed && is_stale(&error) && self.tokens.renew(&outgoing.scopes, token.as_ref()) {
                renewed = true;
                continue;
            }
            let policy = &self.inner.settings.retry;
            if attempt >= policy.retries || !retry::helps(&error, outgoing.safety) {
                return Err(error);
            }
            let wait = policy.wait(attempt) + error.retry_after().unwrap_or_default();
            if Instant::now() + wait >= deadline.at {
                return Err(error);
            }
            sleep(wait).await;
            attempt += 1;
        }
    }

    fn request(
        &self,
        outgoing: &Outgoing,
        correlation: &HeaderValue,
        token: Option<&Secret>,
    ) -> Result<http::Request<Bytes>, Error> {
        let url = self.at("jsonrpc", &[]);
        let mut request = http::Request::post(url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(outgoing.body.clone())
            .map_err(|_| ConfigError::Address)?;
        self.sign(&mut request, correlation, token)?;
        Ok(request)
    }

    /// Opens a stream of events.
    pub(crate) async fn open(
        &self,
        path: &[&str],
        after: Option<u64>,
        scopes: &[String],
        limit: Duration,
    ) -> Result<http::Response<ByteStream>, Error> {
        let deadline = Deadline::within(limit);
        let correlation = self.correlation();
        let mut renewed = false;
        loop {
            let token = deadline.limit(self.tokens.get(scopes)).await??;
            let url = self.at("", path);
            let mut request = http::Request::get(url.as_str())
                .header(header::ACCEPT, EVENTS)
                .header(header::CACHE_CONTROL, "no-store")
                .body(Bytes::new())
                .map_err(|_| ConfigError::Address)?;
            if let Some(after) = after {
                request.headers_mut().insert("last-event-id", after.into());
            }
            self.sign(&mut request, &correlation, token.as_ref())?;
            let response = self.inner.peers.open(request, deadline).await?;
            let kind = answer::media_type(response.headers()).unwrap_or_default();
            let events = kind.eq_ignore_ascii_case(EVENTS);
            if response.status() == StatusCode::OK && events {
                return Ok(response);
            }
            let max = self.inner.settings.max_response;
            let reply = deadline.limit(peer::read(response, max)).await??;
            let error = match answer::taken(&reply) {
                Err(error) => error,
                Ok(()) => AnswerFault::ContentType { expected: EVENTS }.into(),
            };
            if renewed || !is_stale(&error) || !self.tokens.renew(scopes, token.as_ref()) {
                return Err(error);
            }
            renewed = true;
        }
    }

    fn correlation(&self) -> HeaderValue {
        let own = self.context.correlation.clone();
        own.unwrap_or_else(|| {
            let fresh = uuid::Uuid::new_v4().to_string();
            HeaderValue::from_str(&fresh).unwrap_or_else(|_| HeaderValue::from_static("none"))
        })
    }

    fn sign(
        &self,
        request: &mut http::Request<Bytes>,
        correlation: &HeaderValue,
        token: Option<&Secret>,
    ) -> Result<(), Error> {
        let headers = request.headers_mut();
        headers.insert("x-correlation-id", correlation.clone());
        if let Some(parent) = &self.context.trace_parent {
            headers.insert("traceparent", parent.clone());
        }
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
            let mut value = value.map_err(|_| TokenError::Answer)?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        Ok(())
    }
}

/// Whether a fresh token may help.
fn is_stale(error: &Error) -> bool {
    match error {
        Error::Http { status, .. } => *status == StatusCode::UNAUTHORIZED,
        Error::Refused(refusal) => {
            refusal.status == StatusCode::UNAUTHORIZED
                || refusal.code == codes::TOKEN_EXPIRED
                || refusal.code == codes::AUTHENTICATION_FAILED
        }
        _ => false,
    }
}
