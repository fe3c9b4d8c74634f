//! How an entry looks as a line of JSON. Every call writes one, so it is written by hand: the machinery
//! for any shape costs more than the call. Where lines go is not known here.

use super::Entry;
use interzone_jsonrpc::write_string;
use std::io::Write;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Longer words are cut: an id or a name is short, and a log is no place to keep anything else.
const LONGEST: usize = 200;
/// How long a moment is when written, and where its milliseconds begin.
const MOMENT: usize = 24;
const MILLIS: usize = 20;

/// Room for a line, used again and again.
#[derive(Default)]
pub(super) struct Line {
    bytes: Vec<u8>,
    /// The second of the last line, as it is written: the next is mostly of the same.
    second: Option<(u64, [u8; MOMENT])>,
}

impl Line {
    /// Writes `entry`, with the end of the line. Nothing if it cannot be written.
    pub(super) fn write(&mut self, entry: &Entry<'_>) -> Option<&[u8]> {
        let moment = self.moment(entry.at);
        let out = &mut self.bytes;
        out.clear();
        out.extend_from_slice(b"{\"at\":\"");
        out.extend_from_slice(&moment);
        out.push(b'"');
        word(out, b",\"who\":", entry.who);
        word(out, b",\"client\":", entry.client);
        word(out, b",\"method\":", entry.method);
        if let Some(id) = entry.id {
            word(out, b",\"id\":", id);
        }
        if let Some(subject) = entry.subject {
            word(out, b",\"subject\":", subject);
        }
        word(out, b",\"outcome\":", entry.outcome);
        if let Some(code) = entry.code {
            write!(out, ",\"code\":{code}").ok()?;
        }
        out.extend_from_slice(b",\"latency_ms\":");
        let micros = (entry.latency.as_nanos() + 500) / 1000;
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        number(out, micros / 1000);
        out.push(b'.');
        out.extend_from_slice(&digits(micros % 1000));
        word(out, b",\"correlation\":", entry.correlation);
        match entry.address {
            None => {}
            Some(IpAddr::V4(address)) => {
                out.extend_from_slice(b",\"address\":\"");
                for (place, octet) in address.octets().into_iter().enumerate() {
                    if place > 0 {
                        out.push(b'.');
                    }
                    number(out, octet.into());
                }
                out.push(b'"');
            }
            Some(IpAddr::V6(address)) => write!(out, ",\"address\":\"{address}\"").ok()?,
        }
        out.extend_from_slice(b"}\n");
        Some(out)
    }

    /// The moment in UTC, to the millisecond.
    fn moment(&mut self, at: SystemTime) -> [u8; MOMENT] {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = since.as_secs();
        let mut moment = match self.second {
            Some((known, moment)) if known == second => moment,
            _ => {
                let moment = rfc3339(second);
                self.second = Some((second, moment));
                moment
            }
        };
        let places = moment.iter_mut().skip(MILLIS);
        let millis = digits(u64::from(since.subsec_millis()));
        places.zip(millis).for_each(|(place, digit)| *place = digit);
        moment
    }
}

/// A member that is a string, cut if it is long.
fn word(out: &mut Vec<u8>, name: &[u8], text: &str) {
    out.extend_from_slice(name);
    write_string(short(text), out);
}

fn short(text: &str) -> &str {
    if text.len() <= LONGEST {
        return text;
    }
    text.get(..text.floor_char_boundary(LONGEST))
        .unwrap_or_default()
}

fn number(out: &mut Vec<u8>, number: u64) {
    // Twenty places hold every u64.
    let mut places = [0; 20];
    let mut first = places.len();
    let mut rest = number;
    for (index, place) in places.iter_mut().enumerate().rev() {
        *place = digit(rest);
        first = index;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(places.get(first..).unwrap_or_default());
}

/// The last three digits of a number.
fn digits(number: u64) -> [u8; 3] {
    [digit(number / 100), digit(number / 10), digit(number)]
}

/// The last digit of a number.
fn digit(number: u64) -> u8 {
    b'0' + u8::try_from(number % 10).unwrap_or(0)
}

/// The second in UTC, with no milliseconds.
fn rfc3339(seconds: u64) -> [u8; MOMENT] {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from the 1st of March of the year 0, so that a leap day is the last of its
    // year; 146,097 days are 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (
        day - (153 * month + 2) / 5 + 1,
        if month < 10 { month + 3 } else { month - 9 },
    );
    let year = year + era * 400 + u64::from(month <= 2);
    let numbers = [
        (year, 4, b'-'),
        (month, 2, b'-'),
        (day, 2, b'T'),
        (second / 3600, 2, b':'),
        (second / 60 % 60, 2, b':'),
        (second % 60, 2, b'.'),
        (0, 3, b'Z'),
    ];
    let mut moment = [0; MOMENT];
    let mut places = moment.iter_mut();
    for (number, digits, end) in numbers {
        for power in (0..digits).rev() {
            let digit = digit(number / 10_u64.pow(power));
            places.next().into_iter().for_each(|place| *place = digit);
        }
        places.next().into_iter().for_each(|place| *place = end);
    }
    moment
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn moments_are_told_in_utc() {
        let mut line = Line::default();
        let mut at = |millis| {
            let moment = line.moment(UNIX_EPOCH + Duration::from_millis(millis));
            String::from_utf8(moment.to_vec()).unwrap()
        };
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(7), "1970-01-01T00:00:00.007Z");
        assert_eq!(at(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(at(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_735_689_599_120), "2024-12-31T23:59:59.120Z");
        assert_eq!(at(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn words_and_numbers_are_as_serde_writes_them() {
        let mut all = String::new();
        for code in 0..=0xff_u32 {
            all.extend(char::from_u32(code));
        }
        for text in ["", "plain", "日本 🦀", "a\"b", "\\", "a\nb", "\u{7f}", &all] {
            let mut out = Vec::new();
            word(&mut out, b"", text);
            let out: String = serde_json::from_slice(&out).unwrap();
            assert_eq!(out, short(text));
        }
        for value in [0, 7, 10, 999, 1000, u64::MAX] {
            let mut out = Vec::new();
            number(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn times_and_addresses_of_all_sizes_are_told() {
        let told = |latency, address| {
            let entry = Entry {
                at: UNIX_EPOCH,
                who: "",
                client: "",
                method: "",
                id: Some("7"),
                subject: None,
                outcome: "",
                code: Some(-32_000),
                latency,
                correlation: "",
                address,
            };
            let mut line = Line::default();
            let line = line.write(&entry).unwrap();
            serde_json::from_slice::<serde_json::Value>(line).unwrap()
        };
        let line = told(Duration::from_nanos(4_499), Some([10, 0, 200, 255].into()));
        assert_eq!(line["latency_ms"], 0.004);
        assert_eq!(line["address"], "10.0.200.255");
        assert_eq!(line["code"], -32_000);
        let line = told(Duration::from_nanos(60_012_345_500), None);
        assert_eq!(line["latency_ms"], 60_012.346);
        assert!(line.get("address").is_none());
        let line = told(Duration::MAX, Some(std::net::Ipv6Addr::LOCALHOST.into()));
        assert_eq!(line["address"], "::1");
    }
}
