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
    asked: Arc<Mutex<Vec<CloudRequest>>>,
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
        let asked: Arc<Mutex<Vec<CloudRequest>>> = Arc::default();
        let (seen, reply): (_, CloudReply) = (asked.clone(), Arc::new(reply));
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, seen.clone(), reply.clone()));
            }
        });
        Self { url, asked, task }
    }

    fn requests(&self) -> Vec<CloudRequest> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(socket: TcpStream, seen: Arc<Mutex<Vec<CloudRequest>>>, reply: CloudReply) {
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
        let asked = CloudRequest {
            line: line.to_owned(),
            headers,
            body: String::from_utf8(body).unwrap(),
        };
        seen.lock().unwrap().push(asked.clone());
        let (status, body) = reply(&asked);
        let size = body.len();
        let text = format!("HTTP/1.1 {status} x\r\ncontent-length: {size}\r\n\r\n{body}");
        socket.write_all(text.as_bytes()).await.unwrap();
    }
}

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
    let network = CredentialHttp::new().unwrap();
    let place = CredentialsEnv::new(move |name| vars.get(name).cloned(), Some(network));
    Chain::new(place, "eu-west-1")
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
    let found = chain(&[
        ("AWS_ACCESS_KEY_ID", "AKIDENV"),
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ("AWS_SESSION_TOKEN", "t0ken"),
        ("AWS_PROFILE", "nobody"),
    ]);
    let known = found.look(now()).await.unwrap();
    assert_eq!(known.keys.id(), "AKIDENV");
    assert_eq!(known.keys.session(), Some("t0ken"));
    assert_eq!(known.expires_at, None);
    let empty = chain(&[
        ("AWS_ACCESS_KEY_ID", ""),
        ("AWS_SECRET_ACCESS_KEY", ""),
        ("AWS_SESSION_TOKEN", ""),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]);
    let error = empty.look(now()).await.unwrap_err().to_string();
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
    let elsewhere = "[default]\naws_access_key_id = OTHER\naws_secret_access_key = s\n";
    std::fs::write(&other, elsewhere).unwrap();
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
        let known = chain(vars).look(now()).await.unwrap();
        assert_eq!(known.keys.id(), id, "{vars:?}");
    }
    let lost = chain(&[("HOME", home), ("AWS_PROFILE", "nobody")]);
    let error = lost.look(now()).await.unwrap_err().to_string();
    assert!(error.contains("`nobody` does not exist"), "{error}");
}

#[tokio::test]
async fn failing_configured_source_ends_the_search() {
    let cloud = FakeCloud::new(imds_reply).await;
    let stronger = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", cloud.url.as_str());
    let home = tempfile::tempdir().unwrap();
    let unreadable = home.path().join("here/.aws/config");
    std::fs::create_dir_all(&unreadable).unwrap();
    let here = home.path().join("here");
    let (home, here) = (home.path().to_str().unwrap(), here.to_str().unwrap());
    let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
    for (vars, words) in [
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
        let vars: Vec<_> = vars.iter().copied().chain([stronger]).collect();
        let error = chain(&vars).look(now()).await.unwrap_err().to_string();
        assert!(
            error.contains(words) && !error.contains("s3cret"),
            "{error}"
        );
    }
    assert!(cloud.requests().is_empty(), "nobody else is asked");
    let known = chain(&[("HOME", home), stronger]).look(now()).await;
    assert_temporary(&known.unwrap(), "AKIDHOST");
}

#[tokio::test]
async fn invalid_role_configuration_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let text = "[default]\nrole_arn = arn:r\nsource_profile = default\naws_access_key_id = A\n\
                aws_secret_access_key = s3cret\naws_session_token = t0k\u{1}en\n";
    std::fs::write(&file, text).unwrap();
    let chain = chain(&[("AWS_CONFIG_FILE", file.to_str().unwrap())]);
    let error = chain.look(now()).await.unwrap_err().to_string();
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
    let look = tokio::time::timeout(Duration::from_secs(29), chain.look(now()));
    let error = look.await.unwrap().unwrap_err().to_string();
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
        let error = chain.look(now()).await.unwrap_err().to_string();
        assert!(
            error.contains(&format!("{name} is not a valid URL")) && !error.contains("pa55"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn profile_role_is_assumed_with_a_signed_request() {
    let cloud = FakeCloud::new(|asked| match asked.form("RoleArn").as_deref() {
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
    assert_temporary(&chain.look(now()).await.unwrap(), "AKIDLAST");
    let asked = cloud.requests();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].line, "POST /");
    assert_eq!(asked[0].form("Action").unwrap(), "AssumeRole");
    assert_eq!(asked[0].form("Version").unwrap(), "2011-06-15");
    assert_eq!(
        asked[0].form("RoleSessionName").unwrap(),
        "interzone-1700000000"
    );
    assert_eq!(asked[1].form("ExternalId").unwrap(), "a b&c");
    assert_eq!(asked[1].form("RoleSessionName").unwrap(), "me");
    assert_eq!(asked[1].headers["x-amz-security-token"], "t0ken");
    for (asked, id) in asked.iter().zip(["AKIDKEYS", "AKIDFIRST"]) {
        let proof = &asked.headers["authorization"];
        let start =
            format!("AWS4-HMAC-SHA256 Credential={id}/20231114/eu-west-1/sts/aws4_request, ");
        assert!(proof.starts_with(&start), "{proof}");
        assert_eq!(asked.headers["x-amz-date"], "20231114T221320Z");
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
    assert_temporary(&chain(&vars).look(now()).await.unwrap(), "AKIDWEB");
    let asked = &cloud.requests()[0];
    assert_eq!(asked.form("Action").unwrap(), "AssumeRoleWithWebIdentity");
    assert_eq!(asked.form("WebIdentityToken").unwrap(), "ey.J.x");
    assert_eq!(asked.form("RoleArn").unwrap(), "arn:aws:iam::1:role/web");
    assert_eq!(asked.form("RoleSessionName").unwrap(), "pod");
    assert!(
        !asked.headers.contains_key("authorization"),
        "the token is the proof"
    );
    let error = chain(&vars[..1]).look(now()).await.unwrap_err().to_string();
    assert!(error.contains("AWS_ROLE_ARN"), "{error}");
    let nothing = folder.path().join("nothing");
    let lost = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", nothing.to_str().unwrap()),
        vars[1],
    ];
    let error = chain(&lost).look(now()).await.unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
}

#[tokio::test]
async fn sts_error_is_reported_and_ends_the_search() {
    let refusal = "<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredTokenException</Code>\
                   <Message>Token expired: now &gt; then</Message></Error></ErrorResponse>";
    let cloud = FakeCloud::new(|_| (400, refusal.to_owned())).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "ey.J.x").unwrap();
    let chain = chain(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:web"),
        ("AWS_ENDPOINT_URL", &cloud.url),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &cloud.url),
    ]);
    let error = chain.look(now()).await.unwrap_err().to_string();
    for words in ["arn:web", "400", "ExpiredTokenException", "Token expired"] {
        assert!(error.contains(words), "{error}");
    }
    assert!(!error.contains("ey.J.x"), "{error}");
    assert_eq!(cloud.requests().len(), 1, "nobody else is asked");
}

#[tokio::test]
async fn container_endpoint_gets_the_authorization_token() {
    let cloud = FakeCloud::new(|asked| match asked.headers.get("authorization") {
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
    assert_temporary(&chain(&[full, given]).look(now()).await.unwrap(), "AKIDBOX");
    assert_temporary(
        &chain(&[full, given, filed]).look(now()).await.unwrap(),
        "AKIDBOX",
    );
    let asked = cloud.requests();
    assert_eq!(asked[0].line, "GET /v1/credentials?x=y");
    assert_eq!(
        asked[1].headers["authorization"], "from-file",
        "it may be renewed"
    );
    let error = chain(&[full]).look(now()).await.unwrap_err().to_string();
    assert!(
        error.contains("401") && error.contains("no token"),
        "{error}"
    );
}

/// Simulates instance metadata (IMDSv2).
fn imds_reply(asked: &CloudRequest) -> (u16, String) {
    let token = asked.headers.get("x-aws-ec2-metadata-token");
    let known = token.is_some_and(|token| token == "machine-token");
    match (asked.line.strip_prefix("GET "), known) {
        _ if asked.line == "PUT /latest/api/token" => {
            assert_eq!(
                asked.headers["x-aws-ec2-metadata-token-ttl-seconds"],
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
    let place = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", cloud.url.as_str());
    assert_temporary(&chain(&[place]).look(now()).await.unwrap(), "AKIDHOST");
    assert_eq!(cloud.requests().len(), 3);
    let disabled = chain(&[place, ("AWS_EC2_METADATA_DISABLED", "TRUE")]);
    let error = disabled.look(now()).await.unwrap_err().to_string();
    assert!(error.contains("no role"), "{error}");
    assert_eq!(cloud.requests().len(), 3, "it is not asked");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    std::fs::write(
        &file,
        "[default]\ncredential_source = Ec2InstanceMetadata\n",
    )
    .unwrap();
    let named = chain(&[place, ("AWS_CONFIG_FILE", file.to_str().unwrap())]);
    assert_temporary(&named.look(now()).await.unwrap(), "AKIDHOST");
}

#[tokio::test]
async fn instance_without_a_role_is_an_error() {
    let cloud = FakeCloud::new(|asked| match asked.line.as_str() {
        "PUT /latest/api/token" => (200, "x".to_owned()),
        _ => not_found(),
    })
    .await;
    let place = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", cloud.url.as_str());
    let error = chain(&[place]).look(now()).await.unwrap_err().to_string();
    assert!(error.contains("no role"), "{error}");
}

#[tokio::test]
async fn overloaded_endpoint_is_retried_and_bad_reply_not_quoted() {
    let tries = Mutex::new(0);
    let cloud = FakeCloud::new(move |_| {
        let mut tries = tries.lock().unwrap();
        *tries += 1;
        match *tries {
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
    assert_temporary(&chain.look(now()).await.unwrap(), "AKIDBOX");
    for words in [
        "the response is invalid",
        "no keys",
        "without an expiration",
        "larger than 1048576 bytes",
    ] {
        let error = chain.look(now()).await.unwrap_err().to_string();
        assert!(
            error.contains(words) && !error.contains("s3cret"),
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
    let error = chain.look(now()).await.unwrap_err().to_string();
    assert!(
        error.contains(&host) && error.contains("neither the environment"),
        "{error}"
    );
}
