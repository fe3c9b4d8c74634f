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
const JSON: &str = "application/json";
const EVENTS_OR_JSON: &str = "text/event-stream, application/json";

/// What is sent, and under which rules.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub(crate) body: Bytes,
    pub(crate) scopes: Vec<String>,
    pub(crate) safety: Safety,
    pub(crate) limit: Duration,
}

/// What a call that takes events for an answer got.
pub(crate) enum Opened {
    /// Events, as they come.
    Events(ByteStream),
    /// One answer.
    Reply(Reply),
}

/// The tries of one call: each with a token, all within one time and under one name.
struct Tries<'c> {
    client: &'c Client,
    outgoing: &'c Outgoing,
    deadline: Deadline,
    /// All tries of one call are one call to whoever reads the logs.
    correlation: HeaderValue,
    token: Option<Secret>,
    renewed: bool,
    attempt: u32,
}

impl<'c> Tries<'c> {
    fn new(client: &'c Client, outgoing: &'c Outgoing) -> Self {
        Self {
            client,
            outgoing,
            deadline: Deadline::within(outgoing.limit),
            correlation: client.correlation(),
            token: None,
            renewed: false,
            attempt: 0,
        }
    }

    /// The request of the next try.
    async fn request(&mut self, accept: &'static str) -> Result<http::Request<Bytes>, Error> {
        let token = self.client.tokens.get(&self.outgoing.scopes);
        self.token = self.deadline.limit(token).await??;
        let url = self.client.at("jsonrpc", &[]);
        let mut request = http::Request::post(url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept)
            .body(self.outgoing.body.clone())
            .map_err(|_| ConfigError::Address)?;
        self.client
            .sign(&mut request, &self.correlation, self.token.as_ref())?;
        Ok(request)
    }

    /// Waits for the next try, or gives the error back if there should be none.
    async fn again(&mut self, error: Error) -> Result<(), Error> {
        let client = self.client;
        let scopes = &self.outgoing.scopes;
        if !self.renewed && is_stale(&error) && client.tokens.renew(scopes, self.token.as_ref()) {
            self.renewed = true;
            return Ok(());
        }
        let policy = &client.inner.settings.retry;
        if self.attempt >= policy.retries || !retry::helps(&error, self.outgoing.safety) {
            return Err(error);
        }
        let wait = policy.wait(self.attempt) + error.retry_after().unwrap_or_default();
        if Instant::now() + wait >= self.deadline.at {
            return Err(error);
        }
        sleep(wait).await;
        self.attempt += 1;
        Ok(())
    }
}

impl Client {
    /// Sends a message until it is answered, its time is over, or trying again would not be right.
    pub(crate) async fn post<T>(
        &self,
        outgoing: &Outgoing,
        read: impl Fn(&Reply) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut tries = Tries::new(self, outgoing);
        let most = self.inner.settings.max_response;
        loop {
            let request = tries.request(JSON).await?;
            let reply = self.inner.peers.exchange(request, most, tries.deadline);
            match reply.await.and_then(|reply| read(&reply)) {
                Ok(value) => return Ok(value),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    /// Sends a message whose answer may come as events, the last of which is the answer.
    pub(crate) async fn post_for_events(&self, outgoing: &Outgoing) -> Result<Opened, Error> {
        let mut tries = Tries::new(self, outgoing);
        let most = self.inner.settings.max_response;
        loop {
            let request = tries.request(EVENTS_OR_JSON).await?;
            match self.opened(request, most, tries.deadline).await {
                Ok(opened) => return Ok(opened),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    async fn opened(
        &self,
        request: http::Request<Bytes>,
        most: usize,
        deadline: Deadline,
    ) -> Result<Opened, Error> {
        let response = self.inner.peers.open(request, deadline).await?;
        let kind = answer::media_type(response.headers()).unwrap_or_default();
        if response.status() == StatusCode::OK && kind.eq_ignore_ascii_case(EVENTS) {
            return Ok(Opened::Events(response.into_body()));
        }
        let reply = deadline.limit(peer::read(response, most)).await??;
        // What may pass is told as an error, so that it is tried again.
        match reply.status.is_success() {
            true => Ok(Opened::Reply(reply)),
            false => match answer::taken(&reply) {
                Err(error) => Err(error),
                Ok(()) => Ok(Opened::Reply(reply)),
            },
        }
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
            let fresh = uuid::Uuid::now_v7().to_string();
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
        if let Some(conversation) = &self.context.conversation {
            request.extensions_mut().insert(conversation.clone());
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
