//! Control API for the page and other programs: act as users, inject faults, read the log.

use super::{error_response, json_response, query_param, read_body, watch};
use crate::api::multipart;
use crate::events::sockets::DisconnectReason;
use crate::faults::{CallFault, EventFault, FaultAction, FaultTiming, Faults};
use crate::playground::PlaygroundError;
use crate::state::PlaygroundState;
use crate::user_actions::NewMessage;
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

/// A user action, as the page sends it.
#[derive(Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
enum UserAction {
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

/// A fault to inject.
#[derive(Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
enum FaultRequest {
    RateLimited {
        #[serde(flatten)]
        on: FaultTarget,
        seconds: u64,
    },
    Drop {
        #[serde(flatten)]
        on: FaultTarget,
        when: FaultTimingParam,
    },
    Hang {
        #[serde(flatten)]
        on: FaultTarget,
        when: FaultTimingParam,
    },
    Status {
        #[serde(flatten)]
        on: FaultTarget,
        status: u16,
    },
    Refuse {
        #[serde(flatten)]
        on: FaultTarget,
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
struct FaultTarget {
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
enum FaultTimingParam {
    Before,
    After,
}

impl From<FaultTimingParam> for FaultTiming {
    fn from(timing: FaultTimingParam) -> Self {
        match timing {
            FaultTimingParam::Before => Self::Before,
            FaultTimingParam::After => Self::After,
        }
    }
}

pub(super) async fn serve(
    shared: &Arc<PlaygroundState>,
    path: &[&str],
    parts: &Parts,
    body: Body,
) -> Response {
    let body = match read_body(shared, parts, body).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    match (path, &parts.method) {
        (["state"], &Method::GET) => {
            json_response(StatusCode::OK, &shared.inspect(watch::snapshot))
        }
        (["calls"], &Method::GET) => json_response(StatusCode::OK, &logs_json(shared)),
        (["acts"], &Method::POST) => match serde_json::from_slice(&body) {
            Ok(act) => action_response(perform_action(shared, act)),
            Err(error) => error_response(StatusCode::BAD_REQUEST, &error.to_string()),
        },
        (["upload"], &Method::POST) => {
            let text = |name| query_param(parts, name).unwrap_or_default();
            let (user, channel, body_text) = (text("user"), text("channel"), text("text"));
            let thread = query_param(parts, "thread_ts").filter(|thread| !thread.is_empty());
            let message = NewMessage {
                user: &user,
                channel: &channel,
                thread: thread.as_deref(),
                text: &body_text,
                broadcast: false,
            };
            let Some(files) = form_files(parts, &body) else {
                return error_response(StatusCode::BAD_REQUEST, "send a form with files");
            };
            action_response(
                shared.change(|workspace| workspace.share_files(&message, &files, false)),
            )
        }
        (["faults"], &Method::POST) => match serde_json::from_slice(&body) {
            Ok(order) => {
                inject_fault(&Faults(Arc::clone(shared)), order);
                action_response(Ok(String::new()))
            }
            Err(error) => error_response(StatusCode::BAD_REQUEST, &error.to_string()),
        },
        (["faults"], &Method::DELETE) => {
            Faults(Arc::clone(shared)).clear();
            action_response(Ok(String::new()))
        }
        _ => error_response(StatusCode::NOT_FOUND, "not found"),
    }
}

/// Returns the files of a form.
fn form_files(parts: &Parts, body: &Bytes) -> Option<Vec<(String, Bytes)>> {
    let content_type = parts.headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let found = multipart::parse_parts(content_type, body).ok()?.into_iter();
    let files: Vec<(String, Bytes)> = found
        // A copy: a slice would keep the complete form in memory.
        .filter_map(|part| Some((part.filename?, Bytes::copy_from_slice(part.bytes))))
        .collect();
    (!files.is_empty()).then_some(files)
}

fn action_response(result: Result<String, PlaygroundError>) -> Response {
    match result {
        Ok(ts) => json_response(StatusCode::OK, &object!({"ok": true, "ts": ts})),
        Err(error) => {
            let body = object!({"ok": false, "error": error.to_string()});
            json_response(StatusCode::CONFLICT, &body)
        }
    }
}

fn perform_action(shared: &PlaygroundState, action: UserAction) -> Result<String, PlaygroundError> {
    let no_ts = |(): ()| String::new();
    shared.change(|workspace| match action {
        UserAction::Post {
            user,
            channel,
            text,
            thread_ts,
            broadcast,
        } => workspace.post(&NewMessage {
            user: &user,
            channel: &channel,
            thread: thread_ts.as_deref(),
            text: &text,
            broadcast,
        }),
        UserAction::Edit {
            user,
            channel,
            ts,
            text,
        } => workspace.edit(&user, &channel, &ts, &text).map(no_ts),
        UserAction::Delete { user, channel, ts } => {
            workspace.delete(&user, &channel, &ts).map(no_ts)
        }
        UserAction::React {
            user,
            channel,
            ts,
            name,
        } => workspace
            .toggle_reaction(&user, &channel, &ts, &name)
            .map(no_ts),
        UserAction::Press {
            user,
            channel,
            ts,
            action_id,
            value,
        } => {
            let value = value.as_deref();
            let pressed = workspace.press_button(&user, &channel, &ts, &action_id, value);
            pressed.map(no_ts)
        }
        UserAction::StopStream { channel, ts } => workspace.stop_stream(&channel, &ts).map(no_ts),
        UserAction::Stop {
            user,
            channel,
            thread_ts,
        } => workspace
            .stop_answer(&user, &channel, &thread_ts)
            .map(no_ts),
        UserAction::Speak { user, locale } => workspace.set_locale(&user, &locale).map(no_ts),
        UserAction::Disconnect { reason } => {
            shared.sockets.disconnect_all(match reason.as_str() {
                "warning" => DisconnectReason::Warning,
                "link_disabled" => DisconnectReason::LinkDisabled,
                "cut" => DisconnectReason::Dropped,
                _ => DisconnectReason::RefreshRequested,
            });
            Ok(String::new())
        }
    })
}

fn inject_fault(faults: &Faults, request: FaultRequest) {
    let add = |on: FaultTarget, what| {
        faults.add(CallFault {
            method: on.method,
            skip: on.skip,
            times: on.times,
            action: what,
        });
    };
    match request {
        FaultRequest::RateLimited { on, seconds } => add(on, FaultAction::RateLimited(seconds)),
        FaultRequest::Drop { on, when } => add(on, FaultAction::Drop(when.into())),
        FaultRequest::Hang { on, when } => add(on, FaultAction::Hang(when.into())),
        FaultRequest::Status { on, status } => add(on, FaultAction::Status(status)),
        FaultRequest::Refuse { on, word } => add(on, FaultAction::Refuse(word)),
        FaultRequest::DuplicateEvents { events, copies } => {
            faults.add_event_fault(EventFault::Duplicate { events, copies });
        }
        FaultRequest::ReverseEvents { events } => {
            faults.add_event_fault(EventFault::Reverse { events })
        }
        FaultRequest::DelayEvents {
            events,
            milliseconds,
        } => faults.add_event_fault(EventFault::Delay {
            events,
            delay: Duration::from_millis(milliseconds),
        }),
    }
}

fn logs_json(shared: &PlaygroundState) -> Value {
    shared.inspect(|workspace| {
        let calls = workspace.calls().map(|call| {
            object!({"number": call.number, "method": call.method, "args": call.args,
                "at_ms": u64::try_from(call.at.as_millis()).unwrap_or(u64::MAX),
                "answer": call.outcome})
        });
        let deliveries = workspace.deliveries().map(|delivery| {
            object!({"id": delivery.id, "kind": delivery.kind, "attempt": delivery.attempt,
                "outcome": delivery.outcome,
                "took_ms": u64::try_from(delivery.duration.as_millis()).unwrap_or(u64::MAX)})
        });
        let (calls, deliveries): (Vec<Value>, Vec<Value>) = (calls.collect(), deliveries.collect());
        object!({"calls": calls, "deliveries": deliveries})
    })
}
