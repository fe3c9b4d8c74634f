//! A running zone: the real binary with a config file, in its own folder, on a free port.

use super::certificates::Authority;
use super::peers::{peer_path, python};
use super::tokens::{AUDIENCE, TestIssuer};
use super::within_timeout;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::sync::{oneshot, watch};

pub(crate) const WEBHOOK_SECRET: &str = "s3cret";

/// Path of the binary, which the test runner built next to this one.
pub(crate) fn binary() -> PathBuf {
    let me = std::env::current_exe().unwrap();
    let folder = me.parent().and_then(Path::parent).unwrap();
    let binary = folder.join("interzone");
    assert!(
        binary.exists(),
        "{} is not built: test the whole workspace, as ./test.sh does",
        binary.display()
    );
    binary
}

/// Reserves a loopback port until the test ends, also while no process listens on it: each port has a lock file.
/// The ports are below the system's ephemeral range, and none is one that browsers refuse, such as 10080.
pub(crate) fn free_port() -> u16 {
    static LOCKED_PORTS: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = std::env::temp_dir().join("interzone-test-ports");
    fs::create_dir_all(&folder).unwrap();
    // Each process starts at a different port, so that most find one at once.
    let first = u16::try_from(std::process::id() % 1000).unwrap() * 10;
    for port in (0..9_000).map(|step| 11_000 + (first + step) % 9_000) {
        let file = File::create(folder.join(port.to_string())).unwrap();
        if file.try_lock().is_err() || TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err() {
            continue;
        }
        LOCKED_PORTS.lock().unwrap().push(file);
        return port;
    }
    panic!("nine thousand ports are taken");
}

/// Shared by the zones of one test: a folder, a certificate authority, an issuer.
pub(crate) struct TestEnv {
    pub(crate) folder: TempDir,
    pub(crate) authority: Authority,
    pub(crate) issuer: TestIssuer,
}

impl TestEnv {
    pub(crate) async fn new() -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("interzone tests");
        let pair = authority.issue_server_cert();
        fs::write(folder.path().join("ca.pem"), &authority.pem).unwrap();
        fs::write(folder.path().join("cert.pem"), pair.cert).unwrap();
        fs::write(folder.path().join("key.pem"), pair.key).unwrap();
        Arc::new(Self {
            folder,
            authority,
            issuer: TestIssuer::start().await,
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }
}

/// Config builder. It starts with a demo agent and an external issuer.
pub(crate) struct ZoneBuilder {
    config: toml::Table,
    use_test_issuer: bool,
    port: u16,
}

impl ZoneBuilder {
    pub(crate) fn new() -> Self {
        let port = free_port();
        let config = format!(
            r#"
            store.url = "sqlite:interzone.db"
            tls = {{ cert = "cert.pem", key = "key.pem" }}
            execution = {{ listen = "127.0.0.1:{port}", public_url = "https://localhost:{port}" }}
            webhooks.secret = "{WEBHOOK_SECRET}"
            limits = {{ body = "40MiB", batch = 1000, requests_per_minute = 0 }}
            [[agents]]
            id = "demo"
            kind = "demo"
            "#
        );
        Self {
            config: config.parse().unwrap(),
            use_test_issuer: true,
            port,
        }
    }

    /// Uses a handwritten config of a zone that listens on this port.
    pub(crate) fn from_toml(text: &str, port: u16) -> Self {
        Self {
            config: text.parse().unwrap(),
            use_test_issuer: false,
            port,
        }
    }

    /// Sets `section.key`, or `section.inner.key`.
    pub(crate) fn set(mut self, path: &str, value: impl Into<toml::Value>) -> Self {
        let mut keys: Vec<&str> = path.split('.').collect();
        let last = keys.pop().unwrap();
        let mut table = &mut self.config;
        for key in keys {
            let inner = table
                .entry(key)
                .or_insert_with(|| toml::Value::Table(toml::Table::new()));
            table = inner.as_table_mut().unwrap();
        }
        table.insert(last.to_owned(), value.into());
        self
    }

    /// Adds a Python agent as the default agent.
    pub(crate) fn with_worker(mut self) -> Self {
        let command = vec![python(), peer_path("agent.py").to_str().unwrap().to_owned()];
        let mut agent = toml::Table::new();
        agent.insert("id".to_owned(), "worker".into());
        agent.insert("kind".to_owned(), "command".into());
        agent.insert("command".to_owned(), command.into());
        agent.insert("default".to_owned(), true.into());
        let agents = self.config["agents"].as_array_mut().unwrap();
        agents.push(toml::Value::Table(agent));
        self
    }

    /// Sets a key of the Python agent.
    pub(crate) fn set_worker(mut self, key: &str, value: impl Into<toml::Value>) -> Self {
        let agents = self.config["agents"].as_array_mut().unwrap();
        let worker = agents.last_mut().unwrap().as_table_mut().unwrap();
        worker.insert(key.to_owned(), value.into());
        self
    }

    /// Allows webhooks to this address of the test.
    pub(crate) fn allow(self, address: SocketAddr) -> Self {
        self.set("egress.allow", vec![address.to_string()])
    }

    /// Does not configure the test's issuer; other settings say where tokens come from.
    pub(crate) fn without_issuer(mut self) -> Self {
        self.use_test_issuer = false;
        self
    }

    pub(crate) async fn start(self) -> ZoneProcess {
        self.start_in(TestEnv::new().await).await
    }

    pub(crate) async fn start_in(self, env: Arc<TestEnv>) -> ZoneProcess {
        let setup = if self.use_test_issuer {
            let issuer = env.issuer.url.clone();
            let keys = format!("{issuer}jwks.json");
            self.set("oauth.issuer", issuer)
                .set("oauth.jwks_url", keys)
                .set("oauth.audience", AUDIENCE)
        } else {
            self
        };
        let config = env.path(&format!("interzone-{}.toml", setup.port));
        fs::write(&config, setup.config.to_string()).unwrap();
        let url = setup.config["execution"]["public_url"].as_str().unwrap();
        let mut zone = ZoneProcess {
            url: url.to_owned(),
            address: (Ipv4Addr::LOCALHOST, setup.port).into(),
            http: super::rpc::client(&env.authority, None),
            env,
            config,
            process: None,
        };
        zone.start().await;
        zone
    }
}

/// A running zone and the client to reach it.
pub(crate) struct ZoneProcess {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    pub(crate) env: Arc<TestEnv>,
    /// Keeps connections alive, as callers do.
    pub(crate) http: reqwest::Client,
    pub(crate) config: PathBuf,
    process: Option<ServerProcess>,
}

impl ZoneProcess {
    /// Starts the binary again on the same config. It must not be running.
    pub(crate) async fn start(&mut self) {
        assert!(self.process.is_none(), "the zone is already running");
        let (process, ready) =
            ServerProcess::start("execution", &self.config, self.env.folder.path());
        self.process = Some(process);
        let line = within_timeout("the startup line with the zone's URL", ready).await;
        let line =
            line.unwrap_or_else(|_| panic!("the zone exited before it was ready: {}", self.log()));
        assert!(line.contains(&self.url), "{line:?} names {}", self.url);
    }

    /// Returns the same zone reached by another port, as through a balancer, with its own connections.
    pub(crate) fn via_port(zone: &Self, port: u16) -> Self {
        Self {
            url: format!("https://localhost:{port}"),
            address: (Ipv4Addr::LOCALHOST, port).into(),
            env: zone.env.clone(),
            http: super::rpc::client(&zone.env.authority, None),
            config: zone.config.clone(),
            process: None,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().child.id()
    }

    /// Returns everything printed so far.
    pub(crate) fn log(&self) -> String {
        self.process.as_ref().unwrap().output()
    }

    /// Returns the log once it contains this text: log lines may be written after the response.
    pub(crate) async fn wait_for_log(&self, what: &str) -> String {
        let mut log = self.process.as_ref().unwrap().log.subscribe();
        let found = log.wait_for(|log| log.contains(what));
        within_timeout(what, found).await.unwrap().clone()
    }

    /// Kills the process (SIGKILL), as a power cut would.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.child.kill().unwrap();
        process.child.wait().unwrap();
    }

    /// Asks the process to stop (SIGTERM).
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Suspends the process (SIGSTOP), like a paused virtual machine. Its clocks keep running.
    pub(crate) fn suspend(&self) {
        self.signal("-STOP");
    }

    /// Resumes the process after [`ZoneProcess::suspend`].
    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success(), "the signal was sent");
    }

    /// Waits for the process to exit.
    pub(crate) async fn wait_for_exit(&mut self) -> ExitStatus {
        let mut process = self.process.take().unwrap();
        let waiting = tokio::task::spawn_blocking(move || {
            let status = process.child.wait().unwrap();
            (process, status)
        });
        let (process, status) = within_timeout("the zone to exit", waiting).await.unwrap();
        drop(process);
        status
    }

    pub(crate) fn token(&self, subject: &str) -> String {
        self.env.issuer.token(subject)
    }
}

/// A zone's process, killed on drop.
pub(super) struct ServerProcess {
    pub(super) child: Child,
    log: Arc<watch::Sender<String>>,
}

impl ServerProcess {
    /// Runs `interzone serve ZONE --config FILE` in a folder. The receiver gets the first line that it prints.
    pub(super) fn start(
        zone: &str,
        config: &Path,
        folder: &Path,
    ) -> (Self, oneshot::Receiver<String>) {
        let mut child = Command::new(binary())
            .args(["serve", zone, "--config"])
            .arg(config)
            .current_dir(folder)
            // Nothing from the developer's home.
            .env("HOME", folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(watch::Sender::new(String::new()));
        let (first_line_tx, ready) = oneshot::channel();
        capture_output(
            child.stdout.take().unwrap(),
            log.clone(),
            Some(first_line_tx),
        );
        capture_output(child.stderr.take().unwrap(), log.clone(), None);
        (Self { child, log }, ready)
    }

    pub(super) fn output(&self) -> String {
        self.log.borrow().clone()
    }
}

/// Captures the output and sends its first line.
fn capture_output(
    output: impl Read + Send + 'static,
    log: Arc<watch::Sender<String>>,
    mut first_line_tx: Option<oneshot::Sender<String>>,
) {
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output
            .read_until(b'\n', &mut line)
            .is_ok_and(|read| read > 0)
        {
            let text = String::from_utf8_lossy(&line).into_owned();
            log.send_modify(|log| log.push_str(&text));
            if let Some(sender) = first_line_tx.take() {
                let _ = sender.send(text.trim().to_owned());
            }
            line.clear();
        }
    });
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("--- output of the zone\n{}---", self.output());
        }
    }
}

/// A user message with this text.
pub(crate) fn user_message(text: &str) -> Value {
    serde_json::json!({"role": "user", "parts": [{"type": "TextPart", "content": text}]})
}
