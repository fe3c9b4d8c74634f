//! Per-connection request service: counts each request, attaches its peer, enforces its timeout and passes it to the
//! router. A request that is answered at once needs no timer.

use super::admission::{UnansweredUpload, WorkPermit};
use super::conn_registry::{ActiveRequest, ConnState};
use super::request_body::RequestBody;
use super::transfer::{CountedChunk, StreamExecutor, Transfer};
use super::{ListenerShared, Peer, RejectReason};
use crate::budget::AddressPrefix;
use crate::lazy_timeout::timeout_lazy;
use crate::request_context::{CORRELATION_HEADER, CorrelationId};
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use http::header::{CONNECTION, HOST};
use http::{HeaderValue, Request, StatusCode, Version};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower::Service;

/// Request service of one connection.
pub(super) struct ConnService {
    pub(super) app: Router,
    pub(super) prefix: AddressPrefix,
    pub(super) peer: Arc<Peer>,
    pub(super) conn: Arc<ConnState>,
    pub(super) shared: Arc<ListenerShared>,
    /// Executor of the streams of an HTTP/2 connection.
    pub(super) streams: Option<StreamExecutor>,
}

/// Reason why a request is not passed to the router.
enum RequestRefusal {
    Reason(RejectReason),
    /// The HTTP/1.1 library rejects such a request itself; the HTTP/2 library limits only the size of the head.
    TooManyHeaders,
}

/// An admitted request, until it has a response.
enum AdmittedRequest {
    /// The request has no body.
    Working { _work: WorkPermit },
    /// The request has a body, which may still be being received.
    Uploading(UnansweredUpload),
}

impl ConnService {
    /// Handles a request.
    ///
    /// Everything possible is done before the future is created: every idle connection reserves space for it.
    pub(super) fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<http::Response<TrackedBody>, Infallible>> {
        let active = self.conn.begin_request();
        let transfer = self
            .streams
            .as_ref()
            .map(|streams| streams.begin_transfer(&self.conn));
        let is_http1 = request.version() < Version::HTTP_2;
        let HeaderScan {
            has_one_host: one_host,
            correlation: sent,
            head_bytes: bytes,
            header_memory,
        } = HeaderScan::scan(&request);
        if is_http1 {
            let has_body = !http_body::Body::is_end_stream(request.body());
            self.conn.heads().finish_head(bytes);
            self.conn.heads().set_receiving_body(has_body);
        }
        self.conn.update_head_charge();
        let too_many_headers = request.headers().len() > self.shared.limits.headers;
        let admitted = match one_host {
            _ if too_many_headers => Err(RequestRefusal::TooManyHeaders),
            true => self
                .admit(&request, header_memory)
                .ok_or(RequestRefusal::Reason(RejectReason::Busy)),
            false => Err(RequestRefusal::Reason(RejectReason::BadHost)),
        };
        let admitted = admitted.map(|admitted| (self.dispatch(request, &admitted), admitted));
        async move {
            let mut must_close = false;
            let mut response = match admitted {
                Err(RequestRefusal::Reason(reason)) => self.reject(reason, sent),
                Err(RequestRefusal::TooManyHeaders) => self.reject_headers(),
                Ok((answer, admitted)) => {
                    let response_future = respond_or_reject(answer, &admitted);
                    let response =
                        match timeout_lazy(response_future, self.shared.limits.request_timeout)
                            .await
                        {
                            Some(Ok(response)) => response,
                            Some(Err(why)) => self.reject(why, sent),
                            None => self.reject(RejectReason::Timeout, sent),
                        };
                    must_close = is_http1 && admitted.leaves_body_unread(response.status());
                    response
                }
            };
            // A rejected body is read only in part, and then its connection is closed. Without this header the client
            // would send the next request on it. HTTP/2 ends the stream instead.
            if must_close {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            Ok(response.map(|body| TrackedBody {
                body,
                transfer,
                end_deferred: false,
                active,
            }))
        }
    }

    fn admit(&self, request: &Request<Incoming>, header_memory: usize) -> Option<AdmittedRequest> {
        let admission = &self.shared.admission;
        if http_body::Body::is_end_stream(request.body()) {
            let work = admission.try_begin(request.uri().path(), &self.conn);
            return work.map(|work| AdmittedRequest::Working { _work: work });
        }
        let upload = admission.begin_upload(self.prefix, &self.conn, header_memory);
        Some(AdmittedRequest::Uploading(UnansweredUpload(upload)))
    }

    /// Passes the request to the router, with its peer and its pending upload as extensions.
    fn dispatch(
        &self,
        request: Request<Incoming>,
        admitted: &AdmittedRequest,
    ) -> RouteFuture<Infallible> {
        let upload = match admitted {
            AdmittedRequest::Working { .. } => None,
            AdmittedRequest::Uploading(UnansweredUpload(upload)) => Some(upload.clone()),
        };
        let mut request =
            request.map(|incoming| Body::new(RequestBody::new(incoming, upload.clone())));
        request.extensions_mut().insert(Arc::clone(&self.peer));
        if let Some(upload) = upload {
            request.extensions_mut().insert(upload);
        }
        self.app.clone().call(request)
    }

    /// Returns the response to a request with too many headers: the same as the HTTP/1.1 library's.
    fn reject_headers(&self) -> Response {
        self.shared.metrics.record_rejected("head_too_large");
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        response
    }

    fn reject(&self, reason: RejectReason, correlation: Option<HeaderValue>) -> Response {
        let headers = correlation
            .map(|sent| (CORRELATION_HEADER, sent))
            .into_iter()
            .collect();
        self.shared
            .reject(reason, CorrelationId::from_headers(&headers))
    }
}

/// Header values needed for every request. There are few headers, so one pass over all of them costs less than a lookup
/// of each name.
struct HeaderScan {
    /// The request names exactly one host. One that names two, or none, may be for another host in the view of a proxy
    /// (RFC 9112, 3.2). HTTP/2 checks this itself.
    has_one_host: bool,
    /// Received correlation id, not validated.
    correlation: Option<HeaderValue>,
    /// Minimum size of the head in HTTP/1.1.
    head_bytes: usize,
    /// Estimated memory of the head.
    header_memory: usize,
}

/// Memory of a header besides its value: its entry in the header map, which grows by doubling.
const HEADER_OVERHEAD: usize = 160;

impl HeaderScan {
    fn scan<B>(request: &Request<B>) -> Self {
        let (mut hosts, mut correlation) = ((None, 0_usize), None);
        // The request line (method, path, version) and the empty line.
        let target = request.uri().path_and_query();
        let target = target.map_or(0, |target| target.as_str().len());
        let mut bytes = request.method().as_str().len() + target + "  HTTP/1.1\n\n".len();
        for (name, value) in request.headers() {
            bytes += name.as_str().len() + value.len() + ":\n".len();
            if *name == HOST {
                hosts = (Some(value), hosts.1 + 1);
            } else if correlation.is_none() && *name == CORRELATION_HEADER {
                correlation = Some(value.clone());
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
            has_one_host: one_host,
            correlation,
            head_bytes: bytes,
            header_memory: bytes + request.headers().len() * HEADER_OVERHEAD,
        }
    }
}

impl AdmittedRequest {
    /// Returns true if a response of this status is sent while the body is left unread.
    fn leaves_body_unread(&self, status: StatusCode) -> bool {
        match status {
            StatusCode::PAYLOAD_TOO_LARGE => true,
            StatusCode::UNAUTHORIZED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::SERVICE_UNAVAILABLE => match self {
                Self::Working { .. } => false,
                Self::Uploading(answering) => answering.is_body_unread(),
            },
            _ => false,
        }
    }
}

/// Returns the response of the handler, unless the request is rejected before.
async fn respond_or_reject<F>(
    response: F,
    admitted: &AdmittedRequest,
) -> Result<Response, RejectReason>
where
    F: Future<Output = Result<Response, Infallible>>,
{
    let mut response_future = pin!(response);
    poll_fn(|cx| {
        if let Poll::Ready(Ok(response)) = response_future.as_mut().poll(cx) {
            return Poll::Ready(Ok(response));
        }
        match admitted {
            AdmittedRequest::Working { .. } => Poll::Pending,
            AdmittedRequest::Uploading(upload) => match upload.rejection(cx) {
                None => Poll::Pending,
                Some(reason) => Poll::Ready(Err(reason)),
            },
        }
    })
    .await
}

/// Response body that keeps its request active until it is dropped.
pub(super) struct TrackedBody {
    body: Body,
    /// None for HTTP/1.1, where the connection is the stream.
    transfer: Option<Arc<Transfer>>,
    /// The whole body was handed over, and the end of the stream follows when it is written.
    end_deferred: bool,
    active: ActiveRequest,
}

impl http_body::Body for TrackedBody {
    type Data = CountedChunk;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<CountedChunk>, axum::Error>>> {
        let this = &mut *self;
        let Some(transfer) = &this.transfer else {
            let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
            let conn = this.active.conn();
            let chunk = |bytes| CountedChunk::http1(bytes, conn);
            return Poll::Ready(frame.map(|frame| Ok(frame?.map_data(chunk))));
        };
        if !this.end_deferred {
            let Some(frame) = ready!(Pin::new(&mut this.body).poll_frame(cx)) else {
                if transfer.may_end_immediately() {
                    return Poll::Ready(None);
                }
                this.end_deferred = true;
                return transfer.poll_drained(cx).map(|()| None);
            };
            let frame = frame?.map_data(|bytes| transfer.track_chunk(bytes));
            this.end_deferred = this.body.is_end_stream() && !transfer.may_end_immediately();
            return Poll::Ready(Some(Ok(frame)));
        }
        transfer.poll_drained(cx).map(|()| None)
    }

    fn is_end_stream(&self) -> bool {
        !self.end_deferred && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
