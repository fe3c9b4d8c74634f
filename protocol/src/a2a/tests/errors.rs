//! Codes, reasons and bodies of errors.

use super::read;
use crate::a2a::{A2aError, A2aErrorKind, A2aPart, WireFormat};
use serde_json::{Value, json};

const V1: WireFormat = WireFormat::V1;
const V03: WireFormat = WireFormat::V03;
const REST_V03: WireFormat = WireFormat::RestV03;

#[test]
fn errors_have_the_codes_and_statuses_of_the_specification() {
    use A2aErrorKind as Kind;
    for (kind, code, http, status) in [
        (Kind::TaskNotFound, -32001, 404, "NOT_FOUND"),
        (Kind::PushConfigNotFound, -32001, 404, "NOT_FOUND"),
        (Kind::TaskNotCancelable, -32002, 400, "FAILED_PRECONDITION"),
        (
            Kind::PushNotificationNotSupported,
            -32003,
            400,
            "FAILED_PRECONDITION",
        ),
        (
            Kind::UnsupportedOperation,
            -32004,
            400,
            "FAILED_PRECONDITION",
        ),
        (
            Kind::ContentTypeNotSupported,
            -32005,
            400,
            "INVALID_ARGUMENT",
        ),
        (Kind::UnsupportedMediaType, -32005, 415, "INVALID_ARGUMENT"),
        (Kind::InvalidAgentResponse, -32006, 500, "INTERNAL"),
        (
            Kind::ExtendedAgentCardNotConfigured,
            -32007,
            400,
            "FAILED_PRECONDITION",
        ),
        (
            Kind::ExtensionSupportRequired,
            -32008,
            400,
            "FAILED_PRECONDITION",
        ),
        (
            Kind::VersionNotSupported,
            -32009,
            400,
            "FAILED_PRECONDITION",
        ),
        (Kind::InvalidParams, -32602, 400, "INVALID_ARGUMENT"),
        (Kind::IdempotencyKeyReused, -32602, 400, "INVALID_ARGUMENT"),
        (Kind::InvalidRequest, -32600, 400, "INVALID_ARGUMENT"),
        (Kind::ParseError, -32700, 400, "INVALID_ARGUMENT"),
        (Kind::MethodNotFound, -32601, 404, "NOT_FOUND"),
        (Kind::MethodNotAllowed, -32601, 405, "UNIMPLEMENTED"),
        (Kind::InternalError, -32603, 500, "INTERNAL"),
        (Kind::AgentUnavailable, -32603, 503, "UNAVAILABLE"),
        (Kind::Unauthenticated, -32000, 401, "UNAUTHENTICATED"),
        (Kind::PermissionDenied, -32000, 403, "PERMISSION_DENIED"),
        (Kind::PayloadTooLarge, -32000, 413, "RESOURCE_EXHAUSTED"),
        (Kind::RateLimited, -32000, 429, "RESOURCE_EXHAUSTED"),
        (Kind::Overloaded, -32000, 503, "UNAVAILABLE"),
    ] {
        assert_eq!(kind.code(V1).get(), code, "{kind:?}");
        assert_eq!(kind.http_status(), http);
        let body = serde_json::to_value(A2aError::new(kind).rest_body(V1)).unwrap();
        assert_eq!(body["error"]["code"], http);
        assert_eq!(body["error"]["status"], status);
        assert_eq!(body["error"]["details"][0]["reason"], kind.reason());
        let is_outside_200 = code == -32000 || matches!(http, 405 | 415);
        let json_rpc = if is_outside_200 { http } else { 200 };
        assert_eq!(kind.json_rpc_http_status(), json_rpc, "{kind:?}");
    }
}

#[test]
fn reasons_are_names_without_the_word_error() {
    for kind in A2aErrorKind::ALL {
        let is_upper_snake = kind
            .reason()
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        assert!(is_upper_snake && !kind.message().is_empty());
    }
    assert_eq!(
        A2aErrorKind::TaskNotCancelable.reason(),
        "TASK_NOT_CANCELABLE"
    );
    assert_eq!(
        A2aErrorKind::IdempotencyKeyReused.reason(),
        "IDEMPOTENCY_KEY_REUSED"
    );
}

#[test]
fn json_rpc_error_has_error_info_first_and_then_violations() {
    let field = read::<A2aPart>(V1, &json!({"text": 5})).unwrap_err();
    let error = A2aError::from(field).to_error_object(V1);
    assert_eq!(
        (error.code().get(), error.message()),
        (-32602, "Invalid params")
    );
    let data: Value = serde_json::from_str(error.data().unwrap().as_str()).unwrap();
    assert_eq!(
        data,
        json!([
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "INVALID_PARAMS",
                "domain": "a2a-protocol.org", "metadata": {}},
            {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations":
                [{"field": "text", "description": "must be a string"}]},
        ])
    );
}

#[test]
fn rest_v03_error_body_has_code_and_type() {
    let error = A2aError::new(A2aErrorKind::TaskNotFound).with_metadata("taskId", "t");
    let body = serde_json::to_value(error.rest_body(REST_V03)).unwrap();
    assert_eq!(
        body,
        json!({"code": -32001, "type": "TaskNotFoundError", "message": "Task not found",
            "data": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org",
                "metadata": {"taskId": "t"}}]})
    );
}

#[test]
fn required_extension_has_another_code_in_0_3() {
    let error = A2aError::new(A2aErrorKind::ExtensionSupportRequired);
    assert_eq!(error.to_error_object(V1).code().get(), -32008);
    let v03 = error.to_error_object(V03);
    assert_eq!(v03.code().get(), -32004);
    let data = v03.data().unwrap().as_str();
    assert!(data.contains("EXTENSION_SUPPORT_REQUIRED"));
}
