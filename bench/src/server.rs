//! Contenders as child processes.

#![expect(clippy::unwrap_used, reason = "a failed benchmark has no result")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server process, killed on drop.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Its port on loopback.
    pub port: u16,
}

impl Server {
    /// Starts a program that prints a line when it is ready; `port` extracts the port from it.
    pub fn start(mut command: Command, port: impl FnOnce(&str) -> u16) -> Self {
        // Logs are written, but no terminal slows the server down.
        let log = std::fs::File::create("/dev/null").unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{command:?} ended before it served");
        // Drain the rest, so that a full pipe does not block the server.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let port = port(&line);
        Self { child, port }
    }

    /// Waits until its port accepts connections.
    pub fn wait_until_listening(&self) {
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            std::thread::yield_now();
        }
    }

    /// CPU time used, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The process name in brackets may contain anything; the numbers follow it.
        let numbers = stat.rsplit_once(')').unwrap().1;
        let mut ticks = numbers
            .split_whitespace()
            .skip(11)
            .map(|number| number.parse::<f64>().unwrap());
        // The kernel reports hundredths of a second on every machine.
        (ticks.next().unwrap() + ticks.next().unwrap()) / 100.0
    }

    /// Resident memory, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// Peak resident memory since the start or the last reset, in bytes.
    pub fn peak_resident_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    /// Resets the peak of the resident memory.
    pub fn reset_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").unwrap();
    }

    fn status_bytes(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kibibytes * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Path of the release `interzone` binary; builds it if needed.
pub fn binary() -> PathBuf {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "-p", "interzone-cli"])
        .status()
        .unwrap();
    assert!(status.success(), "the binary could not be built");
    let here = std::env::current_exe().unwrap();
    // target/release/deps/… → target/release/interzone
    here.parent()
        .and_then(Path::parent)
        .unwrap()
        .join("interzone")
}

/// A free port.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
