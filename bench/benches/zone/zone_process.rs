//! Zone process: the real binary, with the built-in issuer and SQLite on this disk.

use interzone_bench::connection::Connection;
use interzone_bench::server::{self, Server};
use rustls::ClientConfig;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A running zone.
pub(crate) struct ZoneProcess {
    pub(crate) server: Server,
    /// Time from the start to the line that reports readiness.
    pub(crate) startup_time: Duration,
    /// A token with all scopes.
    pub(crate) token: String,
    binary: PathBuf,
    config: PathBuf,
}

/// Starts a zone with its own store.
pub(crate) async fn start(folder: &Path) -> ZoneProcess {
    start_with_config(folder, "").await
}

/// Starts a zone with additional configuration.
pub(crate) async fn start_with_config(folder: &Path, extra_config: &str) -> ZoneProcess {
    start_binary(folder, &crate::binary(), extra_config).await
}

/// Starts a zone from another binary.
pub(crate) async fn start_binary(folder: &Path, binary: &Path, more: &str) -> ZoneProcess {
    let port = server::free_port();
    let store = folder.join(format!("zone-{port}.db"));
    let config = folder.join(format!("zone-{port}.toml"));
    // The tasks of `quiet` run one at a time, so that only their creation is measured.
    let text = format!(
        r#"[store]
url = "sqlite:{store}"
[tls]
cert = "cert.pem"
key = "key.pem"
[execution]
listen = "127.0.0.1:{port}"
public_url = "https://localhost:{port}"
[limits]
connections = 20000
{log}[[agents]]
id = "demo"
kind = "demo"
[[agents]]
id = "quiet"
kind = "demo"
concurrency = 1
{more}"#,
        store = store.display(),
        log = crate::log_section()
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(binary);
    command
        .args(["serve", "execution", "--config"])
        .arg(&config);
    let start = Instant::now();
    let server = Server::start(command, |line| {
        assert!(line.contains("https://"), "{line}");
        port
    });
    let startup_time = start.elapsed();
    let (id, secret) = add_client(binary, &config);
    let token = request_token(folder, port, &id, &secret).await;
    ZoneProcess {
        server,
        startup_time,
        token,
        binary: binary.to_owned(),
        config,
    }
}

fn add_client(binary: &Path, config: &Path) -> (String, String) {
    let output = Command::new(binary)
        .args([
            "client", "add", "--name", "bench", "--output", "json", "--config",
        ])
        .arg(config)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let response: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let field = |name: &str| {
        response
            .get(name)
            .and_then(serde_json::Value::as_str)
            .unwrap()
            .to_owned()
    };
    (field("client_id"), field("client_secret"))
}

async fn request_token(folder: &Path, port: u16, id: &str, secret: &str) -> String {
    let form = format!("grant_type=client_credentials&client_id={id}&client_secret={secret}");
    let request = format!(
        "POST /oauth2/token HTTP/1.1\r\nhost: localhost:{port}\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
        form.len()
    );
    let mut connection = Connection::open(port, &interzone_bench::tls::client_config(folder)).await;
    let (status, body) = connection.request(request.as_bytes()).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(body));
    let response: serde_json::Value = serde_json::from_slice(body).unwrap();
    response
        .get("access_token")
        .and_then(serde_json::Value::as_str)
        .unwrap()
        .to_owned()
}

impl ZoneProcess {
    /// A token of another client.
    pub(crate) async fn token_of_new_client(&self, folder: &Path) -> String {
        let (id, secret) = add_client(&self.binary, &self.config);
        request_token(folder, self.server.port, &id, &secret).await
    }

    /// Starts a stream and returns its id.
    pub(crate) async fn start_stream(&self, tls: &Arc<ClientConfig>) -> String {
        self.start_stream_as(tls, &self.token).await
    }

    /// Sends a chunk on a stream, for watchers only: no agent runs.
    pub(crate) async fn send_chunk(&self, tls: &Arc<ClientConfig>, stream: &str, text: &str) {
        self.send_chunk_as(tls, &self.token, stream, text).await;
    }

    /// Starts a stream of another client, with one chunk.
    pub(crate) async fn start_stream_with_chunk(
        &self,
        tls: &Arc<ClientConfig>,
        token: &str,
        text: &str,
    ) -> String {
        let stream = self.start_stream_as(tls, token).await;
        self.send_chunk_as(tls, token, &stream, text).await;
        stream
    }

    async fn start_stream_as(&self, tls: &Arc<ClientConfig>, token: &str) -> String {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"stream.start"}"#;
        let response = self.call(tls, token, call).await;
        let id = response
            .pointer("/result/stream/streamId")
            .and_then(serde_json::Value::as_str);
        id.unwrap().to_owned()
    }

    async fn send_chunk_as(&self, tls: &Arc<ClientConfig>, token: &str, stream: &str, text: &str) {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"stream.chunk","params":{{"streamId":"{stream}","sequence":1,"chunk":{{"role":"user","parts":[{{"type":"TextPart","content":"{text}"}}]}}}}}}"#
        );
        self.call(tls, token, &call).await;
    }

    async fn call(&self, tls: &Arc<ClientConfig>, token: &str, body: &str) -> serde_json::Value {
        let mut connection = Connection::open(self.server.port, tls).await;
        let (status, response) = connection
            .request(&request("POST", "/jsonrpc", Some(token), body))
            .await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(response));
        serde_json::from_slice(response).unwrap()
    }
}

/// Bytes of an HTTP request.
pub(crate) fn request(method: &str, path: &str, token: Option<&str>, body: &str) -> Arc<[u8]> {
    let token = token.map_or(String::new(), |token| {
        format!("authorization: Bearer {token}\r\n")
    });
    let content = match body {
        "" => String::new(),
        _ => format!(
            "content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        ),
    };
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{token}{content}\r\n{body}")
        .into_bytes()
        .into()
}
