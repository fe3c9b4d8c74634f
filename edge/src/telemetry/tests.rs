//! Log output, and trace export to a collector.

use super::{
    LogFormat, LogOptions, OtlpOptions, TelemetryError, build, current_context,
    filter_enables_audit, trace_request, traces::set_remote_parent,
};
use crate::Secret;
use crate::request_context::{CORRELATION_HEADER, TRACEPARENT, TraceParent};
use crate::tls::{DevCa, ServerTls, TlsFiles, TrustRoots};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::BodyExt;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tower::ServiceExt;
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
fn http2_library_warnings_need_a_filter_of_their_own() {
    let emit = || {
        tracing::warn!(target: "h2::proto", "a client resets its streams");
        tracing::error!(target: "h2::proto", "an error");
    };
    for (filter, lines) in [
        ("info", 1),
        ("warn", 1),
        ("info,h2=warn", 2),
        ("debug", 2),
        ("off", 0),
    ] {
        let text = capture_log(&options(LogFormat::Text, filter), emit);
        assert_eq!(text.lines().count(), lines, "{filter}: {text}");
    }
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

/// Sends a request with these headers through the middleware to a handler that logs a warning, and returns the handler's
/// view of the correlation id and the response headers.
fn send_traced(sent: &[(HeaderName, &str)]) -> (String, HeaderMap) {
    let handler = |headers: HeaderMap| async move {
        tracing::warn!(said = "correlation=forged", "within");
        headers[CORRELATION_HEADER].to_str().unwrap().to_owned()
    };
    let app = Router::new()
        .fallback(handler)
        .layer(axum::middleware::from_fn(trace_request));
    let mut request = Request::new(Body::empty());
    for (name, value) in sent {
        let value = HeaderValue::from_str(value).unwrap();
        request.headers_mut().insert(name, value);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let (head, body) = app.oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (String::from_utf8(body.to_vec()).unwrap(), head.headers)
    })
}

#[test]
fn log_lines_of_a_request_carry_its_correlation_id() {
    // Also with a filter that excludes spans of most levels.
    for filter in ["info", "warn"] {
        let mut seen = Vec::new();
        let text = capture_log(&options(LogFormat::Json, filter), || {
            seen.push(send_traced(&[(CORRELATION_HEADER, "number-1")]).0);
            seen.push(send_traced(&[(CORRELATION_HEADER, "not valid")]).0);
            seen.push(send_traced(&[]).0);
            tracing::warn!("after");
        });
        let logged: Vec<Option<String>> = text
            .lines()
            .map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                line["span"]["correlation"].as_str().map(str::to_owned)
            })
            .collect();
        assert_eq!(seen[0], "number-1");
        assert!(seen[1..].iter().all(|id| id.len() == 36), "{seen:?}");
        let expected: Vec<_> = seen.into_iter().map(Some).chain([None]).collect();
        assert_eq!(logged, expected, "{text}");
    }
    let text = capture_log(&options(LogFormat::Text, "warn"), || {
        send_traced(&[(CORRELATION_HEADER, "number-1")]);
    });
    assert!(text.contains("request{correlation=number-1}"), "{text}");
}

#[test]
fn response_continues_the_trace_of_the_request() {
    let parent = TraceParent::new_root(true);
    capture_log(&options(LogFormat::Text, "off"), || {
        let (_, headers) = send_traced(&[(TRACEPARENT, &parent.to_string())]);
        let context = TraceParent::from_headers(&headers).unwrap();
        assert_eq!(context.trace_id(), parent.trace_id());
        assert_ne!(context.span_id(), parent.span_id());
        let (_, headers) = send_traced(&[]);
        assert!(!headers.contains_key(TRACEPARENT));
    });
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
