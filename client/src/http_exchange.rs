//! HTTP exchange with a peer under a deadline and the peer's circuit breaker.

use crate::breaker::{Breaker, BreakerPolicy};
use crate::clock::saturating_deadline;
use crate::error::{Error, InvalidResponse};
use crate::transport::{ByteStream, Transport, TransportError};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::{HeaderMap, StatusCode, header};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A deadline with the duration that it was created from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) instant: Instant,
    duration: Duration,
}

impl Deadline {
    pub(crate) fn from_now(span: Duration) -> Self {
        Self {
            instant: saturating_deadline(Instant::now(), span),
            duration: span,
        }
    }

    /// Runs `work` until the deadline.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let outcome = timeout_at(self.instant, work).await;
        outcome.map_err(|_| Error::TimedOut {
            after: self.duration,
        })
    }
}

/// A complete HTTP response.
#[derive(Clone, Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The peers of a client, with a circuit breaker for each.
pub(crate) struct PeerPool {
    transport: Arc<dyn Transport>,
    policy: BreakerPolicy,
    breakers: Mutex<HashMap<String, Arc<Breaker>>>,
}

/// Maximum number of breakers. A client calls its zone and the zone's issuer, so this is plenty.
const MAX_PEERS: usize = 64;

impl PeerPool {
    pub(crate) fn new(transport: Arc<dyn Transport>, policy: BreakerPolicy) -> Arc<Self> {
        Arc::new(Self {
            transport,
            policy,
            breakers: Mutex::new(HashMap::new()),
        })
    }

    fn breaker(&self, request: &http::Request<Bytes>) -> Arc<Breaker> {
        let authority = request.uri().authority();
        let name = authority.map_or("", |authority| authority.as_str());
        let mut breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(breaker) = breakers.get(name) {
            return breaker.clone();
        }
        if breakers.len() >= MAX_PEERS {
            breakers.clear();
        }
        let breaker = Breaker::new(self.policy);
        breakers.insert(name.to_owned(), breaker.clone());
        breaker
    }

    /// Sends a request and reads the complete response.
    pub(crate) async fn exchange(
        &self,
        request: http::Request<Bytes>,
        limit: usize,
        deadline: Deadline,
    ) -> Result<HttpReply, Error> {
        let breaker = self.breaker(&request);
        let permit = breaker
            .try_acquire(Instant::now())
            .map_err(|retry_in| Error::CircuitOpen { retry_in })?;
        let work = async {
            let response = self.transport.send(request).await?;
            read_reply(response, limit).await
        };
        let outcome = deadline.run(work).await.and_then(|outcome| outcome);
        match &outcome {
            Ok(reply) if reply.status.is_server_error() => permit.report_failure(Instant::now()),
            // The request failed locally, so it does not count as a failure of the peer.
            Err(Error::Transport(error)) if !error.is_retryable() => permit.report_success(),
            Err(Error::Transport(_) | Error::TimedOut { .. }) => {
                permit.report_failure(Instant::now())
            }
            _ => permit.report_success(),
        }
        outcome
    }

    /// Sends a request and returns the body as a stream. A watch has its own retry schedule, so the breaker is
    /// bypassed: a peer that restarts is found again within seconds.
    pub(crate) async fn open(
        &self,
        request: http::Request<Bytes>,
        deadline: Deadline,
    ) -> Result<http::Response<ByteStream>, Error> {
        Ok(deadline.run(self.transport.send(request)).await??)
    }
}

impl fmt::Debug for PeerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").finish_non_exhaustive()
    }
}

/// Reads a body up to the limit.
pub(crate) async fn read_reply(
    response: http::Response<ByteStream>,
    limit: usize,
) -> Result<HttpReply, Error> {
    let too_large = Error::InvalidResponse(InvalidResponse::TooLarge { limit });
    let (head, mut body) = response.into_parts();
    let declared = head.headers.get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(too_large);
    }
    let mut buffer = BytesMut::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(TransportError::broken)?;
        if buffer.len().saturating_add(chunk.len()) > limit {
            return Err(too_large);
        }
        buffer.extend_from_slice(&chunk);
    }
    Ok(HttpReply {
        status: head.status,
        headers: head.headers,
        body: buffer.freeze(),
    })
}
