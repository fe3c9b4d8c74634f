//! Thresholds of measured values, and which of them were missed.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::sync::{Mutex, PoisonError};

/// Names of the missed thresholds.
static MISSED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Checks a value against its threshold and prints the result.
pub fn check_threshold(name: &str, value: f64, is_upper_bound: bool, limit: f64) {
    let is_met = if is_upper_bound {
        value <= limit
    } else {
        value >= limit
    };
    let (verdict, sign) = (
        if is_met { "met" } else { "MISSED" },
        if is_upper_bound {
            "at most"
        } else {
            "at least"
        },
    );
    println!("  threshold {verdict}: {name} is {value:.3}, {sign} {limit}");
    if !is_met {
        let mut missed = MISSED.lock().unwrap_or_else(PoisonError::into_inner);
        missed.push(name.to_owned());
    }
}

/// The names of the thresholds missed so far.
pub fn missed() -> Vec<String> {
    let missed = MISSED.lock().unwrap_or_else(PoisonError::into_inner);
    missed.clone()
}

/// The median.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The value that this percentage of the sorted values exceeds.
pub fn exceeded_by<T: Copy>(values: &[T], percent: usize) -> Option<T> {
    values.get(values.len() * (100 - percent) / 100).copied()
}
