//! Parsing and formatting of timestamps, checked against fixed dates and day-by-day counting.

use super::*;
use proptest::prelude::*;

#[test]
fn parses_valid_timestamps() {
    for (text, millis) in [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2000-02-29T12:00:00Z", 951_825_600_000),
        ("2024-01-15T10:30:00Z", 1_705_314_600_000),
        ("2024-01-15t10:30:00z", 1_705_314_600_000),
        ("2024-01-15 10:30:00Z", 1_705_314_600_000),
        ("2024-01-15T12:30:00+02:00", 1_705_314_600_000),
        ("2024-01-15T05:00:00-05:30", 1_705_314_600_000),
        ("2024-01-15T10:30:00-00:00", 1_705_314_600_000),
        ("2024-01-15T10:30:00.1Z", 1_705_314_600_100),
        ("2024-01-15T10:30:00.123456789Z", 1_705_314_600_123),
        ("2016-12-31T23:59:60Z", 1_483_228_799_999),
        ("0000-01-01T00:00:00Z", MIN_MILLIS),
        ("9999-12-31T23:59:59.999999Z", MAX_MILLIS),
    ] {
        assert_eq!(text.parse().map(Timestamp::as_millis), Ok(millis), "{text}");
    }
}

#[test]
fn rejects_invalid_timestamps() {
    use InvalidTimestamp::{Format, NoOffset, OutOfRange};
    for (text, expected) in [
        ("", Format),
        ("2024", Format),
        ("2024-1-15T10:30:00Z", Format),
        ("20240115T103000Z", Format),
        ("2024-01-15T10:30Z", Format),
        ("2024-01-15T10:30:00.Z", Format),
        ("2024-01-15T10:30:00,5Z", Format),
        ("2024-01-15T10:30:00+0200", Format),
        ("2024-01-15T10:30:00Z ", Format),
        ("2024-01-15T10:30:00ZZ", Format),
        ("+2024-01-15T10:30:00Z", Format),
        ("２０２４-01-15T10:30:00Z", Format),
        ("2024-01-15T10:30:00", NoOffset),
        ("2024-01-15T10:30:00.5", NoOffset),
        ("2024-00-15T10:30:00Z", OutOfRange),
        ("2024-13-15T10:30:00Z", OutOfRange),
        ("2024-02-30T10:30:00Z", OutOfRange),
        ("2023-02-29T10:30:00Z", OutOfRange),
        ("1900-02-29T10:30:00Z", OutOfRange),
        ("2024-01-15T24:00:00Z", OutOfRange),
        ("2024-01-15T10:60:00Z", OutOfRange),
        ("2024-01-15T10:30:61Z", OutOfRange),
        ("2024-01-15T10:30:00+24:00", OutOfRange),
        ("0000-01-01T00:00:00+00:01", OutOfRange),
        ("9999-12-31T23:59:59-00:01", OutOfRange),
    ] {
        assert_eq!(text.parse::<Timestamp>(), Err(expected), "{text}");
    }
}

#[test]
fn date_conversion_agrees_with_counting_days() {
    let (mut year, mut month, mut day) = (0_i64, 1_i64, 1_i64);
    let first = days_from_date(0, 1, 1);
    for days in first..first + 400 * 366 {
        let (y, m, d) = date_from_days(days);
        assert_eq!((y.into(), m.into(), d.into()), (year, month, day));
        assert_eq!(days_from_date(year, month, day), days);
        day += 1;
        if day > days_in_month(year, month) {
            (month, day) = (month + 1, 1);
        }
        if month > 12 {
            (year, month) = (year + 1, 1);
        }
    }
}

#[test]
fn arithmetic_saturates_at_min_and_max() {
    let last = Timestamp::from_millis(i64::MAX);
    assert_eq!(last.to_string(), "9999-12-31T23:59:59.999Z");
    assert_eq!(last.plus(Duration::MAX), last);
    let first = Timestamp::from_millis(i64::MIN);
    assert_eq!(first.to_string(), "0000-01-01T00:00:00.000Z");
    assert_eq!(first.minus(Duration::MAX), first);
    assert_eq!(first.duration_since(last), Duration::ZERO);
    let later = first.plus(Duration::from_secs(5));
    assert_eq!(later.duration_since(first), Duration::from_secs(5));
    assert_eq!(later.minus(Duration::from_secs(5)), first);
}

proptest! {
    #[test]
    fn formatted_timestamp_parses_back(millis in MIN_MILLIS..=MAX_MILLIS) {
        let timestamp = Timestamp::from_millis(millis);
        prop_assert_eq!(timestamp.to_string().parse(), Ok(timestamp));
        let json = serde_json::to_string(&timestamp).unwrap();
        prop_assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), timestamp);
    }

    #[test]
    fn timestamp_order_equals_text_order(a in MIN_MILLIS..=MAX_MILLIS, b in MIN_MILLIS..=MAX_MILLIS) {
        let (a, b) = (Timestamp::from_millis(a), Timestamp::from_millis(b));
        prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
    }

    #[test]
    fn parsing_any_text_never_panics(text in ".{0,40}") {
        let _ = text.parse::<Timestamp>();
    }
}
