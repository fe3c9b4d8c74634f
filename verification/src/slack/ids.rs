//! Slack ids. They are used in paths, keys and log lines, so their characters are restricted to those that Slack uses.

use interzone_protocol::vocab::string_newtype;
use std::cmp::Ordering;

/// Maximum length of an id. Slack's have 9 to 11 characters today.
const MAX_ID_LEN: usize = 32;

/// Invalid id. The message does not repeat the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not {kind}: {format}")]
pub struct InvalidSlackId {
    kind: &'static str,
    format: &'static str,
}

fn is_id(text: &str) -> bool {
    (1..=MAX_ID_LEN).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

fn is_ts(text: &str) -> bool {
    let digits = |text: &str, max_len: usize| {
        (1..=max_len).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.split_once('.')
        .is_some_and(|(seconds, rest)| digits(seconds, 16) && digits(rest, 10))
}

const ID_FORMAT: &str = "it has 1 to 32 capital letters and digits";
const TS_FORMAT: &str = "it has digits, a full stop, and digits again";

string_newtype! {
    /// A workspace (`T…`), or an organisation of workspaces (`E…`).
    #[derive(PartialOrd, Ord)]
    TeamId: InvalidSlackId = check("the id of a workspace", is_id, ID_FORMAT);
    /// User id of a person or bot, used in mentions (`U…`, `W…`).
    #[derive(PartialOrd, Ord)]
    UserId: InvalidSlackId = check("the id of a user", is_id, ID_FORMAT);
    /// A channel (`C…`), group (`G…`) or direct message (`D…`).
    #[derive(PartialOrd, Ord)]
    ChannelId: InvalidSlackId = check("the id of a channel", is_id, ID_FORMAT);
    /// Bot id, used in posted messages (`B…`).
    #[derive(PartialOrd, Ord)]
    BotId: InvalidSlackId = check("the id of a bot", is_id, ID_FORMAT);
    /// An app (`A…`).
    #[derive(PartialOrd, Ord)]
    AppId: InvalidSlackId = check("the id of an app", is_id, ID_FORMAT);
    /// A file (`F…`).
    #[derive(PartialOrd, Ord)]
    FileId: InvalidSlackId = check("the id of a file", is_id, ID_FORMAT);
    /// Timestamp of a message, which identifies it in its channel.
    Ts: InvalidSlackId = check("the time stamp of a message", is_ts, TS_FORMAT);
}

/// Returns the check of an id.
fn check(
    kind: &'static str,
    is_valid: fn(&str) -> bool,
    format: &'static str,
) -> impl Fn(&str) -> Result<(), InvalidSlackId> {
    move |text| match is_valid(text) {
        true => Ok(()),
        false => Err(InvalidSlackId { kind, format }),
    }
}

impl Ts {
    /// Seconds, and the fraction without trailing zeros.
    fn parts(&self) -> (u64, &str) {
        let (seconds, fraction) = self.0.split_once('.').unwrap_or((&self.0, ""));
        (
            seconds.parse().unwrap_or(u64::MAX),
            fraction.trim_end_matches('0'),
        )
    }

    /// Unix time in seconds.
    pub fn seconds(&self) -> u64 {
        self.parts().0
    }

    /// Unix time in microseconds, which is Slack's precision.
    pub fn micros(&self) -> u64 {
        let (seconds, fraction) = self.parts();
        let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
        let part = digits.parse().unwrap_or(0);
        seconds.saturating_mul(1_000_000).saturating_add(part)
    }

    /// Creates a timestamp from Unix time in microseconds, if it can be represented.
    pub fn from_micros(micros: u64) -> Option<Self> {
        let (seconds, part) = (micros / 1_000_000, micros % 1_000_000);
        Self::new(format!("{seconds}.{part:06}")).ok()
    }
}

/// Ordered by time. Timestamps that are equal in time but written differently are distinct.
impl Ord for Ts {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = self.parts().cmp(&other.parts());
        by_time.then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Ts {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_allows_only_capitals_and_digits() {
        for good in ["T1", "U012AB3CD", "0", &"C".repeat(32)] {
            assert_eq!(TeamId::new(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "t1",
            "T 1",
            "T1\n",
            "T/1",
            "T1#",
            "Ｔ1",
            &"C".repeat(33),
        ] {
            assert!(ChannelId::new(bad).is_err(), "{bad:?}");
            let json = serde_json::to_string(bad).unwrap();
            assert!(serde_json::from_str::<UserId>(&json).is_err(), "{bad:?}");
        }
        let error = FileId::new("secret\u{1b}").unwrap_err().to_string();
        assert_eq!(
            error,
            "this is not the id of a file: it has 1 to 32 capital letters and digits"
        );
    }

    #[test]
    fn timestamp_is_digits_around_a_period() {
        for good in ["1700000000.000100", "0.0", "1.1234567890"] {
            let json = format!("\"{good}\"");
            let ts: Ts = serde_json::from_str(&json).unwrap();
            assert_eq!(serde_json::to_string(&ts).unwrap(), json);
        }
        for bad in [
            "",
            ".",
            "1.",
            ".1",
            "1700000000",
            "1.2.3",
            "-1.0",
            "1.1 ",
            "1e3.0",
            "12345678901234567.0",
            "1.12345678901",
        ] {
            assert!(Ts::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn timestamps_sort_by_time() {
        let ts = |text: &str| Ts::new(text).unwrap();
        assert!(ts("999.000001") < ts("1000.000001"));
        assert!(ts("1000.000001") < ts("1000.00001"));
        assert!(ts("1000.000009") < ts("1000.000010"));
        assert_ne!(ts("1.10").cmp(&ts("1.1")), Ordering::Equal);
        assert_eq!(ts("1700000000.000100").seconds(), 1_700_000_000);
        assert_eq!(ts("1700000000.0001").micros(), 1_700_000_000_000_100);
        let from_micros = Ts::from_micros(1_700_000_000_000_100).unwrap();
        assert_eq!(from_micros.as_str(), "1700000000.000100");
        assert_eq!(Ts::from_micros(u64::MAX).unwrap().micros(), u64::MAX);
    }
}
