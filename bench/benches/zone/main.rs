//! The Execution Zone compared with a bare TLS server and with a peer, in one run.
//!
//! `cargo bench -p interzone-bench --bench zone [-- --peer PYTHON] [--quick] [--check-bars] [--only PART] [--connections N] [--rounds N] [--binary PATH] [--against PATH]`
//!
//! `PART` is `tasks.get`, `tasks.create`, `execute_task`, `streams`, `file`, `delta`, `availability` or `rest`.
//! `--binary` takes a prebuilt `interzone`, `--against` another build that is measured in turns with it,
//! `--connections` measures calls at 32 or 256 connections only, `--rounds` sets the number of rounds. `--log FILTER`
//! sets the zone's log filter. `PYTHON` is an interpreter with `acp-sdk-python` and `uvicorn`.
//!
//! Every contender is a process of its own, behind TLS, on loopback; the load runs on the same cores. Contenders run
//! in turns, and results are medians of the rounds.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::unwrap_used, reason = "a failed benchmark has no result")]

mod after_housekeeping;
mod attacks;
mod availability;
mod bare;
mod calls;
mod file;
mod http2;
mod idle_streams;
mod load;
mod streaming_latency;
mod zone_process;

use interzone_bench::thresholds::{check_threshold, missed};
use interzone_bench::{server, tls};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Amount of work.
#[derive(Clone, Copy)]
pub(crate) struct ZoneBenchSize {
    /// Duration of a contender's load in one round.
    pub(crate) time: Duration,
    /// Number of rounds.
    pub(crate) rounds: usize,
    /// Number of open streams.
    pub(crate) streams: usize,
}

const FULL: ZoneBenchSize = ZoneBenchSize {
    time: Duration::from_secs(3),
    rounds: 5,
    streams: 9_900,
};
const QUICK: ZoneBenchSize = ZoneBenchSize {
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
        runtime.block_on(bare::serve(
            tls::server_config(Path::new(&folder)),
            answer.into(),
        ));
        return;
    }
    let mut size = if flag("--quick") { QUICK } else { FULL };
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

async fn run(size: ZoneBenchSize, only: Option<&str>, peer: Option<String>) {
    let folder = tempfile::tempdir_in(".").unwrap();
    tls::write_certificate(folder.path());
    let zone = zone_process::start(folder.path()).await;
    println!("# idle");
    println!(
        "{:>10.0} ms from start to the first line",
        zone.startup_time.as_secs_f64() * 1e3
    );
    let mebibytes = mebibytes(zone.server.resident_bytes());
    println!("{mebibytes:>10.1} MiB resident");
    check_threshold(
        "ready, ms",
        zone.startup_time.as_secs_f64() * 1e3,
        true,
        200.0,
    );
    check_threshold("resident when idle, MiB", mebibytes, true, 30.0);
    if !matches!(
        only,
        Some("streams" | "file" | "delta" | "availability" | "rest")
    ) {
        calls::measure(folder.path(), &zone, size, only, peer.as_deref()).await;
    }
    drop(zone);
    if only.is_none_or(|only| only == "streams") {
        idle_streams::measure(folder.path(), size).await;
    }
    if only.is_none_or(|only| only == "file") {
        file::measure(folder.path()).await;
    }
    if only.is_none_or(|only| only == "delta") {
        streaming_latency::measure(folder.path(), size).await;
    }
    if only.is_none_or(|only| only == "availability") {
        availability::measure(folder.path(), size.time * 5).await;
    }
    if only.is_none_or(|only| only == "rest") {
        after_housekeeping::measure(folder.path(), size).await;
    }
}

/// The `[log]` section of the configuration, if `--log` is given.
pub(crate) fn log_section() -> String {
    argument("--log").map_or(String::new(), |filter| {
        format!("[log]\nfilter = \"{filter}\"\n")
    })
}

/// The measured binary: `--binary`, or the release profile's.
pub(crate) fn binary() -> PathBuf {
    argument("--binary").map_or_else(server::binary, PathBuf::from)
}

/// Value of a command-line argument.
fn argument(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

/// Starts the bare server with responses of this size.
pub(crate) fn start_bare(folder: &Path, bytes: usize) -> server::Server {
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
