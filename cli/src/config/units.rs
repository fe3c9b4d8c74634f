//! Parsers of sizes and durations: `40MiB`, `30s`, `90d`.

use std::time::Duration;

/// Size units, in bytes.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// Time units, in milliseconds.
const TIME_UNITS: &[(&str, u64)] = &[
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Expected value of a size key, for error messages.
pub(super) const EXPECTED_SIZE: &str = "a size such as \"40MiB\", or a number of bytes";
/// Expected value of a duration key, for error messages.
pub(super) const EXPECTED_DURATION: &str = "a duration such as \"30s\", \"10m\", \"2h\" or \"7d\"";

/// Parses a size in bytes.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    match text.trim().parse() {
        Ok(bytes) => Some(bytes),
        Err(_) => parse_with_unit(text, SIZE_UNITS),
    }
}

/// Parses a duration. A number without a unit is rejected as ambiguous.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    parse_with_unit(text, TIME_UNITS).map(Duration::from_millis)
}

fn parse_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().ok()?;
    let unit = unit.trim_start();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::{parse_duration, parse_size};
    use std::time::Duration;

    #[test]
    fn sizes_are_parsed() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("40MiB", 40 << 20),
            ("2 GiB", 2 << 30),
            ("25MB", 25_000_000),
            ("7B", 7),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5MiB", "40mib", "1e3", "99999999999GiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_parsed() {
        for (text, seconds) in [("30s", 30), ("10m", 600), ("2h", 7_200), ("90d", 7_776_000)] {
            assert_eq!(
                parse_duration(text),
                Some(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        for text in ["", "30", "s", "-1s", "1.5h", "30 sec", "1w"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
