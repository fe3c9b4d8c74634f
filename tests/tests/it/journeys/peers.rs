//! Third-party programs that `scripts/peers.sh` installed. A test that needs one fails without it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Script that installs the peers.
const INSTALL_SCRIPT: &str = "scripts/peers.sh";

/// Reads an environment variable that a script sets.
#[expect(clippy::disallowed_methods, reason = "test.sh sets the locations")]
pub(super) fn required_env(name: &str, script: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: run ./test.sh --only test, or {script} install and then \
             eval \"$({script} env)\" first"
        )
    })
}

/// URL of the PostgreSQL server that the tests share.
#[expect(clippy::disallowed_methods, reason = "test.sh sets the URL")]
pub(crate) fn postgres_url() -> String {
    std::env::var("INTERZONE_TEST_POSTGRES").expect(
        "INTERZONE_TEST_POSTGRES names no PostgreSQL server: run ./test.sh --only test, or \
         eval \"$(scripts/postgres.sh start)\" first",
    )
}

/// Python interpreter that has the Python peers installed.
pub(crate) fn python() -> String {
    required_env("INTERZONE_TEST_PYTHON", INSTALL_SCRIPT)
}

/// `node_modules` folder of the Node peers.
pub(crate) fn node_modules() -> String {
    required_env("INTERZONE_TEST_NODE_MODULES", INSTALL_SCRIPT)
}

/// Node that is new enough for the Slack emulator.
pub(crate) fn newer_node() -> String {
    required_env("INTERZONE_TEST_NEWER_NODE", INSTALL_SCRIPT)
}

/// Path of a program of `tests/peers/`.
pub(crate) fn peer_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(name)
}

/// Command of a Python program of `tests/peers/` that trusts only `ca`.
fn python_command(name: &str, arguments: &[&str], ca: &Path) -> Command {
    let mut command = Command::new(python());
    command
        .arg(peer_path(name))
        .args(arguments)
        .env("SSL_CERT_FILE", ca)
        // Two tests must not write the same cache.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a Python program, which must succeed, and returns its stdout.
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

/// The certified OpenID Connect server, on its own loopback port.
pub(crate) struct OidcServer {
    pub(crate) issuer: String,
    child: Child,
    commands: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl OidcServer {
    pub(crate) fn start() -> Self {
        let mut child = Command::new("node")
            .arg(peer_path("oidc.mjs"))
            .arg(node_modules())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Node is installed: ./test.sh installs it");
        let mut started = Self {
            issuer: String::new(),
            commands: child.stdin.take(),
            lines: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        started.issuer = started.line();
        assert!(
            started.issuer.starts_with("http://127.0.0.1:"),
            "it prints its URL"
        );
        started
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Signs with new keys from now on and publishes only those.
    pub(crate) fn rotate(&mut self) {
        writeln!(self.commands.as_mut().unwrap(), "rotate").unwrap();
        assert_eq!(self.line(), "rotated");
    }

    /// Registers a console with this callback as client `console` with the secret `secret of console`.
    pub(crate) fn register_console(&mut self, callback: &str) {
        writeln!(self.commands.as_mut().unwrap(), "console {callback}").unwrap();
        assert_eq!(self.line(), "registered");
    }
}

impl Drop for OidcServer {
    fn drop(&mut self) {
        self.commands.take();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
