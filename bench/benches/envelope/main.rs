//! What it costs to take a message in, find out what it is, and answer it.
//!
//! `cargo bench -p interzone-bench --bench envelope` prints one table; `-- --check-bars` makes a
//! missed bar an error. What the numbers mean stands in `docs/performance.md`.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]
#![expect(
    clippy::print_stderr,
    reason = "a warning must not end up in the table"
)]

mod cases;
mod contenders;

use cases::{CASES, Case};
use contenders::{CONTENDERS, Contender, REFERENCE, SUBJECT};
use interzone_bench::table::{Table, grouped};
use interzone_bench::{callgrind, clock};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, io};

/// The hidden first argument with which this program runs itself under valgrind.
const COUNT: &str = "--count";

/// Rounds on the clock; odd, so that one of them is the median.
const ROUNDS: usize = 41;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let [COUNT, contender, case, rounds] = *args {
        repeat(contender, case, rounds.parse()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    contenders::agree()?;
    // `cargo bench` says `--bench`; a test run over all targets does not, and must not take long.
    if !args.contains(&"--bench") {
        println!("all contenders give the same answers; measure with `cargo bench`");
        return Ok(ExitCode::SUCCESS);
    }
    let bars_met = measure()?;
    let failed = args.contains(&"--check-bars") && !bars_met;
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// What runs under valgrind: one contender, one case, so many times.
fn repeat(contender: &str, case: &str, rounds: u32) -> Result<(), Failure> {
    let unknown = || io::Error::other("no such contender or case");
    let contender = CONTENDERS
        .iter()
        .find(|known| known.name == contender)
        .ok_or_else(unknown)?;
    let case = CASES
        .iter()
        .find(|known| known.name == case)
        .ok_or_else(unknown)?;
    let message = (case.message)();
    for _ in 0..rounds {
        once(contender, &message);
    }
    Ok(())
}

fn once(contender: &Contender, message: &str) {
    black_box((contender.serve)(black_box(message.as_bytes())));
}

struct Measured {
    instructions: Option<u64>,
    time: Duration,
}

/// Prints the table and the bars; tells whether every bar is met.
fn measure() -> Result<bool, Failure> {
    let counted = callgrind::is_available();
    if !counted {
        eprintln!(
            "\n*** VALGRIND IS NOT INSTALLED: instruction counts are skipped, no bar is judged. ***\n"
        );
    }
    let mut table = Table::new([
        "case",
        "contender",
        "instructions",
        "ratio",
        "time µs",
        "ratio",
    ]);
    let mut bars = Vec::new();
    for case in &CASES {
        let message = (case.message)();
        let label = format!("{} ({} B)", case.name, grouped(message.len() as u64));
        let measured = measure_case(case, &message, counted)?;
        let Some(reference) = at(&measured, REFERENCE) else {
            return Err(io::Error::other("the reference was not measured").into());
        };
        for (contender, measure) in CONTENDERS.iter().zip(&measured) {
            table.push([
                label.clone(),
                contender.name.to_owned(),
                measure.instructions.map_or_else(|| "–".to_owned(), grouped),
                instruction_ratio(measure, reference)
                    .map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
                format!("{:.2}", measure.time.as_secs_f64() * 1e6),
                format!(
                    "{:.2}",
                    measure.time.as_secs_f64() / reference.time.as_secs_f64()
                ),
            ]);
        }
        let ratio = at(&measured, SUBJECT).and_then(|ours| instruction_ratio(ours, reference));
        bars.push((case, ratio));
    }
    println!("{table}");
    println!("Bars: instructions of {SUBJECT} as a share of {REFERENCE}'s.");
    for (case, ratio) in &bars {
        let verdict = match ratio {
            None => "not judged".to_owned(),
            Some(ratio) if *ratio <= case.bar => format!("{ratio:.3}  met"),
            Some(ratio) => format!("{ratio:.3}  MISSED"),
        };
        println!("  {:<18} at most {:.2}: {verdict}", case.name, case.bar);
    }
    // A bar that was not judged counts as missed: a check that checked nothing must not pass.
    Ok(bars
        .iter()
        .all(|(case, ratio)| ratio.is_some_and(|ratio| ratio <= case.bar)))
}

fn measure_case(case: &Case, message: &str, counted: bool) -> Result<Vec<Measured>, Failure> {
    let mut calls: Vec<_> = CONTENDERS
        .iter()
        .map(|contender| move || once(contender, message))
        .collect();
    let mut turns: Vec<&mut dyn FnMut()> = Vec::new();
    for call in &mut calls {
        turns.push(call);
    }
    let times = clock::medians(&mut turns, ROUNDS);
    let mut measured = Vec::new();
    for (contender, time) in CONTENDERS.iter().zip(times) {
        let instructions = if counted {
            let args = [COUNT, contender.name, case.name];
            Some(callgrind::instructions_per_round(&args, case.rounds)?)
        } else {
            None
        };
        measured.push(Measured { instructions, time });
    }
    Ok(measured)
}

/// What was measured of the contender of that name.
fn at<'a>(measured: &'a [Measured], name: &str) -> Option<&'a Measured> {
    let index = CONTENDERS.iter().position(|known| known.name == name)?;
    measured.get(index)
}

fn instruction_ratio(of: &Measured, to: &Measured) -> Option<f64> {
    Some(of.instructions? as f64 / to.instructions? as f64)
}
