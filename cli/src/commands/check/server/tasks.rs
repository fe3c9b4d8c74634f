//! Checks of ACP's task methods and of `task.notification`.

use super::assertions::{names_field, no_nulls, string, timestamp};
use super::check_result::{CheckFailure, CheckOutcome, Checks};
use super::http_client::CheckClient;
use super::invalid_params::{invalid_params, unknown_ids};
use super::response::ServerResponse;
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp::codes;
use serde_json::{Value, json};

const METHODS: &str = "ACP §3";
const STATES: &str = "ACP §4";
const ERRORS: &str = "ACP §5";
const WEBHOOKS: &str = "ACP §6";
const MESSAGES: &str = "ACP §2";

const PARAMS: &[ErrorCode] = &[ErrorCode::INVALID_PARAMS];
const NO_TASK: &[ErrorCode] = &[codes::TASK_NOT_FOUND];
/// A callback URL is refused as an invalid param or as not permitted.
const NOT_ALLOWED: &[ErrorCode] = &[ErrorCode::INVALID_PARAMS, codes::PERMISSION_DENIED];

/// URLs that a webhook must not use, in several notations.
const FORBIDDEN_URLS: &[&str] = &[
    "https://127.0.0.1/hook",
    "https://localhost/hook",
    "https://[::1]/hook",
    "https://169.254.169.254/latest/meta-data",
    "https://10.0.0.1/hook",
    "https://2130706433/hook",
    "https://[::ffff:127.0.0.1]/hook",
    "http://example.com/hook",
    "ftp://example.com/hook",
    "https://user:secret@example.com/hook",
];

pub(super) async fn check(probe: &CheckClient, out: &mut Checks) {
    out.group("tasks");
    if let Err(flaw) = probe.require_token() {
        out.record("all task methods", METHODS, Err(flaw));
        return;
    }
    out.record(
        "tasks.create creates a task",
        METHODS,
        create_works(probe).await,
    );
    out.record(
        "content and metadata are returned unchanged",
        MESSAGES,
        content_is_unchanged(probe).await,
    );
    out.record(
        "explicit nulls are accepted, none are sent",
        MESSAGES,
        nulls_are_accepted(probe).await,
    );
    out.record(
        "tasks.get omits messages and artifacts on request",
        METHODS,
        get_omits_members(probe).await,
    );
    for (method, what, field, params) in invalid_params() {
        let found = invalid_params_are_refused(probe, method, params, field).await;
        out.record(
            format!("{method} {what}: refused, naming the field"),
            ERRORS,
            found,
        );
    }
    for (method, params) in unknown_ids() {
        let found = refused(probe, method, params, NO_TASK).await;
        out.record(format!("{method} refuses an unknown id"), ERRORS, found);
    }
    let found = unknown_agent_is_refused(probe).await;
    out.record("an unknown agent is refused", ERRORS, found);
    out.record(
        "tasks.send adds a message",
        METHODS,
        send_works(probe).await,
    );
    out.record(
        "tasks.cancel ends a task",
        STATES,
        cancel_works(probe).await,
    );
    out.record(
        "tasks.subscribe accepts a webhook",
        WEBHOOKS,
        subscribe_works(probe).await,
    );
    out.record(
        "webhooks to private addresses are refused",
        WEBHOOKS,
        forbidden_urls_are_refused(probe).await,
    );
    out.record(
        "task.notification is accepted",
        METHODS,
        notification_is_accepted(probe).await,
    );
    out.record(
        "methods not in ACP are refused",
        ERRORS,
        unknown_methods_are_refused(probe).await,
    );
}

pub(super) fn user_message(text: &str) -> Value {
    json!({"role": "user", "parts": [{"type": "TextPart", "content": text}]})
}

/// Creates a task and returns its object.
pub(super) async fn create_task(probe: &CheckClient, text: &str) -> Result<Value, CheckFailure> {
    let answer = probe
        .call(
            "tasks.create",
            json!({"initialMessage": user_message(text)}),
        )
        .await?;
    task_from(&answer)
}

fn task_from(answer: &ServerResponse) -> Result<Value, CheckFailure> {
    let mut result = answer.result()?;
    if result.get("type").and_then(Value::as_str) != Some("task") {
        return Err(CheckFailure::violation("the result's type is not \"task\""));
    }
    match result.get_mut("task") {
        Some(task) => Ok(task.take()),
        None => Err(CheckFailure::violation("the result has no `task`")),
    }
}

pub(super) fn task_id(task: &Value) -> Result<String, CheckFailure> {
    string(task, "taskId")
}

pub(super) async fn get_task(probe: &CheckClient, id: &str) -> Result<Value, CheckFailure> {
    task_from(&probe.call("tasks.get", json!({"taskId": id})).await?)
}

async fn create_works(probe: &CheckClient) -> CheckOutcome {
    let task = create_task(probe, "hello from interzone check").await?;
    task_id(&task)?;
    timestamp(&task, "createdAt")?;
    match string(&task, "status")?.as_str() {
        "SUBMITTED" => Ok("SUBMITTED".to_owned()),
        "WORKING" => Ok("WORKING".to_owned()),
        other => Err(CheckFailure::warning(format!(
            "expected SUBMITTED, got {}",
            crate::printable::quoted(other)
        ))),
    }
}

async fn content_is_unchanged(probe: &CheckClient) -> CheckOutcome {
    let part =
        json!({"type": "TextPart", "content": "hello", "checksum": "sha256:0", "width": 640});
    let metadata = json!({"a": {"b": [1, 2.5, "é日", null, true]}, "large": 9007199254740993_u64});
    let params = json!({
        "initialMessage": {"role": "user", "parts": [part]},
        "metadata": metadata,
        "priority": "HIGH",
    });
    let task = task_from(&probe.call("tasks.create", params).await?)?;
    let stored = get_task(probe, &task_id(&task)?).await?;
    let returned = stored.pointer("/messages/0/parts/0");
    for member in ["content", "checksum", "width"] {
        if returned.and_then(|returned| returned.get(member)) != part.get(member) {
            return Err(CheckFailure::violation(format!(
                "a part's `{member}` is lost"
            )));
        }
    }
    for member in ["a", "large"] {
        if stored.pointer(&format!("/metadata/{member}")) != metadata.get(member) {
            return Err(CheckFailure::violation("metadata is changed or lost"));
        }
    }
    Ok("parts with custom members, and metadata".to_owned())
}

async fn nulls_are_accepted(probe: &CheckClient) -> CheckOutcome {
    let params = json!({
        "initialMessage": {
            "role": "user", "timestamp": null, "agentId": null,
            "parts": [{"type": "TextPart", "content": "hello", "mimeType": null, "filename": null,
                       "size": null, "encoding": null}],
        },
        "assignTo": null, "metadata": null,
    });
    let task = task_from(&probe.call("tasks.create", params).await?)?;
    no_nulls(&get_task(probe, &task_id(&task)?).await?)
}

async fn get_omits_members(probe: &CheckClient) -> CheckOutcome {
    let task = create_task(probe, "hello").await?;
    let id = task_id(&task)?;
    let full = get_task(probe, &id).await?;
    if full
        .get("messages")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        return Err(CheckFailure::violation("tasks.get returns no messages"));
    }
    let params = json!({"taskId": id, "includeMessages": false, "includeArtifacts": false});
    let less = task_from(&probe.call("tasks.get", params).await?)?;
    for member in ["messages", "artifacts"] {
        let list = less.get(member).and_then(Value::as_array);
        if list.is_some_and(|list| !list.is_empty()) {
            return Err(CheckFailure::violation(format!(
                "`{member}` are returned anyway"
            )));
        }
    }
    Ok(String::new())
}

async fn invalid_params_are_refused(
    probe: &CheckClient,
    method: &str,
    params: Value,
    field: &str,
) -> CheckOutcome {
    let answer = probe.call(method, params).await?;
    let reply = answer.refused_with(PARAMS)?;
    names_field(&answer, field, reply)
}

async fn refused(
    probe: &CheckClient,
    method: &str,
    params: Value,
    codes: &[ErrorCode],
) -> CheckOutcome {
    probe.call(method, params).await?.refused_with(codes)
}

async fn unknown_agent_is_refused(probe: &CheckClient) -> CheckOutcome {
    let params =
        json!({"initialMessage": user_message("hello"), "assignTo": "interzone-check-unknown"});
    refused(probe, "tasks.create", params, &[codes::AGENT_NOT_AVAILABLE]).await
}

async fn send_works(probe: &CheckClient) -> CheckOutcome {
    let id = task_id(&create_task(probe, "wait 60").await?)?;
    let answer = probe
        .call(
            "tasks.send",
            json!({"taskId": id, "message": user_message("and this")}),
        )
        .await?;
    // A quick agent may have finished the task already, which is not an error of the method.
    if answer
        .refused_with(&[codes::TASK_ALREADY_COMPLETED])
        .is_ok()
    {
        return Ok("the task had already ended".to_owned());
    }
    succeeded(&answer)?;
    let stored = get_task(probe, &id).await?;
    let _ = probe.call("tasks.cancel", json!({"taskId": id})).await?;
    let messages = stored.get("messages").and_then(Value::as_array);
    let added = messages.is_some_and(|all| {
        all.iter()
            .any(|one| one.pointer("/parts/0/content") == Some(&json!("and this")))
    });
    if added {
        Ok(String::new())
    } else {
        Err(CheckFailure::violation("the message is not in the task"))
    }
}

pub(super) fn succeeded(answer: &ServerResponse) -> CheckOutcome {
    let result = answer.result()?;
    match result.get("type").and_then(Value::as_str) {
        Some("success" | "notification") => Ok(String::new()),
        _ => Err(CheckFailure::violation(
            "the result's type is not \"success\"",
        )),
    }
}

async fn cancel_works(probe: &CheckClient) -> CheckOutcome {
    let id = task_id(&create_task(probe, "wait 60").await?)?;
    let answer = probe.call("tasks.cancel", json!({"taskId": id})).await?;
    if answer
        .refused_with(&[codes::TASK_ALREADY_COMPLETED])
        .is_ok()
    {
        return Ok("the task had already ended".to_owned());
    }
    succeeded(&answer)?;
    let status = string(&get_task(probe, &id).await?, "status")?;
    if status != "CANCELED" {
        return Err(CheckFailure::violation(format!(
            "the task is {} afterwards",
            crate::printable::quoted(&status)
        )));
    }
    let again = probe.call("tasks.cancel", json!({"taskId": id})).await?;
    if succeeded(&again).is_err() {
        return Err(CheckFailure::violation("a second tasks.cancel is refused"));
    }
    let params = json!({"taskId": id, "message": user_message("too late")});
    refused(
        probe,
        "tasks.send",
        params,
        &[codes::TASK_ALREADY_COMPLETED],
    )
    .await?;
    Ok("CANCELED at once, idempotent, and closed to tasks.send".to_owned())
}

/// Uses a finished task, so that the webhook is never called.
async fn subscribe_works(probe: &CheckClient) -> CheckOutcome {
    let id = task_id(&create_task(probe, "hello").await?)?;
    let _ = probe.call("tasks.cancel", json!({"taskId": id})).await?;
    let params =
        json!({"taskId": id, "callbackUrl": "https://example.com/hook", "events": ["FAILED"]});
    let mut result = probe.call("tasks.subscribe", params).await?.result()?;
    let Some(subscription) = result.get_mut("subscription").map(Value::take) else {
        return Err(CheckFailure::violation("the result has no `subscription`"));
    };
    let subscription_id = string(&subscription, "subscriptionId")?;
    if subscription.get("events") != Some(&json!(["FAILED"])) {
        return Err(CheckFailure::violation(
            "`events` are not the requested ones",
        ));
    }
    // Only our server has this method; on others, the subscription stays but never fires.
    let params = json!({"taskId": id, "subscriptionId": subscription_id});
    let _ = probe.call("interzone.tasks.unsubscribe", params).await?;
    let params =
        json!({"taskId": id, "callbackUrl": "https://example.com/hook", "events": ["NONE"]});
    refused(probe, "tasks.subscribe", params, PARAMS).await?;
    Ok(String::new())
}

async fn forbidden_urls_are_refused(probe: &CheckClient) -> CheckOutcome {
    let id = task_id(&create_task(probe, "hello").await?)?;
    let _ = probe.call("tasks.cancel", json!({"taskId": id})).await?;
    for url in FORBIDDEN_URLS {
        let params = json!({"taskId": id, "callbackUrl": url, "events": ["FAILED"]});
        let found = refused(probe, "tasks.subscribe", params, NOT_ALLOWED).await;
        if let Err(CheckFailure::Violation(why)) = found {
            return Err(CheckFailure::violation(format!("{url}: {why}")));
        }
    }
    Ok(format!("{} URLs are refused", FORBIDDEN_URLS.len()))
}

async fn notification_is_accepted(probe: &CheckClient) -> CheckOutcome {
    let id = task_id(&create_task(probe, "hello").await?)?;
    let params =
        json!({"taskId": id, "event": "STATUS_CHANGE", "timestamp": "2026-01-01T00:00:00Z"});
    let silent = json!({"jsonrpc": "2.0", "method": "task.notification", "params": params});
    probe.post(silent.to_string()).await?.has_no_response()?;
    let answer = probe.call("task.notification", params).await?;
    succeeded(&answer)?;
    Ok("with and without an id".to_owned())
}

async fn unknown_methods_are_refused(probe: &CheckClient) -> CheckOutcome {
    for method in ["tasks.getBatch", "tasks.delete", "stream.get", "Tasks.Get"] {
        refused(probe, method, json!({}), &[ErrorCode::METHOD_NOT_FOUND]).await?;
    }
    Ok(String::new())
}
