//! The names that Slack gives to things. They stand in paths, keys and log lines, so none may hold
//! anything but what Slack puts into them. What a name means is not decided here.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The most characters of an id. Slack's have 9 to 11 today.
const LONGEST: usize = 32;

/// Why a text is not what it should be. It never repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not {what}: {shape}")]
pub struct InvalidId {
    what: &'static str,
    shape: &'static str,
}

fn is_id(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

fn is_ts(text: &str) -> bool {
    let digits = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.split_once('.')
        .is_some_and(|(seconds, rest)| digits(seconds, 16) && digits(rest, 10))
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $what:literal, $fits:path, $shape:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a text.
            ///
            /// # Errors
            /// It does not have the shape that Slack gives to these.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidId> {
                let text = text.as_ref();
                if $fits(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(InvalidId { what: $what, shape: $shape })
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), &*self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(text).map_err(D::Error::custom)
            }
        }
    )*};
}

const ID: &str = "it has 1 to 32 capital letters and digits";
const TS: &str = "it has digits, a full stop, and digits again";

names! {
    /// A workspace (`T…`), or an organisation of workspaces (`E…`).
    TeamId = "the id of a workspace", is_id, ID;
    /// A person or a bot, as somebody who can be mentioned (`U…`, `W…`).
    UserId = "the id of a user", is_id, ID;
    /// A place in which one writes: a channel (`C…`), a group (`G…`) or a direct message (`D…`).
    ChannelId = "the id of a channel", is_id, ID;
    /// A bot, as somebody who posts (`B…`).
    BotId = "the id of a bot", is_id, ID;
    /// An app (`A…`).
    AppId = "the id of an app", is_id, ID;
    /// A file (`F…`).
    FileId = "the id of a file", is_id, ID;
    /// When a message was written, which is also its name within its channel.
    Ts = "the time stamp of a message", is_ts, TS;
}

macro_rules! by_letters {
    ($($name:ident)*) => {$(
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                self.0.cmp(&other.0)
            }
        }
    )*};
}

by_letters!(TeamId UserId ChannelId BotId AppId FileId);

impl Ts {
    /// The whole seconds, and what comes after the point without the zeros at its end.
    fn parts(&self) -> (u64, &str) {
        let (seconds, rest) = self.0.split_once('.').unwrap_or((&self.0, ""));
        (
            seconds.parse().unwrap_or(u64::MAX),
            rest.trim_end_matches('0'),
        )
    }

    /// The seconds since 1970 at which it was written.
    pub fn seconds(&self) -> u64 {
        self.parts().0
    }

    /// The same in microseconds, which is as exact as Slack is.
    pub fn micros(&self) -> u64 {
        let (seconds, rest) = self.parts();
        let six: String = rest.chars().chain("000000".chars()).take(6).collect();
        let part = six.parse().unwrap_or(0);
        seconds.saturating_mul(1_000_000).saturating_add(part)
    }

    /// The time stamp of a moment in microseconds since 1970, if it can be written.
    pub fn of_micros(micros: u64) -> Option<Self> {
        let (seconds, part) = (micros / 1_000_000, micros % 1_000_000);
        Self::new(format!("{seconds}.{part:06}")).ok()
    }
}

/// Earlier first. Two that mean the same moment but are written differently are two names.
impl Ord for Ts {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = self.parts().cmp(&other.parts());
        by_time.then_with(|| self.0.cmp(&other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_capitals_and_digits_and_nothing_else() {
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
        let why = FileId::new("secret\u{1b}").unwrap_err().to_string();
        assert_eq!(
            why,
            "this is not the id of a file: it has 1 to 32 capital letters and digits"
        );
    }

    #[test]
    fn a_time_stamp_is_digits_around_a_point() {
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
    fn time_stamps_sort_by_time() {
        let ts = |text: &str| Ts::new(text).unwrap();
        assert!(ts("999.000001") < ts("1000.000001"));
        assert!(ts("1000.000001") < ts("1000.00001"));
        assert!(ts("1000.000009") < ts("1000.000010"));
        assert_ne!(ts("1.10").cmp(&ts("1.1")), Ordering::Equal);
        assert_eq!(ts("1700000000.000100").seconds(), 1_700_000_000);
        assert_eq!(ts("1700000000.0001").micros(), 1_700_000_000_000_100);
        let again = Ts::of_micros(1_700_000_000_000_100).unwrap();
        assert_eq!(again.as_str(), "1700000000.000100");
        assert_eq!(Ts::of_micros(u64::MAX).unwrap().micros(), u64::MAX);
    }
}
