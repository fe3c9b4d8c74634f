//! JSON encoder for audit lines. Hand-written, because every call writes one and a generic serializer costs more than
//! the call.

use super::AuditEntry;
use interzone_jsonrpc::write_string;
use std::io::Write;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum length of a value; longer ones are truncated. Ids and names are short.
const MAX_VALUE_BYTES: usize = 200;
/// Length of a formatted timestamp, and the offset of its milliseconds.
const TIMESTAMP_LEN: usize = 24;
const MILLIS_OFFSET: usize = 20;

/// Reusable buffer and encoder for one line.
#[derive(Default)]
pub(super) struct LineEncoder {
    bytes: Vec<u8>,
    /// Formatted second of the last line, which the next line mostly shares.
    second: Option<(u64, [u8; TIMESTAMP_LEN])>,
}

impl LineEncoder {
    /// Encodes `entry` with a line feed. `None` if it cannot be encoded.
    pub(super) fn encode(&mut self, entry: &AuditEntry<'_>) -> Option<&[u8]> {
        let timestamp = self.timestamp(entry.at);
        let out = &mut self.bytes;
        out.clear();
        out.extend_from_slice(b"{\"at\":\"");
        out.extend_from_slice(&timestamp);
        out.push(b'"');
        write_string_member(out, b",\"who\":", entry.principal);
        write_string_member(out, b",\"client\":", entry.client);
        write_string_member(out, b",\"method\":", entry.method);
        if let Some(id) = entry.id {
            write_string_member(out, b",\"id\":", id);
        }
        if let Some(subject) = entry.subject {
            write_string_member(out, b",\"subject\":", subject);
        }
        write_string_member(out, b",\"outcome\":", entry.outcome);
        if let Some(code) = entry.code {
            write!(out, ",\"code\":{code}").ok()?;
        }
        out.extend_from_slice(b",\"latency_ms\":");
        let micros = (entry.latency.as_nanos() + 500) / 1000;
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        write_number(out, micros / 1000);
        out.push(b'.');
        out.extend_from_slice(&digits(micros % 1000));
        write_string_member(out, b",\"correlation\":", entry.correlation);
        match entry.address {
            None => {}
            Some(IpAddr::V4(address)) => {
                out.extend_from_slice(b",\"address\":\"");
                for (index, octet) in address.octets().into_iter().enumerate() {
                    if index > 0 {
                        out.push(b'.');
                    }
                    write_number(out, octet.into());
                }
                out.push(b'"');
            }
            Some(IpAddr::V6(address)) => write!(out, ",\"address\":\"{address}\"").ok()?,
        }
        out.extend_from_slice(b"}\n");
        Some(out)
    }

    /// Formats a time in UTC with milliseconds.
    fn timestamp(&mut self, at: SystemTime) -> [u8; TIMESTAMP_LEN] {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = since.as_secs();
        let mut timestamp = match self.second {
            Some((cached, moment)) if cached == second => moment,
            _ => {
                let timestamp = rfc3339(second);
                self.second = Some((second, timestamp));
                timestamp
            }
        };
        let digits_out = timestamp.iter_mut().skip(MILLIS_OFFSET);
        let millis = digits(u64::from(since.subsec_millis()));
        digits_out
            .zip(millis)
            .for_each(|(slot, digit)| *slot = digit);
        timestamp
    }
}

/// Writes a string member, truncated if it is long.
fn write_string_member(out: &mut Vec<u8>, name: &[u8], text: &str) {
    out.extend_from_slice(name);
    write_string(truncate(text), out);
}

fn truncate(text: &str) -> &str {
    if text.len() <= MAX_VALUE_BYTES {
        return text;
    }
    text.get(..text.floor_char_boundary(MAX_VALUE_BYTES))
        .unwrap_or_default()
}

fn write_number(out: &mut Vec<u8>, number: u64) {
    // Twenty places hold every u64.
    let mut buffer = [0; 20];
    let mut first = buffer.len();
    let mut remaining = number;
    for (index, slot) in buffer.iter_mut().enumerate().rev() {
        *slot = digit(remaining);
        first = index;
        remaining /= 10;
        if remaining == 0 {
            break;
        }
    }
    out.extend_from_slice(buffer.get(first..).unwrap_or_default());
}

/// Returns the last three digits of a number.
fn digits(number: u64) -> [u8; 3] {
    [digit(number / 100), digit(number / 10), digit(number)]
}

/// Returns the last digit of a number.
fn digit(number: u64) -> u8 {
    b'0' + u8::try_from(number % 10).unwrap_or(0)
}

/// Formats a second in UTC, with zero milliseconds.
fn rfc3339(seconds: u64) -> [u8; TIMESTAMP_LEN] {
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
    let mut timestamp = [0; TIMESTAMP_LEN];
    let mut slots = timestamp.iter_mut();
    for (number, digits, end) in numbers {
        for power in (0..digits).rev() {
            let digit = digit(number / 10_u64.pow(power));
            slots.next().into_iter().for_each(|slot| *slot = digit);
        }
        slots.next().into_iter().for_each(|slot| *slot = end);
    }
    timestamp
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn timestamps_are_formatted_in_utc() {
        let mut line = LineEncoder::default();
        let mut format = |millis| {
            let timestamp = line.timestamp(UNIX_EPOCH + Duration::from_millis(millis));
            String::from_utf8(timestamp.to_vec()).unwrap()
        };
        assert_eq!(format(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(format(7), "1970-01-01T00:00:00.007Z");
        assert_eq!(format(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(format(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(format(1_735_689_599_120), "2024-12-31T23:59:59.120Z");
        assert_eq!(format(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn strings_and_numbers_match_serde() {
        let mut all = String::new();
        for code in 0..=0xff_u32 {
            all.extend(char::from_u32(code));
        }
        for text in ["", "plain", "日本 🦀", "a\"b", "\\", "a\nb", "\u{7f}", &all] {
            let mut out = Vec::new();
            write_string_member(&mut out, b"", text);
            let out: String = serde_json::from_slice(&out).unwrap();
            assert_eq!(out, truncate(text));
        }
        for value in [0, 7, 10, 999, 1000, u64::MAX] {
            let mut out = Vec::new();
            write_number(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn latencies_and_addresses_are_encoded() {
        let encode = |latency, address| {
            let entry = AuditEntry {
                at: UNIX_EPOCH,
                principal: "",
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
            let mut line = LineEncoder::default();
            let line = line.encode(&entry).unwrap();
            serde_json::from_slice::<serde_json::Value>(line).unwrap()
        };
        let line = encode(Duration::from_nanos(4_499), Some([10, 0, 200, 255].into()));
        assert_eq!(line["latency_ms"], 0.004);
        assert_eq!(line["address"], "10.0.200.255");
        assert_eq!(line["code"], -32_000);
        let line = encode(Duration::from_nanos(60_012_345_500), None);
        assert_eq!(line["latency_ms"], 60_012.346);
        assert!(line.get("address").is_none());
        let line = encode(Duration::MAX, Some(std::net::Ipv6Addr::LOCALHOST.into()));
        assert_eq!(line["address"], "::1");
    }
}
