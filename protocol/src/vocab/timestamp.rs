//! Timestamps: milliseconds of UTC, written as RFC 3339. Nothing here reads the clock.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A time in UTC with millisecond precision.
///
/// Parsed from RFC 3339 with any offset; a time without an offset is refused, because it is ambiguous.
/// Fractions beyond the millisecond are truncated. A leap second counts as the last millisecond
/// before it ends.
///
/// ```
/// use interzone_protocol::vocab::{InvalidTimestamp, Timestamp};
///
/// let time: Timestamp = "2024-01-15T12:30:00+02:00".parse()?;
/// assert_eq!(time.to_string(), "2024-01-15T10:30:00.000Z");
/// assert!("2024-01-15T12:30:00".parse::<Timestamp>().is_err());
/// # Ok::<(), InvalidTimestamp>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// 0000-01-01T00:00:00.000Z: earlier years do not have four digits.
const MIN_MILLIS: i64 = -62_167_219_200_000;
/// 9999-12-31T23:59:59.999Z: later years do not have four digits.
const MAX_MILLIS: i64 = 253_402_300_799_999;

const MILLIS_PER_DAY: i64 = 86_400_000;
/// Length of the formatted text in bytes.
const TEXT_LENGTH: usize = 24;

impl Timestamp {
    /// Creates a timestamp from Unix milliseconds; times outside the years 0 to 9999 are clamped.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(MIN_MILLIS, MAX_MILLIS))
    }

    /// Unix milliseconds.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the time `duration` later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(millis(duration)))
    }

    /// Returns the time `duration` earlier.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self::from_millis(self.0.saturating_sub(millis(duration)))
    }

    /// Returns the duration from `earlier` to this time; zero if `earlier` is later.
    pub fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Timestamp {
    /// Formats as RFC 3339 by hand: nearly every message has a timestamp, and `format!` takes ten times
    /// as long.
    fn format_rfc3339(self) -> [u8; TEXT_LENGTH] {
        let (year, month, day) = date_from_days(self.0.div_euclid(MILLIS_PER_DAY));
        // Always fits: a day has 86,400,000 milliseconds.
        let millis = u32::try_from(self.0.rem_euclid(MILLIS_PER_DAY)).unwrap_or(0);
        let (seconds, milli) = (millis / 1_000, millis % 1_000);
        let (minutes, second) = (seconds / 60, seconds % 60);
        let (hour, minute) = (minutes / 60, minutes % 60);
        let ([c1, c2], [y1, y2]) = (two_digits(year / 100), two_digits(year));
        let ([m1, m2], [d1, d2]) = (two_digits(month), two_digits(day));
        let ([h1, h2], [n1, n2], [s1, s2]) =
            (two_digits(hour), two_digits(minute), two_digits(second));
        let ([f1, f2], f3) = (two_digits(milli / 10), digit(milli));
        [
            c1, c2, y1, y2, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2,
            b'.', f1, f2, f3, b'Z',
        ]
    }
}

/// The last two digits of a number in ASCII.
fn two_digits(number: u32) -> [u8; 2] {
    [digit(number / 10), digit(number)]
}

/// The last digit of a number in ASCII.
fn digit(number: u32) -> u8 {
    b'0' + u8::try_from(number % 10).unwrap_or(0)
}

/// Converts a formatted timestamp to text; always ASCII, so the default is never used.
fn formatted_as_str(formatted: &[u8; TEXT_LENGTH]) -> &str {
    std::str::from_utf8(formatted).unwrap_or_default()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years start in March, so that the leap day
/// comes last and one formula gives the lengths of the months.
fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date this many days after 1970-01-01, the inverse of [`days_from_date`]. Counts from 400 years
/// before the year 0, so that all numbers are small and none is negative.
fn date_from_days(days: i64) -> (u32, u32, u32) {
    // Always fits: timestamps are within the years 0 to 9999.
    let days = u32::try_from(days + 719_468 + 146_097).unwrap_or(0);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u32::from(month <= 2);
    (year.saturating_sub(400), month, day)
}

const fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(formatted_as_str(&self.format_rfc3339()))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reason why a string is not a timestamp. The error never repeats the string.
///
/// ```
/// use interzone_protocol::vocab::{InvalidTimestamp, Timestamp};
///
/// let error = |text: &str| text.parse::<Timestamp>().err();
/// assert_eq!(error("15 January"), Some(InvalidTimestamp::Format));
/// assert_eq!(error("2024-01-15T10:30:00"), Some(InvalidTimestamp::NoOffset));
/// assert_eq!(error("2024-02-30T10:30:00Z"), Some(InvalidTimestamp::OutOfRange));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTimestamp {
    /// Not RFC 3339.
    #[error("not an RFC 3339 timestamp; write it like 2024-01-15T10:30:00Z")]
    Format,
    /// It has no offset from UTC.
    #[error("this time has no offset; add Z for UTC, or one like +09:00")]
    NoOffset,
    /// No such date or time of day.
    #[error("there is no such date or time")]
    OutOfRange,
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let mut parser = TimestampParser(text.as_bytes());
        let year = parser.digits(4)?;
        parser.one_of(b"-")?;
        let month = parser.digits(2)?;
        parser.one_of(b"-")?;
        let day = parser.digits(2)?;
        parser.one_of(b"Tt ")?;
        let hour = parser.digits(2)?;
        parser.one_of(b":")?;
        let minute = parser.digits(2)?;
        parser.one_of(b":")?;
        let second = parser.digits(2)?;
        let milli = parser.fraction()?;
        let offset = parser.offset_minutes()?;
        let exists = (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour <= 23
            && minute <= 59
            && second <= 60;
        if !exists {
            return Err(InvalidTimestamp::OutOfRange);
        }
        let (second, milli) = if second == 60 {
            (59, 999)
        } else {
            (second, milli)
        };
        let minutes = days_from_date(year, month, day) * 1_440 + hour * 60 + minute - offset;
        let millis = minutes * 60_000 + second * 1_000 + milli;
        if (MIN_MILLIS..=MAX_MILLIS).contains(&millis) {
            Ok(Self(millis))
        } else {
            Err(InvalidTimestamp::OutOfRange)
        }
    }
}

/// Parser over the remaining bytes.
struct TimestampParser<'a>(&'a [u8]);

impl TimestampParser<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, remaining) = self.0.split_first()?;
        self.0 = remaining;
        Some(*first)
    }

    fn one_of(&mut self, allowed: &[u8]) -> Result<u8, InvalidTimestamp> {
        self.next()
            .filter(|byte| allowed.contains(byte))
            .ok_or(InvalidTimestamp::Format)
    }

    fn digit(&mut self) -> Option<i64> {
        let digit = self
            .0
            .first()
            .filter(|byte| byte.is_ascii_digit())
            .copied()?;
        self.next();
        Some(i64::from(digit - b'0'))
    }

    fn digits(&mut self, count: u32) -> Result<i64, InvalidTimestamp> {
        (0..count).try_fold(0, |number, _| {
            let digit = self.digit().ok_or(InvalidTimestamp::Format)?;
            Ok(number * 10 + digit)
        })
    }

    /// Reads an optional fraction of any length and returns its milliseconds.
    fn fraction(&mut self) -> Result<i64, InvalidTimestamp> {
        if self.0.first() != Some(&b'.') {
            return Ok(0);
        }
        self.next();
        let mut millis = self.digit().ok_or(InvalidTimestamp::Format)? * 100;
        for weight in [10, 1] {
            millis += self.digit().unwrap_or(0) * weight;
        }
        while self.digit().is_some() {}
        Ok(millis)
    }

    fn offset_minutes(&mut self) -> Result<i64, InvalidTimestamp> {
        let sign = match self.next() {
            None => return Err(InvalidTimestamp::NoOffset),
            Some(b'Z' | b'z') => 0,
            Some(b'+') => 1,
            Some(b'-') => -1,
            Some(_) => return Err(InvalidTimestamp::Format),
        };
        let mut minutes = 0;
        if sign != 0 {
            let hours = self.digits(2)?;
            self.one_of(b":")?;
            let offset_minutes = self.digits(2)?;
            if hours > 23 || offset_minutes > 59 {
                return Err(InvalidTimestamp::OutOfRange);
            }
            minutes = sign * (hours * 60 + offset_minutes);
        }
        if self.0.is_empty() {
            Ok(minutes)
        } else {
            Err(InvalidTimestamp::Format)
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(formatted_as_str(&self.format_rfc3339()))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
