//! Bars: what a figure has to keep, and which of them did not.

#![expect(clippy::print_stdout, reason = "a measurement prints its bars")]

use std::sync::{Mutex, PoisonError};

/// Bars that were missed.
static MISSED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Says whether a figure keeps its bar.
pub fn bar(name: &str, value: f64, most: bool, limit: f64) {
    let kept = if most { value <= limit } else { value >= limit };
    let (word, sign) = (
        if kept { "kept" } else { "MISSED" },
        if most { "at most" } else { "at least" },
    );
    println!("  bar {word}: {name} is {value:.3}, {sign} {limit}");
    if !kept {
        let mut missed = MISSED.lock().unwrap_or_else(PoisonError::into_inner);
        missed.push(name.to_owned());
    }
}

/// The names of the bars that were missed so far.
pub fn missed() -> Vec<String> {
    let missed = MISSED.lock().unwrap_or_else(PoisonError::into_inner);
    missed.clone()
}

/// The one in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The one that so many in a hundred exceed; `values` are in order.
pub fn exceeded_by<T: Copy>(values: &[T], percent: usize) -> Option<T> {
    values.get(values.len() * (100 - percent) / 100).copied()
}
