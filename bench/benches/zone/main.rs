//! The Execution Zone beside the limit, a bare TLS server, and beside a peer, in one run.
//!
//! `cargo bench -p interzone-bench --bench zone [-- --peer PYTHON] [--quick] [--check-bars] [--only PART] [--connections N] [--rounds N] [--binary PATH] [--against PATH]`
//!
//! `PART` is `tasks.get`, `tasks.create`, `execute_task`, `streams`, `file`, `delta` or `rest`. `--binary` takes an
//! `interzone` that was built before, `--against` another that is asked in turns with it, `--connections` measures
//! calls at 32 or at 256 connections alone, `--rounds` says how often. With `--log FILTER` the zone logs by that filter
//! instead of its default. `PYTHON` is an interpreter that has `acp-sdk-python` and `uvicorn`.
//!
//! Every contender is a process of its own, behind TLS, on loopback; the load runs on the same cores. Contenders take
//! turns, and a figure is the median of the rounds.

#![expect(clippy::print_stdout, reason = "a measurement prints its table")]
#![expect(
    clippy::unwrap_used,
    reason = "a measurement that fails has nothing to say"
)]

mod bare;
mod calls;
mod delta;
mod file;
mod idle;
mod load;
mod rest;
mod zone;

use interzone_bench::bars::{bar, missed};
use interzone_bench::{server, tls};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// How long a contender is asked in one round.
    pub(crate) time: Duration,
    /// How many rounds there are.
    pub(crate) rounds: usize,
    /// How many streams stay open.
    pub(crate) streams: usize,
}

const WHOLE: Size = Size {
    time: Duration::from_secs(3),
    rounds: 5,
    streams: 9_900,
};
const QUICK: Size = Size {
    time: Duration::from_millis(700),
    rounds: 1,
    streams: 500,
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .unwrap();
    if flag("--agent") {
        file::serve();
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    if let Some(folder) = argument("--bare") {
        let answer = vec![b'x'; argument("--bytes").unwrap().parse().unwrap()];
        runtime.block_on(bare::serve(tls::server(Path::new(&folder)), answer.into()));
        return;
    }
    let mut size = if flag("--quick") { QUICK } else { WHOLE };
    if let Some(rounds) = argument("--rounds") {
        size.rounds = rounds.parse().unwrap();
    }
    runtime.block_on(run(size, argument("--only").as_deref(), argument("--peer")));
    let missed = missed();
    if flag("--check-bars") && !missed.is_empty() {
        println!("missed: {}", missed.join(", "));
        std::process::exit(1);
    }
}

async fn run(size: Size, only: Option<&str>, peer: Option<String>) {
    let folder = tempfile::tempdir_in(".").unwrap();
    tls::make(folder.path());
    let zone = zone::start(folder.path()).await;
    println!("# at rest");
    println!(
        "{:>10.0} ms from start to the first line",
        zone.ready.as_secs_f64() * 1e3
    );
    let mebibytes = mebibytes(zone.server.resident());
    println!("{mebibytes:>10.1} MiB resident");
    bar("ready, ms", zone.ready.as_secs_f64() * 1e3, true, 200.0);
    bar("resident at rest, MiB", mebibytes, true, 30.0);
    if !matches!(only, Some("streams" | "file" | "delta" | "rest")) {
        calls::measure(folder.path(), &zone, size, only, peer.as_deref()).await;
    }
    drop(zone);
    if only.is_none_or(|only| only == "streams") {
        idle::measure(folder.path(), size).await;
    }
    if only.is_none_or(|only| only == "file") {
        file::measure(folder.path()).await;
    }
    if only.is_none_or(|only| only == "delta") {
        delta::measure(folder.path(), size).await;
    }
    if only.is_none_or(|only| only == "rest") {
        rest::measure(folder.path(), size).await;
    }
}

/// The section of the configuration that says what is logged, if something was asked for.
pub(crate) fn log_section() -> String {
    argument("--log").map_or(String::new(), |filter| {
        format!("[log]\nfilter = \"{filter}\"\n")
    })
}

/// The binary that is asked: one that was built before, or the release profile's.
pub(crate) fn binary() -> PathBuf {
    argument("--binary").map_or_else(server::binary, PathBuf::from)
}

/// What stands behind an argument's name.
fn argument(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

/// The limit, answering so many bytes.
pub(crate) fn bare(folder: &Path, bytes: usize) -> server::Server {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--bare".as_ref(),
        folder.as_os_str(),
        "--bytes".as_ref(),
        bytes.to_string().as_ref(),
    ]);
    server::Server::start(command, |line| line.trim().parse().unwrap())
}

#[expect(clippy::cast_precision_loss, reason = "a size to be read, not counted")]
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
