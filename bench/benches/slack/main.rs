//! The Verification Zone between Slack and the Execution Zone: how soon it acknowledges, how soon a text
//! stands in the thread, and whether every question is answered exactly once.
//!
//! `cargo bench -p interzone-bench --bench slack [-- --quick] [--long] [--check-bars] [--only PART] [--binary PATH]`
//!
//! `PART` is `ack`, `first` or `once`. `--long` makes `once` last the ten minutes of its bar. `PATH` is an
//! `interzone` that was built before; without it the release profile is built. Both zones are processes of
//! their own, with TLS and SQLite on this disk; Slack is the playground, in this process, with its limits
//! off. All of them share the cores, and everything stays on loopback.

#![expect(clippy::print_stdout, reason = "a measurement prints its table")]
#![expect(
    clippy::unwrap_used,
    reason = "a measurement that fails has nothing to say"
)]

mod ack;
mod event;
mod first;
mod once;
mod place;
mod sender;

use interzone_bench::bars::missed;
use interzone_bench::{server, tls};
use place::Place;
use std::path::PathBuf;
use std::time::Duration;

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// How long events come at the rate of acknowledgement.
    pub(crate) ack: Duration,
    /// How many questions are asked for their first text, in each way.
    pub(crate) questions: usize,
    /// How long questions come that must be answered once.
    pub(crate) once: Duration,
}

const WHOLE: Size = Size {
    ack: Duration::from_secs(10),
    questions: 200,
    once: Duration::from_secs(60),
};
const QUICK: Size = Size {
    ack: Duration::from_secs(2),
    questions: 40,
    once: Duration::from_secs(5),
};
const LONG: Duration = Duration::from_secs(600);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .unwrap();
    let mut size = if flag("--quick") { QUICK } else { WHOLE };
    if flag("--long") {
        size.once = LONG;
    }
    let binary = named("--binary").map_or_else(server::binary, PathBuf::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(size, named("--only").as_deref(), binary));
    let missed = missed();
    if flag("--check-bars") && !missed.is_empty() {
        println!("missed: {}", missed.join(", "));
        std::process::exit(1);
    }
}

async fn run(size: Size, only: Option<&str>, binary: PathBuf) {
    let folder = tempfile::tempdir_in(".").unwrap();
    tls::make(folder.path());
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    // Each part has zones and a workspace of its own, so that none finds what another has left.
    if wanted("first") {
        first::measure(&Place::start(folder.path(), &binary).await, size.questions).await;
    }
    if wanted("ack") {
        ack::measure(&Place::start(folder.path(), &binary).await, size.ack).await;
    }
    if wanted("once") {
        once::measure(&Place::start(folder.path(), &binary).await, size.once).await;
    }
}

/// A time to be read, in milliseconds.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A count to be put into a ratio.
#[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
pub(crate) fn share(count: usize) -> f64 {
    count as f64
}
