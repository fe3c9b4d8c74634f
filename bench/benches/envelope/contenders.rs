//! Three servers with the same job: parse bytes, tell requests from notifications, dispatch by method name
//! and write the same response.

use crate::BenchError;
use crate::cases::{CASES, CONTROLS};
use interzone_jsonrpc::{
    ErrorCode, ErrorObject, Item, Message, Parsed, Policy, ResponseWriter, parse,
};
use jsonrpsee_types::error::ErrorCode as JsonrpseeCode;
use jsonrpsee_types::{Id, InvalidRequest, Notification, Request, Response, ResponsePayload};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::hint::black_box;
use std::io;

/// A server: bytes in, response bytes out.
pub(crate) struct EnvelopeContender {
    pub(crate) name: &'static str,
    pub(crate) serve: fn(&[u8]) -> Option<Vec<u8>>,
}

/// The contender that the thresholds apply to.
pub(crate) const SUBJECT: &str = "interzone-jsonrpc";
/// The contender that all are compared with.
pub(crate) const REFERENCE: &str = "jsonrpsee-types";

pub(crate) const CONTENDERS: [EnvelopeContender; 3] = [
    EnvelopeContender {
        name: SUBJECT,
        serve: interzone,
    },
    EnvelopeContender {
        name: REFERENCE,
        serve: jsonrpsee,
    },
    EnvelopeContender {
        name: "serde_json::Value",
        serve: serde_value,
    },
];

/// Checks that all contenders give the same responses, so that none wins by doing less.
pub(crate) fn check_agreement() -> Result<(), BenchError> {
    let cases = CASES.iter().map(|case| (case.message)());
    for message in cases.chain(CONTROLS.map(str::to_owned)) {
        let mut first = None;
        for contender in &CONTENDERS {
            let response = match (contender.serve)(message.as_bytes()) {
                Some(bytes) => Some(serde_json::from_slice::<Value>(&bytes)?),
                None => None,
            };
            if *first.get_or_insert_with(|| response.clone()) != response {
                let shown: String = message.chars().take(300).collect();
                let error = format!("{} responds {response:?} to {shown}", contender.name);
                return Err(io::Error::other(error).into());
            }
        }
    }
    Ok(())
}

/// Result of every handler.
#[derive(Clone, Serialize)]
struct HandlerResult {
    r#type: &'static str,
    #[serde(rename = "taskId")]
    task_id: &'static str,
}

/// The handler of all contenders; `None` for an unknown method.
fn handle<P>(method: &str, params: Option<P>) -> Option<HandlerResult> {
    match method {
        "tasks.create" | "tasks.send" | "tasks.get" => {
            black_box(params);
            Some(HandlerResult {
                r#type: "task",
                task_id: "task-01HX5K6Q3M8Z",
            })
        }
        _ => None,
    }
}

fn interzone(bytes: &[u8]) -> Option<Vec<u8>> {
    let parsed = parse(bytes, &Policy::SERVER);
    let mut writer = ResponseWriter::for_parsed(&parsed);
    let mut serve = |item: Item| match item {
        Ok(Message::Request(request)) => {
            match handle(request.method(), request.params().map(|raw| raw.as_str())) {
                Some(outcome) => writer.result(&request, &outcome).unwrap_or_default(),
                None => {
                    writer.push(&request.fail(ErrorObject::standard(ErrorCode::METHOD_NOT_FOUND)))
                }
            }
        }
        Ok(Message::Notification(note)) => {
            handle(note.method(), note.params().map(|raw| raw.as_str()));
        }
        Ok(Message::Response(_)) => {}
        Err(rejection) => writer.extend(rejection.response().as_ref()),
    };
    match parsed {
        Parsed::One(item) => serve(item),
        Parsed::Batch(items) => items.into_iter().for_each(serve),
    }
    writer.finish()
}

/// `handle_rpc_call` of jsonrpsee-server 0.26, without (in its favour) extensions, size limits, futures, a
/// buffer per response, and parsing its own responses again into raw values.
fn jsonrpsee(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(128);
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        if let Ok(request) = serde_json::from_slice::<Request>(bytes) {
            jsonrpsee_call(request, &mut out);
        } else if let Ok(note) = serde_json::from_slice::<JsonrpseeNote>(bytes) {
            handle(&note.method, note.params.as_deref().map(RawValue::get));
            return None;
        } else {
            let (id, code) = match serde_json::from_slice::<InvalidRequest>(bytes) {
                Ok(invalid) => (invalid.id, JsonrpseeCode::InvalidRequest),
                Err(_) => (Id::Null, JsonrpseeCode::ParseError),
            };
            jsonrpsee_fail(id, code, &mut out);
        }
        return Some(out);
    }
    let Ok(unchecked) = serde_json::from_slice::<Vec<&RawValue>>(bytes) else {
        jsonrpsee_fail(Id::Null, JsonrpseeCode::ParseError, &mut out);
        return Some(out);
    };
    let mut batch = Vec::with_capacity(unchecked.len());
    for call in unchecked {
        if let Ok(request) = serde_json::from_str::<Request>(call.get()) {
            batch.push(Ok(JsonrpseeEntry::Call(request)));
        } else if let Ok(note) = serde_json::from_str::<JsonrpseeNote>(call.get()) {
            batch.push(Ok(JsonrpseeEntry::Note(note)));
        } else {
            batch.push(Err(
                serde_json::from_str::<InvalidRequest>(call.get()).map_or(Id::Null, |it| it.id)
            ));
        }
    }
    let mut out = Vec::with_capacity(2048);
    out.push(b'[');
    let mut got_notification = false;
    for entry in batch {
        match entry {
            Ok(JsonrpseeEntry::Call(request)) => jsonrpsee_call(request, &mut out),
            Ok(JsonrpseeEntry::Note(note)) => {
                got_notification = true;
                handle(&note.method, note.params.as_deref().map(RawValue::get));
                continue;
            }
            Err(id) => jsonrpsee_fail(id, JsonrpseeCode::InvalidRequest, &mut out),
        }
        out.push(b',');
    }
    if out.len() == 1 {
        out.clear();
        if got_notification {
            return None;
        }
        jsonrpsee_fail(Id::Null, JsonrpseeCode::InvalidRequest, &mut out);
        return Some(out);
    }
    out.pop();
    out.push(b']');
    Some(out)
}

type JsonrpseeNote<'a> = Notification<'a, Option<Cow<'a, RawValue>>>;

enum JsonrpseeEntry<'a> {
    Call(Request<'a>),
    Note(JsonrpseeNote<'a>),
}

fn jsonrpsee_call(request: Request<'_>, out: &mut Vec<u8>) {
    match handle(
        &request.method,
        request.params.as_deref().map(RawValue::get),
    ) {
        Some(outcome) => {
            let response = Response::new(ResponsePayload::success(outcome), request.id);
            serde_json::to_writer(out, &response).unwrap_or_default();
        }
        None => jsonrpsee_fail(request.id, JsonrpseeCode::MethodNotFound, out),
    }
}

fn jsonrpsee_fail(id: Id<'_>, code: JsonrpseeCode, out: &mut Vec<u8>) {
    let response = Response::new(ResponsePayload::<()>::error(code), id);
    serde_json::to_writer(out, &response).unwrap_or_default();
}

/// Server without a library: everything is parsed into and written from `serde_json::Value`.
fn serde_value(bytes: &[u8]) -> Option<Vec<u8>> {
    let response = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Array(items)) if !items.is_empty() => {
            let responses: Vec<Value> = items.into_iter().filter_map(value_call).collect();
            Some(Value::Array(responses)).filter(|responses| *responses != json!([]))
        }
        Ok(single) => value_call(single),
        Err(_) => Some(value_fail(&Value::Null, -32700, "Parse error")),
    }?;
    serde_json::to_vec(&response).ok()
}

fn value_call(message: Value) -> Option<Value> {
    let invalid = || Some(value_fail(&Value::Null, -32600, "Invalid request"));
    let Value::Object(mut fields) = message else {
        return invalid();
    };
    let (Some("2.0"), Some(Value::String(method))) = (
        fields.get("jsonrpc").and_then(Value::as_str),
        fields.get("method"),
    ) else {
        return invalid();
    };
    let outcome = handle(method, fields.get("params"));
    let id = fields.remove("id")?;
    Some(match outcome {
        Some(HandlerResult { r#type, task_id }) => {
            json!({"jsonrpc": "2.0", "id": id, "result": {"type": r#type, "taskId": task_id}})
        }
        None => value_fail(&id, -32601, "Method not found"),
    })
}

fn value_fail(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}
