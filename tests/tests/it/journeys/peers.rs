//! Programs of others, as `scripts/peers.sh` installed them. A test that needs one fails without it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Where they come from.
const SCRIPT: &str = "scripts/peers.sh";

/// What a script told in the environment.
#[expect(clippy::disallowed_methods, reason = "test.sh tells where they are")]
pub(super) fn told(name: &str, script: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: run ./test.sh --only test, or {script} install and then \
             eval \"$({script} env)\" first"
        )
    })
}

/// The PostgreSQL server that the tests share.
#[expect(clippy::disallowed_methods, reason = "test.sh tells where it is")]
pub(crate) fn postgres() -> String {
    std::env::var("INTERZONE_TEST_POSTGRES").expect(
        "INTERZONE_TEST_POSTGRES names no PostgreSQL server: run ./test.sh --only test, or \
         eval \"$(scripts/postgres.sh start)\" first",
    )
}

/// The interpreter that has the Python peers.
pub(crate) fn python() -> String {
    told("INTERZONE_TEST_PYTHON", SCRIPT)
}

/// Where the Node peers are.
pub(crate) fn node_modules() -> String {
    told("INTERZONE_TEST_NODE_MODULES", SCRIPT)
}

/// A Node that is new enough for the Slack emulator.
pub(crate) fn newer_node() -> String {
    told("INTERZONE_TEST_NEWER_NODE", SCRIPT)
}

/// A program of `tests/peers/`.
pub(crate) fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(name)
}

/// A Python program of `tests/peers/` that trusts `ca` and nobody else.
fn python_command(name: &str, arguments: &[&str], ca: &Path) -> Command {
    let mut command = Command::new(python());
    command
        .arg(program(name))
        .args(arguments)
        .env("SSL_CERT_FILE", ca)
        // Two tests must not write the same cache.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs one to its end, which must be a good one, and gives what it printed.
pub(crate) async fn run_python(name: &str, arguments: &[&str], ca: &Path, input: &str) -> String {
    let mut child = python_command(name, arguments, ca)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap())
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "{name}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The certified OAuth2 server, on a loopback port of its own.
pub(crate) struct Oidc {
    pub(crate) issuer: String,
    child: Child,
    commands: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Oidc {
    pub(crate) fn start() -> Self {
        let mut child = Command::new("node")
            .arg(program("oidc.mjs"))
            .arg(node_modules())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Node is there: ./test.sh installs it");
        let mut started = Self {
            issuer: String::new(),
            commands: child.stdin.take(),
            lines: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        started.issuer = started.line();
        assert!(started.issuer.starts_with("http://127.0.0.1:"), "it began");
        started
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// From now on it signs with new keys, and shows only those.
    pub(crate) fn rotate(&mut self) {
        writeln!(self.commands.as_mut().unwrap(), "rotate").unwrap();
        assert_eq!(self.line(), "rotated");
    }

    /// From now on a console at this address may send people here, as `console` with `secret of console`.
    pub(crate) fn introduce_console(&mut self, callback: &str) {
        writeln!(self.commands.as_mut().unwrap(), "console {callback}").unwrap();
        assert_eq!(self.line(), "known");
    }
}

impl Drop for Oidc {
    fn drop(&mut self) {
        self.commands.take();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
