//! Task methods: results, and errors by task state, owner and params.

use super::{LEASE_DURATION, ZoneFixture, ZoneFixtureOptions, completed, user_message};
use interzone_hub::{AgentError, Limits, TurnOutcome, TurnOutput, TurnStart};
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp::codes;
use interzone_protocol::vocab::{AgentId, Artifact, ArtifactId, Message, Part};
use serde_json::{Value, json};

#[tokio::test]
async fn task_is_created_run_and_completed() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let params =
        json!({"initialMessage": user_message("hi"), "priority": "URGENT", "assignTo": "demo"});
    let created = world.result(&token, "tasks.create", params).await;
    assert_eq!(created["type"], "task");
    let task = &created["task"];
    assert_eq!(task["status"], "SUBMITTED");
    assert_eq!(task["assignedAgent"], "demo");
    assert_eq!(task["metadata"], json!({"priority": "URGENT"}));
    assert_eq!(task["artifacts"], json!([]));
    assert!(
        task["messages"][0]["timestamp"]
            .as_str()
            .unwrap()
            .ends_with('Z')
    );
    let id = json!({"taskId": task["taskId"]});
    assert_eq!(
        world.result(&token, "tasks.get", id.clone()).await["task"],
        *task
    );

    let (run, turn) = world.claim_run().await;
    assert_eq!(
        world.result(&token, "tasks.get", id.clone()).await["task"]["status"],
        "WORKING"
    );
    let artifact = Artifact::new(ArtifactId::new("a-1").unwrap(), "report");
    let artifact = artifact.with_part(Part::text("done"));
    run.artifact(artifact, false, true).await.unwrap();
    run.complete(&turn, completed("there")).await.unwrap();
    let task = world.result(&token, "tasks.get", id.clone()).await["task"].clone();
    assert_eq!(task["status"], "COMPLETED");
    assert_eq!(task["messages"][1]["role"], "agent");
    assert_eq!(task["messages"].as_array().unwrap().len(), 2);
    assert_eq!(task["artifacts"][0]["artifactId"], "a-1");

    let bare = json!({"taskId": id["taskId"], "includeMessages": false, "includeArtifacts": false});
    let task = world.result(&token, "tasks.get", bare).await["task"].clone();
    assert!(
        task.get("messages").is_none() && task.get("artifacts").is_none(),
        "{task}"
    );
}

#[tokio::test]
async fn unknown_fields_and_numbers_are_returned_verbatim() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let part = r#"{"type":"ImagePart","content":{"z":1.00,"a":12345678901234567890},"mimeType":"image/png","width":640,"alt":"é\u00e9","nested":{"b": [1, 2]}}"#;
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":"x","method":"tasks.create","params":{{"initialMessage":{{"role":"user","parts":[{part}],"timestamp":null,"agentId":null}},"assignTo":null,"priority":null,"metadata":{{"z": 1.50, "a":[]}},"unknown":1}}}}"#
    );
    let (_, _, created) = world.post(&token, call).await;
    assert!(created.contains(part), "{created}");
    assert!(
        created.contains(r#""metadata":{"z": 1.50, "a":[],"priority":"NORMAL"}"#),
        "{created}"
    );
    assert!(!created.contains("null"), "{created}");
    let id = created
        .split(r#""taskId":""#)
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let get =
        format!(r#"{{"jsonrpc":"2.0","id":0,"method":"tasks.get","params":{{"taskId":"{id}"}}}}"#);
    let (_, _, got) = world.post(&token, get).await;
    assert!(
        got.contains(part) && got.contains(r#"{"z": 1.50, "a":[],"priority""#),
        "{got}"
    );
    assert!(got.starts_with(r#"{"jsonrpc":"2.0","id":0,"#), "{got}");
}

#[tokio::test]
async fn failed_task_has_a_message_with_the_reason() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    for is_error in [true, false] {
        let id = world.create_task(&token).await;
        let (run, turn) = world.claim_run().await;
        if is_error {
            let error = AgentError {
                code: "agent_crashed",
                detail: "secret".to_owned(),
            };
            run.fail(&error).await.unwrap();
        } else {
            let outcome = TurnOutcome::Failed(Message::agent_text("agent_crashed, sorry"));
            run.complete(&turn, outcome).await.unwrap();
        }
        let task = world
            .result(&token, "tasks.get", json!({"taskId": id}))
            .await["task"]
            .clone();
        assert_eq!(task["status"], "FAILED");
        let messages = task["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 2, "{task}");
        let reason = messages[1]["parts"][0]["content"].as_str().unwrap();
        assert!(
            reason.contains("agent_crashed") && !task.to_string().contains("secret"),
            "{task}"
        );
    }
}

#[tokio::test]
async fn send_and_cancel_depend_on_the_task_state() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let send = |id: &str| json!({"taskId": id, "message": user_message("more")});
    // A submitted task accepts a message and can be canceled repeatedly.
    let id = world.create_task(&token).await;
    assert_eq!(
        world.result(&token, "tasks.send", send(&id)).await["type"],
        "success"
    );
    for _ in 0..2 {
        let cancel = json!({"taskId": id, "reason": null});
        assert_eq!(
            world.result(&token, "tasks.cancel", cancel).await["type"],
            "success"
        );
    }
    let (code, data) = world.call_error(&token, "tasks.send", send(&id)).await;
    assert_eq!(code, codes::TASK_ALREADY_COMPLETED);
    assert_eq!(data["currentStatus"], "CANCELED");
    assert_eq!(data["taskId"], *id);
    assert!(
        data["completedAt"].is_string() && data["suggestion"].is_string(),
        "{data}"
    );
    // A message to a task that requires input resumes it.
    let id = world.create_task(&token).await;
    let (run, turn) = world.claim_run().await;
    let question = TurnOutcome::InputRequired(Message::agent_text("which?"));
    run.complete(&turn, question).await.unwrap();
    let get = json!({"taskId": id});
    let task = world.result(&token, "tasks.get", get.clone()).await["task"].clone();
    assert_eq!(task["status"], "INPUT_REQUIRED");
    assert_eq!(task["messages"].as_array().unwrap().len(), 2, "{task}");
    world.result(&token, "tasks.send", send(&id)).await;
    assert_eq!(
        world.result(&token, "tasks.get", get.clone()).await["task"]["status"],
        "WORKING"
    );
    // A completed task accepts no message and no cancel.
    let (run, turn) = world.claim_run().await;
    run.complete(&turn, completed("this")).await.unwrap();
    for method in ["tasks.send", "tasks.cancel"] {
        let code = world.call_error_code(&token, method, send(&id)).await;
        assert_eq!(code, codes::TASK_ALREADY_COMPLETED, "{method}");
    }
    let subscribe = json!({"taskId": id, "callbackUrl": "https://example.com/hook"});
    let subscribed = world.result(&token, "tasks.subscribe", subscribe).await;
    assert_eq!(subscribed["subscription"]["active"], true);
}

#[tokio::test]
async fn task_of_another_principal_is_not_found() {
    let world = ZoneFixture::new().await;
    let alice = world.token("alice").await;
    let bob = world.token("bob").await;
    let id = world.create_task(&alice).await;
    for id in [id.as_str(), "no-such", "", "bad\u{7}id"] {
        for (method, mut params) in [
            ("tasks.get", json!({})),
            ("tasks.cancel", json!({})),
            ("tasks.send", json!({"message": user_message("x")})),
            (
                "tasks.subscribe",
                json!({"callbackUrl": "http://127.0.0.1/"}),
            ),
            (
                "interzone.tasks.unsubscribe",
                json!({"subscriptionId": "x"}),
            ),
        ] {
            params["taskId"] = json!(id);
            let (code, data) = world.call_error(&bob, method, params).await;
            assert_eq!(code, codes::TASK_NOT_FOUND, "{method} {id}");
            assert!(data["suggestion"].is_string());
        }
    }
    assert_eq!(
        world
            .result(&alice, "tasks.get", json!({"taskId": id}))
            .await["type"],
        "task"
    );
    assert_eq!(
        world.result(&bob, "interzone.tasks.list", json!({})).await["tasks"],
        json!([])
    );
}

#[tokio::test]
async fn tasks_list_is_paginated_and_filtered() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let mut created = Vec::new();
    for _ in 0..3 {
        created.push(world.create_task(&token).await);
    }
    let first = world
        .result(&token, "interzone.tasks.list", json!({"limit": 2}))
        .await;
    assert_eq!(first["tasks"].as_array().unwrap().len(), 2);
    let next = json!({"limit": 2, "after": first["next"]});
    let second = world.result(&token, "interzone.tasks.list", next).await;
    let ids = |page: &Value| -> Vec<String> {
        let tasks = page["tasks"].as_array().unwrap().iter();
        tasks
            .map(|task| task["taskId"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut listed = [ids(&first), ids(&second)].concat();
    listed.sort();
    created.sort();
    assert_eq!(listed, created);
    assert!(second.get("next").is_none());
    for bad in [json!({"status": "DONE"}), json!({"after": "?"})] {
        let code = world
            .call_error_code(&token, "interzone.tasks.list", bad)
            .await;
        assert_eq!(code, ErrorCode::INVALID_PARAMS);
    }
    let submitted = json!({"status": "SUBMITTED"});
    let all = world
        .result(&token, "interzone.tasks.list", submitted)
        .await;
    assert_eq!(all["tasks"].as_array().unwrap().len(), 3);
    let none = world
        .call(&token, "interzone.tasks.list", json!(null))
        .await;
    assert!(none["result"].is_object(), "params may be absent");
}

#[tokio::test]
async fn create_for_unavailable_agent_returns_its_id() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    for (name, retry_after) in [("missing", Value::Null), ("busy", json!(7))] {
        let params = json!({"initialMessage": user_message("x"), "assignTo": name});
        let (code, data) = world.call_error(&token, "tasks.create", params).await;
        assert_eq!(
            (code, &data["agentId"]),
            (codes::AGENT_NOT_AVAILABLE, &json!(name))
        );
        assert_eq!(data["retryAfter"], retry_after, "{data}");
    }
}

#[tokio::test]
async fn oversized_task_is_not_read_and_fails_its_turn() {
    let world = ZoneFixture::with_options(ZoneFixtureOptions {
        hub: Limits {
            task_bytes: 100_000,
            ..Limits::default()
        },
        ..ZoneFixtureOptions::default()
    })
    .await;
    let token = world.token("alice").await;
    // Stored as a blob and inline in the row: both count.
    let blob = user_message(&"x".repeat(60_000));
    let part = json!({"type": "TextPart", "content": "x".repeat(15_000)});
    let inline = json!({"role": "user", "parts": [part, part, part, part]});
    for large in [blob, inline] {
        assert_too_large_to_read(&world, &token, large).await;
    }
}

/// Asserts that a task with this message twice cannot be read or run.
async fn assert_too_large_to_read(world: &ZoneFixture, token: &str, large: Value) {
    let params = json!({"initialMessage": large});
    let created = world.result(token, "tasks.create", params).await;
    let id = &created["task"]["taskId"];
    world
        .result(token, "tasks.get", json!({"taskId": id}))
        .await;
    let params = json!({"taskId": id, "message": large});
    world.result(token, "tasks.send", params).await;
    let (code, data) = world
        .call_error(token, "tasks.get", json!({"taskId": id}))
        .await;
    assert_eq!(code, ErrorCode::INVALID_PARAMS);
    assert_eq!(data["field"], "params.includeMessages");
    // Its turn fails at once, instead of being claimed repeatedly.
    let slots = vec![(AgentId::new("demo").unwrap(), 1)];
    let mut runs = world
        .hub
        .claim("node", slots, LEASE_DURATION)
        .await
        .unwrap();
    let turn = runs.remove(0).start_turn().await.unwrap();
    assert!(matches!(turn, TurnStart::NothingToDo));
    let params = json!({"taskId": id, "includeMessages": false});
    let task = world.result(token, "tasks.get", params).await;
    assert_eq!(task["task"]["status"], "FAILED");
}

#[tokio::test]
async fn invalid_params_error_names_the_field() {
    let limits = Limits {
        metadata_bytes: 100,
        parts: 2,
        message_bytes: 1_000,
        ..Limits::default()
    };
    let world = ZoneFixture::with_options(ZoneFixtureOptions {
        hub: limits,
        ..ZoneFixtureOptions::default()
    })
    .await;
    let token = world.token("alice").await;
    let part = json!({"type": "TextPart", "content": "x"});
    let many = json!({"role": "user", "parts": [part, part, part]});
    for (method, params, field) in [
        ("tasks.create", json!({}), "params.initialMessage"),
        (
            "tasks.create",
            json!({"initialMessage": many}),
            "params.initialMessage.parts",
        ),
        (
            "tasks.create",
            json!({"initialMessage": user_message(&"x".repeat(2_000))}),
            "params.initialMessage",
        ),
        (
            "tasks.create",
            json!({"initialMessage": user_message("x"), "metadata": {"a": "x".repeat(200)}}),
            "params.metadata",
        ),
        (
            "tasks.create",
            json!({"initialMessage": user_message("x"), "priority": "MEDIUM"}),
            "params.priority",
        ),
        ("tasks.get", json!(["t"]), "params"),
        ("tasks.get", json!({"taskId": 7}), "params.taskId"),
        (
            "stream.start",
            json!({"participants": [1]}),
            "params.participants[0]",
        ),
        (
            "task.notification",
            json!({"taskId": "t", "event": "NOPE"}),
            "params.event",
        ),
    ] {
        let (code, data) = world.call_error(&token, method, params).await;
        assert_eq!(code, ErrorCode::INVALID_PARAMS, "{method} {field}");
        assert_eq!(data["field"], field, "{method}: {data}");
        assert!(
            data["expected"].is_string() && data["received"].is_string(),
            "{data}"
        );
    }
}

#[tokio::test]
async fn task_notification_does_not_change_the_task() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let params = json!({
        "taskId": id, "event": "COMPLETED", "timestamp": "2026-01-01T00:00:00Z",
        "data": {"taskId": id, "status": "COMPLETED"},
    });
    let accepted = world.result(&token, "task.notification", params).await;
    assert_eq!(accepted["type"], "notification");
    let task = world
        .result(&token, "tasks.get", json!({"taskId": id}))
        .await;
    assert_eq!(task["task"]["status"], "SUBMITTED");
}

#[tokio::test]
async fn message_with_agent_role_is_shown_as_the_callers() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let message = |agent_id: Option<&str>| {
        let mut message = json!({
            "role": "agent", "parts": [{"type": "TextPart", "content": "echo x", "alt": 1.0}],
            "messageId": "m", "extensions": ["x"],
        });
        if let Some(agent_id) = agent_id {
            message["agentId"] = agent_id.into();
        }
        message
    };
    for (agent_id, shown) in [
        (None, "alice"),
        (Some("demo"), "alice"),
        (Some("peer"), "peer"),
    ] {
        let params = json!({"initialMessage": message(agent_id)});
        let created = world.result(&token, "tasks.create", params).await;
        let id = created["task"]["taskId"].clone();
        let read = world
            .result(&token, "tasks.get", json!({"taskId": id}))
            .await;
        let first = &read["task"]["messages"][0];
        assert_eq!(created["task"]["messages"][0], *first);
        assert_eq!(first["role"], "agent", "{read}");
        assert_eq!(first["agentId"], shown, "{read}");
        // Members that ACP does not define are returned, and none is added.
        assert_eq!(
            (&first["messageId"], &first["extensions"]),
            (&json!("m"), &json!(["x"]))
        );
        assert_eq!(first["parts"], message(None)["parts"]);
        assert!(first.get("author").is_none(), "{read}");
    }
}
