//! Snapshot tests of the complete error tables.

use super::*;
use crate::rpc::acp::errors::{
    authentication_error, for_agent, from_hub, insufficient_scope, map_error, not_operator,
    rate_limited, too_many_watches,
};
use crate::rpc::zone::errors as zone;
use interzone_hub::{Registry, SubscriptionState};
use interzone_protocol::vocab::{StreamId, StreamState, SubscriptionId, TaskId, TaskState};
use interzone_protocol::zone::ErrorReason;

const URLS: AuthUrls<'_> = AuthUrls {
    token: "https://a/oauth2/token",
    metadata: "https://a/.well-known/x",
};

fn format_error(name: &str, error: &WireError) -> String {
    let mut object = Vec::new();
    error.to_error_object().write_to(&mut object);
    let mut line = format!(
        "{name}\n  {} {} {}",
        error.http.as_u16(),
        error.label,
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
        HubError::IllegalTransition {
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
            reason: "the agent role is reserved for agents",
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
fn acp_error_table() {
    let mut table = Vec::new();
    for error in hub_errors() {
        let name = format!("{error:?}").replace("secret ", "");
        table.push(format_error(&name, &from_hub(&error)));
    }
    let failures = [
        AuthFailure::Missing,
        AuthFailure::Malformed,
        AuthFailure::Invalid("wrong_audience"),
        AuthFailure::Expired,
        AuthFailure::Unavailable,
    ];
    for failure in failures {
        let error = authentication_error(
            &failure,
            "https://a/oauth2/token",
            "https://a/.well-known/x",
        );
        table.push(format_error(&format!("{failure:?}"), &error));
    }
    let scopes = [Scope::AgentIdentify, Scope::TasksRead];
    let provided = ["acp:tasks:write"].into_iter();
    let long_name = "x".repeat(500);
    table.extend([
        format_error(
            "scope",
            &insufficient_scope(&scopes, provided, "https://a/.well-known/x"),
        ),
        format_error("operator", &not_operator("interzone:operate")),
        format_error("rate", &rate_limited(Duration::from_millis(1_001), 60)),
        format_error("watches", &too_many_watches(3)),
        format_error("method", &unknown_method("no\"such\u{7}")),
        format_error("long method", &unknown_method(&long_name)),
        format_error(
            "field",
            &invalid_field("params.taskId", "a string", "number"),
        ),
        format_error("timeout", &timed_out()),
        format_error(
            "size",
            &transport(StatusCode::PAYLOAD_TOO_LARGE, "Too large", "too_large"),
        ),
        format_error(
            "agent by name",
            &map_error(None, &unavailable_agent("bob"), URLS),
        ),
    ]);
    let table = table.join("\n");
    assert!(!table.contains("secret"), "{table}");
    insta::assert_snapshot!(table);
}

fn unavailable_agent(name: &str) -> CallError {
    let agents = Registry::default();
    for_agent(HubError::AgentUnavailable, Some(name.to_owned()), &agents)
}

#[test]
fn dialects_without_codes_use_generic_jsonrpc_codes() {
    for error in hub_errors() {
        let code = from_hub_generic(&error).code;
        let generic = [ErrorCode::INVALID_PARAMS, ErrorCode::INTERNAL_ERROR];
        assert!(generic.contains(&code), "{error}");
    }
}

/// The zone table: hub errors, agent failures, and errors of other dialects adapted to the zone dialect.
#[test]
fn zone_error_table() {
    let mut table = Vec::new();
    for error in hub_errors() {
        let name = format!("{error:?}").replace("secret ", "");
        table.push(format_error(&name, &zone::from_hub(&error)));
    }
    for reason in ErrorReason::ALL {
        table.push(format_error(reason.name(), &zone::from_reason(*reason)));
    }
    let scopes = [Scope::AgentIdentify, Scope::TasksWrite];
    let provided = ["acp:tasks:read"].into_iter();
    let detail = Some(" The reason. ");
    let adapted = |error| zone::adapt_to_zone(error);
    table.extend([
        format_error(
            "missing",
            &zone::missing_params(&["channel", "text"], false),
        ),
        format_error("empty text", &zone::missing_params(&["text"], true)),
        format_error("field", &zone::field("params.text", "a string", "number")),
        format_error(
            "rate",
            &zone::rate_limited(Duration::from_millis(1_001), 60),
        ),
        format_error(
            "agent failure without a code",
            &zone::from_agent_failure(None, detail),
        ),
        format_error(
            "agent_timeout",
            &zone::from_agent_failure(Some("agent_timeout"), None),
        ),
        format_error(
            "agent_panicked",
            &zone::from_agent_failure(Some("agent_panicked"), None),
        ),
        format_error(
            "model failure",
            &zone::from_agent_failure(Some("bedrock_throttling"), detail),
        ),
        format_error(
            "code not allowed for agents",
            &zone::from_agent_failure(Some("parse_error"), Some("  ")),
        ),
        format_error(
            "other code not allowed for agents",
            &zone::from_agent_failure(Some("task_not_found"), None),
        ),
        format_error(
            "other field",
            &adapted(invalid_field("params.x", "a string", "number")),
        ),
        format_error("other panic", &adapted(internal("panic"))),
        format_error("other unavailable", &adapted(unavailable("memory_limit"))),
        format_error(
            "other rate",
            &adapted(rate_limited(Duration::from_secs(2), 60)),
        ),
        format_error("other method", &adapted(unknown_method("execute"))),
        format_error(
            "scope",
            &adapted(insufficient_scope(
                &scopes,
                provided,
                "https://a/.well-known/x",
            )),
        ),
    ]);
    for failure in [
        AuthFailure::Missing,
        AuthFailure::Expired,
        AuthFailure::Unavailable,
    ] {
        let error = authentication_error(
            &failure,
            "https://a/oauth2/token",
            "https://a/.well-known/x",
        );
        table.push(format_error(&format!("{failure:?}"), &adapted(error)));
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
