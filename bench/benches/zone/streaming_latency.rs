//! Latency of streamed model text: from the provider's write until the caller of `execute_task` has read it
//! from its SSE response, over TLS.
//!
//! Provider and caller are in this process, so one clock is used. They share the cores with the zone.

use crate::ZoneBenchSize;
use crate::zone_process;
use interzone_bench::connection::Connection;
use interzone_bench::thresholds::{check_threshold, exceeded_by};
use interzone_bench::tls;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval};

/// Chunks per answer and their interval: like a fast model, and long enough that the text is persisted
/// several times on the way.
const CHUNKS: usize = 24;
const CHUNK_INTERVAL: Duration = Duration::from_millis(20);

/// Send times of the current answer's chunks.
type SendTimes = Arc<Mutex<Vec<Instant>>>;

pub(crate) async fn measure(folder: &Path, size: ZoneBenchSize) {
    let sent = SendTimes::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let provider = tokio::spawn(serve_provider(listener, sent.clone()));
    let zone = zone_process::start_with_config(
        folder,
        &format!(
            "[[agents]]\nid = \"model\"\nkind = \"llm\"\nprovider = \"openai\"\n\
             base_url = \"http://127.0.0.1:{port}/v1\"\nmodel = \"quick\"\n\
             [execution.channels]\nmodel = \"model\"\n"
        ),
    )
    .await;
    let answers = size.rounds * 10;
    println!("\n# a streaming model: {answers} answers of {CHUNKS} chunks");
    let mut connection = Connection::open(zone.server.port, &tls::client_config(folder)).await;
    let call = call(&zone.token);
    let (mut first, mut later) = (Vec::new(), Vec::new());
    // The first answer is a warm-up.
    for answer in 0..=answers {
        sent.lock().unwrap().clear();
        let received = receive_chunks(&mut connection, &call).await;
        let sent = sent.lock().unwrap();
        assert_eq!((sent.len(), received.len()), (CHUNKS, CHUNKS));
        let waits = received.iter().zip(&*sent);
        let mut waits =
            waits.map(|(received, sent)| received.duration_since(*sent).as_secs_f64() * 1e3);
        if answer > 0 {
            first.extend(waits.next());
            later.extend(waits);
        }
    }
    provider.abort();
    let median = report("first chunk", first);
    report("later chunks", later);
    check_threshold("first chunk of text, median ms", median, true, 5.0);
}

/// Prints the latency and returns the median.
fn report(name: &str, mut waits: Vec<f64>) -> f64 {
    waits.sort_by(f64::total_cmp);
    let percentile = |percent| exceeded_by(&waits, percent).unwrap();
    let (median, p99) = (percentile(50), percentile(1));
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

/// Unique marker of a chunk.
fn marker(chunk: usize) -> String {
    format!("<{chunk:03}>")
}

/// Sends the call and records when each chunk was received.
async fn receive_chunks(connection: &mut Connection, call: &str) -> Vec<Instant> {
    connection.clear();
    connection.send(call.as_bytes()).await;
    let mut received = Vec::with_capacity(CHUNKS);
    while !connection.buffered().ends_with(b"0\r\n\r\n") {
        connection.read_more().await;
        let now = Instant::now();
        let text = String::from_utf8_lossy(connection.buffered());
        assert!(!text.contains("\"error\""), "{text}");
        while received.len() < CHUNKS && text.contains(&marker(received.len())) {
            received.push(now);
        }
    }
    received
}

/// Serves for ever as an OpenAI-compatible provider.
async fn serve_provider(listener: TcpListener, sent: SendTimes) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        tokio::spawn(serve_connection(socket, sent.clone()));
    }
}

/// Answers all requests of a connection with the same text.
async fn serve_connection(socket: TcpStream, sent: SendTimes) {
    let mut socket = BufReader::new(socket);
    while let Some(length) = read_head(&mut socket).await {
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut ticks = interval(CHUNK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for index in 0..CHUNKS {
            ticks.tick().await;
            let delta = format!(r#"{{"content":"word {} "}}"#, marker(index));
            let event = chunk(&delta, "null");
            sent.lock().unwrap().push(Instant::now());
            socket.write_all(event.as_bytes()).await.unwrap();
        }
        let end = chunk("{}", "\"stop\"") + "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
        socket.write_all(end.as_bytes()).await.unwrap();
    }
}

/// An SSE event as an HTTP chunk.
fn chunk(delta: &str, finish: &str) -> String {
    let event = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    );
    format!("{:x}\r\n{event}\r\n", event.len())
}

/// Reads a request head and returns the body length, or `None` if the caller has hung up.
async fn read_head(socket: &mut BufReader<TcpStream>) -> Option<usize> {
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
