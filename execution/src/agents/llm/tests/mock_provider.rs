//! Mock provider that follows a script: one connection per response, in order.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use url::Url;

/// A recorded request.
#[derive(Clone, Debug)]
pub(super) struct ProviderRequest {
    pub(super) request_line: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Value,
}

/// Scripted response to one request.
pub(super) struct ScriptedResponse {
    head: String,
    steps: Vec<ResponseStep>,
}

enum ResponseStep {
    Send(Vec<u8>),
    /// Waits for a notification.
    Wait(Arc<Notify>),
    /// Sends nothing more until the client disconnects.
    Hang,
}

impl ScriptedResponse {
    pub(super) fn status(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let mut head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Self {
            head,
            steps: Vec::new(),
        }
        .send(body)
    }

    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::status(
            status,
            &[("content-type", "application/json")],
            body.to_string(),
        )
    }

    /// Reads the request and sends no response.
    pub(super) fn no_response() -> Self {
        Self {
            head: String::new(),
            steps: vec![ResponseStep::Hang],
        }
    }

    /// A stream of server-sent events.
    pub(super) fn events() -> Self {
        Self::status(
            200,
            &[("content-type", "text/event-stream; charset=utf-8")],
            "",
        )
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(super) fn send(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.steps.push(ResponseStep::Send(bytes.as_ref().to_vec()));
        self
    }

    /// Sends an event with JSON data.
    pub(super) fn event(self, data: &Value) -> Self {
        self.send(format!("data: {data}\n\n"))
    }

    /// Sends a named event; the name is the `type` of its JSON data.
    pub(super) fn named_event(self, data: &Value) -> Self {
        let name = data["type"].as_str().unwrap().to_owned();
        self.send(format!("event: {name}\ndata: {data}\n\n"))
    }

    /// Splits everything that is sent into chunks of this size.
    pub(super) fn split(mut self, size: usize) -> Self {
        let split_step = |act: ResponseStep| match act {
            ResponseStep::Send(bytes) => bytes
                .chunks(size)
                .map(|part| ResponseStep::Send(part.to_vec()))
                .collect(),
            other => vec![other],
        };
        self.steps = self.steps.into_iter().flat_map(split_step).collect();
        self
    }

    pub(super) fn wait_for(mut self, signal: &Arc<Notify>) -> Self {
        self.steps.push(ResponseStep::Wait(signal.clone()));
        self
    }

    pub(super) fn hang(mut self) -> Self {
        self.steps.push(ResponseStep::Hang);
        self
    }
}

/// The mock provider.
pub(super) struct MockProvider {
    port: u16,
    requests: Arc<Mutex<Vec<ProviderRequest>>>,
    disconnects: watch::Receiver<usize>,
    request_count: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Drop for MockProvider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MockProvider {
    pub(super) async fn new(script: Vec<ScriptedResponse>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (disconnect_sender, disconnects) = watch::channel(0);
        let (count_sender, request_count) = watch::channel(0);
        let recorded = requests.clone();
        let task = tokio::spawn(async move {
            for response in script {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let request = read_request(&mut stream).await;
                recorded.lock().unwrap().push(request);
                count_sender.send_modify(|count| *count += 1);
                if send_response(&mut stream, response).await {
                    disconnect_sender.send_modify(|count| *count += 1);
                }
            }
        });
        Self {
            port,
            requests,
            disconnects,
            request_count,
            task,
        }
    }

    pub(super) fn url(&self, path: &str) -> Url {
        format!("http://127.0.0.1:{}{path}", self.port)
            .parse()
            .unwrap()
    }

    pub(super) fn requests(&self) -> Vec<ProviderRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the body of the only request.
    #[track_caller]
    pub(super) fn body(&self) -> Value {
        let requests = self.requests();
        assert_eq!(requests.len(), 1);
        requests[0].body.clone()
    }

    /// Waits for the first request.
    pub(super) async fn wait_for_request(&self) {
        let mut request_count = self.request_count.clone();
        request_count.wait_for(|count| *count > 0).await.unwrap();
    }

    /// Waits until the script is over and the port is closed.
    pub(super) async fn wait_until_closed(&self) {
        let mut disconnects = self.disconnects.clone();
        while disconnects.changed().await.is_ok() {}
    }

    /// Waits until the client has disconnected.
    pub(super) async fn wait_for_disconnect(&self) {
        let mut disconnects = self.disconnects.clone();
        disconnects.wait_for(|count| *count > 0).await.unwrap();
    }
}

async fn read_request(stream: &mut TcpStream) -> ProviderRequest {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        let mut more = [0; 4096];
        let count = stream.read(&mut more).await.unwrap();
        assert!(count > 0, "the request ends before its headers do");
        bytes.extend_from_slice(&more[..count]);
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let line = lines.next().unwrap().to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers["content-length"].parse().unwrap();
    let mut body = bytes.split_off(end);
    let got = body.len();
    body.resize(length, 0);
    stream.read_exact(&mut body[got..]).await.unwrap();
    ProviderRequest {
        request_line: line,
        headers,
        body: serde_json::from_slice(&body).unwrap(),
    }
}

/// Sends the response. Returns true if the client's disconnect was awaited.
async fn send_response(stream: &mut TcpStream, response: ScriptedResponse) -> bool {
    let head = match response.head.as_str() {
        "" => String::new(),
        head => format!("{head}\r\n"),
    };
    // A client that disconnects early misses the remaining steps.
    if stream.write_all(head.as_bytes()).await.is_err() {
        return false;
    }
    for act in response.steps {
        match act {
            ResponseStep::Send(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return false;
                }
            }
            ResponseStep::Wait(signal) => signal.notified().await,
            ResponseStep::Hang => {
                let mut rest = Vec::new();
                // A reset is a disconnect too.
                let _ = stream.read_to_end(&mut rest).await;
                return true;
            }
        }
    }
    let _ = stream.shutdown().await;
    false
}
