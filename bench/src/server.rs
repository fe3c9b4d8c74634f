//! The contenders as processes: started, waited for, looked at, and ended with the measurement.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that fails has nothing to say"
)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server that ends when this goes.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens, on loopback.
    pub port: u16,
}

impl Server {
    /// Starts a program whose first line on standard output tells that it serves; `port` finds the
    /// port in it.
    pub fn start(mut command: Command, port: impl FnOnce(&str) -> u16) -> Self {
        // What it logs is written, as anywhere, but nobody's terminal slows it down.
        let log = std::fs::File::create("/dev/null").unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{command:?} ended before it served");
        // Nobody reads the rest; a full pipe must not stop it.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let port = port(&line);
        Self { child, port }
    }

    /// Waits until something listens on its port.
    pub fn wait_until_it_listens(&self) {
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            std::thread::yield_now();
        }
    }

    /// Processor time that it has used, in seconds.
    pub fn processor(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name, in brackets, may hold anything; the numbers begin behind it.
        let numbers = stat.rsplit_once(')').unwrap().1;
        let mut ticks = numbers
            .split_whitespace()
            .skip(11)
            .map(|number| number.parse::<f64>().unwrap());
        // The kernel counts in hundredths of a second, whatever the machine.
        (ticks.next().unwrap() + ticks.next().unwrap()) / 100.0
    }

    /// Memory that it has in RAM now, in bytes.
    pub fn resident(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most that it has had since the start, or since that was forgotten.
    pub fn most(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// Forgets how much it has had at most.
    pub fn forget_most(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").unwrap();
    }

    fn status(&self, name: &str) -> u64 {
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

/// The `interzone` binary of the release profile, built if need be.
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

/// A port that nobody uses now.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
