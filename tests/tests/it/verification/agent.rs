//! An agent behind `execute_task`, by the contract between the zones: a repeated call is the same task.
//! It does what its text says, and remembers what it was asked.

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http::{Request, Response};
use interzone_client::{ByteStream, InProcess, Transport};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// How a task ended, if it has.
type End = Option<Result<Value, Value>>;

struct Task {
    id: String,
    end: watch::Sender<End>,
    text: String,
}

/// The agent.
#[derive(Default)]
pub(super) struct Agent {
    tasks: Mutex<HashMap<String, Arc<Task>>>,
    asked: Mutex<Vec<Value>>,
    /// How often it was called, whether for the same task or not.
    calls: Mutex<u32>,
    /// How many calls find nobody there.
    away: Mutex<u32>,
    /// For how many seconds whoever finds nobody there is told to wait.
    back_in: Mutex<Option<u32>>,
}

impl Agent {
    pub(super) fn transport(self: &Arc<Self>) -> Arc<dyn Transport> {
        let agent = self.clone();
        Arc::new(InProcess::new(Arc::new(move |request: Request<Bytes>| {
            let agent = agent.clone();
            async move { agent.answer(&request) }.boxed()
        })))
    }

    /// What it was asked, each task once.
    pub(super) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }

    /// How often something was to be done, the same or not.
    pub(super) fn calls(&self) -> u32 {
        *self.calls.lock().unwrap()
    }

    /// The next calls find nobody there.
    pub(super) fn be_away(&self, calls: u32) {
        *self.away.lock().unwrap() = calls;
    }

    /// From now on calls find nobody there, and are told to come again after so many seconds.
    pub(super) fn be_back_in(&self, seconds: u32) {
        *self.back_in.lock().unwrap() = Some(seconds);
        self.be_away(u32::MAX);
    }

    /// Lets everything that waits be done.
    pub(super) fn finish(&self, text: &str) {
        for task in self.tasks.lock().unwrap().values() {
            if task.end.borrow().is_none() {
                task.end.send_replace(Some(Ok(success(task, text))));
            }
        }
    }

    /// Waits until it has been asked so many things.
    pub(super) async fn has_begun(&self, count: usize) {
        let waiting = async {
            while self.tasks.lock().unwrap().len() < count {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(super::PATIENCE, waiting).await;
        waited.expect("nothing was asked");
    }

    fn answer(&self, request: &Request<Bytes>) -> Response<ByteStream> {
        let call: Value = serde_json::from_slice(request.body()).unwrap();
        {
            let mut away = self.away.lock().unwrap();
            if *away > 0 {
                *away -= 1;
                let mut nobody = Response::builder().status(503);
                if let Some(seconds) = *self.back_in.lock().unwrap() {
                    nobody = nobody.header("retry-after", seconds);
                }
                return nobody.body(stream::empty().boxed()).unwrap();
            }
        }
        let (id, params) = (call["id"].clone(), &call["params"]);
        match call["method"].as_str().unwrap() {
            "execute_task" => self.execute(id, params),
            "get_task_result" => {
                let task = self.by_id(params);
                let mut result = json!({"task_id": task.id, "status": "running"});
                match &*task.end.borrow() {
                    None => {}
                    Some(Ok(done)) => {
                        result["status"] = json!("completed");
                        result["result"] = done.clone();
                    }
                    Some(Err(error)) => {
                        result["status"] = json!("failed");
                        result["error"] = error.clone();
                    }
                }
                whole(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
            }
            "cancel_task" => {
                let task = self.by_id(params);
                if task.end.borrow().is_some() {
                    return whole(
                        &json!({"jsonrpc": "2.0", "id": id, "error": fault("task_finished")}),
                    );
                }
                task.end.send_replace(Some(Err(fault("canceled"))));
                let result = json!({"status": "canceled", "task_id": task.id});
                whole(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
            }
            other => panic!("{other} is not called"),
        }
    }

    fn by_id(&self, params: &Value) -> Arc<Task> {
        let tasks = self.tasks.lock().unwrap();
        let id = params["task_id"].as_str().unwrap();
        tasks.values().find(|task| task.id == id).unwrap().clone()
    }

    fn execute(&self, id: Value, params: &Value) -> Response<ByteStream> {
        *self.calls.lock().unwrap() += 1;
        let mut asked = params.clone();
        asked.as_object_mut().unwrap().remove("bot_token");
        let key = format!("{id}/{asked}");
        let text = params["text"].as_str().unwrap().to_owned();
        if let Some(word) = text.strip_prefix("fail ") {
            self.asked.lock().unwrap().push(params.clone());
            return whole(&json!({"jsonrpc": "2.0", "id": id, "error": fault(word)}));
        }
        if let Some(answered) = params.get("task_id") {
            let known = self.tasks.lock().unwrap();
            let asks = known.values().find(|task| json!(task.id) == *answered);
            if asks.is_none_or(|task| !task.text.starts_with("ask ")) {
                let error = fault("task_not_waiting");
                return whole(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        }
        let task = {
            let mut tasks = self.tasks.lock().unwrap();
            let number = tasks.len() + 1;
            let new = || {
                self.asked.lock().unwrap().push(params.clone());
                let (end, _) = watch::channel(None);
                let task = Task {
                    id: format!("task-{number}"),
                    end,
                    text: text.clone(),
                };
                Arc::new(task)
            };
            tasks.entry(key).or_insert_with(new).clone()
        };
        if task.end.borrow().is_none() {
            let end = begin(&task, params);
            task.end.send_if_modified(|known| {
                let new = known.is_none() && end.is_some();
                if new {
                    *known = end;
                }
                new
            });
        }
        told(id, task)
    }
}

/// What can be done at once.
fn begin(task: &Task, params: &Value) -> End {
    let text = params["text"].as_str().unwrap();
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "wait" | "status" => None,
        "ask" => {
            let mut asks = success(task, rest);
            asks["state"] = json!("input_required");
            Some(Ok(asks))
        }
        "file" => {
            let mut done = success(task, "here it is");
            let file = json!({
                "artifactId": "6f1e2d3c-0000-8000-8000-0000000000f1", "name": "generated_file",
                "parts": [{
                    "kind": "file", "contentBase64": "YSxiCjEsMgo=", "fileName": "a.csv",
                    "mimeType": "text/csv",
                }],
            });
            done["artifacts"] = json!([file]);
            Some(Ok(done))
        }
        _ => Some(Ok(success(task, &format!("You said: {text}")))),
    }
}

fn success(task: &Task, text: &str) -> Value {
    json!({"status": "success", "task_id": task.id, "response_text": text})
}

fn fault(word: &str) -> Value {
    json!({"code": -32000, "message": "it did not work", "data": {"error_code": word}})
}

fn whole(message: &Value) -> Response<ByteStream> {
    let body = Bytes::from(message.to_string());
    Response::builder()
        .header("content-type", "application/json")
        .body(stream::iter([Ok(body)]).boxed())
        .unwrap()
}

/// The events of a call: that it has begun, a first text or only the status that it is to have, and then
/// what came of it.
fn told(id: Value, task: Arc<Task>) -> Response<ByteStream> {
    let event = |message: Value| Ok(Bytes::from(format!("event: message\ndata: {message}\n\n")));
    let progress = |sequence: u64, name: &str, what: &str| {
        let params = json!({"task_id": task.id, "sequence": sequence, name: what});
        event(json!({"jsonrpc": "2.0", "method": "task.progress", "params": params}))
    };
    let first = match task.text.strip_prefix("status ") {
        Some(line) => vec![progress(1, "status", line)],
        None => vec![
            progress(1, "status", "thinking"),
            progress(2, "text_delta", "You "),
        ],
    };
    let first = stream::iter(first);
    let mut end = task.end.subscribe();
    let last = async move {
        let end = end
            .wait_for(Option::is_some)
            .await
            .unwrap()
            .clone()
            .unwrap();
        event(match end {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        })
    };
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(first.chain(stream::once(last)).boxed())
        .unwrap()
}
