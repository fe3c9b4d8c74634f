//! What happens around each request: it is counted, its peer is told to it, and it may not last for
//! ever. On the way of a request that is answered at once there is no timer and no allocation of ours
//! but the extension.

use super::admission::{Answering, Work};
use super::pulse::{Pulse, Running};
use super::transfer::{Piece, StreamExecutor, Transfer};
use super::{Arriving, Peer, RequestBody, Shared, TurnedAway};
use crate::budget::AddressPrefix;
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
use hyper::body::Incoming;
use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower::Service;

/// What a connection gives to each of its requests.
pub(super) struct Desk {
    pub(super) app: Router,
    pub(super) prefix: AddressPrefix,
    pub(super) peer: Arc<Peer>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) shared: Arc<Shared>,
    /// What runs the streams of an HTTP/2 connection.
    pub(super) streams: Option<StreamExecutor>,
}

/// A request that is let in, until it is answered.
enum Admitted {
    /// It has no body.
    Working { _work: Work },
    /// It has one, which may still be on its way.
    Sending(Answering),
}

impl Desk {
    /// The answer to a request.
    ///
    /// What can be done at once is done before there is a future: every idle connection keeps room
    /// for it.
    pub(super) fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<http::Response<Tracked>, Infallible>> {
        let running = self.pulse.begin();
        let transfer = self
            .streams
            .as_ref()
            .map(|streams| streams.begin(&self.pulse));
        let old = request.version() < Version::HTTP_2;
        let Looked {
            one_host,
            sent,
            bytes,
        } = Looked::at(&request);
        if old {
            let has_body = !http_body::Body::is_end_stream(request.body());
            self.pulse.heads().finish_head(bytes);
            self.pulse.heads().set_body_arrives(has_body);
        }
        self.pulse.settle_heads();
        let admitted = match one_host {
            true => self.admit(&request).ok_or(TurnedAway::Busy),
            false => Err(TurnedAway::BadHost),
        };
        let admitted = admitted.map(|admitted| {
            let sender = match &admitted {
                Admitted::Working { .. } => None,
                Admitted::Sending(Answering(sender)) => Some(sender.clone()),
            };
            let request = request.map(|incoming| RequestBody::new(incoming, sender));
            (self.begin(request), admitted)
        });
        async move {
            let mut closes = false;
            let mut response = match admitted {
                Err(why) => self.turn_away(why, sent),
                Ok((answer, admitted)) => {
                    let answer = unless_turned_away(answer, &admitted);
                    let response = match within(answer, self.shared.limits.request_time).await {
                        Some(Ok(response)) => response,
                        Some(Err(why)) => self.turn_away(why, sent),
                        None => self.turn_away(TurnedAway::TooSlow, sent),
                    };
                    closes = old && admitted.leaves_body(response.status());
                    response
                }
            };
            // Of a body that is refused only some is taken, and then its connection ends. A caller that does
            // not hear that would send the next request into nowhere. Later versions end a stream instead.
            if closes {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            Ok(response.map(|body| Tracked {
                body,
                transfer,
                ends_apart: false,
                running,
            }))
        }
    }

    fn admit(&self, request: &Request<Incoming>) -> Option<Admitted> {
        let admission = &self.shared.admission;
        if http_body::Body::is_end_stream(request.body()) {
            let work = admission.begin_work(request.uri().path());
            return work.map(|work| Admitted::Working { _work: work });
        }
        let sender = admission.begin_sending(self.prefix, &self.pulse);
        Some(Admitted::Sending(Answering(sender)))
    }

    fn begin(
        &self,
        request: Arriving,
    ) -> Either<impl Future<Output = Result<Response, Infallible>> + use<>, RouteFuture<Infallible>>
    {
        match (self.shared.shortcut)(request, &self.peer) {
            ControlFlow::Break(answering) => Either::Left(answering.map(Ok)),
            ControlFlow::Continue(request) => {
                let sender = request.body().sender().cloned();
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(Arc::clone(&self.peer));
                if let Some(sender) = sender {
                    request.extensions_mut().insert(sender);
                }
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
    /// The least bytes that it can have in HTTP/1.1.
    bytes: usize,
}

impl Looked {
    fn at<B>(request: &Request<B>) -> Self {
        let (mut hosts, mut sent) = ((None, 0_usize), None);
        // A line of the method, the path and the version, and an empty line.
        let target = request.uri().path_and_query();
        let target = target.map_or(0, |target| target.as_str().len());
        let mut bytes = request.method().as_str().len() + target + "  HTTP/1.1\n\n".len();
        for (name, value) in request.headers() {
            bytes += name.as_str().len() + value.len() + ":\n".len();
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
        Self {
            one_host,
            sent,
            bytes,
        }
    }
}

impl Admitted {
    /// Whether an answer of this status goes out while the body is left unread.
    fn leaves_body(&self, status: StatusCode) -> bool {
        match status {
            StatusCode::PAYLOAD_TOO_LARGE => true,
            StatusCode::UNAUTHORIZED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::SERVICE_UNAVAILABLE => match self {
                Self::Working { .. } => false,
                Self::Sending(answering) => answering.is_unread(),
            },
            _ => false,
        }
    }
}

/// What the handler answers, unless the request must be turned away before.
async fn unless_turned_away<F>(answer: F, admitted: &Admitted) -> Result<Response, TurnedAway>
where
    F: Future<Output = Result<Response, Infallible>>,
{
    let mut answer = pin!(answer);
    poll_fn(|cx| {
        if let Poll::Ready(Ok(response)) = answer.as_mut().poll(cx) {
            return Poll::Ready(Ok(response));
        }
        match admitted {
            Admitted::Working { .. } => Poll::Pending,
            Admitted::Sending(answering) => match answering.turned_away(cx) {
                None => Poll::Pending,
                Some(why) => Poll::Ready(Err(why)),
            },
        }
    })
    .await
}

/// A response's body that counts as running until it is dropped.
pub(super) struct Tracked {
    body: Body,
    /// None on HTTP/1.1, where the connection is the stream.
    transfer: Option<Arc<Transfer>>,
    /// All of it was given away, and its end follows when that is written.
    ends_apart: bool,
    running: Running,
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
            let pulse = this.running.pulse();
            let piece = |bytes| Piece::http1(bytes, pulse);
            return Poll::Ready(frame.map(|frame| Ok(frame?.map_data(piece))));
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
