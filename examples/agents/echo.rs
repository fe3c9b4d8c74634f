//! An agent for Interzone that says again what it was told, word by word. All it needs is `serde_json`;
//! nothing of Interzone's own enters, for an agent is any program that speaks JSON-RPC by the line.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Stops = Arc<Mutex<HashMap<String, Arc<AtomicBool>>>>;

fn main() -> io::Result<()> {
    let stops = Stops::default();
    // When the input ends, so does the program.
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        let Some(task) = message["params"]["taskId"].as_str().map(str::to_owned) else {
            continue;
        };
        match message["method"].as_str() {
            Some("agent.run") => {
                let stop = Arc::new(AtomicBool::new(false));
                lock(&stops).insert(task.clone(), Arc::clone(&stop));
                let stops = Arc::clone(&stops);
                // Several turns may be under way at once, so this goes on reading.
                thread::spawn(move || {
                    let answer = run(&task, &message["params"], &stop);
                    lock(&stops).remove(&task);
                    let answer = answer
                        .map(|state| json!({"id": message["id"], "result": {"state": state}}));
                    answer.and_then(|answer| send(&answer))
                });
            }
            Some("agent.cancel") => {
                if let Some(stop) = lock(&stops).get(&task) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Does one turn, and gives the state that it ends in.
fn run(task: &str, params: &Value, stop: &AtomicBool) -> io::Result<&'static str> {
    say("agent.status", json!({"taskId": task, "text": "reading"}))?;
    let parts = params["message"]["parts"].as_array();
    let texts = parts
        .into_iter()
        .flatten()
        .filter(|part| part["type"] == "TextPart");
    for word in texts
        .filter_map(|part| part["content"].as_str())
        .flat_map(str::split_whitespace)
    {
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

fn say(method: &str, params: Value) -> io::Result<()> {
    send(&json!({"method": method, "params": params}))
}

/// Writes one message, whole, on a line of its own.
fn send(message: &Value) -> io::Result<()> {
    let mut whole = message.clone();
    whole["jsonrpc"] = "2.0".into();
    let mut out = io::stdout().lock();
    writeln!(out, "{whole}")?;
    out.flush()
}

fn lock(
    stops: &Mutex<HashMap<String, Arc<AtomicBool>>>,
) -> std::sync::MutexGuard<'_, HashMap<String, Arc<AtomicBool>>> {
    stops.lock().unwrap_or_else(PoisonError::into_inner)
}
