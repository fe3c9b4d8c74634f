//! Moments: milliseconds of UTC, written as RFC 3339.
//!
//! Nothing here reads a clock: what time it is comes from outside.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A moment in UTC, to the millisecond.
///
/// It is read from RFC 3339 with any offset; a time without an offset is refused, because it means
/// a different moment to each reader. Fractions beyond the millisecond are cut off. A leap second
/// counts as the last millisecond before it ends.
///
/// ```
/// use interzone_protocol::vocab::{InvalidTimestamp, Timestamp};
///
/// let moment: Timestamp = "2024-01-15T12:30:00+02:00".parse()?;
/// assert_eq!(moment.to_string(), "2024-01-15T10:30:00.000Z");
/// assert!("2024-01-15T12:30:00".parse::<Timestamp>().is_err());
/// # Ok::<(), InvalidTimestamp>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// 0000-01-01T00:00:00.000Z, before which a year has no four digits.
const FIRST: i64 = -62_167_219_200_000;
/// 9999-12-31T23:59:59.999Z, after which it has five.
const LAST: i64 = 253_402_300_799_999;

const MILLIS_A_DAY: i64 = 86_400_000;
/// How long it is when written.
const LENGTH: usize = 24;

impl Timestamp {
    /// The moment this many milliseconds after the beginning of 1970 in UTC, or before it. Moments
    /// that four-digit years cannot name become the nearest that they can.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(FIRST, LAST))
    }

    /// Milliseconds since the beginning of 1970 in UTC.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The moment this much later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(millis(wait)))
    }

    /// The moment this much earlier.
    #[must_use]
    pub fn before(self, wait: Duration) -> Self {
        Self::from_millis(self.0.saturating_sub(millis(wait)))
    }

    /// How long it is from `earlier` to this moment; nothing if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Timestamp {
    /// Writes itself by hand, for there is one in nearly everything that is written: the machinery
    /// for formatting takes ten times as long.
    fn spell(self) -> [u8; LENGTH] {
        let (year, month, day) = date_from_days(self.0.div_euclid(MILLIS_A_DAY));
        // A day has fewer than fit, so this never falls back.
        let millis = u32::try_from(self.0.rem_euclid(MILLIS_A_DAY)).unwrap_or(0);
        let (seconds, milli) = (millis / 1_000, millis % 1_000);
        let (minutes, second) = (seconds / 60, seconds % 60);
        let (hour, minute) = (minutes / 60, minutes % 60);
        let ([c1, c2], [y1, y2]) = (two(year / 100), two(year));
        let ([m1, m2], [d1, d2]) = (two(month), two(day));
        let ([h1, h2], [n1, n2], [s1, s2]) = (two(hour), two(minute), two(second));
        let ([f1, f2], f3) = (two(milli / 10), digit(milli));
        [
            c1, c2, y1, y2, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2,
            b'.', f1, f2, f3, b'Z',
        ]
    }

    /// Writes it as a JSON string at the end of `out`, as serde would.
    pub(crate) fn write_to(self, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(&self.spell());
        out.push(b'"');
    }
}

/// The last two digits of a number.
fn two(number: u32) -> [u8; 2] {
    [digit(number / 10), digit(number)]
}

/// The last digit of a number.
fn digit(number: u32) -> u8 {
    b'0' + u8::try_from(number % 10).unwrap_or(0)
}

/// A moment that was spelt, as text. It is all digits and signs, so this never falls back.
fn text(spelt: &[u8; LENGTH]) -> &str {
    std::str::from_utf8(spelt).unwrap_or_default()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The days from 1970-01-01 to a date of the Gregorian calendar. The year is counted from March,
/// so that the leap day comes last and months have lengths that one formula gives.
fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date this many days after 1970-01-01: the way back. Counted from 400 years before the year 0, so
/// that no number is negative and all are small.
fn date_from_days(days: i64) -> (u32, u32, u32) {
    // Moments are within the years 0 to 9999, so this never falls back.
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
        f.write_str(text(&self.spell()))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a string names no moment. It never repeats the string.
///
/// ```
/// use interzone_protocol::vocab::{InvalidTimestamp, Timestamp};
///
/// let why = |text: &str| text.parse::<Timestamp>().err();
/// assert_eq!(why("15 January"), Some(InvalidTimestamp::Spelling));
/// assert_eq!(why("2024-01-15T10:30:00"), Some(InvalidTimestamp::NoOffset));
/// assert_eq!(why("2024-02-30T10:30:00Z"), Some(InvalidTimestamp::NoSuchMoment));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTimestamp {
    /// It is not spelt as RFC 3339 has it.
    #[error("this is not a time as RFC 3339 spells it; write it like 2024-01-15T10:30:00Z")]
    Spelling,
    /// It has no offset from UTC.
    #[error("this time has no offset; add Z for UTC, or one like +09:00")]
    NoOffset,
    /// There is no such date or time of day.
    #[error("there is no such date or time")]
    NoSuchMoment,
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let mut rest = Rest(text.as_bytes());
        let year = rest.digits(4)?;
        rest.one_of(b"-")?;
        let month = rest.digits(2)?;
        rest.one_of(b"-")?;
        let day = rest.digits(2)?;
        rest.one_of(b"Tt ")?;
        let hour = rest.digits(2)?;
        rest.one_of(b":")?;
        let minute = rest.digits(2)?;
        rest.one_of(b":")?;
        let second = rest.digits(2)?;
        let milli = rest.fraction()?;
        let offset = rest.offset_minutes()?;
        let exists = (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour <= 23
            && minute <= 59
            && second <= 60;
        if !exists {
            return Err(InvalidTimestamp::NoSuchMoment);
        }
        let (second, milli) = if second == 60 {
            (59, 999)
        } else {
            (second, milli)
        };
        let minutes = days_from_date(year, month, day) * 1_440 + hour * 60 + minute - offset;
        let millis = minutes * 60_000 + second * 1_000 + milli;
        if (FIRST..=LAST).contains(&millis) {
            Ok(Self(millis))
        } else {
            Err(InvalidTimestamp::NoSuchMoment)
        }
    }
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn one_of(&mut self, allowed: &[u8]) -> Result<u8, InvalidTimestamp> {
        self.next()
            .filter(|byte| allowed.contains(byte))
            .ok_or(InvalidTimestamp::Spelling)
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
            let digit = self.digit().ok_or(InvalidTimestamp::Spelling)?;
            Ok(number * 10 + digit)
        })
    }

    /// The milliseconds of a fraction of any length; none is none.
    fn fraction(&mut self) -> Result<i64, InvalidTimestamp> {
        if self.0.first() != Some(&b'.') {
            return Ok(0);
        }
        self.next();
        let mut millis = self.digit().ok_or(InvalidTimestamp::Spelling)? * 100;
        for place in [10, 1] {
            millis += self.digit().unwrap_or(0) * place;
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
            Some(_) => return Err(InvalidTimestamp::Spelling),
        };
        let mut minutes = 0;
        if sign != 0 {
            let hours = self.digits(2)?;
            self.one_of(b":")?;
            let beyond = self.digits(2)?;
            if hours > 23 || beyond > 59 {
                return Err(InvalidTimestamp::NoSuchMoment);
            }
            minutes = sign * (hours * 60 + beyond);
        }
        if self.0.is_empty() {
            Ok(minutes)
        } else {
            Err(InvalidTimestamp::Spelling)
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text(&self.spell()))
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
