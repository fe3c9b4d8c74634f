//! What the page and other programs may do: act as people, order faults, read the log.

use super::{json, query, read, refuse, watch};
use crate::acts::Said;
use crate::api::multipart;
use crate::events::links::Farewell;
use crate::faults::{EventFault, Fault, Faults, What, When};
use crate::handle::PlaygroundError;
use crate::shared::Shared;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json as object};
use std::sync::Arc;
use std::time::Duration;

/// An act of a person, as the page sends it.
#[derive(Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
enum Act {
    Post {
        user: String,
        channel: String,
        text: String,
        thread_ts: Option<String>,
        #[serde(default)]
        broadcast: bool,
    },
    Edit {
        user: String,
        channel: String,
        ts: String,
        text: String,
    },
    Delete {
        user: String,
        channel: String,
        ts: String,
    },
    React {
        user: String,
        channel: String,
        ts: String,
        name: String,
    },
    Press {
        user: String,
        channel: String,
        ts: String,
        action_id: String,
        value: Option<String>,
    },
    StopStream {
        channel: String,
        ts: String,
    },
    Stop {
        user: String,
        channel: String,
        thread_ts: String,
    },
    Speak {
        user: String,
        locale: String,
    },
    Disconnect {
        reason: String,
    },
}

/// A fault, as other programs order it.
#[derive(Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
enum Order {
    RateLimited {
        #[serde(flatten)]
        on: On,
        seconds: u64,
    },
    Drop {
        #[serde(flatten)]
        on: On,
        when: Moment,
    },
    Hang {
        #[serde(flatten)]
        on: On,
        when: Moment,
    },
    Status {
        #[serde(flatten)]
        on: On,
        status: u16,
    },
    Refuse {
        #[serde(flatten)]
        on: On,
        word: String,
    },
    DuplicateEvents {
        events: u32,
        copies: u32,
    },
    ReverseEvents {
        events: u32,
    },
    DelayEvents {
        events: u32,
        milliseconds: u64,
    },
}

#[derive(Deserialize)]
struct On {
    method: Option<String>,
    #[serde(default)]
    skip: u32,
    #[serde(default = "once")]
    times: u32,
}

const fn once() -> u32 {
    1
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Moment {
    Before,
    After,
}

impl From<Moment> for When {
    fn from(moment: Moment) -> Self {
        match moment {
            Moment::Before => Self::Before,
            Moment::After => Self::After,
        }
    }
}

pub(super) async fn serve(
    shared: &Arc<Shared>,
    path: &[&str],
    parts: &Parts,
    body: Body,
) -> Response {
    let body = match read(shared, parts, body).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    match (path, &parts.method) {
        (["state"], &Method::GET) => json(StatusCode::OK, &shared.look(watch::everything)),
        (["calls"], &Method::GET) => json(StatusCode::OK, &log(shared)),
        (["acts"], &Method::POST) => match serde_json::from_slice(&body) {
            Ok(act) => done(perform(shared, act)),
            Err(error) => refuse(StatusCode::BAD_REQUEST, &error.to_string()),
        },
        (["upload"], &Method::POST) => {
            let text = |name| query(parts, name).unwrap_or_default();
            let (user, channel, said) = (text("user"), text("channel"), text("text"));
            let thread = query(parts, "thread_ts").filter(|thread| !thread.is_empty());
            let said = Said {
                user: &user,
                channel: &channel,
                thread: thread.as_deref(),
                text: &said,
                broadcast: false,
            };
            let Some(files) = files_of(parts, &body) else {
                return refuse(StatusCode::BAD_REQUEST, "send a form with files");
            };
            done(shared.change(|workspace| workspace.bring(&said, &files, false)))
        }
        (["faults"], &Method::POST) => match serde_json::from_slice(&body) {
            Ok(order) => {
                arrange(&Faults(Arc::clone(shared)), order);
                done(Ok(String::new()))
            }
            Err(error) => refuse(StatusCode::BAD_REQUEST, &error.to_string()),
        },
        (["faults"], &Method::DELETE) => {
            Faults(Arc::clone(shared)).clear();
            done(Ok(String::new()))
        }
        _ => refuse(StatusCode::NOT_FOUND, "there is nothing here"),
    }
}

/// The files of a form.
fn files_of(parts: &Parts, body: &Bytes) -> Option<Vec<(String, Bytes)>> {
    let kind = parts.headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let found = multipart::parts(kind, body).ok()?.into_iter();
    let files: Vec<(String, Bytes)> = found
        // A copy: a slice would keep the whole form in memory for as long as the file.
        .filter_map(|part| Some((part.filename?, Bytes::copy_from_slice(part.bytes))))
        .collect();
    (!files.is_empty()).then_some(files)
}

fn done(done: Result<String, PlaygroundError>) -> Response {
    match done {
        Ok(ts) => json(StatusCode::OK, &object!({"ok": true, "ts": ts})),
        Err(error) => {
            let said = object!({"ok": false, "error": error.to_string()});
            json(StatusCode::CONFLICT, &said)
        }
    }
}

fn perform(shared: &Shared, act: Act) -> Result<String, PlaygroundError> {
    let nothing = |(): ()| String::new();
    shared.change(|workspace| match act {
        Act::Post {
            user,
            channel,
            text,
            thread_ts,
            broadcast,
        } => workspace.say(&Said {
            user: &user,
            channel: &channel,
            thread: thread_ts.as_deref(),
            text: &text,
            broadcast,
        }),
        Act::Edit {
            user,
            channel,
            ts,
            text,
        } => workspace.edit(&user, &channel, &ts, &text).map(nothing),
        Act::Delete { user, channel, ts } => workspace.unsay(&user, &channel, &ts).map(nothing),
        Act::React {
            user,
            channel,
            ts,
            name,
        } => workspace.toggle(&user, &channel, &ts, &name).map(nothing),
        Act::Press {
            user,
            channel,
            ts,
            action_id,
            value,
        } => {
            let value = value.as_deref();
            let pressed = workspace.press(&user, &channel, &ts, &action_id, value);
            pressed.map(nothing)
        }
        Act::StopStream { channel, ts } => workspace.stop_stream(&channel, &ts).map(nothing),
        Act::Stop {
            user,
            channel,
            thread_ts,
        } => workspace
            .stop_answer(&user, &channel, &thread_ts)
            .map(nothing),
        Act::Speak { user, locale } => workspace.speak(&user, &locale).map(nothing),
        Act::Disconnect { reason } => {
            shared.links.dismiss(match reason.as_str() {
                "warning" => Farewell::Warning,
                "link_disabled" => Farewell::LinkDisabled,
                "cut" => Farewell::Cut,
                _ => Farewell::RefreshRequested,
            });
            Ok(String::new())
        }
    })
}

fn arrange(faults: &Faults, order: Order) {
    let add = |on: On, what| {
        faults.add(Fault {
            method: on.method,
            skip: on.skip,
            times: on.times,
            what,
        });
    };
    match order {
        Order::RateLimited { on, seconds } => add(on, What::RateLimited(seconds)),
        Order::Drop { on, when } => add(on, What::Drop(when.into())),
        Order::Hang { on, when } => add(on, What::Hang(when.into())),
        Order::Status { on, status } => add(on, What::Status(status)),
        Order::Refuse { on, word } => add(on, What::Refuse(word)),
        Order::DuplicateEvents { events, copies } => {
            faults.events(EventFault::Duplicate { events, copies });
        }
        Order::ReverseEvents { events } => faults.events(EventFault::Reverse { events }),
        Order::DelayEvents {
            events,
            milliseconds,
        } => faults.events(EventFault::Delay {
            events,
            by: Duration::from_millis(milliseconds),
        }),
    }
}

fn log(shared: &Shared) -> Value {
    shared.look(|workspace| {
        let calls = workspace.calls().map(|call| {
            object!({"number": call.number, "method": call.method, "args": call.args,
                "at_ms": u64::try_from(call.at.as_millis()).unwrap_or(u64::MAX),
                "answer": call.answer})
        });
        let deliveries = workspace.deliveries().map(|delivery| {
            object!({"id": delivery.id, "kind": delivery.kind, "attempt": delivery.attempt,
                "outcome": delivery.outcome,
                "took_ms": u64::try_from(delivery.took.as_millis()).unwrap_or(u64::MAX)})
        });
        let (calls, deliveries): (Vec<Value>, Vec<Value>) = (calls.collect(), deliveries.collect());
        object!({"calls": calls, "deliveries": deliveries})
    })
}
