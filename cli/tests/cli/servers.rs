//! Servers that keep no rules, and what `interzone check` says of them.

use super::{Run, run};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// A server that answers every request with the same text. It ends with the test.
fn same_to_all(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(&stream, answer));
        }
    });
    url
}

fn serve(stream: &TcpStream, answer: &str) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0_u64;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 2)?;
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if reader.buffer().starts_with(b"\r\n") {
            reader.consume(2);
            break;
        }
    }
    if length < 1 << 30 {
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).ok()?;
    }
    let mut out = stream;
    write!(
        out,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{answer}",
        answer.len()
    )
    .ok()
}

fn check(url: &str, more: &[&str]) -> Run {
    let common = ["check", url, "--insecure-http", "--timeout", "5s"];
    run(&[&common[..], more].concat())
}

#[test]
fn a_server_that_says_yes_to_everything_fails() {
    let url = same_to_all(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let told = check(&url, &["--output", "json", "--protocol", "jsonrpc"]);
    assert_eq!(told.code, Some(1), "{}", told.stderr);
    let report: Value = serde_json::from_str(&told.stdout).unwrap();
    let verdict = |name: &str| {
        let checks = report["checks"].as_array().unwrap().iter();
        let found: Vec<&Value> = checks.filter(|check| check["name"] == name).collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0]["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict("id 1 comes back"), "pass");
    assert_eq!(verdict("id 0 comes back"), "fail");
    assert_eq!(verdict("an unknown method is refused"), "fail");
    assert_eq!(verdict("refused: an unfinished text"), "fail");
    assert_eq!(verdict("a notification is not answered"), "fail");
    assert_eq!(verdict("a batch is answered item by item"), "fail");
    // JSON-RPC does not ask for it; ACP does.
    assert_eq!(verdict("encrypted with TLS 1.2 or newer"), "warn");
    assert_eq!(report["protocol"], "JSON-RPC 2.0");
}

#[test]
fn a_server_that_is_none_fails() {
    let url = same_to_all("<h1>\u{1b}[2Jhello</h1>");
    let told = check(&url, &["--protocol", "acp"]);
    assert_eq!(told.code, Some(1), "{}", told.stderr);
    assert!(
        told.stdout.contains("FAIL  refused: no token"),
        "{}",
        told.stdout
    );
    assert!(!told.stdout.contains('\u{1b}'));
}

#[test]
fn nobody_there_is_no_verdict() {
    let told = run(&["check", "https://127.0.0.1:1"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (Some(3), ""),
        "{}",
        told.stderr
    );
    let told = run(&["check", "http://127.0.0.1:1"]);
    assert_eq!(told.code, Some(2), "{}", told.stderr);
}
