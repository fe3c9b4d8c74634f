//! Fake agent behind `execute_task`, by the contract between the zones: a repeated call is the same task.
//! It follows its message text and records its calls.

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http::{Request, Response};
use interzone_client::{ByteStream, InProcess, Transport};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// Outcome of a task, if it has ended.
type TaskEnd = Option<Result<Value, Value>>;

struct FakeTask {
    id: String,
    end: watch::Sender<TaskEnd>,
    text: String,
}

/// Fake agent.
#[derive(Default)]
pub(super) struct FakeAgent {
    tasks: Mutex<HashMap<String, Arc<FakeTask>>>,
    created: Mutex<Vec<Value>>,
    /// Number of `execute_task` calls, including repetitions.
    calls: Mutex<u32>,
    /// Number of calls still to be answered with 503.
    unavailable_calls: Mutex<u32>,
    /// `Retry-After` of the 503 responses, in seconds.
    retry_after: Mutex<Option<u32>>,
}

impl FakeAgent {
    pub(super) fn transport(self: &Arc<Self>) -> Arc<dyn Transport> {
        let agent = self.clone();
        Arc::new(InProcess::new(Arc::new(move |request: Request<Bytes>| {
            let agent = agent.clone();
            async move { agent.handle(&request) }.boxed()
        })))
    }

    /// Params of the created tasks, each once.
    pub(super) fn created_tasks(&self) -> Vec<Value> {
        self.created.lock().unwrap().clone()
    }

    /// Number of `execute_task` calls, including repetitions.
    pub(super) fn calls(&self) -> u32 {
        *self.calls.lock().unwrap()
    }

    /// Answers the next calls with 503.
    pub(super) fn fail_next_calls(&self, calls: u32) {
        *self.unavailable_calls.lock().unwrap() = calls;
    }

    /// Answers all calls from now on with 503 and this `Retry-After`.
    pub(super) fn fail_with_retry_after(&self, seconds: u32) {
        *self.retry_after.lock().unwrap() = Some(seconds);
        self.fail_next_calls(u32::MAX);
    }

    /// Completes all open tasks with this text.
    pub(super) fn finish(&self, text: &str) {
        for task in self.tasks.lock().unwrap().values() {
            if task.end.borrow().is_none() {
                task.end.send_replace(Some(Ok(success(task, text))));
            }
        }
    }

    /// Waits until this many tasks have been created.
    pub(super) async fn wait_for_tasks(&self, count: usize) {
        let waiting = async {
            while self.tasks.lock().unwrap().len() < count {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(super::WAIT_TIMEOUT, waiting).await;
        waited.expect("a call before the timeout");
    }

    fn handle(&self, request: &Request<Bytes>) -> Response<ByteStream> {
        let call: Value = serde_json::from_slice(request.body()).unwrap();
        {
            let mut away = self.unavailable_calls.lock().unwrap();
            if *away > 0 {
                *away -= 1;
                let mut unavailable = Response::builder().status(503);
                if let Some(seconds) = *self.retry_after.lock().unwrap() {
                    unavailable = unavailable.header("retry-after", seconds);
                }
                return unavailable.body(stream::empty().boxed()).unwrap();
            }
        }
        let (id, params) = (call["id"].clone(), &call["params"]);
        match call["method"].as_str().unwrap() {
            "execute_task" => self.execute(id, params),
            "get_task_result" => {
                let task = self.task_by_id(params);
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
                json_response(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
            }
            "cancel_task" => {
                let task = self.task_by_id(params);
                if task.end.borrow().is_some() {
                    return json_response(
                        &json!({"jsonrpc": "2.0", "id": id, "error": error_object("task_finished")}),
                    );
                }
                task.end.send_replace(Some(Err(error_object("canceled"))));
                let result = json!({"status": "canceled", "task_id": task.id});
                json_response(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
            }
            other => panic!("{other} is not called"),
        }
    }

    fn task_by_id(&self, params: &Value) -> Arc<FakeTask> {
        let tasks = self.tasks.lock().unwrap();
        let id = params["task_id"].as_str().unwrap();
        tasks.values().find(|task| task.id == id).unwrap().clone()
    }

    fn execute(&self, id: Value, params: &Value) -> Response<ByteStream> {
        *self.calls.lock().unwrap() += 1;
        let mut without_token = params.clone();
        without_token.as_object_mut().unwrap().remove("bot_token");
        let key = format!("{id}/{without_token}");
        let text = params["text"].as_str().unwrap().to_owned();
        if let Some(code) = text.strip_prefix("fail ") {
            self.created.lock().unwrap().push(params.clone());
            return json_response(
                &json!({"jsonrpc": "2.0", "id": id, "error": error_object(code)}),
            );
        }
        if let Some(answered) = params.get("task_id") {
            let tasks = self.tasks.lock().unwrap();
            let question = tasks.values().find(|task| json!(task.id) == *answered);
            if question.is_none_or(|task| !task.text.starts_with("ask ")) {
                let error = error_object("task_not_waiting");
                return json_response(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        }
        let task = {
            let mut tasks = self.tasks.lock().unwrap();
            let number = tasks.len() + 1;
            let new = || {
                self.created.lock().unwrap().push(params.clone());
                let (end, _) = watch::channel(None);
                let task = FakeTask {
                    id: format!("task-{number}"),
                    end,
                    text: text.clone(),
                };
                Arc::new(task)
            };
            tasks.entry(key).or_insert_with(new).clone()
        };
        if task.end.borrow().is_none() {
            let end = immediate_end(&task, params);
            task.end.send_if_modified(|current| {
                let new = current.is_none() && end.is_some();
                if new {
                    *current = end;
                }
                new
            });
        }
        event_stream(id, task)
    }
}

/// Returns the outcome of a task that ends at once.
fn immediate_end(task: &FakeTask, params: &Value) -> TaskEnd {
    let text = params["text"].as_str().unwrap();
    let (command, argument) = text.split_once(' ').unwrap_or((text, ""));
    match command {
        "wait" | "status" => None,
        "ask" => {
            let mut question = success(task, argument);
            question["state"] = json!("input_required");
            Some(Ok(question))
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

fn success(task: &FakeTask, text: &str) -> Value {
    json!({"status": "success", "task_id": task.id, "response_text": text})
}

fn error_object(code: &str) -> Value {
    json!({"code": -32000, "message": "it did not work", "data": {"error_code": code}})
}

fn json_response(message: &Value) -> Response<ByteStream> {
    let body = Bytes::from(message.to_string());
    Response::builder()
        .header("content-type", "application/json")
        .body(stream::iter([Ok(body)]).boxed())
        .unwrap()
}

/// Event stream of a call: a status, a first text delta unless the text asks for a status only, and then the
/// response.
fn event_stream(id: Value, task: Arc<FakeTask>) -> Response<ByteStream> {
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
