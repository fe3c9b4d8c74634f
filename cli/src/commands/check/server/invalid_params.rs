//! Invalid params of task methods that a server must refuse.

use super::tasks::user_message;
use serde_json::{Value, json};

/// Returns invalid params: the method, what is wrong, the field, and the params.
pub(super) fn invalid_params() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let message = user_message("hello");
    let parts = message.get("parts").cloned().unwrap_or_default();
    let empty = json!({"role": "user", "parts": []});
    let boss = json!({"role": "boss", "parts": parts});
    let (create, get, notify) = ("tasks.create", "tasks.get", "task.notification");
    let time = "2026-01-01T00:00:00Z";
    vec![
        (create, "without a message", "initialMessage", json!({})),
        (
            create,
            "with a string as message",
            "initialMessage",
            json!({"initialMessage": "hi"}),
        ),
        (
            create,
            "with a message of no parts",
            "parts",
            json!({"initialMessage": empty}),
        ),
        (
            create,
            "with an unknown role",
            "role",
            json!({"initialMessage": boss}),
        ),
        (
            create,
            "with priority MEDIUM",
            "priority",
            json!({"initialMessage": message, "priority": "MEDIUM"}),
        ),
        (
            "tasks.send",
            "without a task",
            "taskId",
            json!({"message": message}),
        ),
        (
            "tasks.send",
            "without a message",
            "message",
            json!({"taskId": "a"}),
        ),
        (get, "without a task", "taskId", json!({})),
        (get, "with a number as task", "taskId", json!({"taskId": 7})),
        (
            get,
            "with a string as flag",
            "includeMessages",
            json!({"taskId": "a", "includeMessages": "yes"}),
        ),
        (
            "tasks.cancel",
            "without a task",
            "taskId",
            json!({"reason": "why"}),
        ),
        (
            "tasks.subscribe",
            "without an address",
            "callbackUrl",
            json!({"taskId": "a"}),
        ),
        (
            notify,
            "with an unknown event",
            "event",
            json!({"taskId": "a", "event": "EXPLODED", "timestamp": time}),
        ),
        (
            notify,
            "without a time",
            "timestamp",
            json!({"taskId": "a", "event": "COMPLETED"}),
        ),
    ]
}

/// Returns calls with unknown task ids.
pub(super) fn unknown_ids() -> [(&'static str, Value); 4] {
    let id = "interzone-check-unknown-id";
    [
        ("tasks.get", json!({"taskId": id})),
        (
            "tasks.send",
            json!({"taskId": id, "message": user_message("hello")}),
        ),
        ("tasks.cancel", json!({"taskId": id})),
        (
            "tasks.subscribe",
            json!({"taskId": id, "callbackUrl": "https://example.com/hook"}),
        ),
    ]
}
