//! AgentCore as a transport: requests to the platform, and handling of its responses. The signature itself is
//! verified by the transports of the end-to-end tests.

use crate::calls::get_params;
use crate::scripted_peer::{BodyPart, PeerAction, ScriptedPeer};
use bytes::Bytes;
use interzone_client::aws::{
    AgentCore, AgentCoreAuth, AgentCoreOptions, AwsCredentials, AwsSigner, RequestSigner, SignError,
};
use interzone_client::{Client, ConfigError, Credentials, Error, Secret, TransportError, WaitMode};
use interzone_protocol::zone::{ErrorReason, ExecuteTaskParams, UserMessageKey};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

const ARN: &str = "arn:aws:bedrock-agentcore:eu-west-1:123456789012:runtime/zone-a1";
const SESSION: &str = "x-amzn-bedrock-agentcore-runtime-session-id";

fn signer() -> AwsSigner {
    let keys = AwsCredentials::from_keys("AKIDEXAMPLE", "s3cret", Some("t0ken".to_owned()));
    AwsSigner::from_provider("bedrock-agentcore", "eu-west-1", keys)
}

fn options() -> AgentCoreOptions {
    AgentCoreOptions::new(ARN, AgentCoreAuth::Signed(Arc::new(signer())))
}

fn client(options: AgentCoreOptions, platform: &ScriptedPeer) -> Client {
    let runtime = AgentCore::new(options, Arc::new(platform.clone())).unwrap();
    let builder = Client::builder(runtime.url()).transport(Arc::new(runtime));
    builder.build().unwrap()
}

fn execute_params() -> ExecuteTaskParams {
    ExecuteTaskParams::new("C1", "hello", "capability-1")
}

fn platform_error(status: u16, name: &str) -> PeerAction {
    PeerAction::json(status, &json!({"message": "no"})).with_header("x-amzn-errortype", name)
}

#[tokio::test]
async fn call_is_sent_as_invocation_with_same_body() {
    let platform = ScriptedPeer::new(|request| {
        request.result(json!({"status": "success", "response_text": "hi"}))
    });
    let mut options = options();
    options.qualifier = Some("blue green".to_owned());
    options.user = Some("alice".to_owned());
    let client = client(options, &platform).with_trace_parent("00-ab-cd-01");
    let client = client.with_correlation("mine");
    client.execute_task(&execute_params()).await.unwrap();
    let request = &platform.requests()[0];
    assert_eq!(request.host, "bedrock-agentcore.eu-west-1.amazonaws.com");
    assert_eq!(
        request.path,
        "/runtimes/arn%3Aaws%3Abedrock-agentcore%3Aeu-west-1%3A123456789012%3Aruntime%2Fzone-a1\
         /invocations?qualifier=blue%20green"
    );
    assert_eq!(request.json()["method"], json!("execute_task"));
    for (name, value) in [
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("traceparent", "00-ab-cd-01"),
        ("x-amzn-bedrock-agentcore-runtime-user-id", "alice"),
        (
            "x-amzn-bedrock-agentcore-runtime-custom-correlation-id",
            "mine",
        ),
        ("x-amz-security-token", "t0ken"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    let authorization = request.header("authorization").unwrap();
    assert!(
        authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"),
        "{authorization}"
    );
    let signed = "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;\
                  x-amzn-bedrock-agentcore-runtime-custom-correlation-id;\
                  x-amzn-bedrock-agentcore-runtime-session-id;\
                  x-amzn-bedrock-agentcore-runtime-user-id";
    assert!(authorization.contains(signed), "{authorization}");
    assert!(request.headers["authorization"].is_sensitive());
    assert!((33..=256).contains(&request.header(SESSION).unwrap().len()));
}

#[tokio::test]
async fn conversation_keeps_its_session() {
    let platform = ScriptedPeer::new(|request| {
        request.result(json!({"status": "success", "response_text": "hi"}))
    });
    let thread = |ts: &str| ExecuteTaskParams {
        thread_ts: Some(ts.to_owned()),
        ..execute_params()
    };
    for _ in 0..2 {
        // As from another process.
        let client = client(options(), &platform);
        client.execute_task(&thread("1.1")).await.unwrap();
        client.execute_task(&thread("2.2")).await.unwrap();
        client.execute_task(&execute_params()).await.unwrap();
        client.execute_task(&execute_params()).await.unwrap();
    }
    let all: Vec<String> = (platform.requests().iter())
        .map(|request| request.header(SESSION).unwrap().to_owned())
        .collect();
    assert!(
        all.iter().all(|id| (33..=256).contains(&id.len())),
        "{all:?}"
    );
    assert_eq!(
        (&all[0], &all[1]),
        (&all[4], &all[5]),
        "a thread keeps its session"
    );
    assert_ne!(all[0], all[1]);
    assert_eq!(all[2], all[3], "calls without a thread share one");
    assert_ne!(all[2], all[6], "but not across processes");

    let mut fixed = options();
    fixed.session = Some("s".repeat(33));
    client(fixed, &platform)
        .execute_task(&thread("1.1"))
        .await
        .unwrap();
    assert_eq!(
        platform.requests()[8].header(SESSION),
        Some("s".repeat(33).as_str())
    );
}

#[tokio::test]
async fn polls_use_the_session_of_the_task() {
    tokio::time::pause();
    let platform = ScriptedPeer::new(|request| {
        request.result(if request.json()["method"] == json!("execute_task") {
            json!({"status": "accepted", "task_id": "t-1"})
        } else {
            json!({"status": "completed", "task_id": "t-1",
                "result": {"status": "success", "response_text": "hi"}})
        })
    });
    let thread = ExecuteTaskParams {
        thread_ts: Some("1.1".to_owned()),
        ..execute_params()
    };
    client(options(), &platform)
        .execute_task(&thread)
        .await
        .unwrap();
    let requests = platform.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].header(SESSION), requests[1].header(SESSION));
}

#[tokio::test]
async fn events_are_streamed_through_agentcore() {
    let platform = ScriptedPeer::new(|request| {
        assert_eq!(
            request.header("accept"),
            Some("text/event-stream, application/json")
        );
        let note = json!({"jsonrpc": "2.0", "method": "task.progress",
            "params": {"task_id": "t-1", "sequence": 1, "text_delta": "hi"}});
        let end = json!({"jsonrpc": "2.0", "id": request.json()["id"],
            "result": {"status": "success", "response_text": "hi"}});
        PeerAction::events(vec![BodyPart::Text(format!(
            "data: {note}\n\ndata: {end}\n\n"
        ))])
    });
    let client = client(options(), &platform);
    let mut run = client
        .execute_task(&execute_params())
        .wait_mode(WaitMode::Stream)
        .start()
        .unwrap();
    let mut count = 0;
    while run.next().await.is_some() {
        count += 1;
    }
    assert_eq!(count, 2);
    run.outcome().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn throttled_call_is_tried_three_times() {
    let platform = ScriptedPeer::steps(vec![platform_error(
        429,
        "ThrottlingException:http://internal/x",
    )]);
    let client = client(options(), &platform);
    let started_at = Instant::now();
    let error = client.execute_task(&execute_params()).await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::Throttling);
    assert_eq!(error.message_key(), UserMessageKey::Busy);
    let requests = platform.requests();
    assert_eq!(requests.len(), 3);
    let took = started_at.elapsed();
    let (least, most) = (Duration::from_secs(3), Duration::from_millis(4600));
    assert!(took >= least && took <= most, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn platform_errors_map_to_reasons() {
    for (step, reason) in [
        (
            platform_error(403, "AccessDeniedException"),
            ErrorReason::AccessDenied,
        ),
        (
            platform_error(404, "ResourceNotFoundException"),
            ErrorReason::AgentUnavailable,
        ),
        (
            platform_error(402, "ServiceQuotaExceededException"),
            ErrorReason::Throttling,
        ),
        (
            platform_error(500, "InternalServerException"),
            ErrorReason::InternalError,
        ),
        (
            platform_error(424, "RuntimeClientError"),
            ErrorReason::Unavailable,
        ),
        (
            PeerAction::text(424, "text/plain", "not ready"),
            ErrorReason::Unavailable,
        ),
        (
            PeerAction::json(400, &json!({"__type": "com.amazon#ThrottlingException"})),
            ErrorReason::Throttling,
        ),
    ] {
        let platform = ScriptedPeer::steps(vec![step.clone()]);
        let error = client(options(), &platform)
            .execute_task(&execute_params())
            .await
            .unwrap_err();
        let named = matches!(error, Error::Transport(TransportError::Platform { .. }));
        assert!(named, "{error:?}");
        assert_eq!(error.reason(), reason, "{step:?}");
    }
    // Errors of the zone are passed through.
    let platform = ScriptedPeer::new(|request| {
        request.error(400, -32600, json!({"error_code": "invalid_request"}))
    });
    let error = client(options(), &platform)
        .execute_task(&execute_params())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), ErrorReason::InvalidRequest);
}

#[tokio::test]
async fn unsupported_endpoint_returns_clear_error() {
    let platform = ScriptedPeer::steps(vec![PeerAction::status(200)]);
    let client = client(options(), &platform);
    let error = client
        .watch_task("t-1", None)
        .next()
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        error.to_string().contains("AgentCore supports calls only"),
        "{error}"
    );
    assert!(platform.requests().is_empty());
}

#[tokio::test]
async fn bearer_token_and_signature_exclude_each_other() {
    let platform =
        ScriptedPeer::new(|request| request.result(crate::scripted_peer::task_result("t-1")));
    let token = Credentials::Bearer(Secret::new("t0ken"));
    let by_token = AgentCoreOptions::new(ARN, AgentCoreAuth::Bearer);
    let bearer = client(by_token, &platform).with_credentials(token.clone());
    bearer.tasks_get(&get_params("t-1")).await.unwrap();
    let requests = platform.requests();
    assert_eq!(requests[0].header("authorization"), Some("Bearer t0ken"));
    assert_eq!(requests[0].header("x-amz-date"), None);
    let both = client(options(), &platform).with_credentials(token);
    let error = both.tasks_get(&get_params("t-1")).await.unwrap_err();
    assert!(
        matches!(error, Error::Transport(TransportError::Unsupported(_))),
        "{error:?}"
    );
    assert_eq!(platform.requests().len(), 1);
}

#[tokio::test]
async fn invalid_agentcore_options_are_rejected() {
    let platform = ScriptedPeer::steps(vec![PeerAction::Hang]);
    let config_error = |change: &dyn Fn(&mut AgentCoreOptions)| {
        let mut options = options();
        change(&mut options);
        match AgentCore::new(options, Arc::new(platform.clone())) {
            Err(Error::Config(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    for arn in [
        "",
        "zone",
        "arn:aws:s3:eu-west-1:1:x",
        "arn:aws:bedrock-agentcore:EU/../x:1:r",
    ] {
        let error = config_error(&|options| options.arn = arn.to_owned());
        assert!(matches!(error, ConfigError::Arn), "{arn}: {error:?}");
    }
    let error = config_error(&|options| options.session = Some("short".to_owned()));
    assert!(matches!(error, ConfigError::Session), "{error:?}");
    let error = config_error(&|options| options.user = Some("two\nlines".to_owned()));
    assert!(matches!(error, ConfigError::Header { .. }), "{error:?}");
    let error = config_error(&|options| options.endpoint = Some("nowhere".to_owned()));
    assert!(matches!(error, ConfigError::Address), "{error:?}");
}

#[tokio::test]
async fn signer_is_deterministic_and_hides_secrets() {
    let signing_time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let signer = signer().with_clock(move || signing_time);
    let shown = format!("{signer:?}");
    assert!(
        !shown.contains("s3cret") && !shown.contains("t0ken"),
        "{shown}"
    );
    assert_eq!(signer.region(), "eu-west-1");
    let sign = async |body: &'static str| {
        let mut request = http::Request::post("https://x.example/a%3Ab/c")
            .body(Bytes::from_static(body.as_bytes()))
            .unwrap();
        signer.sign(&mut request).await.unwrap();
        assert_eq!(request.headers()["x-amz-date"], "20231114T221320Z");
        request.headers()["authorization"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(sign("{}").await, sign("{}").await);
    assert_ne!(sign("{}").await, sign("[]").await);
}

/// Signer without credentials.
struct FailingSigner;

#[async_trait::async_trait]
impl RequestSigner for FailingSigner {
    async fn sign(&self, _: &mut http::Request<Bytes>) -> Result<(), SignError> {
        Err(SignError::Credentials(Arc::new(std::io::Error::other(
            "none",
        ))))
    }
}

#[tokio::test(start_paused = true)]
async fn missing_credentials_send_no_request() {
    let platform = ScriptedPeer::steps(vec![PeerAction::status(200)]);
    let broken = AgentCoreOptions::new(ARN, AgentCoreAuth::Signed(Arc::new(FailingSigner)));
    let error = client(broken, &platform)
        .execute_task(&execute_params())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), ErrorReason::AccessDenied);
    assert_eq!(error.message_key(), UserMessageKey::AskAdmin);
    assert!(platform.requests().is_empty());
}
