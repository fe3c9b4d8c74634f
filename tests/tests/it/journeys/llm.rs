//! The LLM agent with a server of the model's protocol: a file is attached, and the model creates a file.

use super::cli::{UpProcess, interzone_command, wait_for_output};
use super::peers::{peer_path, python};
use super::within_timeout;
use super::zone_process::free_port;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const KEY: &str = "sk-only-in-the-environment";

/// The model server, killed on drop.
struct ModelServer(Child);

impl ModelServer {
    async fn start(port: u16) -> Self {
        let mut child = Command::new(python())
            .arg(peer_path("openai.py"))
            .args([&port.to_string(), KEY])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let model = Self(child);
        let reading = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).unwrap();
            line
        });
        assert_eq!(
            within_timeout("the model", reading).await.unwrap().trim(),
            "ready"
        );
        model
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn llm_answers_a_file_with_a_file() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let port = free_port();
    let _model = ModelServer::start(port).await;
    let address = format!("http://127.0.0.1:{port}/v1");
    let env = [
        ("OPENAI_API_KEY", KEY),
        ("OPENAI_BASE_URL", address.as_str()),
    ];
    let listen = format!("127.0.0.1:{}", free_port());
    let arguments = ["--agent", "llm", "--model", "scripted"];
    let up = UpProcess::start_with_env(folder, &listen, &arguments, &env).await;
    fs::write(folder.join("sales.csv"), "month,sum\nmay,20\njune,22\n").unwrap();
    let ask = ["ask", "--attach", "sales.csv", "the sum of all, as a file"];
    let output = wait_for_output(interzone_command(folder, &ask).spawn().unwrap()).await;
    let (stdout, stderr) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("One moment."), "{stdout}{stderr}");
    assert!(stdout.contains("Here are the sums."), "{stdout}{stderr}");
    assert!(stderr.contains("saved sums.csv"), "{stdout}{stderr}");
    let made = fs::read_to_string(folder.join("sums.csv")).unwrap();
    assert!(made.contains("all,42"), "{made}");
    drop(up);
    // The key is never written to disk.
    for entry in fs::read_dir(folder.join(".interzone")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            let found = bytes
                .windows(KEY.len())
                .any(|piece| piece == KEY.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_llm_key_error_names_the_variable() {
    let home = tempfile::tempdir().unwrap();
    let mut up = interzone_command(home.path(), &["up", "--agent", "llm", "--model", "m"]);
    for name in [
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
    ] {
        up.env_remove(name);
    }
    let output = wait_for_output(up.spawn().unwrap()).await;
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("OPENAI_API_KEY"), "{stderr}");
}
