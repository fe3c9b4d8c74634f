//! Sizes and times as people write them: `40MiB`, `30s`, `90d`.

use std::time::Duration;

/// Units of size, with the bytes of each.
const SIZES: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// Units of time, with the milliseconds of each.
const TIMES: &[(&str, u64)] = &[
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// What a size looks like, for those who wrote something else.
pub(super) const A_SIZE: &str = "a size such as \"40MiB\", or a number of bytes";
/// What a time looks like, for those who wrote something else.
pub(super) const A_TIME: &str = "a time such as \"30s\", \"10m\", \"2h\" or \"7d\"";

/// Reads a size in bytes.
pub(super) fn size(text: &str) -> Option<u64> {
    match text.trim().parse() {
        Ok(bytes) => Some(bytes),
        Err(_) => with_unit(text, SIZES),
    }
}

/// Reads a time. A bare number is refused: nobody could know of what.
pub(super) fn time(text: &str) -> Option<Duration> {
    with_unit(text, TIMES).map(Duration::from_millis)
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
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
    use super::{size, time};
    use std::time::Duration;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("40MiB", 40 << 20),
            ("2 GiB", 2 << 30),
            ("25MB", 25_000_000),
            ("7B", 7),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5MiB", "40mib", "1e3", "99999999999GiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn times() {
        for (text, seconds) in [("30s", 30), ("10m", 600), ("2h", 7_200), ("90d", 7_776_000)] {
            assert_eq!(time(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(time("250ms"), Some(Duration::from_millis(250)));
        for text in ["", "30", "s", "-1s", "1.5h", "30 sec", "1w"] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
