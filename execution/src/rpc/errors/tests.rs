//! The whole error table, as one page to read.

use super::*;
use interzone_edge::auth::Refusal;
use interzone_hub::{Registry, SubscriptionState};
use interzone_protocol::acp::Scope;
use interzone_protocol::vocab::{StreamId, StreamState, SubscriptionId, TaskId};
use interzone_protocol::zone::ErrorWord;

fn line(what: &str, error: &WireError) -> String {
    let mut object = Vec::new();
    error.error().write_to(&mut object);
    let mut line = format!(
        "{what}\n  {} {} {}",
        error.http.as_u16(),
        error.word,
        String::from_utf8(object).unwrap()
    );
    if let Some(challenge) = &error.challenge {
        line += &format!("\n  Bearer {challenge}");
    }
    if let Some(seconds) = error.retry_after {
        line += &format!("\n  Retry-After: {seconds}");
    }
    line
}

fn hub_errors() -> Vec<HubError> {
    let task = || TaskId::new("t-1").unwrap();
    let stream = || StreamId::new("s-1").unwrap();
    let subscription = || SubscriptionId::new("w-1").unwrap();
    vec![
        HubError::TaskNotFound(task()),
        HubError::TaskFinished {
            id: task(),
            state: TaskState::Rejected,
        },
        HubError::IllegalMove {
            from: TaskState::Completed,
            to: TaskState::Working,
        },
        HubError::StreamNotFound(stream()),
        HubError::StreamNotActive {
            id: stream(),
            state: StreamState::Closed,
        },
        HubError::StreamNotActive {
            id: stream(),
            state: StreamState::Paused,
        },
        HubError::SubscriptionNotFound(subscription()),
        HubError::SubscriptionNotReady {
            id: subscription(),
            state: SubscriptionState::Active,
        },
        HubError::AgentUnavailable,
        HubError::NotAllowed,
        HubError::TooLarge {
            what: "the message",
            limit: 10,
        },
        HubError::TooMany {
            what: "parts",
            limit: 3,
        },
        HubError::Invalid {
            field: "role",
            reason: "only the agent itself speaks as the agent",
        },
        HubError::Stopped,
        HubError::Contended,
        HubError::Store(StoreError::Full),
        HubError::Store(StoreError::Unavailable("secret host".to_owned())),
        HubError::Store(StoreError::InDoubt("secret host".to_owned())),
        HubError::Store(StoreError::Unusable("secret path".to_owned())),
        HubError::Store(StoreError::Corrupt("secret row".to_owned())),
        HubError::Store(StoreError::Conflict),
    ]
}

#[test]
fn every_reason_has_its_code_status_and_words() {
    let mut table = Vec::new();
    for error in hub_errors() {
        let name = format!("{error:?}").replace("secret ", "");
        table.push(line(&name, &to_wire(&error, Dialect::Acp)));
    }
    let refusals = [
        Refusal::Missing,
        Refusal::Malformed,
        Refusal::Invalid("wrong_audience"),
        Refusal::Expired,
        Refusal::Unavailable,
    ];
    for refusal in refusals {
        let error = refused(
            &refusal,
            "https://a/oauth2/token",
            "https://a/.well-known/x",
        );
        table.push(line(&format!("{refusal:?}"), &error));
    }
    let scopes = [Scope::AgentIdentify, Scope::TasksRead];
    let provided = ["acp:tasks:write"].into_iter();
    let none = "x".repeat(500);
    table.extend([
        line(
            "scope",
            &lacks_scope(&scopes, provided, "https://a/.well-known/x"),
        ),
        line("operator", &not_operator("interzone:operate")),
        line("rate", &too_fast(Duration::from_millis(1_001), 60)),
        line("watches", &too_many_watches(3)),
        line("method", &unknown_method("no\"such\u{7}")),
        line("long method", &unknown_method(&none)),
        line("field", &field("params.taskId", "a string", "number")),
        line("too long", &took_too_long()),
        line(
            "size",
            &transport(StatusCode::PAYLOAD_TOO_LARGE, "Too large", "too_large"),
        ),
        line(
            "agent by name",
            &match by_name("bob") {
                Fault::Wire(error) => *error,
                Fault::Hub(error) => to_wire(&error, Dialect::Acp),
            },
        ),
    ]);
    let table = table.join("\n");
    assert!(!table.contains("secret"), "{table}");
    insta::assert_snapshot!(table);
}

fn by_name(name: &str) -> Fault {
    let agents = Registry::default();
    Fault::for_agent(HubError::AgentUnavailable, Some(name.to_owned()), &agents)
}

#[test]
fn dialects_without_codes_speak_in_the_envelopes() {
    for error in hub_errors() {
        for dialect in [Dialect::Cauce, Dialect::A2a] {
            let code = to_wire(&error, dialect).code;
            let known = [ErrorCode::INVALID_PARAMS, ErrorCode::INTERNAL_ERROR];
            assert!(known.contains(&code), "{error}");
        }
    }
}

/// Every reason of the zones, too: the hub's, those of an agent, and what other dialects say their way.
#[test]
fn every_reason_between_the_zones_has_its_word() {
    let mut table = Vec::new();
    for error in hub_errors() {
        let name = format!("{error:?}").replace("secret ", "");
        table.push(line(&name, &to_wire(&error, Dialect::Zone)));
    }
    for word in ErrorWord::ALL {
        table.push(line(word.name(), &zone::of_word(*word)));
    }
    let scopes = [Scope::AgentIdentify, Scope::TasksWrite];
    let provided = ["acp:tasks:read"].into_iter();
    let said = Some(" The reason. ");
    let dressed = |error| zone::dressed(error);
    table.extend([
        line("missing", &zone::missing(&["channel", "text"], false)),
        line("nothing asked", &zone::missing(&["text"], true)),
        line("field", &zone::field("params.text", "a string", "number")),
        line("rate", &zone::too_fast(Duration::from_millis(1_001), 60)),
        line("agent, no word", &zone::of_failure(None, said)),
        line(
            "agent_timeout",
            &zone::of_failure(Some("agent_timeout"), None),
        ),
        line(
            "agent_panicked",
            &zone::of_failure(Some("agent_panicked"), None),
        ),
        line(
            "a model's",
            &zone::of_failure(Some("bedrock_throttling"), said),
        ),
        line(
            "not an agent's",
            &zone::of_failure(Some("parse_error"), Some("  ")),
        ),
        line("nor this", &zone::of_failure(Some("task_not_found"), None)),
        line(
            "other field",
            &dressed(field("params.x", "a string", "number")),
        ),
        line("other panic", &dressed(internal("panic"))),
        line("other unavailable", &dressed(unavailable("no_room"))),
        line("other rate", &dressed(too_fast(Duration::from_secs(2), 60))),
        line("other method", &dressed(unknown_method("execute"))),
        line(
            "scope",
            &dressed(lacks_scope(&scopes, provided, "https://a/.well-known/x")),
        ),
    ]);
    for refusal in [Refusal::Missing, Refusal::Expired, Refusal::Unavailable] {
        let error = refused(
            &refusal,
            "https://a/oauth2/token",
            "https://a/.well-known/x",
        );
        table.push(line(&format!("{refusal:?}"), &dressed(error)));
    }
    let lines = table.iter();
    assert!(
        lines.clone().all(|line| line.contains("\"error_code\":\"")),
        "{table:?}"
    );
    let table = table.join("\n");
    assert!(!table.contains("secret"), "{table}");
    insta::assert_snapshot!(table);
}
