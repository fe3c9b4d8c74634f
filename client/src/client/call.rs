//! Sends calls: adds tokens and headers, applies deadlines, and retries where it is safe.

use super::Client;
use crate::Secret;
use crate::error::{ConfigError, Error, InvalidResponse, TokenError};
use crate::http_exchange::{self, Deadline, HttpReply};
use crate::response;
use crate::retry::{self, Idempotency};
use crate::transport::ByteStream;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use interzone_protocol::acp::codes;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The media type of server-sent events.
const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const EVENTS_OR_JSON: &str = "text/event-stream, application/json";

/// An encoded call with its sending options.
#[derive(Clone)]
pub(crate) struct PreparedCall {
    pub(crate) body: Bytes,
    pub(crate) scopes: Vec<String>,
    pub(crate) idempotency: Idempotency,
    pub(crate) timeout: Duration,
}

/// Response to a call that accepts events.
pub(crate) enum EventsOrReply {
    /// A stream of events.
    Events(ByteStream),
    /// A single response.
    Reply(HttpReply),
}

/// Retry state of one call: all attempts share a deadline and a correlation id.
struct RetryState<'c> {
    client: &'c Client,
    call: &'c PreparedCall,
    deadline: Deadline,
    /// The same for all attempts, so that logs show one call.
    correlation: HeaderValue,
    token: Option<Secret>,
    is_token_renewed: bool,
    attempt: u32,
}

impl<'c> RetryState<'c> {
    fn new(client: &'c Client, call: &'c PreparedCall) -> Self {
        Self {
            client,
            call,
            deadline: Deadline::from_now(call.timeout),
            correlation: client.correlation_id(),
            token: None,
            is_token_renewed: false,
            attempt: 0,
        }
    }

    /// Builds the request of the next attempt.
    async fn request(&mut self, accept: &'static str) -> Result<http::Request<Bytes>, Error> {
        let token = self.client.tokens.get(&self.call.scopes);
        self.token = self.deadline.run(token).await??;
        let url = self.client.endpoint_url("jsonrpc", &[]);
        let mut request = http::Request::post(url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept)
            .body(self.call.body.clone())
            .map_err(|_| ConfigError::Address)?;
        self.client
            .add_headers(&mut request, &self.correlation, self.token.as_ref())?;
        Ok(request)
    }

    /// Waits before the next attempt, or returns the error if there is none.
    async fn prepare_retry(&mut self, error: Error) -> Result<(), Error> {
        let client = self.client;
        let scopes = &self.call.scopes;
        if !self.is_token_renewed
            && is_token_error(&error)
            && client.tokens.invalidate(scopes, self.token.as_ref())
        {
            self.is_token_renewed = true;
            return Ok(());
        }
        let policy = &client.shared.settings.retry;
        if self.attempt >= policy.retries || !retry::should_retry(&error, self.call.idempotency) {
            return Err(error);
        }
        let wait = policy.backoff_for(self.attempt) + error.retry_after().unwrap_or_default();
        if Instant::now() + wait >= self.deadline.instant {
            return Err(error);
        }
        sleep(wait).await;
        self.attempt += 1;
        Ok(())
    }
}

impl Client {
    /// Sends a message and retries it until it is answered, the deadline passes, or a retry is not safe.
    pub(crate) async fn post<T>(
        &self,
        call: &PreparedCall,
        decode: impl Fn(&HttpReply) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut retries = RetryState::new(self, call);
        let max_response = self.shared.settings.max_response;
        loop {
            let request = retries.request(JSON).await?;
            let reply = self
                .shared
                .peers
                .exchange(request, max_response, retries.deadline);
            match reply.await.and_then(|reply| decode(&reply)) {
                Ok(value) => return Ok(value),
                Err(error) => retries.prepare_retry(error).await?,
            }
        }
    }

    /// Sends a message whose response may be an event stream that ends with the result.
    pub(crate) async fn post_for_events(
        &self,
        call: &PreparedCall,
    ) -> Result<EventsOrReply, Error> {
        let mut retries = RetryState::new(self, call);
        let max_response = self.shared.settings.max_response;
        loop {
            let request = retries.request(EVENTS_OR_JSON).await?;
            match self
                .open_call(request, max_response, retries.deadline)
                .await
            {
                Ok(opened) => return Ok(opened),
                Err(error) => retries.prepare_retry(error).await?,
            }
        }
    }

    async fn open_call(
        &self,
        request: http::Request<Bytes>,
        max_response: usize,
        deadline: Deadline,
    ) -> Result<EventsOrReply, Error> {
        let response = self.shared.peers.open(request, deadline).await?;
        let media_type = response::media_type(response.headers()).unwrap_or_default();
        if response.status() == StatusCode::OK && media_type.eq_ignore_ascii_case(EVENT_STREAM) {
            return Ok(EventsOrReply::Events(response.into_body()));
        }
        let reply = deadline
            .run(http_exchange::read_reply(response, max_response))
            .await??;
        // Error statuses are returned as errors, so that transient ones are retried.
        match reply.status.is_success() {
            true => Ok(EventsOrReply::Reply(reply)),
            false => match response::check_notification(&reply) {
                Err(error) => Err(error),
                Ok(()) => Ok(EventsOrReply::Reply(reply)),
            },
        }
    }

    /// Opens an event stream.
    pub(crate) async fn open_events(
        &self,
        path: &[&str],
        last_event_id: Option<u64>,
        scopes: &[String],
        timeout: Duration,
    ) -> Result<http::Response<ByteStream>, Error> {
        let deadline = Deadline::from_now(timeout);
        let correlation = self.correlation_id();
        let mut is_token_renewed = false;
        loop {
            let token = deadline.run(self.tokens.get(scopes)).await??;
            let url = self.endpoint_url("", path);
            let mut request = http::Request::get(url.as_str())
                .header(header::ACCEPT, EVENT_STREAM)
                .header(header::CACHE_CONTROL, "no-store")
                .body(Bytes::new())
                .map_err(|_| ConfigError::Address)?;
            if let Some(last_event_id) = last_event_id {
                request
                    .headers_mut()
                    .insert("last-event-id", last_event_id.into());
            }
            self.add_headers(&mut request, &correlation, token.as_ref())?;
            let response = self.shared.peers.open(request, deadline).await?;
            let media_type = response::media_type(response.headers()).unwrap_or_default();
            let is_event_stream = media_type.eq_ignore_ascii_case(EVENT_STREAM);
            if response.status() == StatusCode::OK && is_event_stream {
                return Ok(response);
            }
            let max_response = self.shared.settings.max_response;
            let reply = deadline
                .run(http_exchange::read_reply(response, max_response))
                .await??;
            let error = match response::check_notification(&reply) {
                Err(error) => error,
                Ok(()) => InvalidResponse::ContentType {
                    expected: EVENT_STREAM,
                }
                .into(),
            };
            if is_token_renewed
                || !is_token_error(&error)
                || !self.tokens.invalidate(scopes, token.as_ref())
            {
                return Err(error);
            }
            is_token_renewed = true;
        }
    }

    fn correlation_id(&self) -> HeaderValue {
        let context_id = self.context.correlation.clone();
        context_id.unwrap_or_else(|| {
            let new_id = uuid::Uuid::now_v7().to_string();
            HeaderValue::from_str(&new_id).unwrap_or_else(|_| HeaderValue::from_static("none"))
        })
    }

    fn add_headers(
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
            let mut value = value.map_err(|_| TokenError::InvalidResponse)?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        if let Some(conversation) = &self.context.conversation {
            request.extensions_mut().insert(conversation.clone());
        }
        Ok(())
    }
}

/// Returns true if a new token may help.
fn is_token_error(error: &Error) -> bool {
    match error {
        Error::Http { status, .. } => *status == StatusCode::UNAUTHORIZED,
        Error::Rpc(refusal) => {
            refusal.status == StatusCode::UNAUTHORIZED
                || refusal.code == codes::TOKEN_EXPIRED
                || refusal.code == codes::AUTHENTICATION_FAILED
        }
        _ => false,
    }
}
