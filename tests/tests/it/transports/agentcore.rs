//! AgentCore's transport to a zone, with a signature checked by a third-party implementation.

use super::contract;
use super::zone_fixture::TransportFixture;
use crate::journeys::zone_process::{TestEnv, ZoneBuilder};
use bytes::Bytes;
use interzone_client::aws::{
    AgentCore, AgentCoreAuth, AgentCoreOptions, AwsCredentials, AwsSigner,
};
use interzone_client::{
    ByteStream, Client, Error, Https, HttpsOptions, RetryPolicy, Transport, TransportError,
};
use interzone_protocol::zone::{ErrorReason, ExecuteTaskParams};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

const REGION: &str = "eu-west-1";
const ARN: &str = "arn:aws:bedrock-agentcore:eu-west-1:123456789012:runtime/zone-a1";

/// Emulated AgentCore platform: a Python program with AWS's own signature code.
struct AgentCorePlatform {
    url: String,
    _child: Child,
}

#[expect(clippy::disallowed_methods, reason = "test.sh exports its path")]
fn python() -> String {
    std::env::var("INTERZONE_TEST_PYTHON").expect(
        "INTERZONE_TEST_PYTHON is not set: run ./test.sh --only test, or scripts/peers.sh install \
         and then eval \"$(scripts/peers.sh env)\" first",
    )
}

impl AgentCorePlatform {
    async fn start(zone: &str, place: &TransportFixture) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/agentcore.py");
        let mut child = Command::new(python())
            .arg(program)
            .env("SSL_CERT_FILE", &place.files.ca)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let setup = json!({"zone": zone, "token": place.token, "region": REGION,
            "access_key": "AKIDEXAMPLE", "secret_key": "s3cret", "session_token": "t0ken"});
        let stdin = child.stdin.as_mut().unwrap();
        stdin
            .write_all(format!("{setup}\n").as_bytes())
            .await
            .unwrap();
        stdin.flush().await.unwrap();
        let mut port = String::new();
        let mut stdout = BufReader::new(child.stdout.as_mut().unwrap());
        stdout.read_line(&mut port).await.unwrap();
        Self {
            url: format!("http://127.0.0.1:{}", port.trim()),
            _child: child,
        }
    }

    async fn received_requests(&self) -> Vec<Value> {
        let answer = reqwest::get(format!("{}/seen", self.url)).await.unwrap();
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }
}

/// Transport wrapper that records the digests of bodies and may alter requests.
struct TamperingTransport {
    inner: Arc<dyn Transport>,
    bodies: Mutex<Vec<String>>,
    tamper: fn(&mut http::Request<Bytes>),
}

#[async_trait::async_trait]
impl Transport for TamperingTransport {
    async fn send(
        &self,
        mut request: http::Request<Bytes>,
    ) -> Result<http::Response<ByteStream>, TransportError> {
        let digest = Sha256::digest(request.body());
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.bodies.lock().unwrap().push(hex);
        (self.tamper)(&mut request);
        self.inner.send(request).await
    }
}

fn tampering(
    inner: Arc<dyn Transport>,
    tamper: fn(&mut http::Request<Bytes>),
) -> Arc<TamperingTransport> {
    Arc::new(TamperingTransport {
        inner,
        bodies: Mutex::default(),
        tamper,
    })
}

fn keys() -> AwsCredentials {
    AwsCredentials::from_keys("AKIDEXAMPLE", "s3cret", Some("t0ken".to_owned()))
}

fn runtime(
    platform: &AgentCorePlatform,
    signer: AwsSigner,
    network: Arc<dyn Transport>,
) -> AgentCore {
    let mut options = AgentCoreOptions::new(ARN, AgentCoreAuth::Signed(Arc::new(signer)));
    options.endpoint = Some(platform.url.clone());
    options.qualifier = Some("DEFAULT".to_owned());
    AgentCore::new(options, network).unwrap()
}

fn client(platform: &AgentCorePlatform, transport: Arc<dyn Transport>) -> Client {
    let builder = Client::builder(&platform.url).allow_http(true);
    let builder = builder.transport(transport).retry(RetryPolicy::never());
    builder.build().unwrap()
}

fn network() -> Arc<dyn Transport> {
    Arc::new(Https::new(&HttpsOptions::default()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn agentcore_transport_meets_contract() {
    let place = TransportFixture::with_demo_agent().await;
    let platform = AgentCorePlatform::start(&place.listen().await, &place).await;
    let signer = AwsSigner::from_provider("bedrock-agentcore", REGION, keys());
    let runtime = Arc::new(runtime(&platform, signer, network()));
    let sent = tampering(runtime, |_| {});
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let client = client(&platform, sent.clone()).with_trace_parent(parent);
    contract::check(&client).await;
    let received = platform.received_requests().await;
    let digests: Vec<&str> = received
        .iter()
        .map(|each| each["sha256"].as_str().unwrap())
        .collect();
    assert_eq!(*sent.bodies.lock().unwrap(), digests, "byte for byte");
    let first = &received[0]["session"];
    assert!(
        received.iter().all(|each| each["session"] == *first),
        "one thread, one session"
    );
    assert!(
        received
            .iter()
            .all(|each| each["traceparent"] == json!(parent))
    );
}

/// The zone signs with what AWS's default chain finds in the home folder of its process.
#[tokio::test(flavor = "multi_thread")]
async fn remote_agent_signs_with_credentials_of_a_process() {
    let place = TransportFixture::with_demo_agent().await;
    let platform = AgentCorePlatform::start(&place.listen().await, &place).await;
    let env = TestEnv::new().await;
    let keys = json!({"Version": 1, "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "s3cret",
        "SessionToken": "t0ken"});
    fs::create_dir(env.path(".aws")).unwrap();
    fs::write(env.path("keys.json"), keys.to_string()).unwrap();
    let command = format!("cat '{}'", env.path("keys.json").display());
    let profile = format!("[default]\ncredential_process = {command}\n");
    fs::write(env.path(".aws/config"), profile).unwrap();
    let mut agent = toml::toml! {
        id = "cloud"
        kind = "remote"
        dialect = "zone"
        default = true
    };
    agent.insert("runtime".to_owned(), ARN.into());
    agent.insert("endpoint".to_owned(), platform.url.clone().into());
    let agents = vec![toml::Value::Table(agent)];
    let zone = ZoneBuilder::new().set("agents", agents).start_in(env).await;
    let call = json!({"jsonrpc": "2.0", "id": "r-1", "method": "execute_task", "params": {
        "channel": "C1", "text": "echo hi", "bot_token": "xoxb-t"}});
    let reply = zone.post(&zone.token("anna"), call.to_string()).await;
    assert_eq!(
        reply.json()["result"]["response_text"],
        json!("hi"),
        "{reply:?} {}",
        zone.log()
    );
    assert_eq!(platform.received_requests().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_aws_signature_is_rejected() {
    type Tamper = fn(&mut http::Request<Bytes>);
    let place = TransportFixture::with_demo_agent().await;
    let platform = AgentCorePlatform::start(&place.listen().await, &place).await;
    let signer = || AwsSigner::from_provider("bedrock-agentcore", REGION, keys());
    let old_signer = || {
        let then = SystemTime::now() - Duration::from_secs(15 * 60);
        signer().with_clock(move || then)
    };
    let other_region = || AwsSigner::from_provider("bedrock-agentcore", "us-east-1", keys());
    let other_service = || AwsSigner::from_provider("bedrock", REGION, keys());
    let other = AwsCredentials::from_keys("AKIDEXAMPLE", "guessed", Some("t0ken".to_owned()));
    let other_key = AwsSigner::from_provider("bedrock-agentcore", REGION, other);
    let unchanged: Tamper = |_| {};
    let body: Tamper = |request| *request.body_mut() = Bytes::from_static(b"{}");
    let path: Tamper = |request| {
        let changed = request.uri().to_string().replace("DEFAULT", "other");
        *request.uri_mut() = changed.parse().unwrap();
    };
    let session: Tamper = |request| {
        let other = "x".repeat(40).parse().unwrap();
        let name = "x-amzn-bedrock-agentcore-runtime-session-id";
        request.headers_mut().insert(name, other);
    };
    for (case, signer, tamper, is_valid) in [
        ("nothing changed", signer(), unchanged, true),
        ("another body", signer(), body, false),
        ("another address", signer(), path, false),
        ("another session", signer(), session, false),
        ("another region", other_region(), unchanged, false),
        ("another service", other_service(), unchanged, false),
        ("an old date", old_signer(), unchanged, false),
        ("another key", other_key, unchanged, false),
    ] {
        let runtime = runtime(&platform, signer, tampering(network(), tamper));
        let client = client(&platform, Arc::new(runtime));
        let params = ExecuteTaskParams::new("C1", "echo hi", "capability-1");
        let outcome = client.execute_task(&params).await;
        if is_valid {
            assert_eq!(
                outcome.unwrap().response_text.as_deref(),
                Some("hi"),
                "{case}"
            );
            continue;
        }
        let error = outcome.expect_err(case);
        let refused = matches!(error, Error::Transport(TransportError::Platform { .. }));
        assert!(refused, "{case}: {error:?}");
        assert_eq!(error.reason(), ErrorReason::AccessDenied, "{case}");
    }
    assert_eq!(
        platform.received_requests().await.len(),
        1,
        "only the valid request was forwarded"
    );
}
