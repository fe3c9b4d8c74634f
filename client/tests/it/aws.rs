//! AgentCore as a transport: what the platform is sent, and what becomes of what it says. Whether a
//! signature is right is for others to judge: see the transports of the end-to-end tests.

use crate::calls::get;
use crate::script::{Piece, Script, Step};
use bytes::Bytes;
use interzone_client::aws::{
    AgentCore, AgentCoreAuth, AgentCoreOptions, AwsKeys, AwsSigner, SignError, Signer,
};
use interzone_client::{Client, ConfigError, Credentials, Error, Secret, TransportError, Waiting};
use interzone_protocol::zone::{ErrorWord, ExecuteTaskParams, MessageKey};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

const ARN: &str = "arn:aws:bedrock-agentcore:eu-west-1:123456789012:runtime/zone-a1";
const SESSION: &str = "x-amzn-bedrock-agentcore-runtime-session-id";

fn signer() -> AwsSigner {
    let keys = AwsKeys::new("AKIDEXAMPLE", "s3cret").with_session_token("t0ken");
    AwsSigner::from_keys("bedrock-agentcore", "eu-west-1", &keys)
}

fn options() -> AgentCoreOptions {
    AgentCoreOptions::new(ARN, AgentCoreAuth::Signed(Arc::new(signer())))
}

fn client(options: AgentCoreOptions, platform: &Script) -> Client {
    let runtime = AgentCore::new(options, Arc::new(platform.clone())).unwrap();
    let builder = Client::builder(runtime.url()).transport(Arc::new(runtime));
    builder.build().unwrap()
}

fn asked() -> ExecuteTaskParams {
    ExecuteTaskParams::new("C1", "hello", "capability-1")
}

fn refused(status: u16, name: &str) -> Step {
    Step::json(status, &json!({"message": "no"})).with("x-amzn-errortype", name)
}

#[tokio::test]
async fn a_call_becomes_an_invocation_with_the_same_body() {
    let platform =
        Script::new(|seen| seen.result(json!({"status": "success", "response_text": "hi"})));
    let mut options = options();
    options.qualifier = Some("blue green".to_owned());
    options.user = Some("alice".to_owned());
    let client = client(options, &platform).with_trace_parent("00-ab-cd-01");
    let client = client.with_correlation("mine");
    client.execute_task(&asked()).await.unwrap();
    let seen = &platform.seen()[0];
    assert_eq!(seen.host, "bedrock-agentcore.eu-west-1.amazonaws.com");
    assert_eq!(
        seen.path,
        "/runtimes/arn%3Aaws%3Abedrock-agentcore%3Aeu-west-1%3A123456789012%3Aruntime%2Fzone-a1\
         /invocations?qualifier=blue%20green"
    );
    assert_eq!(seen.json()["method"], json!("execute_task"));
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
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    let proof = seen.header("authorization").unwrap();
    assert!(
        proof.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"),
        "{proof}"
    );
    let signed = "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;\
                  x-amzn-bedrock-agentcore-runtime-custom-correlation-id;\
                  x-amzn-bedrock-agentcore-runtime-session-id;\
                  x-amzn-bedrock-agentcore-runtime-user-id";
    assert!(proof.contains(signed), "{proof}");
    assert!(seen.headers["authorization"].is_sensitive());
    assert!((33..=256).contains(&seen.header(SESSION).unwrap().len()));
}

#[tokio::test]
async fn a_conversation_keeps_its_session() {
    let platform =
        Script::new(|seen| seen.result(json!({"status": "success", "response_text": "hi"})));
    let thread = |ts: &str| ExecuteTaskParams {
        thread_ts: Some(ts.to_owned()),
        ..asked()
    };
    for _ in 0..2 {
        // Another process, so to say.
        let client = client(options(), &platform);
        client.execute_task(&thread("1.1")).await.unwrap();
        client.execute_task(&thread("2.2")).await.unwrap();
        client.execute_task(&asked()).await.unwrap();
        client.execute_task(&asked()).await.unwrap();
    }
    let all: Vec<String> = (platform.seen().iter())
        .map(|seen| seen.header(SESSION).unwrap().to_owned())
        .collect();
    assert!(
        all.iter().all(|id| (33..=256).contains(&id.len())),
        "{all:?}"
    );
    assert_eq!(
        (&all[0], &all[1]),
        (&all[4], &all[5]),
        "a thread is found again"
    );
    assert_ne!(all[0], all[1]);
    assert_eq!(all[2], all[3], "what belongs to no thread shares one");
    assert_ne!(all[2], all[6], "but not with other processes");

    let mut fixed = options();
    fixed.session = Some("s".repeat(33));
    client(fixed, &platform)
        .execute_task(&thread("1.1"))
        .await
        .unwrap();
    assert_eq!(
        platform.seen()[8].header(SESSION),
        Some("s".repeat(33).as_str())
    );
}

#[tokio::test]
async fn polls_go_to_the_session_that_has_the_task() {
    tokio::time::pause();
    let platform = Script::new(|seen| {
        seen.result(if seen.json()["method"] == json!("execute_task") {
            json!({"status": "accepted", "task_id": "t-1"})
        } else {
            json!({"status": "completed", "task_id": "t-1",
                "result": {"status": "success", "response_text": "hi"}})
        })
    });
    let thread = ExecuteTaskParams {
        thread_ts: Some("1.1".to_owned()),
        ..asked()
    };
    client(options(), &platform)
        .execute_task(&thread)
        .await
        .unwrap();
    let seen = platform.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].header(SESSION), seen[1].header(SESSION));
}

#[tokio::test]
async fn events_come_through() {
    let platform = Script::new(|seen| {
        assert_eq!(
            seen.header("accept"),
            Some("text/event-stream, application/json")
        );
        let note = json!({"jsonrpc": "2.0", "method": "task.progress",
            "params": {"task_id": "t-1", "sequence": 1, "text_delta": "hi"}});
        let end = json!({"jsonrpc": "2.0", "id": seen.json()["id"],
            "result": {"status": "success", "response_text": "hi"}});
        Step::events(vec![Piece::Text(format!(
            "data: {note}\n\ndata: {end}\n\n"
        ))])
    });
    let client = client(options(), &platform);
    let mut run = client
        .execute_task(&asked())
        .waiting(Waiting::Events)
        .start()
        .unwrap();
    let mut told = 0;
    while run.next().await.is_some() {
        told += 1;
    }
    assert_eq!(told, 2);
    run.outcome().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_busy_platform_is_tried_thrice() {
    let platform = Script::steps(vec![refused(429, "ThrottlingException:http://internal/x")]);
    let client = client(options(), &platform);
    let began = Instant::now();
    let error = client.execute_task(&asked()).await.unwrap_err();
    assert_eq!(error.error_word(), ErrorWord::Throttling);
    assert_eq!(error.message_key(), MessageKey::Busy);
    let seen = platform.seen();
    assert_eq!(seen.len(), 3);
    let took = began.elapsed();
    let (least, most) = (Duration::from_secs(3), Duration::from_millis(4600));
    assert!(took >= least && took <= most, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_platform_have_words() {
    for (step, word) in [
        (
            refused(403, "AccessDeniedException"),
            ErrorWord::AccessDenied,
        ),
        (
            refused(404, "ResourceNotFoundException"),
            ErrorWord::AgentUnavailable,
        ),
        (
            refused(402, "ServiceQuotaExceededException"),
            ErrorWord::Throttling,
        ),
        (
            refused(500, "InternalServerException"),
            ErrorWord::InternalError,
        ),
        (refused(424, "RuntimeClientError"), ErrorWord::Unavailable),
        (
            Step::text(424, "text/plain", "not ready"),
            ErrorWord::Unavailable,
        ),
        (
            Step::json(400, &json!({"__type": "com.amazon#ThrottlingException"})),
            ErrorWord::Throttling,
        ),
    ] {
        let platform = Script::steps(vec![step.clone()]);
        let error = client(options(), &platform)
            .execute_task(&asked())
            .await
            .unwrap_err();
        let named = matches!(error, Error::Transport(TransportError::Platform { .. }));
        assert!(named, "{error:?}");
        assert_eq!(error.error_word(), word, "{step:?}");
    }
    // What the zone says is the zone's.
    let platform =
        Script::new(|seen| seen.error(400, -32600, json!({"error_code": "invalid_request"})));
    let error = client(options(), &platform)
        .execute_task(&asked())
        .await
        .unwrap_err();
    assert_eq!(error.error_word(), ErrorWord::InvalidRequest);
}

#[tokio::test]
async fn other_doors_are_not_reached_and_the_error_says_so() {
    let platform = Script::steps(vec![Step::status(200)]);
    let client = client(options(), &platform);
    let error = client
        .watch_task("t-1", None)
        .next()
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        error.to_string().contains("AgentCore carries calls alone"),
        "{error}"
    );
    assert!(platform.seen().is_empty());
}

#[tokio::test]
async fn a_token_takes_the_place_of_a_signature_and_never_stands_beside_it() {
    let platform = Script::new(|seen| seen.result(crate::script::task_result("t-1")));
    let token = Credentials::Bearer(Secret::new("t0ken"));
    let by_token = AgentCoreOptions::new(ARN, AgentCoreAuth::Bearer);
    let bearer = client(by_token, &platform).with_credentials(token.clone());
    bearer.tasks_get(&get("t-1")).await.unwrap();
    let seen = platform.seen();
    assert_eq!(seen[0].header("authorization"), Some("Bearer t0ken"));
    assert_eq!(seen[0].header("x-amz-date"), None);
    let both = client(options(), &platform).with_credentials(token);
    let error = both.tasks_get(&get("t-1")).await.unwrap_err();
    assert!(
        matches!(error, Error::Transport(TransportError::Unsupported(_))),
        "{error:?}"
    );
    assert_eq!(platform.seen().len(), 1);
}

#[tokio::test]
async fn bad_options_are_refused() {
    let nobody = Script::steps(vec![Step::Hang]);
    let refuse = |change: &dyn Fn(&mut AgentCoreOptions)| {
        let mut options = options();
        change(&mut options);
        match AgentCore::new(options, Arc::new(nobody.clone())) {
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
        let error = refuse(&|options| options.arn = arn.to_owned());
        assert!(matches!(error, ConfigError::Arn), "{arn}: {error:?}");
    }
    let error = refuse(&|options| options.session = Some("short".to_owned()));
    assert!(matches!(error, ConfigError::Session), "{error:?}");
    let error = refuse(&|options| options.user = Some("two\nlines".to_owned()));
    assert!(matches!(error, ConfigError::Header { .. }), "{error:?}");
    let error = refuse(&|options| options.endpoint = Some("nowhere".to_owned()));
    assert!(matches!(error, ConfigError::Address), "{error:?}");
}

#[tokio::test]
async fn a_signer_shows_no_secret_and_signs_the_same_thing_the_same_way() {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let signer = signer().with_clock(move || at);
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

/// Something else may sign, and may fail to.
struct Broken;

#[async_trait::async_trait]
impl Signer for Broken {
    async fn sign(&self, _: &mut http::Request<Bytes>) -> Result<(), SignError> {
        Err(SignError::Credentials(Arc::new(std::io::Error::other(
            "none",
        ))))
    }
}

#[tokio::test(start_paused = true)]
async fn without_credentials_nothing_is_sent() {
    let platform = Script::steps(vec![Step::status(200)]);
    let broken = AgentCoreOptions::new(ARN, AgentCoreAuth::Signed(Arc::new(Broken)));
    let error = client(broken, &platform)
        .execute_task(&asked())
        .await
        .unwrap_err();
    assert_eq!(error.error_word(), ErrorWord::AccessDenied);
    assert_eq!(error.message_key(), MessageKey::AskAdmin);
    assert!(platform.seen().is_empty());
}
