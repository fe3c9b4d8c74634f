//! One exchange with a peer: through the transport, within a deadline, under the peer's circuit
//! breaker. What is asked and what the answer means is not known here.

use crate::breaker::{Breaker, BreakerPolicy};
use crate::clock::after;
use crate::error::{AnswerFault, Error};
use crate::transport::{ByteStream, Transport, TransportError};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::{HeaderMap, StatusCode, header};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The moment by which something must be over, and how long that was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    span: Duration,
}

impl Deadline {
    pub(crate) fn within(span: Duration) -> Self {
        Self {
            at: after(Instant::now(), span),
            span,
        }
    }

    /// Gives up on `work` when the time is over.
    pub(crate) async fn limit<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let outcome = timeout_at(self.at, work).await;
        outcome.map_err(|_| Error::TimedOut { after: self.span })
    }
}

/// A whole response.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The peers that a client talks to, and how each has behaved.
pub(crate) struct Peers {
    transport: Arc<dyn Transport>,
    policy: BreakerPolicy,
    breakers: Mutex<HashMap<String, Arc<Breaker>>>,
}

/// A client talks to its zone and to the zone's issuer, so this is plenty.
const MOST_PEERS: usize = 64;

impl Peers {
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
        if let Some(known) = breakers.get(name) {
            return known.clone();
        }
        if breakers.len() >= MOST_PEERS {
            breakers.clear();
        }
        let breaker = Breaker::new(self.policy);
        breakers.insert(name.to_owned(), breaker.clone());
        breaker
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn exchange(
        &self,
        request: http::Request<Bytes>,
        limit: usize,
        deadline: Deadline,
    ) -> Result<Reply, Error> {
        let breaker = self.breaker(&request);
        let permit = breaker
            .admit(Instant::now())
            .map_err(|retry_in| Error::CircuitOpen { retry_in })?;
        let work = async {
            let response = self.transport.send(request).await?;
            read(response, limit).await
        };
        let outcome = deadline.limit(work).await.and_then(|outcome| outcome);
        match &outcome {
            Ok(reply) if reply.status.is_server_error() => permit.failure(Instant::now()),
            // Nobody failed who could recover by being left alone.
            Err(Error::Transport(error)) if !error.is_retryable() => permit.success(),
            Err(Error::Transport(_) | Error::TimedOut { .. }) => permit.failure(Instant::now()),
            _ => permit.success(),
        }
        outcome
    }

    /// Sends a request and leaves the body to the caller. A watch has its own patience, so the
    /// breaker is not asked: a peer that restarts is found again within seconds.
    pub(crate) async fn open(
        &self,
        request: http::Request<Bytes>,
        deadline: Deadline,
    ) -> Result<http::Response<ByteStream>, Error> {
        Ok(deadline.limit(self.transport.send(request)).await??)
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").finish_non_exhaustive()
    }
}

/// Reads a body up to the limit.
pub(crate) async fn read(
    response: http::Response<ByteStream>,
    limit: usize,
) -> Result<Reply, Error> {
    let too_large = Error::Answer(AnswerFault::TooLarge { limit });
    let (head, mut body) = response.into_parts();
    let declared = head.headers.get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(too_large);
    }
    let mut whole = BytesMut::new();
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(TransportError::broken)?;
        if whole.len().saturating_add(piece.len()) > limit {
            return Err(too_large);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(Reply {
        status: head.status,
        headers: head.headers,
        body: whole.freeze(),
    })
}
