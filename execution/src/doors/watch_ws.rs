//! `GET /streams/{id}`: a stream by WebSocket. Each frame out is one notification, with what has
//! happened first; each frame in is an ordinary call, answered on the same socket.

use super::answer::refused;
use super::attach::{Attached, attach};
use super::watch_sse::told;
use crate::rpc::acp::convert;
use crate::rpc::{Known, Origin, errors, serve_known};
use crate::zone::Zone;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use interzone_edge::body;
use interzone_edge::listener::Peer;
use interzone_edge::request::CORRELATION;
use interzone_hub::{Seen, Subject, Watch};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a sign of life is asked for. Whoever gives none until the next time is gone.
const PING: Duration = Duration::from_secs(20);

/// How long a frame may take to leave. Whoever reads more slowly is cut off, and may come back.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a socket is closed: the stream is over.
const OVER: (u16, &str) = (1000, "the stream has ended");
/// The zone closes.
const CLOSING: (u16, &str) = (1001, "the server is going away; come back");
/// What came is not text.
const NOT_TEXT: (u16, &str) = (1003, "send JSON as text");
/// The store did not answer.
const BROKEN: (u16, &str) = (1011, "something is wrong here; come back");
/// The token has ended, as 401 says it.
const EXPIRED: (u16, &str) = (4401, "the token has expired; come back with a new one");
/// The token was taken back.
const REVOKED: (u16, &str) = (
    4401,
    "the token is not good any more; come back with a new one",
);
/// So much is on its way to others that there is no room for an answer.
const BUSY: (u16, &str) = (1013, "too much is being sent at this moment; come back");

pub(super) async fn stream(
    State(zone): State<Arc<Zone>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>();
    let origin = Origin::of(request.headers(), peer.cloned());
    let subject = convert::stream_id(&id).map(Subject::Stream);
    let subject = subject.ok_or_else(|| errors::unknown_stream(&id));
    let (mut parts, _) = request.into_parts();
    let attached = match attach(&zone, &parts, &origin, subject, "streams.socket").await {
        Ok(attached) => attached,
        Err(error) => return refused(&error, &origin),
    };
    let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut parts, &()).await else {
        let error = errors::transport(
            StatusCode::UPGRADE_REQUIRED,
            "This is a WebSocket; for server-sent events add /events",
            "no_upgrade",
        );
        return refused(&error, &origin);
    };
    let header = origin.correlation.header();
    let mut response = upgrade
        .max_message_size(zone.limits.body)
        .max_frame_size(zone.limits.body)
        .on_upgrade(move |socket| async move {
            let _open = zone.metrics.watcher("ws");
            talk(&zone, socket, attached, &origin).await;
        });
    response.headers_mut().insert(CORRELATION, header);
    response
}

/// Something that happened on one of the two sides.
enum Next {
    Seen(Option<Seen>),
    Frame(Option<Message>),
    Ping,
    Close((u16, &'static str)),
}

async fn talk(zone: &Zone, mut socket: WebSocket, attached: Attached, origin: &Origin) {
    let Attached {
        known,
        mut watch,
        ends,
    } = attached;
    let mut beat = Instant::now() + PING;
    let mut heard = true;
    loop {
        let next = tokio::select! {
            () = zone.stop.cancelled() => Next::Close(CLOSING),
            () = tokio::time::sleep_until(ends) => Next::Close(EXPIRED),
            () = tokio::time::sleep_until(beat) => Next::Ping,
            frame = socket.recv() => Next::Frame(frame.and_then(Result::ok)),
            seen = watch.next() => seen.map_or(Next::Close(BROKEN), Next::Seen),
        };
        let went_well = match next {
            Next::Frame(Some(_)) | Next::Seen(Some(_)) | Next::Ping
                if !known.is_still(zone, origin.peer.as_deref()) =>
            {
                Err(Some(REVOKED))
            }
            Next::Frame(None | Some(Message::Close(_))) => return,
            Next::Frame(Some(frame)) => {
                heard = true;
                take(zone, &known, &mut socket, frame, origin).await
            }
            Next::Seen(None) => Err(Some(OVER)),
            Next::Seen(Some(seen)) => tell(zone, &watch, &mut socket, seen).await,
            Next::Ping if heard => {
                heard = false;
                beat = Instant::now() + PING;
                send(&mut socket, Message::Ping(Bytes::new())).await
            }
            Next::Ping => Err(None),
            Next::Close(why) => Err(Some(why)),
        };
        if let Err(why) = went_well {
            if let Some((code, reason)) = why {
                let reason = Utf8Bytes::from_static(reason);
                let close = Message::Close(Some(CloseFrame { code, reason }));
                let _ = send(&mut socket, close).await;
            }
            return;
        }
    }
}

/// How a socket goes on: well, or it is closed for this reason, or it is not worth a word any more.
type Going = Result<(), Option<(u16, &'static str)>>;

async fn take(
    zone: &Zone,
    known: &Known,
    socket: &mut WebSocket,
    frame: Message,
    origin: &Origin,
) -> Going {
    match frame {
        Message::Text(text) => {
            match serve_known(zone, known, text.as_bytes(), &now(origin)).await {
                Some(answer) => {
                    let answer = body::hold(answer, text.len(), &zone.limits);
                    send(socket, text_of(answer.map_err(|_| Some(BUSY))?)?).await
                }
                None => Ok(()),
            }
        }
        Message::Binary(_) => Err(Some(NOT_TEXT)),
        Message::Ping(_) | Message::Pong(_) | Message::Close(_) => Ok(()),
    }
}

/// Where a frame came from: its socket, at this moment.
fn now(origin: &Origin) -> Origin {
    Origin {
        correlation: origin.correlation.clone(),
        peer: origin.peer.clone(),
        arrived: Instant::now(),
        live: false,
        trace: None,
    }
}

async fn tell(zone: &Zone, watch: &Watch, socket: &mut WebSocket, seen: Seen) -> Going {
    let told = Box::pin(told(zone, watch, seen)).await;
    for notice in &told.map_err(|_| Some(BROKEN))?.notices {
        send(socket, text_of(notice.json.clone())?).await?;
    }
    Ok(())
}

/// A frame that shares its bytes with all others who are sent the same.
fn text_of(json: Bytes) -> Result<Message, Option<(u16, &'static str)>> {
    let text = Utf8Bytes::try_from(json).map_err(|_| Some(BROKEN))?;
    Ok(Message::Text(text))
}

async fn send(socket: &mut WebSocket, message: Message) -> Going {
    match tokio::time::timeout(PATIENCE, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(None),
    }
}
