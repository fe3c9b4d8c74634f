//! The network while credentials are looked for: our own HTTPS, with limits for answers of a few KiB. What
//! is not about credentials must not come this way.

use super::place::Trouble;
use crate::{Https, HttpsOptions, Transport};
use bytes::Bytes;
use futures_util::TryStreamExt;
use http::{StatusCode, Uri};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// An answer with credentials has a few KiB.
const MOST: usize = 1 << 20;
/// Before the second and the third try at somebody who is not there or has too much to do.
const WAITS: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(400)];

/// Whoever answers questions about credentials.
#[derive(Clone, Debug)]
pub(super) struct Network(Https);

/// What was answered. It is not to be printed: it may be credentials.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl Network {
    pub(super) fn new() -> Result<Self, crate::Error> {
        Https::new(&HttpsOptions::default()).map(Self)
    }

    /// Asks, again if need be. One try may take as long as `within`.
    pub(super) async fn ask(
        &self,
        request: &http::Request<Bytes>,
        within: Duration,
    ) -> Result<Answer, Trouble> {
        let mut waits = WAITS.into_iter();
        loop {
            let tried = timeout(within, self.exchange(request.clone())).await;
            let tried = tried.unwrap_or_else(|_| Err(format!("no answer within {within:?}")));
            let done = tried.as_ref().is_ok_and(|answer| !is_busy(answer.status));
            match (tried, waits.next()) {
                (Ok(answer), _) if done => return Ok(answer),
                (_, Some(wait)) => sleep(wait).await,
                (Ok(answer), None) => return Ok(answer),
                (Err(words), None) => {
                    let peer = peer(request.uri());
                    return Err(Trouble::new(format!("{peer} cannot be asked: {words}")));
                }
            }
        }
    }

    async fn exchange(&self, request: http::Request<Bytes>) -> Result<Answer, String> {
        let answer = self.0.send(request).await;
        let (parts, mut body) = answer.map_err(|error| words(&error))?.into_parts();
        let mut whole = Vec::new();
        while let Some(piece) = body.try_next().await.map_err(|error| words(&*error))? {
            if whole.len() + piece.len() > MOST {
                return Err(format!("the answer has more than {MOST} bytes"));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(Answer {
            status: parts.status,
            body: whole.into(),
        })
    }
}

/// Whether nobody else can listen to what is sent there: by TLS, or because it stays on this machine or
/// with one of these hosts.
pub(super) fn is_private(uri: &Uri, near: &[&str]) -> bool {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match uri.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => {
            host == "localhost"
                || near.contains(&host)
                || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        _ => false,
    }
}

/// Host and port alone: before them there may be a password.
fn peer(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    match uri.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn is_busy(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// An error with all that led to it, for the first words alone seldom help.
fn words(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        words.push_str(": ");
        words.push_str(&cause.to_string());
        next = cause.source();
    }
    words
}
