//! Declaration of the options that a configuration sets: how components read sizes, durations and counts.
//!
//! An options struct derives `Deserialize` with `#[serde(default, deny_unknown_fields)]`, and its `Default` is the
//! only place of the default values. A field of type [`Duration`] is read with its unit by the configuration reader;
//! sizes and counts name a function of this crate in `#[serde(deserialize_with)]`.

use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// Expected value of a size, for error messages.
pub const EXPECTED_SIZE: &str = "a size such as \"40MiB\", or a number of bytes";
/// Expected value of a duration, for error messages.
pub const EXPECTED_DURATION: &str = "a duration such as \"30s\", \"10m\", \"2h\" or \"7d\"";

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

/// Parses a size in bytes.
pub fn parse_size(text: &str) -> Option<u64> {
    match text.trim().parse() {
        Ok(bytes) => Some(bytes),
        Err(_) => parse_with_unit(text, SIZE_UNITS),
    }
}

/// Parses a duration. A number without a unit is rejected as ambiguous.
pub fn parse_duration(text: &str) -> Option<Duration> {
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

/// Deserializes a size in bytes, which must not be zero: `"40MiB"`, or a number.
///
/// # Errors
/// The value is not a size, or is too large for `T`.
pub fn size<'de, D: Deserializer<'de>, T: TryFrom<u64>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(SizeVisitor(PhantomData))
}

struct SizeVisitor<T>(PhantomData<T>);

impl<T: TryFrom<u64>> Visitor<'_> for SizeVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED_SIZE)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        let size = parse_size(text).filter(|size| *size > 0);
        size.and_then(|size| size.try_into().ok())
            .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: Error>(self, size: u64) -> Result<T, E> {
        let checked = Some(size).filter(|size| *size > 0);
        checked
            .and_then(|size| size.try_into().ok())
            .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(size), &self))
    }

    fn visit_i64<E: Error>(self, size: i64) -> Result<T, E> {
        match u64::try_from(size) {
            Ok(size) => self.visit_u64(size),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(size), &self)),
        }
    }
}

/// Deserializes a count of at least 1.
///
/// # Errors
/// The value is not such a number.
pub fn positive<'de, D: Deserializer<'de>, T: TryFrom<u32>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_u32(PositiveVisitor(PhantomData))
}

struct PositiveVisitor<T>(PhantomData<T>);

impl<T: TryFrom<u32>> Visitor<'_> for PositiveVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number between 1 and {}", u32::MAX)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        let checked = u32::try_from(number).ok().filter(|number| *number > 0);
        checked
            .and_then(|number| number.try_into().ok())
            .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_duration, parse_size, positive, size};
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, I64Deserializer, StrDeserializer};
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

    #[test]
    fn zero_negative_and_too_large_numbers_are_rejected() {
        let number = |number: i64| -> I64Deserializer<Error> { number.into_deserializer() };
        let text = |text: &'static str| -> StrDeserializer<'_, Error> { text.into_deserializer() };
        assert_eq!(size(text("2KiB")), Ok(2048_usize));
        assert_eq!(size(number(7)), Ok(7_u64));
        assert_eq!(positive(number(7)), Ok(7_usize));
        for wrong in [0, -1] {
            assert!(size::<_, u64>(number(wrong)).is_err(), "{wrong}");
            assert!(positive::<_, u64>(number(wrong)).is_err(), "{wrong}");
        }
        assert!(size::<_, u8>(number(256)).is_err());
        let error = positive::<_, u64>(number(1 << 32)).unwrap_err().to_string();
        assert!(
            error.contains("a number between 1 and 4294967295"),
            "{error}"
        );
    }
}
