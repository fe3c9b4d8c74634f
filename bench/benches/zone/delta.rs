//! A streaming model: how long it takes from the moment at which the provider sends a piece of text until
//! the caller of `execute_task` has read it, over TLS, from the stream that answers the call.
//!
//! The provider and the caller are in this process, so one clock counts for both. They and the zone share
//! the cores.

use crate::Size;
use crate::zone;
use interzone_bench::bars::{bar, exceeded_by};
use interzone_bench::connection::Connection;
use interzone_bench::tls;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval};

/// How many pieces an answer has, and how far apart they are sent: as from a quick model, and for long
/// enough that the text is written down several times on the way.
const PIECES: usize = 24;
const APART: Duration = Duration::from_millis(20);

/// When each piece of the present answer was sent.
type Sent = Arc<Mutex<Vec<Instant>>>;

pub(crate) async fn measure(folder: &Path, size: Size) {
    let sent = Sent::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let provider = tokio::spawn(provide(listener, sent.clone()));
    let zone = zone::start_with(
        folder,
        &format!(
            "[[agents]]\nid = \"model\"\nkind = \"llm\"\nprovider = \"openai\"\n\
             base_url = \"http://127.0.0.1:{port}/v1\"\nmodel = \"quick\"\n\
             [execution.channels]\nmodel = \"model\"\n"
        ),
    )
    .await;
    let answers = size.rounds * 10;
    println!("\n# a streaming model: {answers} answers of {PIECES} pieces");
    let mut connection = Connection::open(zone.server.port, &tls::client(folder)).await;
    let call = call(&zone.token);
    let (mut first, mut later) = (Vec::new(), Vec::new());
    // One before the others, that warms up.
    for answer in 0..=answers {
        sent.lock().unwrap().clear();
        let heard = hear(&mut connection, &call).await;
        let sent = sent.lock().unwrap();
        assert_eq!((sent.len(), heard.len()), (PIECES, PIECES));
        let waits = heard.iter().zip(&*sent);
        let mut waits = waits.map(|(heard, sent)| heard.duration_since(*sent).as_secs_f64() * 1e3);
        if answer > 0 {
            first.extend(waits.next());
            later.extend(waits);
        }
    }
    provider.abort();
    let median = tell("first piece", first);
    tell("those after it", later);
    bar("first piece of text, median ms", median, true, 5.0);
}

/// Says how long they waited, and gives the median.
fn tell(name: &str, mut waits: Vec<f64>) -> f64 {
    waits.sort_by(f64::total_cmp);
    let by = |percent| exceeded_by(&waits, percent).unwrap();
    let (median, p99) = (by(50), by(1));
    println!("{median:>10.2} ms median, {p99:.2} ms p99: {name}");
    median
}

fn call(token: &str) -> String {
    let body = r#"{"jsonrpc":"2.0","id":"req-1","method":"execute_task","params":{"channel":"model","text":"say it","bot_token":"capability"}}"#;
    format!(
        "POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\naccept: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The mark of a piece, which is nowhere else.
fn mark(piece: usize) -> String {
    format!("<{piece:03}>")
}

/// Calls, and notes when each piece has come.
async fn hear(connection: &mut Connection, call: &str) -> Vec<Instant> {
    connection.forget();
    connection.send(call.as_bytes()).await;
    let mut heard = Vec::with_capacity(PIECES);
    while !connection.read().ends_with(b"0\r\n\r\n") {
        connection.more().await;
        let now = Instant::now();
        let text = String::from_utf8_lossy(connection.read());
        assert!(!text.contains("\"error\""), "{text}");
        while heard.len() < PIECES && text.contains(&mark(heard.len())) {
            heard.push(now);
        }
    }
    heard
}

/// Serves for ever, as a provider does that is compatible with OpenAI.
async fn provide(listener: TcpListener, sent: Sent) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        tokio::spawn(answer(socket, sent.clone()));
    }
}

/// Answers all requests of a connection, the same each time.
async fn answer(socket: TcpStream, sent: Sent) {
    let mut socket = BufReader::new(socket);
    while let Some(length) = head(&mut socket).await {
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut ticks = interval(APART);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for piece in 0..PIECES {
            ticks.tick().await;
            let delta = format!(r#"{{"content":"word {} "}}"#, mark(piece));
            let event = chunk(&delta, "null");
            sent.lock().unwrap().push(Instant::now());
            socket.write_all(event.as_bytes()).await.unwrap();
        }
        let end = chunk("{}", "\"stop\"") + "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
        socket.write_all(end.as_bytes()).await.unwrap();
    }
}

/// An event, and the size that goes before it.
fn chunk(delta: &str, finish: &str) -> String {
    let event = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    );
    format!("{:x}\r\n{event}\r\n", event.len())
}

/// Reads a request's head: how long its body is. Nothing if the caller has hung up.
async fn head(socket: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return Some(length);
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
}
