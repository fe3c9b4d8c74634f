//! `execute_task` as a caller sees it: begun once, waited for by events or by asking, every failure by
//! its word.

use crate::script::{Piece, Script, Seen, Step};
use interzone_client::{
    AnswerFault, Client, Error, ExecuteEvent, ExecuteTask, RetryPolicy, Timeouts, Waiting,
};
use interzone_protocol::zone::{
    ArtifactPart, ErrorWord, ExecuteStatus, ExecuteTaskParams, MessageKey, TaskIdParams,
    TaskOutcome,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

fn asked() -> ExecuteTaskParams {
    ExecuteTaskParams::new("C1", "hello", "capability-1")
}

fn success(text: &str) -> Value {
    json!({"status": "success", "task_id": "t-1", "response_text": text})
}

fn accepted() -> Value {
    json!({"status": "accepted", "task_id": "t-1"})
}

fn running(progress: Option<&str>) -> Value {
    json!({"status": "running", "task_id": "t-1", "progress": progress})
}

fn is(seen: &Seen, method: &str) -> bool {
    seen.json()["method"] == json!(method)
}

/// A peer that accepts, and then answers polls with these, the last of them for ever.
fn slow(polls: Vec<Value>) -> Script {
    let asked = AtomicUsize::new(0);
    Script::new(move |seen| {
        if is(seen, "execute_task") {
            return seen.result(accepted());
        }
        let turn = asked.fetch_add(1, Ordering::SeqCst).min(polls.len() - 1);
        match &polls[turn]["fail"] {
            Value::Null => seen.result(polls[turn].clone()),
            word => seen.error(200, -32000, json!({"error_code": word})),
        }
    })
}

fn note(sequence: u64, member: &str, value: Value) -> String {
    let params = json!({"task_id": "t-1", "sequence": sequence, member: value});
    let data = json!({"jsonrpc": "2.0", "method": "task.progress", "params": params});
    format!("data: {data}\n\n")
}

fn last(seen: &Seen, result: Value) -> String {
    let data = json!({"jsonrpc": "2.0", "id": seen.json()["id"], "result": result});
    format!("data: {data}\n\n")
}

fn pieces(parts: &[String]) -> Vec<Piece> {
    parts.iter().cloned().map(Piece::Text).collect()
}

fn by_events(client: &Client) -> ExecuteTask {
    client.execute_task(&asked()).waiting(Waiting::Events)
}

async fn events(run: &mut interzone_client::Execution) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(event) = run.next().await {
        told.push(match event {
            ExecuteEvent::Begun { task_id } => format!("begun {task_id}"),
            ExecuteEvent::Status(line) => format!("status {line}"),
            ExecuteEvent::Text(delta) => format!("text {delta}"),
            ExecuteEvent::Artifact(artifact) => format!("artifact {}", artifact.name),
            other => format!("{other:?}"),
        });
    }
    told
}

#[tokio::test]
async fn a_call_has_a_uuid_for_its_id_and_gives_the_result() {
    let script = Script::new(|seen| seen.result(success("hi")));
    let client = script.client();
    let result = client.execute_task(&asked()).await.unwrap();
    assert_eq!(result.response_text.as_deref(), Some("hi"));
    client.execute_task(&asked()).await.unwrap();
    let seen = script.seen();
    let id = |seen: &Seen| uuid::Uuid::parse_str(seen.json()["id"].as_str().unwrap()).unwrap();
    assert_ne!(id(&seen[0]), id(&seen[1]), "each call has its own");
    assert_eq!(
        seen[0].json()["params"],
        json!({"channel": "C1", "text": "hello", "bot_token": "capability-1"})
    );
    assert_eq!(seen[0].header("accept"), Some("application/json"));
    client.execute_task(&asked()).id("mine").await.unwrap();
    assert_eq!(script.seen()[2].json()["id"], json!("mine"));
}

#[tokio::test(start_paused = true)]
async fn tries_of_a_call_carry_the_same_id_where_that_is_safe() {
    let plays = AtomicUsize::new(0);
    let script = Script::new(move |seen| match plays.fetch_add(1, Ordering::SeqCst) {
        0 => Step::Broken,
        1 => Step::status(503),
        _ => seen.result(success("hi")),
    });
    script.client().execute_task(&asked()).await.unwrap();
    let seen = script.seen();
    assert_eq!(seen.len(), 3);
    assert!(
        seen.iter().all(|each| each.body == seen[0].body),
        "one call"
    );

    let script = Script::steps(vec![Step::Broken]);
    let call = script.client().execute_task(&asked()).id("req-1");
    let error = call.await.unwrap_err();
    assert_eq!(error.error_word(), ErrorWord::ResponseReadError);
    assert_eq!(script.seen().len(), 1, "nobody promises that this is once");
}

#[tokio::test]
async fn an_answer_to_another_call_is_no_answer() {
    let script = Script::new(|_| {
        Step::json(
            200,
            &json!({"jsonrpc": "2.0", "id": "other", "result": success("hi")}),
        )
    });
    let error = script.client().execute_task(&asked()).await.unwrap_err();
    assert!(
        matches!(error, Error::Answer(AnswerFault::IdMismatch { .. })),
        "{error:?}"
    );
    assert_eq!(error.error_word(), ErrorWord::InvalidResponse);

    let script = Script::new(|_| {
        let data = json!({"jsonrpc": "2.0", "id": "other", "result": success("hi")});
        Step::events(vec![Piece::Text(format!("data: {data}\n\n"))])
    });
    let error = by_events(&script.client()).await.unwrap_err();
    assert_eq!(error.error_word(), ErrorWord::InvalidResponse);
}

#[tokio::test(start_paused = true)]
async fn what_takes_longer_is_asked_for_at_the_contracts_pace() {
    let script = slow(vec![
        running(None),
        running(Some("reading")),
        running(Some("reading")),
        running(None),
        running(None),
        running(None),
        json!({"status": "completed", "task_id": "t-1", "result": success("done")}),
    ]);
    let began = Instant::now();
    let mut run = script.client().execute_task(&asked()).start().unwrap();
    assert_eq!(events(&mut run).await, ["begun t-1", "status reading"]);
    assert_eq!(run.task_id(), Some("t-1"));
    let result = run.outcome().await.unwrap();
    assert_eq!(result.response_text.as_deref(), Some("done"));
    let at = |seen: &Seen| (seen.at - began).as_millis();
    let seen = script.seen();
    let waits: Vec<u128> = seen
        .windows(2)
        .map(|two| at(&two[1]) - at(&two[0]))
        .collect();
    let due = [2000, 2000, 3000, 4500, 6750, 10_000, 10_000];
    assert_eq!(waits.len(), due.len());
    for (wait, due) in waits.iter().zip(due) {
        assert!(wait.abs_diff(due) <= 5, "{waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_budget_ends_the_waiting() {
    for (budget, due) in [(None, 120), (Some(5), 5), (Some(0), 0)] {
        let script = slow(vec![running(None)]);
        let began = Instant::now();
        let mut call = script.client().execute_task(&asked());
        if let Some(budget) = budget {
            call = call.budget(Duration::from_secs(budget));
        }
        let error = call.await.unwrap_err();
        assert!(matches!(&error, Error::OutOfTime { task_id, .. } if task_id == "t-1"));
        assert_eq!(error.error_word(), ErrorWord::AsyncTimeout);
        assert_eq!(error.message_key(), MessageKey::OutOfTime);
        let took = began.elapsed();
        assert!(
            took.abs_diff(Duration::from_secs(due)) < Duration::from_millis(50),
            "{took:?}"
        );
    }
    // A call that took long itself leaves half a minute at least.
    let script = Script::new(|seen| {
        if is(seen, "execute_task") {
            return Step::Late(Duration::from_secs(100), Box::new(seen.result(accepted())));
        }
        seen.result(running(None))
    });
    let timeouts = Timeouts::default().set("execute_task", Duration::from_secs(200));
    let client = script.builder().timeouts(timeouts).build().unwrap();
    let began = Instant::now();
    client.execute_task(&asked()).await.unwrap_err();
    let took = began.elapsed();
    assert!(
        took.abs_diff(Duration::from_secs(130)) < Duration::from_millis(50),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_poll_fails_the_wait_unless_it_may_pass() {
    let done = json!({"status": "completed", "task_id": "t-1", "result": success("done")});
    let passing = vec![json!({"fail": "task_not_found"}), done];
    let result = slow(passing).client().execute_task(&asked()).await;
    assert_eq!(result.unwrap().response_text.as_deref(), Some("done"));

    let script = slow(vec![json!({"fail": "access_denied"})]);
    let error = script.client().execute_task(&asked()).await.unwrap_err();
    assert!(matches!(&error, Error::Poll(inner) if inner.error_word() == ErrorWord::AccessDenied));
    assert_eq!(error.error_word(), ErrorWord::PollError);

    let plays = AtomicUsize::new(0);
    let script = Script::new(move |seen| {
        if is(seen, "execute_task") {
            return seen.result(accepted());
        }
        match plays.fetch_add(1, Ordering::SeqCst) {
            // As often as one call is tried by itself.
            0..4 => Step::status(503),
            _ => seen.result(
                json!({"status": "completed", "task_id": "t-1", "result": success("done")}),
            ),
        }
    });
    let result = script.client().execute_task(&asked()).await.unwrap();
    assert_eq!(result.status, ExecuteStatus::Success);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_failed_meanwhile_fails_the_call_with_its_word() {
    let failed = |data: Value| {
        json!({"status": "failed", "task_id": "t-1",
            "error": {"code": -32000, "message": "no", "data": data}})
    };
    for (data, word, key) in [
        (
            json!({"error_code": "file_too_large"}),
            ErrorWord::FileTooLarge,
            MessageKey::FileTooLarge,
        ),
        (
            Value::Null,
            ErrorWord::AsyncTaskFailed,
            MessageKey::BackgroundFailed,
        ),
    ] {
        let script = slow(vec![failed(data)]);
        let error = script.client().execute_task(&asked()).await.unwrap_err();
        assert_eq!((error.error_word(), error.message_key()), (word, key));
        assert_eq!(error.refusal().unwrap().message, "no");
    }
}

#[tokio::test]
async fn who_does_not_want_to_wait_is_told_that_it_was_accepted() {
    let script = slow(vec![running(None)]);
    let call = script.client().execute_task(&asked()).waiting(Waiting::Not);
    let result = call.await.unwrap();
    assert_eq!(result.status, ExecuteStatus::Accepted);
    assert_eq!(result.task_id.as_deref(), Some("t-1"));
    assert_eq!(script.seen().len(), 1);
}

#[tokio::test]
async fn events_come_as_they_are_told_and_each_once() {
    let file = json!({"artifactId": "a-1", "name": "generated_file", "parts":
        [{"kind": "file", "contentBase64": "aGk=", "fileName": "a.txt", "mimeType": "text/plain"}]});
    let script = Script::new(move |seen| {
        let parts = [
            ": hello\n\n".to_owned(),
            note(1, "status", json!("reading")),
            note(2, "text_delta", json!("Hel")),
            note(2, "text_delta", json!("Hel")),
            note(3, "text_delta", json!("lo")),
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"something.else\"}\n\n".to_owned(),
            note(4, "artifact", file.clone()),
            last(seen, success("Hello")),
        ];
        Step::events(pieces(&parts))
    });
    let mut run = by_events(&script.client()).start().unwrap();
    let told = events(&mut run).await;
    let due = [
        "begun t-1",
        "status reading",
        "text Hel",
        "text lo",
        "artifact generated_file",
    ];
    assert_eq!(told, due);
    let result = run.outcome().await.unwrap();
    assert_eq!(result.response_text.as_deref(), Some("Hello"));
    let accept = script.seen()[0].header("accept").unwrap().to_owned();
    assert!(accept.starts_with("text/event-stream"), "{accept}");
}

#[tokio::test]
async fn a_peer_without_events_answers_all_the_same() {
    let script = Script::new(|seen| seen.result(success("hi")));
    let result = by_events(&script.client()).await.unwrap();
    assert_eq!(result.response_text.as_deref(), Some("hi"));
    let script = Script::new(|seen| seen.error(200, -32602, json!({"error_code": "missing_text"})));
    let error = by_events(&script.client()).await.unwrap_err();
    assert_eq!(error.message_key(), MessageKey::AskSomething);
}

#[tokio::test(start_paused = true)]
async fn events_that_break_off_are_made_up_for_by_asking() {
    for end in [Piece::Break, Piece::Stall] {
        let script = Script::new(move |seen| {
            if is(seen, "get_task_result") {
                let done =
                    json!({"status": "completed", "task_id": "t-1", "result": success("Hello")});
                return seen.result(done);
            }
            let mut parts = pieces(&[note(1, "text_delta", json!("Hel"))]);
            parts.push(end.clone());
            Step::events(parts)
        });
        let mut run = by_events(&script.client()).start().unwrap();
        assert_eq!(events(&mut run).await, ["begun t-1", "text Hel"]);
        let result = run.outcome().await.unwrap();
        assert_eq!(result.response_text.as_deref(), Some("Hello"));
        assert_eq!(script.seen().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_break_off_at_once_are_asked_for_again_under_the_same_id() {
    let plays = AtomicUsize::new(0);
    let script = Script::new(move |seen| match plays.fetch_add(1, Ordering::SeqCst) {
        0 => Step::events(vec![Piece::Text(": hello\n\n".to_owned()), Piece::Break]),
        1 => Step::events(Vec::new()),
        _ => Step::events(pieces(&[last(seen, success("hi"))])),
    });
    let result = by_events(&script.client()).await.unwrap();
    assert_eq!(result.response_text.as_deref(), Some("hi"));
    let seen = script.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|each| each.body == seen[0].body));

    let script = Script::new(|_| Step::events(vec![Piece::Break]));
    let client = script
        .builder()
        .retry(RetryPolicy::never())
        .build()
        .unwrap();
    let error = by_events(&client).await.unwrap_err();
    assert_eq!(error.error_word(), ErrorWord::ResponseReadError);
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_on_a_wait_may_have_the_task_called_off() {
    for (cancel, known) in [(true, true), (true, false), (false, true)] {
        let called_off = Arc::new(Notify::new());
        let heard = called_off.clone();
        let script = Script::new(move |seen| {
            if is(seen, "cancel_task") {
                called_off.notify_one();
                return seen.result(json!({"status": "canceled", "task_id": "t-1"}));
            }
            let by_events = seen
                .header("accept")
                .unwrap()
                .starts_with("text/event-stream");
            if !known && !by_events {
                return Step::Hang;
            }
            let mut parts = pieces(&[note(1, "status", json!("at it"))]);
            parts.push(Piece::Stall);
            Step::events(parts)
        });
        let call = script
            .client()
            .execute_task(&asked())
            .cancel_on_drop(cancel);
        let waiting = if known {
            Waiting::Events
        } else {
            Waiting::Polls
        };
        let mut run = call.waiting(waiting).start().unwrap();
        let told = tokio::time::timeout(Duration::from_secs(1), run.next()).await;
        assert_eq!(told.is_ok(), known);
        drop(run);
        let heard = tokio::time::timeout(Duration::from_secs(20), heard.notified()).await;
        assert_eq!(heard.is_ok(), cancel, "cancel {cancel}, known {known}");
        let seen = script.seen();
        let tries = seen.iter().filter(|seen| is(seen, "execute_task"));
        let ids: std::collections::HashSet<String> =
            tries.map(|seen| seen.json()["id"].to_string()).collect();
        assert_eq!(ids.len(), 1, "nothing else was begun");
    }
}

#[tokio::test]
async fn a_task_can_be_called_off_while_it_is_waited_for() {
    let script = Script::new(|seen| {
        if is(seen, "cancel_task") {
            assert_eq!(seen.json()["params"], json!({"task_id": "t-1"}));
            return seen.result(json!({"status": "canceled", "task_id": "t-1"}));
        }
        let error = json!({"code": -32000, "message": "no", "data": {"error_code": "canceled"}});
        let end = json!({"jsonrpc": "2.0", "id": seen.json()["id"], "error": error});
        Step::events(pieces(&[
            note(1, "status", json!("at it")),
            format!("data: {end}\n\n"),
        ]))
    });
    let client = script.client();
    let mut fresh = by_events(&client).start().unwrap();
    assert!(!fresh.cancel().await.unwrap(), "nothing was begun");
    assert!(script.seen().is_empty());
    let mut run = by_events(&client).start().unwrap();
    run.next().await.unwrap();
    assert!(run.cancel().await.unwrap());
    let error = run.outcome().await.unwrap_err();
    assert_eq!(error.message_key(), MessageKey::Stopped);
}

#[tokio::test]
async fn older_forms_are_understood() {
    let older = json!({"status": "error", "error_code": "bedrock_throttling",
        "error_message": "busy"});
    let script = Script::new(move |seen| seen.result(older.clone()));
    let error = script.client().execute_task(&asked()).await.unwrap_err();
    assert_eq!(error.error_word(), ErrorWord::ModelThrottling);
    assert_eq!(error.message_key(), MessageKey::Busy);
    assert_eq!(error.refusal().unwrap().message, "busy");

    let file = json!({"artifactId": "a-1", "name": "generated_file", "parts":
        [{"kind": "file", "contentBase64": "aGk=", "fileName": "a.txt", "mimeType": "text/plain"}]});
    let words = json!({"artifactId": "a-0", "name": "execution_response", "parts":
        [{"kind": "text", "text": "Here."}]});
    for result in [
        json!({"status": "success", "response_text": "Here.", "file_artifact": file}),
        json!({"status": "success", "artifacts": [words, file]}),
    ] {
        let script = Script::new(move |seen| seen.result(result.clone()));
        let result = script.client().execute_task(&asked()).await.unwrap();
        assert_eq!(result.response_text.as_deref(), Some("Here."));
        let file = result.file_artifact.unwrap();
        assert!(result.artifacts.unwrap().contains(&file), "in both places");
        assert!(
            matches!(&file.parts[..], [ArtifactPart::File { file_name, .. }] if file_name == "a.txt")
        );
    }
}

#[tokio::test]
async fn the_other_methods_are_typed() {
    let script = Script::new(|seen| match seen.json()["method"].as_str().unwrap() {
        "get_task_result" => seen.result(running(Some("at it"))),
        "cancel_task" => seen.error(200, -32000, json!({"error_code": "task_finished"})),
        _ => seen.result(
            json!({"name": "Zone", "description": "d", "version": "1.0.0", "url": "https://z",
                "provider": {"organization": "o"}}),
        ),
    });
    let client = script.client();
    let task = TaskIdParams {
        task_id: "t-1".to_owned(),
    };
    let outcome = client.get_task_result(&task).await.unwrap();
    assert_eq!(outcome, TaskOutcome::Running(Some("at it".to_owned())));
    let error = client.cancel_task(&task).await.unwrap_err();
    assert_eq!(error.error_word(), ErrorWord::TaskFinished);
    assert_eq!(client.get_agent_card().await.unwrap().name, "Zone");
    assert_eq!(script.seen()[2].json()["params"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn every_failure_has_a_word() {
    let wrong = |body: &str| Step::text(200, "application/json", body);
    let named = |code: i64, word: &str| {
        let word = word.to_owned();
        Script::new(move |seen| seen.error(200, code, json!({"error_code": word})))
    };
    for word in ErrorWord::ALL {
        let script = named(word.code().get().into(), word.name());
        let error = script.client().execute_task(&asked()).await.unwrap_err();
        assert_eq!(error.error_word(), *word);
        assert_eq!(error.message_key(), word.message_key());
    }
    for (step, word) in [
        (wrong(""), ErrorWord::InvalidResponse),
        (Step::status(200), ErrorWord::InvalidResponse),
        (wrong("no json"), ErrorWord::InvalidResponse),
        (
            wrong("{\"jsonrpc\":\"2.0\",\"id\":1}"),
            ErrorWord::InvalidResponse,
        ),
        (
            Step::text(200, "text/html", "<p>"),
            ErrorWord::InvalidResponse,
        ),
        (Step::status(429), ErrorWord::Throttling),
        (Step::status(403), ErrorWord::AccessDenied),
        (Step::status(500), ErrorWord::InternalError),
        (Step::NotConnected, ErrorWord::Unavailable),
        (Step::Broken, ErrorWord::ResponseReadError),
        (Step::Hang, ErrorWord::AsyncTimeout),
    ] {
        let script = Script::steps(vec![step.clone()]);
        let error = script.client().execute_task(&asked()).await.unwrap_err();
        assert_eq!(error.error_word(), word, "{step:?} gave {error}");
    }
    for (code, status, word) in [
        (-32053, 200, ErrorWord::Throttling),
        (-40007, 401, ErrorWord::AccessDenied),
        (-40008, 403, ErrorWord::AccessDenied),
        (-32003, 429, ErrorWord::RateLimited),
        (-32001, 200, ErrorWord::AsyncTimeout),
        (-32099, 200, ErrorWord::InternalError),
    ] {
        let script = Script::new(move |seen| seen.error(status, code, Value::Null));
        let error = script.client().execute_task(&asked()).await.unwrap_err();
        assert_eq!(error.error_word(), word, "{code}");
    }
}
