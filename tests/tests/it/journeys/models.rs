//! A language model answers: a real server of its protocol, a file sent along, a file that it makes.

use super::newcomer::{Up, command, ends};
use super::peers::{program, python};
use super::soon;
use super::zone::free_port;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const KEY: &str = "sk-only-in-the-environment";

/// The model, until it is dropped.
struct Model(Child);

impl Model {
    async fn start(port: u16) -> Self {
        let mut child = Command::new(python())
            .arg(program("openai.py"))
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
        assert_eq!(soon("the model", reading).await.unwrap().trim(), "ready");
        model
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_with_a_file_is_answered_with_a_file() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let port = free_port();
    let _model = Model::start(port).await;
    let address = format!("http://127.0.0.1:{port}/v1");
    let around = [
        ("OPENAI_API_KEY", KEY),
        ("OPENAI_BASE_URL", address.as_str()),
    ];
    let listen = format!("127.0.0.1:{}", free_port());
    let arguments = ["--agent", "llm", "--model", "scripted"];
    let up = Up::start_with(folder, &listen, &arguments, &around).await;
    fs::write(folder.join("sales.csv"), "month,sum\nmay,20\njune,22\n").unwrap();
    let asking = ["ask", "--attach", "sales.csv", "the sum of all, as a file"];
    let output = ends(command(folder, &asking).spawn().unwrap()).await;
    let (said, told) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(output.status.success(), "{said}{told}");
    assert!(said.contains("One moment."), "{said}{told}");
    assert!(said.contains("Here are the sums."), "{said}{told}");
    assert!(told.contains("saved sums.csv"), "{said}{told}");
    let made = fs::read_to_string(folder.join("sums.csv")).unwrap();
    assert!(made.contains("all,42"), "{made}");
    drop(up);
    // The key is nobody's business but the model's.
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
async fn without_a_key_it_says_where_to_put_one() {
    let home = tempfile::tempdir().unwrap();
    let mut asking = command(home.path(), &["up", "--agent", "llm", "--model", "m"]);
    for name in [
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
    ] {
        asking.env_remove(name);
    }
    let output = ends(asking.spawn().unwrap()).await;
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("OPENAI_API_KEY"), "{told}");
}
