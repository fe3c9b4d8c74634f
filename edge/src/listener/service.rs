//! What happens around each request: it is counted, its peer is told to it, and it may not last for
//! ever. On the way of a request that is answered at once there is no timer and no allocation of ours
//! but the extension.

use super::pulse::{Pulse, Running};
use super::{Peer, Shared, TurnedAway};
use crate::request::{CORRELATION, Correlation};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::future::Either;
use http::{HeaderMap, Request};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::Service;

/// What a connection gives to each of its requests.
pub(super) struct Desk {
    pub(super) app: Router,
    pub(super) peer: Arc<Peer>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) shared: Arc<Shared>,
}

impl Desk {
    pub(super) async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
    ) -> Result<http::Response<Tracked>, Infallible> {
        let running = self.pulse.begin();
        let sent = request.headers().get(CORRELATION).cloned();
        let turn_away = |why: TurnedAway, word: &'static str| {
            self.shared.metrics.turned_away(word);
            let mut headers = HeaderMap::new();
            if let Some(sent) = sent {
                headers.insert(CORRELATION, sent);
            }
            (self.shared.turn_away)(why, Correlation::from_headers(&headers))
        };
        let response = match self.shared.requests.try_acquire() {
            Err(_) => turn_away(TurnedAway::Busy, "busy"),
            Ok(_permit) => {
                request.extensions_mut().insert(Arc::clone(&self.peer));
                let mut app = self.app.clone();
                let mut answer = pin!(app.call(request.map(Body::new)));
                match futures_util::poll!(answer.as_mut()) {
                    Poll::Ready(Ok(response)) => response,
                    Poll::Pending => {
                        // Boxed, for every idle connection keeps room for this future.
                        let late = Box::pin(tokio::time::sleep(self.shared.limits.request_time));
                        match futures_util::future::select(answer, late).await {
                            Either::Left((Ok(response), _)) => response,
                            Either::Right(_) => turn_away(TurnedAway::TooSlow, "too_slow"),
                        }
                    }
                }
            }
        };
        Ok(track(response, running))
    }
}

fn track(response: Response, running: Running) -> http::Response<Tracked> {
    response.map(|body| Tracked {
        body,
        _running: running,
    })
}

/// A response's body that counts as running until it is dropped.
pub(super) struct Tracked {
    body: Body,
    _running: Running,
}

impl http_body::Body for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
