//! A zone that runs: the real binary with a config file, in a folder of its own, on a free port.

use super::certificates::Authority;
use super::peers::{program, python};
use super::soon;
use super::tokens::{AUDIENCE, TestIssuer};
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

/// The binary, which the test runner built beside this one.
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

/// A loopback port that is this test's until it ends, also while nobody listens on it: each port has a file, and
/// whoever holds its lock has the port. Ports that the system hands out begin above these, and none of these is
/// one that browsers refuse, as they do 10080.
pub(crate) fn free_port() -> u16 {
    static MINE: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = std::env::temp_dir().join("interzone-test-ports");
    fs::create_dir_all(&folder).unwrap();
    // Each test looks from a place of its own on, so that most find one at once.
    let first = u16::try_from(std::process::id() % 1000).unwrap() * 10;
    for port in (0..9_000).map(|step| 11_000 + (first + step) % 9_000) {
        let file = File::create(folder.join(port.to_string())).unwrap();
        if file.try_lock().is_err() || TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err() {
            continue;
        }
        MINE.lock().unwrap().push(file);
        return port;
    }
    panic!("nine thousand ports are taken");
}

/// What zones of one test share: a folder, a certificate authority, an issuer.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) authority: Authority,
    pub(crate) issuer: TestIssuer,
}

impl World {
    pub(crate) async fn new() -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("interzone tests");
        let pair = authority.server();
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

/// A config in the making. It begins as the issue's own: a demo agent, an issuer elsewhere.
pub(crate) struct Setup {
    config: toml::Table,
    issuer: bool,
    port: u16,
}

impl Setup {
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
            issuer: true,
            port,
        }
    }

    /// A config as somebody wrote it, for a zone that listens on this port.
    pub(crate) fn written(text: &str, port: u16) -> Self {
        Self {
            config: text.parse().unwrap(),
            issuer: false,
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

    /// Adds an agent in Python, which answers those who name nobody.
    pub(crate) fn with_worker(mut self) -> Self {
        let command = vec![python(), program("agent.py").to_str().unwrap().to_owned()];
        let mut agent = toml::Table::new();
        agent.insert("id".to_owned(), "worker".into());
        agent.insert("kind".to_owned(), "command".into());
        agent.insert("command".to_owned(), command.into());
        agent.insert("default".to_owned(), true.into());
        let agents = self.config["agents"].as_array_mut().unwrap();
        agents.push(toml::Value::Table(agent));
        self
    }

    /// Sets a key of that agent.
    pub(crate) fn set_worker(mut self, key: &str, value: impl Into<toml::Value>) -> Self {
        let agents = self.config["agents"].as_array_mut().unwrap();
        let worker = agents.last_mut().unwrap().as_table_mut().unwrap();
        worker.insert(key.to_owned(), value.into());
        self
    }

    /// Webhooks may go to this address of the test's own.
    pub(crate) fn allow(self, address: SocketAddr) -> Self {
        self.set("egress.allow", vec![address.to_string()])
    }

    /// Tokens come from elsewhere than the test's own issuer, as other settings say.
    pub(crate) fn without_issuer(mut self) -> Self {
        self.issuer = false;
        self
    }

    pub(crate) async fn start(self) -> Zone {
        self.start_in(World::new().await).await
    }

    pub(crate) async fn start_in(self, world: Arc<World>) -> Zone {
        let setup = if self.issuer {
            let issuer = world.issuer.url.clone();
            let keys = format!("{issuer}jwks.json");
            self.set("oauth.issuer", issuer)
                .set("oauth.jwks_url", keys)
                .set("oauth.audience", AUDIENCE)
        } else {
            self
        };
        let config = world.path(&format!("interzone-{}.toml", setup.port));
        fs::write(&config, setup.config.to_string()).unwrap();
        let url = setup.config["execution"]["public_url"].as_str().unwrap();
        let mut zone = Zone {
            url: url.to_owned(),
            address: (Ipv4Addr::LOCALHOST, setup.port).into(),
            http: super::wire::client(&world.authority, None),
            world,
            config,
            process: None,
        };
        zone.begin().await;
        zone
    }
}

/// The running zone, and how to reach it.
pub(crate) struct Zone {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    pub(crate) world: Arc<World>,
    /// Keeps connections open, as callers do.
    pub(crate) http: reqwest::Client,
    pub(crate) config: PathBuf,
    process: Option<Process>,
}

impl Zone {
    /// Starts the binary again on the same config. It must not be running.
    pub(crate) async fn begin(&mut self) {
        assert!(self.process.is_none(), "it runs already");
        let (process, ready) = Process::start("execute", &self.config, self.world.folder.path());
        self.process = Some(process);
        let line = soon("the line that says where it serves", ready).await;
        let line = line.unwrap_or_else(|_| panic!("it ended before it was ready: {}", self.log()));
        assert!(line.contains(&self.url), "{line:?} names {}", self.url);
    }

    /// The same zone by another port, as through a balancer, on connections of its own.
    pub(crate) fn reached_at(zone: &Self, port: u16) -> Self {
        Self {
            url: format!("https://localhost:{port}"),
            address: (Ipv4Addr::LOCALHOST, port).into(),
            world: zone.world.clone(),
            http: super::wire::client(&zone.world.authority, None),
            config: zone.config.clone(),
            process: None,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().child.id()
    }

    /// All that it has printed so far.
    pub(crate) fn log(&self) -> String {
        self.process.as_ref().unwrap().printed()
    }

    /// All that it has printed when this is among it: what it notes down may come after what it answers.
    pub(crate) async fn log_with(&self, what: &str) -> String {
        let mut log = self.process.as_ref().unwrap().log.subscribe();
        let there = log.wait_for(|log| log.contains(what));
        soon(what, there).await.unwrap().clone()
    }

    /// Ends it without a warning, as a power cut does.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.child.kill().unwrap();
        process.child.wait().unwrap();
    }

    /// Asks it to stop.
    pub(crate) fn ask_to_stop(&self) {
        self.signal("-TERM");
    }

    /// Suspends it, as a paused virtual machine is. Its clocks go on.
    pub(crate) fn suspend(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on after [`Zone::suspend`].
    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success(), "the signal was sent");
    }

    /// How it ends.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let mut process = self.process.take().unwrap();
        let waiting = tokio::task::spawn_blocking(move || {
            let status = process.child.wait().unwrap();
            (process, status)
        });
        let (process, status) = soon("its end", waiting).await.unwrap();
        drop(process);
        status
    }

    pub(crate) fn token(&self, subject: &str) -> String {
        self.world.issuer.token(subject)
    }
}

/// A zone's process; it ends with this.
pub(super) struct Process {
    pub(super) child: Child,
    log: Arc<watch::Sender<String>>,
}

impl Process {
    /// Runs `interzone COMMAND --config FILE` in a folder, and gives the first line that it prints.
    pub(super) fn start(
        command: &str,
        config: &Path,
        folder: &Path,
    ) -> (Self, oneshot::Receiver<String>) {
        let mut child = Command::new(binary())
            .arg(command)
            .arg("--config")
            .arg(config)
            .current_dir(folder)
            // Nothing of whoever runs the tests.
            .env("HOME", folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(watch::Sender::new(String::new()));
        let (tell, ready) = oneshot::channel();
        keep(child.stdout.take().unwrap(), log.clone(), Some(tell));
        keep(child.stderr.take().unwrap(), log.clone(), None);
        (Self { child, log }, ready)
    }

    pub(super) fn printed(&self) -> String {
        self.log.borrow().clone()
    }
}

/// Keeps what is printed, and tells the first line.
fn keep(
    output: impl Read + Send + 'static,
    log: Arc<watch::Sender<String>>,
    mut tell: Option<oneshot::Sender<String>>,
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
            if let Some(tell) = tell.take() {
                let _ = tell.send(text.trim().to_owned());
            }
            line.clear();
        }
    });
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("--- what the zone printed\n{}---", self.printed());
        }
    }
}

/// A message by a person.
pub(crate) fn said(text: &str) -> Value {
    serde_json::json!({"role": "user", "parts": [{"type": "TextPart", "content": text}]})
}
