//! Example agent for Interzone: repeats the text of a message word by word. It depends on `serde_json` only and links
//! no part of Interzone: an agent is any program that exchanges JSON-RPC messages, one per line.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Running turns by task id, each with its cancellation flag.
#[derive(Clone, Default)]
struct Turns(Arc<Mutex<HashMap<String, Arc<AtomicBool>>>>);

fn main() -> io::Result<()> {
    let turns = Turns::default();
    // The program exits at the end of its input.
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        match text(&message, "/method") {
            "agent.run" => {
                let stop = turns.begin(text(&message, "/params/taskId"));
                let turns = turns.clone();
                // Several turns may run at the same time, so this loop keeps reading.
                thread::spawn(move || {
                    let state = run(&message, &stop)?;
                    turns.end(text(&message, "/params/taskId"));
                    let id = message.pointer("/id");
                    send(&json!({"jsonrpc": "2.0", "id": id, "result": {"state": state}}))
                });
            }
            "agent.cancel" => turns.call_off(text(&message, "/params/taskId")),
            _ => {}
        }
    }
    Ok(())
}

/// Runs one turn and returns its final state.
fn run(request: &Value, stop: &AtomicBool) -> io::Result<&'static str> {
    let task = text(request, "/params/taskId");
    say("agent.status", json!({"taskId": task, "text": "reading"}))?;
    let parts = request.pointer("/params/message/parts");
    let parts = parts.and_then(Value::as_array).into_iter().flatten();
    let texts = parts.filter(|part| text(part, "/type") == "TextPart");
    for word in texts.flat_map(|part| text(part, "/content").split_whitespace()) {
        if stop.load(Ordering::Relaxed) {
            return Ok("failed");
        }
        say(
            "agent.text",
            json!({"taskId": task, "delta": format!("{word} ")}),
        )?;
    }
    Ok("completed")
}

/// Returns the string at a JSON pointer, or an empty one.
fn text<'m>(message: &'m Value, place: &str) -> &'m str {
    let found = message.pointer(place);
    found.and_then(Value::as_str).unwrap_or_default()
}

fn say(method: &str, params: Value) -> io::Result<()> {
    send(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// Writes one message as a line.
fn send(message: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{message}")?;
    out.flush()
}

impl Turns {
    fn begin(&self, task: &str) -> Arc<AtomicBool> {
        let stop = Arc::<AtomicBool>::default();
        self.with_turns(|turns| turns.insert(task.to_owned(), Arc::clone(&stop)));
        stop
    }

    fn call_off(&self, task: &str) {
        self.with_turns(|turns| {
            if let Some(stop) = turns.get(task) {
                stop.store(true, Ordering::Relaxed);
            }
        });
    }

    fn end(&self, task: &str) {
        self.with_turns(|turns| turns.remove(task));
    }

    fn with_turns<T>(&self, change: impl FnOnce(&mut HashMap<String, Arc<AtomicBool>>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
