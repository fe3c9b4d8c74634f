//! The example clients, run as their first lines say: the Rust SDK, the ACP SDK in Python, and curl.

use super::cli::{UpProcess, run_ok, wait_for_output};
use super::peers::python;
use super::zone_process::free_port;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn example_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/calls")
        .join(name)
}

/// Runs a command that must succeed and returns its stdout.
async fn stdout_of(command: &mut Command) -> String {
    let command = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = wait_for_output(command.spawn().unwrap()).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_example_gets_an_answer() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let port = free_port();
    let _up = UpProcess::start(folder, &format!("127.0.0.1:{port}"), &[]).await;
    let url = format!("https://localhost:{port}");
    let ca = folder.join(".interzone/ca.pem");
    let token = run_ok(folder, &["token"]).await;
    let token = token.trim();

    let add_client = [
        "client",
        "add",
        "example",
        "--id",
        "example",
        "--secret-file",
        "secret.txt",
    ];
    run_ok(folder, &add_client).await;
    let mut rust = Command::new(crate::example("ask"));
    rust.arg(&url).arg(&ca).arg("example");
    rust.arg(folder.join("secret.txt")).arg("echo by rust");
    assert_eq!(stdout_of(&mut rust).await, "by rust\n");

    let mut sdk = Command::new(python());
    sdk.arg(example_path("ask.py"))
        .args([&*url, token, "echo by python"]);
    sdk.env("SSL_CERT_FILE", &ca)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let output = stdout_of(&mut sdk).await;
    assert!(output.ends_with("COMPLETED by python\n"), "{output}");

    let mut curl = Command::new("sh");
    curl.arg(example_path("ask.sh"))
        .arg(&url)
        .arg(&ca)
        .args([token, "echo by curl"]);
    let events = stdout_of(&mut curl).await;
    assert!(events.contains("\"event\":\"COMPLETED\""), "{events}");
    assert!(events.contains("by curl"), "{events}");
}
