//! What happens around each request: it is counted, its peer is told to it, and it may not last for
//! ever. On the way of a request that is answered at once there is no timer and no allocation of ours
//! but the extension.

use super::pulse::{Pulse, Running};
use super::transfer::{Piece, StreamExecutor, Transfer};
use super::{Arriving, Peer, Shared, TurnedAway};
use crate::patience::within;
use crate::request::{CORRELATION, Correlation};
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use futures_util::FutureExt;
use futures_util::future::Either;
use http::header::{CONNECTION, HOST};
use http::{HeaderValue, Request, StatusCode, Version};
use http_body::{Frame, SizeHint};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use tower::Service;

/// What a connection gives to each of its requests.
pub(super) struct Desk {
    pub(super) app: Router,
    pub(super) peer: Arc<Peer>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) shared: Arc<Shared>,
    /// What runs the streams of an HTTP/2 connection.
    pub(super) streams: Option<StreamExecutor>,
}

impl Desk {
    /// The answer to a request.
    ///
    /// What can be done at once is done before there is a future: every idle connection keeps room
    /// for it.
    pub(super) fn answer(
        self: Arc<Self>,
        request: Arriving,
    ) -> impl Future<Output = Result<http::Response<Tracked>, Infallible>> {
        let running = self.pulse.begin();
        let transfer = self
            .streams
            .as_ref()
            .map(|streams| streams.begin(&self.pulse));
        let old = request.version() < Version::HTTP_2;
        let Looked { one_host, sent } = Looked::at(&request);
        let work = match one_host {
            true => Work::begin(&self).ok_or(TurnedAway::Busy),
            false => Err(TurnedAway::BadHost),
        };
        let work = work.map(|work| (self.begin(request), work));
        async move {
            let mut response = match work {
                Err(why) => self.turn_away(why, sent),
                Ok((answer, _work)) => {
                    match within(answer, self.shared.limits.request_time).await {
                        Some(Ok(response)) => response,
                        None => self.turn_away(TurnedAway::TooSlow, sent),
                    }
                }
            };
            // Of a body that is too large only some is taken, and then its connection ends. Whoever does not
            // hear that would send the next request into nowhere. Later versions end a stream instead.
            if old && response.status() == StatusCode::PAYLOAD_TOO_LARGE {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            Ok(response.map(|body| Tracked {
                body,
                transfer,
                ends_apart: false,
                _running: running,
            }))
        }
    }

    fn begin(
        &self,
        request: Arriving,
    ) -> Either<impl Future<Output = Result<Response, Infallible>> + use<>, RouteFuture<Infallible>>
    {
        match (self.shared.shortcut)(request, &self.peer) {
            ControlFlow::Break(answering) => Either::Left(answering.map(Ok)),
            ControlFlow::Continue(request) => {
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(Arc::clone(&self.peer));
                Either::Right(self.app.clone().call(request))
            }
        }
    }

    fn turn_away(&self, why: TurnedAway, sent: Option<HeaderValue>) -> Response {
        let headers = sent.map(|sent| (CORRELATION, sent)).into_iter().collect();
        self.shared
            .turned_away(why, Correlation::from_headers(&headers))
    }
}

/// What is looked at in the headers of every request. They are few, so that one walk past all of them costs
/// less than to look for each by its name.
struct Looked {
    /// Whether the request says for which host it is. One that names two, or none, may be for somebody
    /// else in the eyes of whoever passed it on (RFC 9112, 3.2). Later versions of HTTP see to it themselves.
    one_host: bool,
    /// The correlation id that came with it, whatever that may be.
    sent: Option<HeaderValue>,
}

impl Looked {
    fn at<B>(request: &Request<B>) -> Self {
        let (mut hosts, mut sent) = ((None, 0_usize), None);
        for (name, value) in request.headers() {
            if *name == HOST {
                hosts = (Some(value), hosts.1 + 1);
            } else if sent.is_none() && *name == CORRELATION {
                sent = Some(value.clone());
            }
        }
        let allowed =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte);
        let one_host = match hosts {
            _ if request.version() != Version::HTTP_11 => true,
            (Some(host), 1) => host.as_bytes().iter().all(allowed),
            _ => false,
        };
        Self { one_host, sent }
    }
}

/// One of the requests that handlers may work on at the same time.
struct Work(Arc<Desk>);

impl Work {
    fn begin(desk: &Arc<Desk>) -> Option<Self> {
        let Shared {
            limits, working, ..
        } = &*desk.shared;
        // Made first, so that it takes back what it adds whatever comes of it.
        let before = working.fetch_add(1, Ordering::Relaxed);
        let work = Self(Arc::clone(desk));
        (before < limits.requests.max(1)).then_some(work)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.shared.working.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A response's body that counts as running until it is dropped.
pub(super) struct Tracked {
    body: Body,
    /// None on HTTP/1.1, where the connection is the stream.
    transfer: Option<Arc<Transfer>>,
    /// All of it was given away, and its end follows when that is written.
    ends_apart: bool,
    _running: Running,
}

impl http_body::Body for Tracked {
    type Data = Piece;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, axum::Error>>> {
        let this = &mut *self;
        let Some(transfer) = &this.transfer else {
            let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
            return Poll::Ready(frame.map(|frame| Ok(frame?.map_data(Piece::uncounted))));
        };
        if !this.ends_apart {
            let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(cx)) else {
                if transfer.may_end_at_once() {
                    return Poll::Ready(None);
                }
                this.ends_apart = true;
                return transfer.poll_drained(cx).map(|()| None);
            };
            let frame = frame?.map_data(|bytes| transfer.give(bytes));
            this.ends_apart = this.body.is_end_stream() && !transfer.may_end_at_once();
            return Poll::Ready(Some(Ok(frame)));
        }
        transfer.poll_drained(cx).map(|()| None)
    }

    fn is_end_stream(&self) -> bool {
        !self.ends_apart && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
