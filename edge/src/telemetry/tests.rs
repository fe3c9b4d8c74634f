//! Logs as they are written, and traces as a collector gets them.

use super::{
    LogFormat, LogOptions, OtlpOptions, TelemetryError, build, current, follow, lets_audit_through,
    mark,
};
use crate::Secret;
use crate::request::{Correlation, TraceParent};
use crate::tls::{DevCa, ServerTls, TlsFiles, Trust};
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tracing::Level;
use tracing::level_filters::LevelFilter;

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Page {
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

fn said(options: &LogOptions, say: impl FnOnce()) -> String {
    let page = Page::default();
    let writer = page.clone();
    let (subscriber, guard) = build(options, move || writer.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, say);
    drop(guard);
    page.text()
}

#[test]
fn lines_are_text_or_json() {
    let say = || {
        tracing::info!(count = 3, "something happened");
        tracing::debug!("too small to tell");
    };
    let text = said(&options(LogFormat::Text, "info"), say);
    assert!(
        text.contains("INFO") && text.contains("something happened count=3"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    let text = said(&options(LogFormat::Json, "info"), say);
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["message"], "something happened");
    assert_eq!(line["count"], 3);
    let text = said(&options(LogFormat::Text, "warn,interzone_edge=debug"), say);
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn what_nobody_sees_is_not_even_made() {
    for filter in ["info", "warn,interzone_edge=info"] {
        let mut made = 0;
        let mut count = || {
            made += 1;
            "a value that costs something"
        };
        said(&options(LogFormat::Text, filter), || {
            assert!(!tracing::enabled!(Level::DEBUG), "{filter}");
            assert!(tracing::enabled!(Level::INFO), "{filter}");
            assert!(LevelFilter::current() <= LevelFilter::INFO, "{filter}");
            tracing::debug!(value = count(), "too small to tell");
        });
        assert_eq!(made, 0, "{filter}");
    }
}

#[test]
fn lines_about_a_request_say_which() {
    let (one, other) = (
        Correlation::given("number-1").unwrap(),
        Correlation::fresh(),
    );
    let say = || {
        tracing::info!("before");
        let outer = mark(&one);
        tracing::info!(said = "correlation", "within");
        {
            let _inner = mark(&other);
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
    let text = said(&options(LogFormat::Json, "info"), say);
    let told: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<_> = told
        .iter()
        .map(|line| line["correlation"].as_str())
        .collect();
    assert_eq!(told, expected, "{text}");
    for colours in [false, true] {
        let mut options = options(LogFormat::Text, "info");
        options.colours = colours;
        let text = said(&options, say);
        assert_eq!(text.lines().count(), expected.len(), "{text}");
        for (line, expected) in text.lines().zip(expected) {
            let times = expected.map_or(0, |id| line.matches(id).count());
            assert_eq!(times, usize::from(expected.is_some()), "{line}");
            let marked = line.contains(" correlation=") || line.contains("said already");
            assert_eq!(marked, expected.is_some(), "{line}");
        }
    }
    // What somebody else says is no mark.
    let text = said(&options(LogFormat::Text, "info"), || {
        let _mark = mark(&one);
        tracing::info!(error = "correlation=forged", "they said");
    });
    assert!(text.ends_with(" correlation=number-1\n"), "{text}");
}

#[test]
fn a_bad_filter_or_collector_is_named() {
    let error = build(&options(LogFormat::Text, "info=loud=very"), io::sink).err();
    assert!(matches!(error, Some(TelemetryError::Filter { .. })));
    for (endpoint, header) in [
        ("nowhere", "good"),
        ("ftp://localhost", "good"),
        ("http://localhost:4318", "line\nbreak"),
    ] {
        let options = traced(endpoint, header);
        let error = build(&options, io::sink).err().unwrap();
        assert!(error.to_string().contains(endpoint), "{error}");
        assert!(!format!("{error:?}").contains("break"), "{error:?}");
    }
}

fn traced(endpoint: &str, key: &str) -> LogOptions {
    LogOptions {
        otlp: Some(OtlpOptions {
            endpoint: endpoint.to_owned(),
            headers: vec![("x-key".to_owned(), Secret::new(key))],
            service_name: "zone-under-test".to_owned(),
            trust: Trust::system(),
        }),
        ..options(LogFormat::Text, "info")
    }
}

/// A collector that takes one request and gives it on, head and body.
fn collector() -> (String, Receiver<Vec<u8>>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = socket.accept().unwrap();
        sender.send(collect(&mut stream).unwrap()).unwrap();
    });
    (url, receiver)
}

/// One request, which is answered.
fn collect(stream: &mut (impl Read + Write)) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        request.extend_from_slice(&piece[..read]);
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
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(answer)?;
    stream.flush()?;
    Ok(request)
}

#[test]
fn a_collector_is_believed_by_the_cas_that_the_operator_names() {
    let folder = tempfile::tempdir().unwrap();
    let files = DevCa::open_or_make(folder.path(), &["localhost".to_owned()]).unwrap();
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
        (Trust::system(), false),
        (Trust::system_and(&[files.ca]).unwrap(), true),
    ] {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let config = Arc::clone(&config);
        let collecting = std::thread::spawn(move || {
            let (stream, _) = socket.accept().unwrap();
            let session = rustls::ServerConnection::new(config).unwrap();
            collect(&mut rustls::StreamOwned::new(session, stream)).is_ok()
        });
        let mut options = traced(&format!("https://localhost:{port}"), "key");
        options.otlp.as_mut().unwrap().trust = trust;
        said(&options, || {
            let _span = tracing::info_span!(target: "interzone::test", "a call").entered();
        });
        assert_eq!(collecting.join().unwrap(), reached);
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn spans_reach_the_collector_with_their_parents() {
    let (url, received) = collector();
    let parent = TraceParent::fresh(true);
    let mut told = None;
    said(&traced(&url, "the key"), || {
        let span = tracing::info_span!(target: "interzone::test", "a call", method = "tasks.get");
        follow(&span, &parent);
        told = current(&span);
        let _entered = span.enter();
        // A span of somebody else's is none of ours.
        let _theirs = tracing::info_span!(target: "hyper::proto", "their span").entered();
    });
    // The guard has been dropped, so everything has been sent.
    let request = received.recv_timeout(Duration::from_secs(20)).unwrap();
    let told = told.unwrap();
    assert!(request.starts_with(b"POST /v1/traces HTTP/1.1"));
    assert!(contains(&request, b"x-key: the key"));
    assert!(contains(&request, b"application/x-protobuf"));
    for part in [
        "zone-under-test".as_bytes(),
        b"a call",
        b"tasks.get",
        &parent.trace(),
        &parent.span(),
        &told.span(),
    ] {
        assert!(contains(&request, part), "{part:?} in {request:?}");
    }
    assert_eq!(told.trace(), parent.trace());
    assert_ne!(told.span(), parent.span());
    assert!(!contains(&request, b"their span"));
}

#[test]
fn a_collector_that_is_away_holds_nobody_up() {
    // Bound and let go, so that nobody listens there.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let start = Instant::now();
    said(&traced(&format!("http://{address}"), "key"), || {
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
fn without_traces_a_span_has_no_place() {
    said(&options(LogFormat::Text, "info"), || {
        let span = tracing::info_span!(target: "interzone::test", "a call");
        follow(&span, &TraceParent::fresh(true));
        assert_eq!(current(&span), None);
    });
}

#[test]
fn libraries_do_not_print_what_they_send() {
    let text = said(&options(LogFormat::Text, "trace"), || {
        tracing::trace!(target: "aws_sigv4::http_request", "the whole request");
        tracing::trace!("a step of ours");
        tracing::debug!(target: "aws_sigv4::http_request", "a step of theirs");
    });
    assert!(!text.contains("the whole request"), "{text}");
    assert!(text.contains("a step of ours") && text.contains("a step of theirs"));
}

#[test]
fn the_filter_of_the_log_decides_about_the_audit_too() {
    for (filter, wanted) in [
        ("info", true),
        ("warn", false),
        ("warn,audit=info", true),
        ("info,audit=off", false),
        ("off", false),
    ] {
        assert_eq!(lets_audit_through(filter), wanted, "{filter}");
    }
}
