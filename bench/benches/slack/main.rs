//! The Verification Zone between Slack and the Execution Zone: acknowledgement latency, time to first text, and
//! exactly-once answers.
//!
//! `cargo bench -p interzone-bench --bench slack [-- --quick] [--long] [--check-bars] [--only PART] [--binary PATH]`
//!
//! `PART` is `ack`, `first` or `once`. `--long` makes `once` last ten minutes, as its threshold requires. `PATH` is a
//! prebuilt `interzone`; without it the release profile is built. Both zones are processes of their own, with TLS and
//! SQLite on this disk; Slack is the playground, in this process, without rate limits. All of them share the cores,
//! on loopback.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::unwrap_used, reason = "a failed benchmark has no result")]

mod ack;
mod event;
mod exactly_once;
mod fixture;
mod sender;
mod time_to_first_text;

use fixture::SlackFixture;
use interzone_bench::thresholds::missed;
use interzone_bench::{server, tls};
use std::path::PathBuf;
use std::time::Duration;

/// Amount of work.
#[derive(Clone, Copy)]
pub(crate) struct SlackBenchSize {
    /// Duration of the acknowledgement benchmark.
    pub(crate) ack: Duration,
    /// Number of questions per variant for the time to first text.
    pub(crate) questions: usize,
    /// Duration of the exactly-once benchmark.
    pub(crate) once: Duration,
}

const FULL: SlackBenchSize = SlackBenchSize {
    ack: Duration::from_secs(10),
    questions: 200,
    once: Duration::from_secs(60),
};
const QUICK: SlackBenchSize = SlackBenchSize {
    ack: Duration::from_secs(2),
    questions: 40,
    once: Duration::from_secs(5),
};
const LONG_DURATION: Duration = Duration::from_secs(600);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .unwrap();
    let mut size = if flag("--quick") { QUICK } else { FULL };
    if flag("--long") {
        size.once = LONG_DURATION;
    }
    let binary = argument("--binary").map_or_else(server::binary, PathBuf::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(size, argument("--only").as_deref(), binary));
    let missed = missed();
    if flag("--check-bars") && !missed.is_empty() {
        println!("missed: {}", missed.join(", "));
        std::process::exit(1);
    }
}

async fn run(size: SlackBenchSize, only: Option<&str>, binary: PathBuf) {
    let folder = tempfile::tempdir_in(".").unwrap();
    tls::write_certificate(folder.path());
    let is_selected = |part: &str| only.is_none_or(|only| only == part);
    // Each part has its own zones and workspace.
    if is_selected("first") {
        time_to_first_text::measure(
            &SlackFixture::start(folder.path(), &binary).await,
            size.questions,
        )
        .await;
    }
    if is_selected("ack") {
        ack::measure(&SlackFixture::start(folder.path(), &binary).await, size.ack).await;
    }
    if is_selected("once") {
        exactly_once::measure(
            &SlackFixture::start(folder.path(), &binary).await,
            size.once,
        )
        .await;
    }
}

/// A time in milliseconds.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A count as a float, for ratios.
#[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
pub(crate) fn to_f64(count: usize) -> f64 {
    count as f64
}
