//! `GET /streams/{id}`: a stream by WebSocket. Each frame out is one notification, with what has
//! happened first; each frame in is an ordinary call, answered on the same socket.

use super::answer::refused;
use super::attach::{Attached, attach, named};
use super::watch_sse::told;
use crate::events::Untold;
use crate::rpc::acp::convert;
use crate::rpc::{Known, Origin, errors, serve_known};
use crate::zone::Zone;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use interzone_edge::body;
use interzone_edge::listener::Peer;
use interzone_edge::request::CORRELATION;
use interzone_edge::socket::{Gone, Heard, Socket, Text, upgrade};
use interzone_hub::{Seen, Subject, Watch};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a sign of life is asked for. Whoever gives none until the next time is gone.
const PING: Duration = Duration::from_secs(20);

/// Why a socket is closed: the stream is over.
const OVER: (u16, &str) = (1000, "the stream has ended");
/// The zone closes.
const CLOSING: (u16, &str) = (1001, "the server is going away; come back");
/// What came is not text.
const NOT_TEXT: (u16, &str) = (1003, "send JSON as text");
/// A message was begun and not finished within `limits.body_time`.
const SLOW: (u16, &str) = (1008, "the message did not arrive in time; send it faster");
/// The store did not answer.
const BROKEN: (u16, &str) = (1011, "something is wrong here; come back");
/// The token has ended, as 401 says it.
const EXPIRED: (u16, &str) = (4401, "the token has expired; come back with a new one");
/// The token was taken back.
const REVOKED: (u16, &str) = (
    4401,
    "the token is not good any more; come back with a new one",
);
/// So much is on its way from or to others that there is no room for a message.
const BUSY: (u16, &str) = (1013, "too much is being sent at this moment; come back");

pub(super) async fn stream(
    State(zone): State<Arc<Zone>>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>();
    let origin = Origin::of(request.headers(), peer.cloned());
    let id = named(id);
    let subject = convert::stream_id(&id).map(Subject::Stream);
    let subject = subject.ok_or_else(|| errors::unknown_stream(&id));
    let (mut parts, _) = request.into_parts();
    let attached = match attach(&zone, &parts, &origin, subject, "streams.socket").await {
        Ok(attached) => attached,
        Err(error) => return refused(&error, &origin),
    };
    let share = attached.known.share();
    let Some((mut response, upgrade)) = upgrade(&mut parts, &zone.limits, share) else {
        let error = errors::transport(
            StatusCode::UPGRADE_REQUIRED,
            "This is a WebSocket; for server-sent events add /events",
            "no_upgrade",
        );
        return refused(&error, &origin);
    };
    let header = origin.correlation.header();
    response.headers_mut().insert(CORRELATION, header);
    // It ends when the socket does, which the zone's own end sees to.
    tokio::spawn(async move {
        if let Some(socket) = upgrade.socket().await {
            let _open = zone.metrics.watcher("ws");
            talk(&zone, socket, attached, &origin).await;
        }
    });
    response
}

/// Something that happened on one of the two sides.
enum Next {
    Seen(Option<Seen>),
    Heard(Heard),
    Ping,
    Close((u16, &'static str)),
}

async fn talk(zone: &Zone, mut socket: Socket, attached: Attached, origin: &Origin) {
    let Attached {
        known,
        mut watch,
        ends,
        seat: _seat,
    } = attached;
    let mut beat = Instant::now() + PING;
    let mut heard = true;
    loop {
        let next = tokio::select! {
            () = zone.stop.cancelled() => Next::Close(CLOSING),
            () = tokio::time::sleep_until(ends) => Next::Close(EXPIRED),
            () = tokio::time::sleep_until(beat) => Next::Ping,
            heard = socket.recv() => Next::Heard(heard),
            seen = watch.next() => seen.map_or(Next::Close(BROKEN), Next::Seen),
        };
        let went_well = match next {
            Next::Heard(Heard::Text(_)) | Next::Seen(Some(_)) | Next::Ping
                if !known.is_still(zone, origin.peer.as_deref()) =>
            {
                Err(Some(REVOKED))
            }
            Next::Heard(Heard::End) => return,
            Next::Heard(Heard::NoRoom) => Err(Some(BUSY)),
            Next::Heard(Heard::TooSlow) => Err(Some(SLOW)),
            Next::Heard(Heard::Binary) => Err(Some(NOT_TEXT)),
            Next::Heard(Heard::Sign) => {
                heard = true;
                Ok(())
            }
            Next::Heard(Heard::Text(text)) => {
                heard = true;
                take(zone, &known, &mut socket, &text, origin).await
            }
            Next::Seen(None) => Err(Some(OVER)),
            Next::Seen(Some(seen)) => tell(zone, &known, &watch, &mut socket, seen).await,
            Next::Ping if heard => {
                heard = false;
                beat = Instant::now() + PING;
                socket.ping().await.map_err(gone)
            }
            Next::Ping => Err(None),
            Next::Close(why) => Err(Some(why)),
        };
        if let Err(why) = went_well {
            if let Some((code, reason)) = why {
                let _ = socket.close(code, reason).await;
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
    socket: &mut Socket,
    text: &Text,
    origin: &Origin,
) -> Going {
    let text = text.as_bytes();
    match serve_known(zone, known, text, &now(origin)).await {
        Some(mut answer) => {
            let mut reserved = answer.take_reservation();
            let answer = body::hold_within(
                answer.joined(),
                text.len(),
                &zone.limits,
                &known.share(),
                &mut reserved,
            );
            let answer = answer.map_err(|_| Some(BUSY))?;
            socket.say(answer).await.map_err(gone)
        }
        None => Ok(()),
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
        door: origin.door,
    }
}

async fn tell(zone: &Zone, known: &Known, watch: &Watch, socket: &mut Socket, seen: Seen) -> Going {
    let told = Box::pin(told(zone, known, watch, seen)).await;
    let told = told.map_err(|error| match error {
        Untold::Hub(_) => Some(BROKEN),
        Untold::NoRoom(_) => {
            zone.metrics.turned_away("no_room");
            Some(BUSY)
        }
    })?;
    for message in told.messages() {
        socket.say(message).await.map_err(gone)?;
    }
    Ok(())
}

/// The other side is gone, or does not read: it gets no reason, and may come back.
fn gone(_: Gone) -> Option<(u16, &'static str)> {
    None
}
