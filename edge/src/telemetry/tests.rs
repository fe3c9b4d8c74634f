//! Log output, and trace export to a collector.

use super::{
    LogFormat, LogOptions, OtlpOptions, TelemetryError, build, current_context,
    filter_enables_audit, log_correlation, set_remote_parent,
};
use crate::Secret;
use crate::request_context::{CorrelationId, TraceParent};
use crate::tls::{DevCa, ServerTls, TlsFiles, TrustRoots};
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tracing::Level;
use tracing::level_filters::LevelFilter;

#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl LogBuffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn options(format: LogFormat, filter: &str) -> LogOptions {
    LogOptions {
        format,
        filter: filter.to_owned(),
        ..LogOptions::default()
    }
}

fn capture_log(options: &LogOptions, emit: impl FnOnce()) -> String {
    let page = LogBuffer::default();
    let writer = page.clone();
    let (subscriber, guard) = build(options, move || writer.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, emit);
    drop(guard);
    page.text()
}

#[test]
fn log_lines_are_text_or_json() {
    let emit = || {
        tracing::info!(count = 3, "something happened");
        tracing::debug!("below the level");
    };
    let text = capture_log(&options(LogFormat::Text, "info"), emit);
    assert!(
        text.contains("INFO") && text.contains("something happened count=3"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    let text = capture_log(&options(LogFormat::Json, "info"), emit);
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["message"], "something happened");
    assert_eq!(line["count"], 3);
    let text = capture_log(&options(LogFormat::Text, "warn,interzone_edge=debug"), emit);
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn disabled_events_are_not_evaluated() {
    for filter in ["info", "warn,interzone_edge=info"] {
        let mut evaluated = 0;
        let mut count = || {
            evaluated += 1;
            "a value that costs something"
        };
        capture_log(&options(LogFormat::Text, filter), || {
            assert!(!tracing::enabled!(Level::DEBUG), "{filter}");
            assert!(tracing::enabled!(Level::INFO), "{filter}");
            assert!(LevelFilter::current() <= LevelFilter::INFO, "{filter}");
            tracing::debug!(value = count(), "below the level");
        });
        assert_eq!(evaluated, 0, "{filter}");
    }
}

#[test]
fn log_lines_carry_the_correlation_id() {
    let (one, other) = (
        CorrelationId::from_text("number-1").unwrap(),
        CorrelationId::generate(),
    );
    let emit = || {
        tracing::info!("before");
        let outer = log_correlation::enter_correlation(&one);
        tracing::info!(said = "correlation", "within");
        {
            let _inner = log_correlation::enter_correlation(&other);
            tracing::info!("deeper");
            tracing::info!(correlation = %other, "said already");
        }
        tracing::info!("again");
        drop(outer);
        tracing::info!("after");
    };
    let expected = [
        None,
        Some("number-1"),
        Some(other.as_str()),
        Some(other.as_str()),
        Some("number-1"),
        None,
    ];
    let text = capture_log(&options(LogFormat::Json, "info"), emit);
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let correlations: Vec<_> = lines
        .iter()
        .map(|line| line["correlation"].as_str())
        .collect();
    assert_eq!(correlations, expected, "{text}");
    for colours in [false, true] {
        let mut options = options(LogFormat::Text, "info");
        options.colors = colours;
        let text = capture_log(&options, emit);
        assert_eq!(text.lines().count(), expected.len(), "{text}");
        for (line, expected) in text.lines().zip(expected) {
            let times = expected.map_or(0, |id| line.matches(id).count());
            assert_eq!(times, usize::from(expected.is_some()), "{line}");
            let has_id = line.contains(" correlation=") || line.contains("said already");
            assert_eq!(has_id, expected.is_some(), "{line}");
        }
    }
    // An id in a field value, which may come from outside, does not count.
    let text = capture_log(&options(LogFormat::Text, "info"), || {
        let _mark = log_correlation::enter_correlation(&one);
        tracing::info!(error = "correlation=forged", "they said");
    });
    assert!(text.ends_with(" correlation=number-1\n"), "{text}");
}

#[test]
fn invalid_filter_or_collector_is_reported() {
    let error = build(&options(LogFormat::Text, "info=loud=very"), io::sink).err();
    assert!(matches!(error, Some(TelemetryError::Filter { .. })));
    for (endpoint, header) in [
        ("nowhere", "good"),
        ("ftp://localhost", "good"),
        ("http://localhost:4318", "line\nbreak"),
    ] {
        let options = with_collector(endpoint, header);
        let error = build(&options, io::sink).err().unwrap();
        assert!(error.to_string().contains(endpoint), "{error}");
        assert!(!format!("{error:?}").contains("break"), "{error:?}");
    }
}

fn with_collector(endpoint: &str, key: &str) -> LogOptions {
    LogOptions {
        otlp: Some(OtlpOptions {
            endpoint: endpoint.to_owned(),
            headers: vec![("x-key".to_owned(), Secret::new(key))],
            service_name: "zone-under-test".to_owned(),
            trust: TrustRoots::system(),
        }),
        ..options(LogFormat::Text, "info")
    }
}

/// Starts a collector that takes one request and sends it, head and body, to the receiver.
fn start_collector() -> (String, Receiver<Vec<u8>>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = socket.accept().unwrap();
        sender.send(receive_request(&mut stream).unwrap()).unwrap();
    });
    (url, receiver)
}

/// Reads one request and answers it.
fn receive_request(stream: &mut (impl Read + Write)) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        request.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&request).to_lowercase();
        let Some(head) = text.find("\r\n\r\n") else {
            continue;
        };
        let length = text.split("content-length: ").nth(1).unwrap();
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        // The lossy text may be longer than the bytes, but not before the end of the head.
        if request.len() >= head + 4 + length {
            break;
        }
    }
    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(response)?;
    stream.flush()?;
    Ok(request)
}

#[test]
fn collector_is_verified_with_the_configured_cas() {
    let folder = tempfile::tempdir().unwrap();
    let files = DevCa::open_or_create(folder.path(), &["localhost".to_owned()]).unwrap();
    let tls = ServerTls::load(&TlsFiles {
        cert: files.cert,
        key: files.key,
        client_ca: None,
    })
    .unwrap();
    let mut config = (*tls.config()).clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let config = Arc::new(config);
    for (trust, reached) in [
        (TrustRoots::system(), false),
        (TrustRoots::system_and_files(&[files.ca]).unwrap(), true),
    ] {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let config = Arc::clone(&config);
        let collecting = std::thread::spawn(move || {
            let (stream, _) = socket.accept().unwrap();
            let session = rustls::ServerConnection::new(config).unwrap();
            receive_request(&mut rustls::StreamOwned::new(session, stream)).is_ok()
        });
        let mut options = with_collector(&format!("https://localhost:{port}"), "key");
        options.otlp.as_mut().unwrap().trust = trust;
        capture_log(&options, || {
            let _span = tracing::info_span!(target: "interzone::test", "a call").entered();
        });
        assert_eq!(collecting.join().unwrap(), reached);
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn exported_spans_keep_their_parents() {
    let (url, received) = start_collector();
    let parent = TraceParent::new_root(true);
    let mut context = None;
    capture_log(&with_collector(&url, "the key"), || {
        let span = tracing::info_span!(target: "interzone::test", "a call", method = "tasks.get");
        set_remote_parent(&span, &parent);
        context = current_context(&span);
        let _entered = span.enter();
        // Spans of libraries are not exported.
        let _theirs = tracing::info_span!(target: "hyper::proto", "their span").entered();
    });
    // The guard has been dropped, so everything has been sent.
    let request = received.recv_timeout(Duration::from_secs(20)).unwrap();
    let context = context.unwrap();
    assert!(request.starts_with(b"POST /v1/traces HTTP/1.1"));
    assert!(contains(&request, b"x-key: the key"));
    assert!(contains(&request, b"application/x-protobuf"));
    for part in [
        "zone-under-test".as_bytes(),
        b"a call",
        b"tasks.get",
        &parent.trace_id(),
        &parent.span_id(),
        &context.span_id(),
    ] {
        assert!(contains(&request, part), "{part:?} in {request:?}");
    }
    assert_eq!(context.trace_id(), parent.trace_id());
    assert_ne!(context.span_id(), parent.span_id());
    assert!(!contains(&request, b"their span"));
}

#[test]
fn unreachable_collector_does_not_block() {
    // Bound and dropped, so that the port refuses connections.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let start = Instant::now();
    capture_log(&with_collector(&format!("http://{address}"), "key"), || {
        for _ in 0..10_000 {
            let _span = tracing::info_span!(target: "interzone::test", "a call").entered();
        }
    });
    assert!(
        start.elapsed() < Duration::from_secs(15),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn span_has_no_context_without_traces() {
    capture_log(&options(LogFormat::Text, "info"), || {
        let span = tracing::info_span!(target: "interzone::test", "a call");
        set_remote_parent(&span, &TraceParent::new_root(true));
        assert_eq!(current_context(&span), None);
    });
}

#[test]
fn library_trace_events_are_not_logged() {
    let text = capture_log(&options(LogFormat::Text, "trace"), || {
        tracing::trace!(target: "aws_sigv4::http_request", "the whole request");
        tracing::trace!("a step of ours");
        tracing::debug!(target: "aws_sigv4::http_request", "a step of theirs");
    });
    assert!(!text.contains("the whole request"), "{text}");
    assert!(text.contains("a step of ours") && text.contains("a step of theirs"));
}

#[test]
fn log_filter_applies_to_the_audit() {
    for (filter, wanted) in [
        ("info", true),
        ("warn", false),
        ("warn,audit=info", true),
        ("info,audit=off", false),
        ("off", false),
    ] {
        assert_eq!(filter_enables_audit(filter), wanted, "{filter}");
    }
}
