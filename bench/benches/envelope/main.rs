//! Cost of parsing a message, classifying it and writing the response.
//!
//! `cargo bench -p interzone-bench --bench envelope` prints one table; `-- --check-bars` makes a
//! missed threshold an error. The results are explained in `docs/performance.md`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(
    clippy::print_stderr,
    reason = "a warning must not end up in the table"
)]

mod cases;
mod contenders;

use cases::{CASES, EnvelopeCase};
use contenders::{CONTENDERS, EnvelopeContender, REFERENCE, SUBJECT};
use interzone_bench::table::{Table, format_thousands};
use interzone_bench::{callgrind, clock};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, io};

/// Hidden first argument with which this program runs itself under valgrind.
const COUNT_ARG: &str = "--count";

/// Timing rounds; odd, so that one of them is the median.
const ROUNDS: usize = 41;

type BenchError = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, BenchError> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let [COUNT_ARG, contender, case, rounds] = *args {
        repeat(contender, case, rounds.parse()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    contenders::check_agreement()?;
    // `cargo bench` passes `--bench`; a test run over all targets does not, and must be short.
    if !args.contains(&"--bench") {
        println!("all contenders give the same responses; measure with `cargo bench`");
        return Ok(ExitCode::SUCCESS);
    }
    let is_met = measure()?;
    let failed = args.contains(&"--check-bars") && !is_met;
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Runs one contender and case repeatedly, under valgrind.
fn repeat(contender_name: &str, case_name: &str, rounds: u32) -> Result<(), BenchError> {
    let unknown = || io::Error::other("no such contender or case");
    let contender = CONTENDERS
        .iter()
        .find(|contender| contender.name == contender_name)
        .ok_or_else(unknown)?;
    let case = CASES
        .iter()
        .find(|case| case.name == case_name)
        .ok_or_else(unknown)?;
    let message = (case.message)();
    for _ in 0..rounds {
        serve_once(contender, &message);
    }
    Ok(())
}

fn serve_once(contender: &EnvelopeContender, message: &str) {
    black_box((contender.serve)(black_box(message.as_bytes())));
}

struct EnvelopeMeasurement {
    instructions: Option<u64>,
    time: Duration,
}

/// Prints the table and the thresholds; returns true if all are met.
fn measure() -> Result<bool, BenchError> {
    let can_count = callgrind::is_available();
    if !can_count {
        eprintln!(
            "\n*** VALGRIND IS NOT INSTALLED: instruction counts are skipped, no threshold is checked. ***\n"
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
    let mut ratios = Vec::new();
    for case in &CASES {
        let message = (case.message)();
        let label = format!(
            "{} ({} B)",
            case.name,
            format_thousands(message.len() as u64)
        );
        let measured = measure_case(case, &message, can_count)?;
        let Some(reference) = find_measurement(&measured, REFERENCE) else {
            return Err(io::Error::other("the reference was not measured").into());
        };
        for (contender, measurement) in CONTENDERS.iter().zip(&measured) {
            table.push([
                label.clone(),
                contender.name.to_owned(),
                measurement
                    .instructions
                    .map_or_else(|| "–".to_owned(), format_thousands),
                instruction_ratio(measurement, reference)
                    .map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
                format!("{:.2}", measurement.time.as_secs_f64() * 1e6),
                format!(
                    "{:.2}",
                    measurement.time.as_secs_f64() / reference.time.as_secs_f64()
                ),
            ]);
        }
        let ratio = find_measurement(&measured, SUBJECT)
            .and_then(|ours| instruction_ratio(ours, reference));
        ratios.push((case, ratio));
    }
    println!("{table}");
    println!("Thresholds: instructions of {SUBJECT} relative to {REFERENCE}.");
    for (case, ratio) in &ratios {
        let verdict = match ratio {
            None => "not checked".to_owned(),
            Some(ratio) if *ratio <= case.max_ratio => format!("{ratio:.3}  met"),
            Some(ratio) => format!("{ratio:.3}  MISSED"),
        };
        println!(
            "  {:<18} at most {:.2}: {verdict}",
            case.name, case.max_ratio
        );
    }
    // An unchecked threshold counts as missed: a check that checked nothing must not pass.
    Ok(ratios
        .iter()
        .all(|(case, ratio)| ratio.is_some_and(|ratio| ratio <= case.max_ratio)))
}

fn measure_case(
    case: &EnvelopeCase,
    message: &str,
    can_count: bool,
) -> Result<Vec<EnvelopeMeasurement>, BenchError> {
    let mut calls: Vec<_> = CONTENDERS
        .iter()
        .map(|contender| move || serve_once(contender, message))
        .collect();
    let mut turns: Vec<&mut dyn FnMut()> = Vec::new();
    for call in &mut calls {
        turns.push(call);
    }
    let times = clock::medians(&mut turns, ROUNDS);
    let mut measured = Vec::new();
    for (contender, time) in CONTENDERS.iter().zip(times) {
        let instructions = if can_count {
            let args = [COUNT_ARG, contender.name, case.name];
            Some(callgrind::instructions_per_round(&args, case.rounds)?)
        } else {
            None
        };
        measured.push(EnvelopeMeasurement { instructions, time });
    }
    Ok(measured)
}

/// The measurement of the contender with this name.
fn find_measurement<'a>(
    measured: &'a [EnvelopeMeasurement],
    name: &str,
) -> Option<&'a EnvelopeMeasurement> {
    let index = CONTENDERS
        .iter()
        .position(|contender| contender.name == name)?;
    measured.get(index)
}

fn instruction_ratio(
    subject: &EnvelopeMeasurement,
    reference: &EnvelopeMeasurement,
) -> Option<f64> {
    Some(subject.instructions? as f64 / reference.instructions? as f64)
}
