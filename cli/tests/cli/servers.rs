//! Servers that violate the protocol, and the results of `interzone check`.

use super::{RunOutput, run};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// Starts a server that sends the same response to every request. It ends with the test.
fn fixed_response_server(answer: &'static str) -> String {
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

fn check(url: &str, more: &[&str]) -> RunOutput {
    let common = ["check", url, "--insecure-http", "--timeout", "5s"];
    run(&[&common[..], more].concat())
}

#[test]
fn server_that_accepts_everything_fails() {
    let url = fixed_response_server(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let run = check(&url, &["--output", "json", "--protocol", "jsonrpc"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let verdict = |name: &str| {
        let checks = report["checks"].as_array().unwrap().iter();
        let found: Vec<&Value> = checks.filter(|check| check["name"] == name).collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0]["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict("id 1 is echoed"), "pass");
    assert_eq!(verdict("id 0 is echoed"), "fail");
    assert_eq!(verdict("an unknown method is refused"), "fail");
    assert_eq!(verdict("refused: truncated JSON"), "fail");
    assert_eq!(verdict("a notification is not answered"), "fail");
    assert_eq!(verdict("a batch is answered item by item"), "fail");
    // ACP requires it, JSON-RPC does not.
    assert_eq!(verdict("encrypted with TLS 1.2 or newer"), "warn");
    assert_eq!(report["protocol"], "JSON-RPC 2.0");
}

#[test]
fn server_without_json_rpc_fails() {
    let url = fixed_response_server("<h1>\u{1b}[2Jhello</h1>");
    let run = check(&url, &["--protocol", "acp"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(
        run.stdout.contains("FAIL  refused: no token"),
        "{}",
        run.stdout
    );
    assert!(!run.stdout.contains('\u{1b}'));
}

#[test]
fn unreachable_server_exits_with_3() {
    let output = run(&["check", "https://127.0.0.1:1"]);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(3), ""),
        "{}",
        output.stderr
    );
    let output = run(&["check", "http://127.0.0.1:1"]);
    assert_eq!(output.code, Some(2), "{}", output.stderr);
}
