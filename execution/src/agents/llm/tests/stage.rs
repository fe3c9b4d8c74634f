//! A provider that follows a script: one connection for each play, in order.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use url::Url;

/// What was asked.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) line: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Value,
}

/// What is answered to one request.
pub(super) struct Play {
    head: String,
    acts: Vec<Act>,
}

enum Act {
    Send(Vec<u8>),
    /// Goes on when told to.
    Wait(Arc<Notify>),
    /// Says nothing more until the other side hangs up.
    Hang,
}

impl Play {
    pub(super) fn status(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let mut head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Self {
            head,
            acts: Vec::new(),
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

    /// Takes the request, and says nothing at all.
    pub(super) fn mute() -> Self {
        Self {
            head: String::new(),
            acts: vec![Act::Hang],
        }
    }

    /// A stream of events.
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
        self.acts.push(Act::Send(bytes.as_ref().to_vec()));
        self
    }

    /// An event whose data is JSON.
    pub(super) fn event(self, data: &Value) -> Self {
        self.send(format!("data: {data}\n\n"))
    }

    /// An event with a name, whose data is JSON that repeats it.
    pub(super) fn named(self, data: &Value) -> Self {
        let name = data["type"].as_str().unwrap().to_owned();
        self.send(format!("event: {name}\ndata: {data}\n\n"))
    }

    /// Cuts all that was to be sent into pieces of so many bytes.
    pub(super) fn cut(mut self, size: usize) -> Self {
        let cut = |act: Act| match act {
            Act::Send(bytes) => bytes
                .chunks(size)
                .map(|part| Act::Send(part.to_vec()))
                .collect(),
            other => vec![other],
        };
        self.acts = self.acts.into_iter().flat_map(cut).collect();
        self
    }

    pub(super) fn wait(mut self, sign: &Arc<Notify>) -> Self {
        self.acts.push(Act::Wait(sign.clone()));
        self
    }

    pub(super) fn hang(mut self) -> Self {
        self.acts.push(Act::Hang);
        self
    }
}

/// The provider.
pub(super) struct Stage {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    left: watch::Receiver<usize>,
    heard: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stage {
    pub(super) async fn new(script: Vec<Play>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (leaves, left) = watch::channel(0);
        let (hears, heard) = watch::channel(0);
        let all = asked.clone();
        let task = tokio::spawn(async move {
            for play in script {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let request = read(&mut stream).await;
                all.lock().unwrap().push(request);
                hears.send_modify(|count| *count += 1);
                if perform(&mut stream, play).await {
                    leaves.send_modify(|count| *count += 1);
                }
            }
        });
        Self {
            port,
            asked,
            left,
            heard,
            task,
        }
    }

    pub(super) fn url(&self, path: &str) -> Url {
        format!("http://127.0.0.1:{}{path}", self.port)
            .parse()
            .unwrap()
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The body of the only request.
    #[track_caller]
    pub(super) fn body(&self) -> Value {
        let asked = self.asked();
        assert_eq!(asked.len(), 1);
        asked[0].body.clone()
    }

    /// Waits until something was asked.
    pub(super) async fn heard(&self) {
        let mut heard = self.heard.clone();
        heard.wait_for(|count| *count > 0).await.unwrap();
    }

    /// Waits until the script is over, and nobody listens any more.
    pub(super) async fn gone(&self) {
        let mut left = self.left.clone();
        while left.changed().await.is_ok() {}
    }

    /// Waits until somebody has hung up on us.
    pub(super) async fn left(&self) {
        let mut left = self.left.clone();
        left.wait_for(|count| *count > 0).await.unwrap();
    }
}

async fn read(stream: &mut TcpStream) -> Asked {
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
    Asked {
        line,
        headers,
        body: serde_json::from_slice(&body).unwrap(),
    }
}

/// Plays; true if the other side was waited for to hang up.
async fn perform(stream: &mut TcpStream, play: Play) -> bool {
    let head = match play.head.as_str() {
        "" => String::new(),
        head => format!("{head}\r\n"),
    };
    // Whoever hangs up early misses the rest.
    if stream.write_all(head.as_bytes()).await.is_err() {
        return false;
    }
    for act in play.acts {
        match act {
            Act::Send(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return false;
                }
            }
            Act::Wait(sign) => sign.notified().await,
            Act::Hang => {
                let mut rest = Vec::new();
                // A reset is a way to hang up, too.
                let _ = stream.read_to_end(&mut rest).await;
                return true;
            }
        }
    }
    let _ = stream.shutdown().await;
    false
}
