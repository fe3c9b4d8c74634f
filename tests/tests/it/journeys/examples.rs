//! The examples that call a zone, run as their first lines say: by the SDK in Rust, by the ACP SDK in
//! Python, and with nothing but curl.

use super::newcomer::{Up, ends, prints};
use super::peers::python;
use super::zone::free_port;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn calls(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/calls")
        .join(name)
}

/// What a program prints that succeeds.
async fn told(command: &mut Command) -> String {
    let command = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = ends(command.spawn().unwrap()).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_a_call_gets_its_answer() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let port = free_port();
    let _up = Up::start(folder, &format!("127.0.0.1:{port}"), &[]).await;
    let url = format!("https://localhost:{port}");
    let ca = folder.join(".interzone/ca.pem");
    let token = prints(folder, &["token"]).await;
    let token = token.trim();

    let added = [
        "client",
        "add",
        "example",
        "--id",
        "example",
        "--secret-file",
        "secret.txt",
    ];
    prints(folder, &added).await;
    let mut rust = Command::new(crate::example("ask"));
    rust.arg(&url).arg(&ca).arg("example");
    rust.arg(folder.join("secret.txt")).arg("echo by rust");
    assert_eq!(told(&mut rust).await, "by rust\n");

    let mut sdk = Command::new(python());
    sdk.arg(calls("ask.py"))
        .args([&*url, token, "echo by python"]);
    sdk.env("SSL_CERT_FILE", &ca)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let said = told(&mut sdk).await;
    assert!(said.ends_with("COMPLETED by python\n"), "{said}");

    let mut curl = Command::new("sh");
    curl.arg(calls("ask.sh"))
        .arg(&url)
        .arg(&ca)
        .args([token, "echo by curl"]);
    let events = told(&mut curl).await;
    assert!(events.contains("\"event\":\"COMPLETED\""), "{events}");
    assert!(events.contains("by curl"), "{events}");
}
