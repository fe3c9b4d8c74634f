//! Tasks: ACP's five methods about them, and what agents tell of them.

use super::answer::Answer;
use super::members::{names_field, no_nulls, string, timestamp};
use super::mistakes::{unknown_ids, wrong_params};
use super::probe::Probe;
use super::verdict::{Checks, Finding, Flaw};
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp::codes;
use serde_json::{Value, json};

const METHODS: &str = "ACP §3";
const STATES: &str = "ACP §4";
const ERRORS: &str = "ACP §5";
const WEBHOOKS: &str = "ACP §6";
const OURS: &str = "ACP §2";

const PARAMS: &[ErrorCode] = &[ErrorCode::INVALID_PARAMS];
const NO_TASK: &[ErrorCode] = &[codes::TASK_NOT_FOUND];
/// A callback is refused as a bad param, or as something the caller may not.
const NOT_ALLOWED: &[ErrorCode] = &[ErrorCode::INVALID_PARAMS, codes::PERMISSION_DENIED];

/// Addresses that a webhook must not reach, in a few of their spellings.
const PRIVATE: &[&str] = &[
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

pub(super) async fn check(probe: &Probe, out: &mut Checks) {
    out.group("tasks");
    if let Err(flaw) = probe.need_token() {
        out.note("every method of tasks", METHODS, Err(flaw));
        return;
    }
    out.note("tasks.create begins a task", METHODS, create(probe).await);
    out.note(
        "what is sent comes back as it was",
        OURS,
        verbatim(probe).await,
    );
    out.note(
        "explicit nulls are accepted, and none sent",
        OURS,
        nulls(probe).await,
    );
    out.note(
        "tasks.get leaves out what is not wanted",
        METHODS,
        get_less(probe).await,
    );
    for (method, what, field, params) in wrong_params() {
        let found = wrong(probe, method, params, field).await;
        out.note(format!("{method} {what}: refused by name"), ERRORS, found);
    }
    for (method, params) in unknown_ids() {
        let found = refused(probe, method, params, NO_TASK).await;
        out.note(format!("{method} refuses an unknown id"), ERRORS, found);
    }
    let found = nobody(probe).await;
    out.note("an agent that is not there is refused", ERRORS, found);
    out.note("tasks.send adds to a task", METHODS, send(probe).await);
    out.note("tasks.cancel ends a task", STATES, cancel(probe).await);
    out.note(
        "tasks.subscribe takes a webhook",
        WEBHOOKS,
        subscribe(probe).await,
    );
    out.note(
        "no webhook to private addresses",
        WEBHOOKS,
        guarded(probe).await,
    );
    out.note(
        "task.notification is taken",
        METHODS,
        notification(probe).await,
    );
    out.note(
        "methods that ACP does not have are refused",
        ERRORS,
        invented(probe).await,
    );
}

pub(super) fn say(text: &str) -> Value {
    json!({"role": "user", "parts": [{"type": "TextPart", "content": text}]})
}

/// Begins a task; gives its object.
pub(super) async fn begin(probe: &Probe, text: &str) -> Result<Value, Flaw> {
    let answer = probe
        .call("tasks.create", json!({"initialMessage": say(text)}))
        .await?;
    task_of(&answer)
}

fn task_of(answer: &Answer) -> Result<Value, Flaw> {
    let mut result = answer.result()?;
    if result.get("type").and_then(Value::as_str) != Some("task") {
        return Err(Flaw::broken("the result's type is not \"task\""));
    }
    match result.get_mut("task") {
        Some(task) => Ok(task.take()),
        None => Err(Flaw::broken("the result has no `task`")),
    }
}

pub(super) fn id_of(task: &Value) -> Result<String, Flaw> {
    string(task, "taskId")
}

pub(super) async fn get(probe: &Probe, id: &str) -> Result<Value, Flaw> {
    task_of(&probe.call("tasks.get", json!({"taskId": id})).await?)
}

async fn create(probe: &Probe) -> Finding {
    let task = begin(probe, "hello from interzone check").await?;
    id_of(&task)?;
    timestamp(&task, "createdAt")?;
    match string(&task, "status")?.as_str() {
        "SUBMITTED" => Ok("SUBMITTED".to_owned()),
        "WORKING" => Ok("WORKING at once".to_owned()),
        other => Err(Flaw::poor(format!(
            "SUBMITTED was due, and {} came",
            crate::printable::quoted(other)
        ))),
    }
}

async fn verbatim(probe: &Probe) -> Finding {
    let part =
        json!({"type": "TextPart", "content": "hello", "checksum": "sha256:0", "width": 640});
    let metadata = json!({"a": {"b": [1, 2.5, "é日", null, true]}, "large": 9007199254740993_u64});
    let params = json!({
        "initialMessage": {"role": "user", "parts": [part]},
        "metadata": metadata,
        "priority": "HIGH",
    });
    let task = task_of(&probe.call("tasks.create", params).await?)?;
    let kept = get(probe, &id_of(&task)?).await?;
    let come = kept.pointer("/messages/0/parts/0");
    for member in ["content", "checksum", "width"] {
        if come.and_then(|come| come.get(member)) != part.get(member) {
            return Err(Flaw::broken(format!("a part's `{member}` is lost")));
        }
    }
    for member in ["a", "large"] {
        if kept.pointer(&format!("/metadata/{member}")) != metadata.get(member) {
            return Err(Flaw::broken("metadata is changed or lost"));
        }
    }
    Ok("parts with members of their own, and metadata".to_owned())
}

async fn nulls(probe: &Probe) -> Finding {
    let params = json!({
        "initialMessage": {
            "role": "user", "timestamp": null, "agentId": null,
            "parts": [{"type": "TextPart", "content": "hello", "mimeType": null, "filename": null,
                       "size": null, "encoding": null}],
        },
        "assignTo": null, "metadata": null,
    });
    let task = task_of(&probe.call("tasks.create", params).await?)?;
    no_nulls(&get(probe, &id_of(&task)?).await?)
}

async fn get_less(probe: &Probe) -> Finding {
    let task = begin(probe, "hello").await?;
    let id = id_of(&task)?;
    let whole = get(probe, &id).await?;
    if whole
        .get("messages")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        return Err(Flaw::broken("tasks.get gives no messages"));
    }
    let params = json!({"taskId": id, "includeMessages": false, "includeArtifacts": false});
    let less = task_of(&probe.call("tasks.get", params).await?)?;
    for member in ["messages", "artifacts"] {
        let given = less.get(member).and_then(Value::as_array);
        if given.is_some_and(|list| !list.is_empty()) {
            return Err(Flaw::broken(format!("`{member}` are given all the same")));
        }
    }
    Ok(String::new())
}

async fn wrong(probe: &Probe, method: &str, params: Value, field: &str) -> Finding {
    let answer = probe.call(method, params).await?;
    let words = answer.refused_with(PARAMS)?;
    names_field(&answer, field, words)
}

async fn refused(probe: &Probe, method: &str, params: Value, codes: &[ErrorCode]) -> Finding {
    probe.call(method, params).await?.refused_with(codes)
}

async fn nobody(probe: &Probe) -> Finding {
    let params = json!({"initialMessage": say("hello"), "assignTo": "interzone-check-nobody"});
    refused(probe, "tasks.create", params, &[codes::AGENT_NOT_AVAILABLE]).await
}

async fn send(probe: &Probe) -> Finding {
    let id = id_of(&begin(probe, "wait 60").await?)?;
    let answer = probe
        .call(
            "tasks.send",
            json!({"taskId": id, "message": say("and this")}),
        )
        .await?;
    // Where agents are quick, the task is over; that is no fault of the method.
    if answer
        .refused_with(&[codes::TASK_ALREADY_COMPLETED])
        .is_ok()
    {
        return Ok("the task had ended, and says so".to_owned());
    }
    succeeded(&answer)?;
    let kept = get(probe, &id).await?;
    let _ = probe.call("tasks.cancel", json!({"taskId": id})).await?;
    let messages = kept.get("messages").and_then(Value::as_array);
    let added = messages.is_some_and(|all| {
        all.iter()
            .any(|one| one.pointer("/parts/0/content") == Some(&json!("and this")))
    });
    if added {
        Ok(String::new())
    } else {
        Err(Flaw::broken("the message is not in the task"))
    }
}

pub(super) fn succeeded(answer: &Answer) -> Finding {
    let result = answer.result()?;
    match result.get("type").and_then(Value::as_str) {
        Some("success" | "notification") => Ok(String::new()),
        _ => Err(Flaw::broken("the result's type is not \"success\"")),
    }
}

async fn cancel(probe: &Probe) -> Finding {
    let id = id_of(&begin(probe, "wait 60").await?)?;
    let answer = probe.call("tasks.cancel", json!({"taskId": id})).await?;
    if answer
        .refused_with(&[codes::TASK_ALREADY_COMPLETED])
        .is_ok()
    {
        return Ok("the task had ended, and says so".to_owned());
    }
    succeeded(&answer)?;
    let status = string(&get(probe, &id).await?, "status")?;
    if status != "CANCELED" {
        return Err(Flaw::broken(format!(
            "the task is {} after it",
            crate::printable::quoted(&status)
        )));
    }
    let again = probe.call("tasks.cancel", json!({"taskId": id})).await?;
    if succeeded(&again).is_err() {
        return Err(Flaw::broken("a second tasks.cancel is refused"));
    }
    let params = json!({"taskId": id, "message": say("too late")});
    refused(
        probe,
        "tasks.send",
        params,
        &[codes::TASK_ALREADY_COMPLETED],
    )
    .await?;
    Ok("CANCELED at once, again without harm, and closed to tasks.send".to_owned())
}

/// On a task that is over, so that nobody is ever called.
async fn subscribe(probe: &Probe) -> Finding {
    let id = id_of(&begin(probe, "hello").await?)?;
    let _ = probe.call("tasks.cancel", json!({"taskId": id})).await?;
    let params =
        json!({"taskId": id, "callbackUrl": "https://example.com/hook", "events": ["FAILED"]});
    let mut result = probe.call("tasks.subscribe", params).await?.result()?;
    let Some(subscription) = result.get_mut("subscription").map(Value::take) else {
        return Err(Flaw::broken("the result has no `subscription`"));
    };
    let subscription_id = string(&subscription, "subscriptionId")?;
    if subscription.get("events") != Some(&json!(["FAILED"])) {
        return Err(Flaw::broken("`events` are not those that were wanted"));
    }
    // Ours alone has this; whoever does not, keeps a subscription that never fires.
    let params = json!({"taskId": id, "subscriptionId": subscription_id});
    let _ = probe.call("interzone.tasks.unsubscribe", params).await?;
    let params =
        json!({"taskId": id, "callbackUrl": "https://example.com/hook", "events": ["NONE"]});
    refused(probe, "tasks.subscribe", params, PARAMS).await?;
    Ok(String::new())
}

async fn guarded(probe: &Probe) -> Finding {
    let id = id_of(&begin(probe, "hello").await?)?;
    let _ = probe.call("tasks.cancel", json!({"taskId": id})).await?;
    for url in PRIVATE {
        let params = json!({"taskId": id, "callbackUrl": url, "events": ["FAILED"]});
        let found = refused(probe, "tasks.subscribe", params, NOT_ALLOWED).await;
        if let Err(Flaw::Broken(why)) = found {
            return Err(Flaw::broken(format!("{url}: {why}")));
        }
    }
    Ok(format!("{} spellings are refused", PRIVATE.len()))
}

async fn notification(probe: &Probe) -> Finding {
    let id = id_of(&begin(probe, "hello").await?)?;
    let params =
        json!({"taskId": id, "event": "STATUS_CHANGE", "timestamp": "2026-01-01T00:00:00Z"});
    let silent = json!({"jsonrpc": "2.0", "method": "task.notification", "params": params});
    probe.post(silent.to_string()).await?.silent()?;
    let answer = probe.call("task.notification", params).await?;
    succeeded(&answer)?;
    Ok("with and without an id".to_owned())
}

async fn invented(probe: &Probe) -> Finding {
    for method in ["tasks.getBatch", "tasks.delete", "stream.get", "Tasks.Get"] {
        refused(probe, method, json!({}), &[ErrorCode::METHOD_NOT_FOUND]).await?;
    }
    Ok(String::new())
}
