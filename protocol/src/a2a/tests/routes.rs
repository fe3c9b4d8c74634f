//! Paths, queries and bodies of REST.

use crate::a2a::{
    A2aMethod, CancelTaskRequest, Codec, GetTaskRequest, ListTasksRequest, PushConfigRequest,
    RequestMembers, RestRoute, RouteError, SendMessageRequest, SubscribeToTaskRequest,
    TaskPushNotificationConfig, WireFormat, json_rpc_tenant,
};

const V1: WireFormat = WireFormat::V1;
const REST_V03: WireFormat = WireFormat::RestV03;

type Ids = (Option<&'static str>, Option<&'static str>);

#[test]
fn every_path_has_its_method() {
    use A2aMethod as M;
    const NONE: Ids = (None, None);
    const TASK: Ids = (Some("t"), None);
    const CONFIG: Ids = (Some("t"), Some("c"));
    for (verb, path, method, (task_id, config_id)) in [
        ("POST", "/message:send", M::SendMessage, NONE),
        ("POST", "/message:stream", M::SendStreamingMessage, NONE),
        ("GET", "/tasks/t", M::GetTask, TASK),
        ("POST", "/tasks/t:cancel", M::CancelTask, TASK),
        ("POST", "/tasks/t:subscribe", M::SubscribeToTask, TASK),
        ("GET", "/tasks/t:subscribe", M::SubscribeToTask, TASK),
        (
            "POST",
            "/tasks/t/pushNotificationConfigs",
            M::CreateTaskPushNotificationConfig,
            TASK,
        ),
        (
            "GET",
            "/tasks/t/pushNotificationConfigs",
            M::ListTaskPushNotificationConfigs,
            TASK,
        ),
        (
            "GET",
            "/tasks/t/pushNotificationConfigs/c",
            M::GetTaskPushNotificationConfig,
            CONFIG,
        ),
        (
            "DELETE",
            "/tasks/t/pushNotificationConfigs/c",
            M::DeleteTaskPushNotificationConfig,
            CONFIG,
        ),
    ] {
        for (prefix, tenant, format) in [
            ("", None, V1),
            ("/v1", None, REST_V03),
            ("/support", Some("support"), V1),
            ("/support/v1", Some("support"), REST_V03),
        ] {
            for slash in ["", "/"] {
                let route = RestRoute::parse(verb, &format!("{prefix}{path}{slash}")).unwrap();
                assert_eq!(
                    (route.method, route.format),
                    (method, format),
                    "{prefix}{path}"
                );
                assert_eq!(route.tenant.as_deref(), tenant);
                assert_eq!(route.task_id.as_deref(), task_id);
                assert_eq!(route.config_id.as_deref(), config_id);
            }
        }
    }
    let route = |path| RestRoute::parse("GET", path).map(|route| route.method);
    assert_eq!(route("/tasks"), Ok(M::ListTasks));
    assert_eq!(route("/v1/tasks"), Err(RouteError::NotFound));
    assert_eq!(route("/extendedAgentCard"), Ok(M::GetExtendedAgentCard));
    assert_eq!(route("/v1/card"), Ok(M::GetExtendedAgentCard));
    assert_eq!(route("/v1/extendedAgentCard"), Err(RouteError::NotFound));
}

#[test]
fn ids_are_decoded_and_split_at_the_last_colon() {
    let route = RestRoute::parse("POST", "/tasks/a:b%3Ac%2Fd:cancel").unwrap();
    assert_eq!(route.task_id.as_deref(), Some("a:b:c/d"));
    let route = RestRoute::parse("GET", "/tasks/t/pushNotificationConfigs/a:b").unwrap();
    assert_eq!(route.config_id.as_deref(), Some("a:b"));
    for path in [
        "/tasks/%FF",
        "/tasks/:cancel",
        "/tasks//pushNotificationConfigs",
    ] {
        assert!(RestRoute::parse("GET", path).is_err(), "{path}");
    }
}

#[test]
fn unknown_paths_and_verbs_have_different_errors() {
    for path in [
        "",
        "/",
        "/support",
        "/v1",
        "/tasks/t:foo",
        "/message:foo",
        "/tasks/t/x",
        "/v1/a/b",
    ] {
        assert_eq!(
            RestRoute::parse("GET", path),
            Err(RouteError::NotFound),
            "{path}"
        );
    }
    for (verb, path, allow) in [
        ("GET", "/message:send", "POST"),
        ("POST", "/tasks", "GET"),
        ("DELETE", "/tasks/t", "GET"),
        ("PUT", "/tasks/t:subscribe", "GET, POST"),
        ("POST", "/tasks/t/pushNotificationConfigs/c", "GET, DELETE"),
    ] {
        let expected = Err(RouteError::MethodNotAllowed { allow });
        assert_eq!(RestRoute::parse(verb, path), expected, "{path}");
    }
}

#[test]
fn path_of_one_segment_is_a_tenant() {
    assert_eq!(json_rpc_tenant("/support"), Some("support".to_owned()));
    for path in ["", "/", "/v1", "/tasks", "/message:send", "/support/tasks"] {
        assert_eq!(json_rpc_tenant(path), None, "{path}");
    }
}

#[test]
fn ids_of_the_path_win_over_the_body() {
    let route = RestRoute::parse("POST", "/tasks/t:cancel").unwrap();
    let members = route
        .members(r#"{"id":"other","metadata":{"k":1.0}}"#, "")
        .unwrap();
    let request: CancelTaskRequest = members.decode(Codec::server(V1)).unwrap();
    assert_eq!(request.id, "t");
    assert_eq!(request.metadata.unwrap().as_str(), r#"{"k":1.0}"#);
    let members = route.members(" ", "").unwrap();
    assert!(
        members
            .decode::<CancelTaskRequest>(Codec::server(V1))
            .is_ok()
    );

    let route = RestRoute::parse("GET", "/v1/tasks/t/pushNotificationConfigs/c").unwrap();
    let members = route.members("", "").unwrap();
    let request: PushConfigRequest = members.decode(Codec::server(REST_V03)).unwrap();
    assert_eq!(
        (request.task_id.as_str(), request.id.as_deref()),
        ("t", Some("c"))
    );

    let route = RestRoute::parse("POST", "/v1/tasks/t/pushNotificationConfigs").unwrap();
    let body =
        r#"{"name":"tasks/x/pushNotificationConfigs/c","pushNotificationConfig":{"url":"u"}}"#;
    let members = route.members(body, "").unwrap();
    let config: TaskPushNotificationConfig = members.decode(Codec::server(REST_V03)).unwrap();
    assert_eq!(
        (config.task_id.as_str(), config.id.as_deref()),
        ("t", Some("c"))
    );
}

#[test]
fn query_names_are_in_any_spelling_and_the_last_wins() {
    let decode = |query: &str| {
        let mut members = RequestMembers::default();
        members.add_query(query);
        members.decode::<ListTasksRequest>(Codec::server(V1))
    };
    let request = decode(
        "page_size=3&pageSize=4&include_artifacts=true&contextId=a+b%26&status=2\
         &lastUpdatedAfter=2026-01-02T03:04:05%2B01:00&tenant=support&page_token=&x=y",
    )
    .unwrap();
    assert_eq!(
        (request.page_size, request.include_artifacts),
        (Some(4), true)
    );
    assert_eq!(request.context_id.as_deref(), Some("a b&"));
    assert_eq!(
        (request.tenant.as_deref(), request.page_token),
        (Some("support"), None)
    );
    let after = request.status_timestamp_after.unwrap();
    assert_eq!(after.to_string(), "2026-01-02T02:04:05.000Z");
    assert_eq!(request.status, Some(crate::vocab::TaskState::Working));
    for (query, path) in [
        ("pageSize=x", "pageSize"),
        ("includeArtifacts=1", "includeArtifacts"),
        ("status=paused", "status"),
    ] {
        assert_eq!(decode(query).unwrap_err().path(), path);
    }
}

#[test]
fn query_of_a_send_does_not_change_its_body() {
    let route = RestRoute::parse("POST", "/message:send").unwrap();
    let body = r#"{"message":{"messageId":"m","role":1,"parts":[{"text":"a"}]}}"#;
    let members = route.members(body, "message=x&A2A-Version=1.0").unwrap();
    let request: SendMessageRequest = members.decode(Codec::server(V1)).unwrap();
    assert_eq!(request.message.message_id, "m");
}

#[test]
fn body_that_is_not_an_object_is_refused() {
    let route = RestRoute::parse("POST", "/tasks/t:subscribe").unwrap();
    for body in ["[]", "5", "{", "null"] {
        assert_eq!(
            route.members(body, "").unwrap_err().path(),
            "params",
            "{body}"
        );
    }
    let request: SubscribeToTaskRequest = route
        .members("", "")
        .unwrap()
        .decode(Codec::server(V1))
        .unwrap();
    assert_eq!(request.id, "t");
    let route = RestRoute::parse("GET", "/tasks/t").unwrap();
    let members = route.members("", "history_length=2").unwrap();
    let request: GetTaskRequest = members.decode(Codec::server(V1)).unwrap();
    assert_eq!(request.history_length, Some(2));
}
