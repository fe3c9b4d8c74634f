//! The credential chain against a server that simulates all credential endpoints.

use super::*;
use crate::aws::credential_http::CredentialHttp;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

type CloudReply = Arc<dyn Fn(&CloudRequest) -> (u16, String) + Send + Sync>;

/// A recorded request; header names are lower case.
#[derive(Clone, Debug)]
struct CloudRequest {
    line: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl CloudRequest {
    fn form(&self, name: &str) -> Option<String> {
        let mut pairs = url::form_urlencoded::parse(self.body.as_bytes());
        pairs.find_map(|(key, value)| (key == name).then(|| value.into_owned()))
    }
}

struct FakeCloud {
    url: String,
    requests: Arc<Mutex<Vec<CloudRequest>>>,
    task: JoinHandle<()>,
}

impl Drop for FakeCloud {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeCloud {
    async fn new(reply: impl Fn(&CloudRequest) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<CloudRequest>>> = Arc::default();
        let (recorded, reply): (_, CloudReply) = (requests.clone(), Arc::new(reply));
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, recorded.clone(), reply.clone()));
            }
        });
        Self {
            url,
            requests,
            task,
        }
    }

    fn requests(&self) -> Vec<CloudRequest> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(socket: TcpStream, recorded: Arc<Mutex<Vec<CloudRequest>>>, reply: CloudReply) {
    let mut socket = BufReader::new(socket);
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        let mut headers = BTreeMap::new();
        loop {
            let mut header = String::new();
            socket.read_line(&mut header).await.unwrap();
            let Some((name, value)) = header.trim().split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers
            .get("content-length")
            .map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.unwrap();
        let (line, _) = line.rsplit_once(' ').unwrap();
        let request = CloudRequest {
            line: line.to_owned(),
            headers,
            body: String::from_utf8(body).unwrap(),
        };
        recorded.lock().unwrap().push(request.clone());
        let (status, body) = reply(&request);
        let size = body.len();
        let text = format!("HTTP/1.1 {status} x\r\ncontent-length: {size}\r\n\r\n{body}");
        socket.write_all(text.as_bytes()).await.unwrap();
    }
}

/// Response of the container and instance metadata endpoints.
fn json(id: &str) -> (u16, String) {
    let body = format!(
        r#"{{"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "{id}", "SecretAccessKey": "s3cret",
            "Token": "t0ken", "LastUpdated": "2026-01-01T00:00:00Z", "Expiration": "2030-01-01T00:00:00Z"}}"#
    );
    (200, body)
}

/// STS response, as in its reference.
fn xml(action: &str, id: &str) -> (u16, String) {
    let body = format!(
        "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n<{action}Result>\n\
         <AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/r/s</Arn></AssumedRoleUser>\n\
         <Credentials>\n <AccessKeyId>{id}</AccessKeyId>\n <SecretAccessKey>s3cret</SecretAccessKey>\n \
         <SessionToken>t0ken</SessionToken>\n <Expiration>2030-01-01T00:00:00Z</Expiration>\n\
         </Credentials>\n</{action}Result>\n</{action}Response>"
    );
    (200, body)
}

fn not_found() -> (u16, String) {
    (404, String::new())
}

fn chain(vars: &[(&str, &str)]) -> Chain {
    let vars: BTreeMap<String, String> = (vars.iter())
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let http = CredentialHttp::new().unwrap();
    let env = CredentialsEnv::new(move |name| vars.get(name).cloned(), Some(http));
    Chain::new(env, "eu-west-1")
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

/// The beginning of 2030.
fn end() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_893_456_000)
}

fn assert_temporary(credentials: &ExpiringKeys, id: &str) {
    assert_eq!(credentials.keys.id(), id);
    assert_eq!(credentials.keys.secret(), "s3cret");
    assert_eq!(credentials.keys.session(), Some("t0ken"));
    assert_eq!(credentials.expires_at, Some(end()));
    let shown = format!("{credentials:?}");
    assert!(
        !shown.contains("s3cret") && !shown.contains("t0ken"),
        "{shown}"
    );
}

#[tokio::test]
async fn environment_has_precedence_and_empty_counts_as_unset() {
    let from_environment = chain(&[
        ("AWS_ACCESS_KEY_ID", "AKIDENV"),
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ("AWS_SESSION_TOKEN", "t0ken"),
        ("AWS_PROFILE", "missing"),
    ]);
    let credentials = from_environment.resolve(now()).await.unwrap();
    assert_eq!(credentials.keys.id(), "AKIDENV");
    assert_eq!(credentials.keys.session(), Some("t0ken"));
    assert_eq!(credentials.expires_at, None);
    let empty = chain(&[
        ("AWS_ACCESS_KEY_ID", ""),
        ("AWS_SECRET_ACCESS_KEY", ""),
        ("AWS_SESSION_TOKEN", ""),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]);
    let error = empty.resolve(now()).await.unwrap_err().to_string();
    assert!(
        error.contains("profile `default`") && error.contains("no role"),
        "{error}"
    );
}

#[tokio::test]
async fn profiles_are_read_from_default_and_configured_paths() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".aws");
    std::fs::create_dir(&folder).unwrap();
    let config = "[default]\nregion = x\n[profile dev]\naws_access_key_id = DEV\n\
                  aws_secret_access_key = s\n";
    std::fs::write(folder.join("config"), config).unwrap();
    let credentials = "[default]\naws_access_key_id = HOME\naws_secret_access_key = s\n";
    std::fs::write(folder.join("credentials"), credentials).unwrap();
    let other = home.path().join("other");
    let other_credentials = "[default]\naws_access_key_id = OTHER\naws_secret_access_key = s\n";
    std::fs::write(&other, other_credentials).unwrap();
    let (home, other) = (home.path().to_str().unwrap(), other.to_str().unwrap());
    for (vars, id) in [
        (&[("HOME", home)][..], "HOME"),
        (&[("HOME", home), ("AWS_PROFILE", "dev")], "DEV"),
        (
            &[("HOME", home), ("AWS_SHARED_CREDENTIALS_FILE", other)],
            "OTHER",
        ),
        (&[("AWS_CONFIG_FILE", other)], "OTHER"),
        (
            &[("HOME", home), ("AWS_SHARED_CREDENTIALS_FILE", "~/other")],
            "OTHER",
        ),
    ] {
        let credentials = chain(vars).resolve(now()).await.unwrap();
        assert_eq!(credentials.keys.id(), id, "{vars:?}");
    }
    let unresolved = chain(&[("HOME", home), ("AWS_PROFILE", "missing")]);
    let error = unresolved.resolve(now()).await.unwrap_err().to_string();
    assert!(error.contains("`missing` does not exist"), "{error}");
}

#[tokio::test]
async fn failing_configured_source_ends_the_search() {
    let cloud = FakeCloud::new(imds_reply).await;
    let imds = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", cloud.url.as_str());
    let home = tempfile::tempdir().unwrap();
    let unreadable = home.path().join("here/.aws/config");
    std::fs::create_dir_all(&unreadable).unwrap();
    let here = home.path().join("here");
    let (home, here) = (home.path().to_str().unwrap(), here.to_str().unwrap());
    let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
    for (vars, expected) in [
        (&[("HOME", here)][..], "~/.aws/config cannot be read"),
        (
            &[("HOME", home), ("AWS_CONFIG_FILE", "~/none")],
            "~/none cannot be read",
        ),
        (
            &[("HOME", home), ("AWS_SHARED_CREDENTIALS_FILE", "~/none")],
            "~/none cannot be read",
        ),
        (
            &[("AWS_CONFIG_FILE", "~/none")],
            "AWS_CONFIG_FILE: the home directory",
        ),
        (
            &[(id, "AKID")],
            "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not",
        ),
        (
            &[(secret, "s3cret"), (id, " ")],
            "AWS_SECRET_ACCESS_KEY is set, but AWS_ACCESS_KEY_ID is not",
        ),
    ] {
        let vars: Vec<_> = vars.iter().copied().chain([imds]).collect();
        let error = chain(&vars).resolve(now()).await.unwrap_err().to_string();
        assert!(
            error.contains(expected) && !error.contains("s3cret"),
            "{error}"
        );
    }
    assert!(cloud.requests().is_empty(), "no further source is used");
    let credentials = chain(&[("HOME", home), imds]).resolve(now()).await;
    assert_temporary(&credentials.unwrap(), "AKIDHOST");
}

#[tokio::test]
async fn invalid_role_configuration_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let text = "[default]\nrole_arn = arn:r\nsource_profile = default\naws_access_key_id = A\n\
                aws_secret_access_key = s3cret\naws_session_token = t0k\u{1}en\n";
    std::fs::write(&file, text).unwrap();
    let chain = chain(&[("AWS_CONFIG_FILE", file.to_str().unwrap())]);
    let error = chain.resolve(now()).await.unwrap_err().to_string();
    assert!(
        error.contains("arn:r") && error.contains("do not fit into a header"),
        "{error}"
    );
    assert!(
        !error.contains("t0k") && !error.contains("s3cret"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn hanging_sts_is_named_in_the_error() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = silent.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "ey.J.x").unwrap();
    let address = format!("http://me:pa55@{host}");
    let chain = chain(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:web"),
        ("AWS_ENDPOINT_URL_STS", &address),
    ]);
    let lookup = tokio::time::timeout(Duration::from_secs(29), chain.resolve(now()));
    let error = lookup.await.unwrap().unwrap_err().to_string();
    assert!(
        error.contains("arn:web") && error.contains(&host),
        "{error}"
    );
    assert!(!error.contains("pa55"), "{error}");
}

#[tokio::test]
async fn invalid_url_is_not_quoted_in_the_error() {
    for name in [
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    ] {
        let chain = chain(&[(name, "http://me:pa55@ho st/")]);
        let error = chain.resolve(now()).await.unwrap_err().to_string();
        assert!(
            error.contains(&format!("{name} is not a valid URL")) && !error.contains("pa55"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn profile_role_is_assumed_with_a_signed_request() {
    let cloud = FakeCloud::new(|request| match request.form("RoleArn").as_deref() {
        Some("arn:aws:iam::1:role/first") => xml("AssumeRole", "AKIDFIRST"),
        Some("arn:aws:iam::1:role/last") => xml("AssumeRole", "AKIDLAST"),
        _ => not_found(),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let text = "[profile last]\nrole_arn = arn:aws:iam::1:role/last\nsource_profile = first\n\
                external_id = a b&c\nrole_session_name = me\n\
                [profile first]\nrole_arn = arn:aws:iam::1:role/first\nsource_profile = keys\n\
                [profile keys]\naws_access_key_id = AKIDKEYS\naws_secret_access_key = k3y\n";
    std::fs::write(&file, text).unwrap();
    let chain = chain(&[
        ("AWS_CONFIG_FILE", file.to_str().unwrap()),
        ("AWS_PROFILE", "last"),
        ("AWS_ENDPOINT_URL_STS", &cloud.url),
    ]);
    assert_temporary(&chain.resolve(now()).await.unwrap(), "AKIDLAST");
    let requests = cloud.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].line, "POST /");
    assert_eq!(requests[0].form("Action").unwrap(), "AssumeRole");
    assert_eq!(requests[0].form("Version").unwrap(), "2011-06-15");
    assert_eq!(
        requests[0].form("RoleSessionName").unwrap(),
        "interzone-1700000000"
    );
    assert_eq!(requests[1].form("ExternalId").unwrap(), "a b&c");
    assert_eq!(requests[1].form("RoleSessionName").unwrap(), "me");
    assert_eq!(requests[1].headers["x-amz-security-token"], "t0ken");
    for (request, id) in requests.iter().zip(["AKIDKEYS", "AKIDFIRST"]) {
        let proof = &request.headers["authorization"];
        let start =
            format!("AWS4-HMAC-SHA256 Credential={id}/20231114/eu-west-1/sts/aws4_request, ");
        assert!(proof.starts_with(&start), "{proof}");
        assert_eq!(request.headers["x-amz-date"], "20231114T221320Z");
    }
}

#[tokio::test]
async fn web_identity_token_is_exchanged_for_a_role() {
    let cloud = FakeCloud::new(|_| xml("AssumeRoleWithWebIdentity", "AKIDWEB")).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "ey.J.x\n").unwrap();
    let file = file.to_str().unwrap();
    let vars = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/web"),
        ("AWS_ROLE_SESSION_NAME", "pod"),
        ("AWS_ENDPOINT_URL_STS", &cloud.url),
    ];
    assert_temporary(&chain(&vars).resolve(now()).await.unwrap(), "AKIDWEB");
    let request = &cloud.requests()[0];
    assert_eq!(request.form("Action").unwrap(), "AssumeRoleWithWebIdentity");
    assert_eq!(request.form("WebIdentityToken").unwrap(), "ey.J.x");
    assert_eq!(request.form("RoleArn").unwrap(), "arn:aws:iam::1:role/web");
    assert_eq!(request.form("RoleSessionName").unwrap(), "pod");
    assert!(
        !request.headers.contains_key("authorization"),
        "the request is not signed"
    );
    let error = chain(&vars[..1])
        .resolve(now())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("AWS_ROLE_ARN"), "{error}");
    let missing = folder.path().join("missing");
    let without_file = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", missing.to_str().unwrap()),
        vars[1],
    ];
    let error = chain(&without_file)
        .resolve(now())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("cannot be read"), "{error}");
}

#[tokio::test]
async fn sts_error_is_reported_and_ends_the_search() {
    let rejection = "<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredTokenException</Code>\
                   <Message>Token expired: now &gt; then</Message></Error></ErrorResponse>";
    let cloud = FakeCloud::new(|_| (400, rejection.to_owned())).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "ey.J.x").unwrap();
    let chain = chain(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:web"),
        ("AWS_ENDPOINT_URL", &cloud.url),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &cloud.url),
    ]);
    let error = chain.resolve(now()).await.unwrap_err().to_string();
    for expected in ["arn:web", "400", "ExpiredTokenException", "Token expired"] {
        assert!(error.contains(expected), "{error}");
    }
    assert!(!error.contains("ey.J.x"), "{error}");
    assert_eq!(cloud.requests().len(), 1, "no further source is used");
}

#[tokio::test]
async fn container_endpoint_gets_the_authorization_token() {
    let cloud = FakeCloud::new(|request| match request.headers.get("authorization") {
        Some(token) if token == "from-file" || token == "given" => json("AKIDBOX"),
        _ => (
            401,
            r#"{"code": "Unauthorized", "message": "no token"}"#.to_owned(),
        ),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "from-file\n").unwrap();
    let address = format!("{}/v1/credentials?x=y", cloud.url);
    let full = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", address.as_str());
    let given = ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "given");
    let filed = (
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        file.to_str().unwrap(),
    );
    assert_temporary(
        &chain(&[full, given]).resolve(now()).await.unwrap(),
        "AKIDBOX",
    );
    assert_temporary(
        &chain(&[full, given, filed]).resolve(now()).await.unwrap(),
        "AKIDBOX",
    );
    let requests = cloud.requests();
    assert_eq!(requests[0].line, "GET /v1/credentials?x=y");
    assert_eq!(
        requests[1].headers["authorization"], "from-file",
        "the file takes precedence, because it may be renewed"
    );
    let error = chain(&[full]).resolve(now()).await.unwrap_err().to_string();
    assert!(
        error.contains("401") && error.contains("no token"),
        "{error}"
    );
}

/// Simulates instance metadata (IMDSv2).
fn imds_reply(request: &CloudRequest) -> (u16, String) {
    let token = request.headers.get("x-aws-ec2-metadata-token");
    let is_authorized = token.is_some_and(|token| token == "machine-token");
    match (request.line.strip_prefix("GET "), is_authorized) {
        _ if request.line == "PUT /latest/api/token" => {
            assert_eq!(
                request.headers["x-aws-ec2-metadata-token-ttl-seconds"],
                "21600"
            );
            (200, "machine-token".to_owned())
        }
        (Some(_), false) => (401, String::new()),
        (Some(ROLES), true) => (200, "role".to_owned()),
        (Some(path), true) if path == format!("{ROLES}role") => json("AKIDHOST"),
        _ => not_found(),
    }
}

#[tokio::test]
async fn instance_role_is_the_last_source() {
    let cloud = FakeCloud::new(imds_reply).await;
    let endpoint = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", cloud.url.as_str());
    assert_temporary(
        &chain(&[endpoint]).resolve(now()).await.unwrap(),
        "AKIDHOST",
    );
    assert_eq!(cloud.requests().len(), 3);
    let disabled = chain(&[endpoint, ("AWS_EC2_METADATA_DISABLED", "TRUE")]);
    let error = disabled.resolve(now()).await.unwrap_err().to_string();
    assert!(error.contains("no role"), "{error}");
    assert_eq!(
        cloud.requests().len(),
        3,
        "a disabled endpoint is not called"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    std::fs::write(
        &file,
        "[default]\ncredential_source = Ec2InstanceMetadata\n",
    )
    .unwrap();
    let named = chain(&[endpoint, ("AWS_CONFIG_FILE", file.to_str().unwrap())]);
    assert_temporary(&named.resolve(now()).await.unwrap(), "AKIDHOST");
}

#[tokio::test]
async fn instance_without_a_role_is_an_error() {
    let cloud = FakeCloud::new(|request| match request.line.as_str() {
        "PUT /latest/api/token" => (200, "x".to_owned()),
        _ => not_found(),
    })
    .await;
    let endpoint = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", cloud.url.as_str());
    let error = chain(&[endpoint])
        .resolve(now())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("no role"), "{error}");
}

#[tokio::test]
async fn overloaded_endpoint_is_retried_and_bad_reply_not_quoted() {
    let attempts = Mutex::new(0);
    let cloud = FakeCloud::new(move |_| {
        let mut attempts = attempts.lock().unwrap();
        *attempts += 1;
        match *attempts {
            1 => (503, String::new()),
            2 => json("AKIDBOX"),
            3 => (
                200,
                r#"{"AccessKeyId": "x", "SecretAccessKey": ["s3cret"]}"#.to_owned(),
            ),
            4 => (200, r#"{"AccessKeyId": "x"}"#.to_owned()),
            5 => {
                let body =
                    r#"{"AccessKeyId": "x", "SecretAccessKey": "s3cret", "Token": "s3cret"}"#;
                (200, body.to_owned())
            }
            _ => (200, "x".repeat((1 << 20) + 1)),
        }
    })
    .await;
    let address = format!("{}/x", cloud.url);
    let chain = chain(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &address)]);
    assert_temporary(&chain.resolve(now()).await.unwrap(), "AKIDBOX");
    for expected in [
        "the response is invalid",
        "no keys",
        "without an expiration",
        "larger than 1048576 bytes",
    ] {
        let error = chain.resolve(now()).await.unwrap_err().to_string();
        assert!(
            error.contains(expected) && !error.contains("s3cret"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn unreachable_endpoint_is_named_in_the_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    drop(listener);
    let address = format!("http://{host}");
    let chain = chain(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &address)]);
    let error = chain.resolve(now()).await.unwrap_err().to_string();
    assert!(
        error.contains(&host) && error.contains("neither the environment"),
        "{error}"
    );
}
