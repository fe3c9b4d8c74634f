//! The zone: the real binary, with the built-in issuer and SQLite on this disk.

use interzone_bench::connection::Connection;
use interzone_bench::server::{self, Server};
use rustls::ClientConfig;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A running zone.
pub(crate) struct Zone {
    pub(crate) server: Server,
    /// How long it took from its start to the line that says it is ready.
    pub(crate) ready: Duration,
    /// A token for everything.
    pub(crate) token: String,
    binary: PathBuf,
    config: PathBuf,
}

/// Starts a zone on a store of its own.
pub(crate) async fn start(folder: &Path) -> Zone {
    start_with(folder, "").await
}

/// The same with more in its configuration.
pub(crate) async fn start_with(folder: &Path, more: &str) -> Zone {
    start_binary(folder, &crate::binary(), more).await
}

/// The same of another build.
pub(crate) async fn start_binary(folder: &Path, binary: &Path, more: &str) -> Zone {
    let port = server::free_port();
    let store = folder.join(format!("zone-{port}.db"));
    let config = folder.join(format!("zone-{port}.toml"));
    // The tasks of `quiet` wait for each other, so that creating them is all that is measured.
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
    command.args(["execute".as_ref(), "--config".as_ref(), config.as_os_str()]);
    let began = Instant::now();
    let server = Server::start(command, |line| {
        assert!(line.contains("https://"), "{line}");
        port
    });
    let ready = began.elapsed();
    let (id, secret) = add_client(binary, &config);
    let token = token(folder, port, &id, &secret).await;
    Zone {
        server,
        ready,
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
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let member = |name: &str| {
        answer
            .get(name)
            .and_then(serde_json::Value::as_str)
            .unwrap()
            .to_owned()
    };
    (member("client_id"), member("client_secret"))
}

async fn token(folder: &Path, port: u16, id: &str, secret: &str) -> String {
    let form = format!("grant_type=client_credentials&client_id={id}&client_secret={secret}");
    let request = format!(
        "POST /oauth2/token HTTP/1.1\r\nhost: localhost:{port}\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
        form.len()
    );
    let mut connection = Connection::open(port, &interzone_bench::tls::client(folder)).await;
    let (status, body) = connection.ask(request.as_bytes()).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(body));
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap();
    answer
        .get("access_token")
        .and_then(serde_json::Value::as_str)
        .unwrap()
        .to_owned()
}

impl Zone {
    /// A token of another client.
    pub(crate) async fn another_token(&self, folder: &Path) -> String {
        let (id, secret) = add_client(&self.binary, &self.config);
        token(folder, self.server.port, &id, &secret).await
    }

    /// Begins a stream and gives its id.
    pub(crate) async fn start_stream(&self, tls: &Arc<ClientConfig>) -> String {
        self.start_stream_as(tls, &self.token).await
    }

    /// Says something on a stream, for watchers alone: no agent is asked.
    pub(crate) async fn say(&self, tls: &Arc<ClientConfig>, stream: &str, text: &str) {
        self.say_as(tls, &self.token, stream, text).await;
    }

    /// A stream of another client, with one chunk on it.
    pub(crate) async fn stream_with_chunk(
        &self,
        tls: &Arc<ClientConfig>,
        token: &str,
        text: &str,
    ) -> String {
        let stream = self.start_stream_as(tls, token).await;
        self.say_as(tls, token, &stream, text).await;
        stream
    }

    async fn start_stream_as(&self, tls: &Arc<ClientConfig>, token: &str) -> String {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"stream.start"}"#;
        let answer = self.call(tls, token, call).await;
        let id = answer
            .pointer("/result/stream/streamId")
            .and_then(serde_json::Value::as_str);
        id.unwrap().to_owned()
    }

    async fn say_as(&self, tls: &Arc<ClientConfig>, token: &str, stream: &str, text: &str) {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"stream.chunk","params":{{"streamId":"{stream}","sequence":1,"chunk":{{"role":"user","parts":[{{"type":"TextPart","content":"{text}"}}]}}}}}}"#
        );
        self.call(tls, token, &call).await;
    }

    async fn call(&self, tls: &Arc<ClientConfig>, token: &str, body: &str) -> serde_json::Value {
        let mut connection = Connection::open(self.server.port, tls).await;
        let (status, answer) = connection
            .ask(&request("POST", "/jsonrpc", Some(token), body))
            .await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(answer));
        serde_json::from_slice(answer).unwrap()
    }
}

/// The bytes of a request.
pub(crate) fn request(verb: &str, path: &str, token: Option<&str>, body: &str) -> Arc<[u8]> {
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
    format!("{verb} {path} HTTP/1.1\r\nhost: localhost\r\n{token}{content}\r\n{body}")
        .into_bytes()
        .into()
}
