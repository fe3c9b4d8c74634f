//! Members of a caller's JSON object: one is set or added, and every other byte stays as it was sent.
//!
//! Only text that is known to be a JSON object comes here. What the members mean is not known here.

use interzone_protocol::vocab::{Json, Metadata};
use std::ops::Range;

/// The object with `name` set to `value`: put in the place of what stood there, else added at the end.
/// Without an object, one with nothing else.
pub(super) fn set(object: Option<&Metadata>, name: &str, value: &str) -> Option<Metadata> {
    let text = object.map_or("{}", Metadata::as_str);
    let value = serde_json::to_string(value).ok()?;
    match find(text, name) {
        Some(place) => {
            let mut out = String::with_capacity(text.len() + value.len());
            out.push_str(text.get(..place.start)?);
            out.push_str(&value);
            out.push_str(text.get(place.end..)?);
            made(out)
        }
        None => append(text, name, &value),
    }
}

/// The object with `name` added, unless it has a member of that name.
pub(super) fn add(object: Option<&Metadata>, name: &str, value: &str) -> Option<Metadata> {
    let text = object.map_or("{}", Metadata::as_str);
    match (find(text, name), object) {
        (Some(_), Some(object)) => Some(object.clone()),
        _ => append(text, name, &serde_json::to_string(value).ok()?),
    }
}

fn append(text: &str, name: &str, value: &str) -> Option<Metadata> {
    let body = text.trim_end().strip_suffix('}')?;
    let comma = if body.trim_end().ends_with('{') && is_empty(text) {
        ""
    } else {
        ","
    };
    made(format!("{body}{comma}\"{name}\":{value}}}"))
}

fn is_empty(text: &str) -> bool {
    text.trim_start()
        .strip_prefix('{')
        .is_some_and(|rest| rest.trim_start().starts_with('}'))
}

fn made(text: String) -> Option<Metadata> {
    Metadata::new(Json::parse(text).ok()?).ok()
}

/// Where the value of a member stands; of one that stands twice, the last, which is the one that
/// readers of JSON agree on.
fn find(text: &str, name: &str) -> Option<Range<usize>> {
    // Nearly every object has neither the name nor an escape that could spell it.
    if !text.contains(name) && !text.contains("\\u") {
        return None;
    }
    let mut walk = Walk {
        bytes: text.as_bytes(),
        at: 0,
    };
    walk.skip_to(b'{');
    let mut found = None;
    while let Some(key) = walk.string() {
        walk.skip_to(b':');
        let value = walk.value();
        let spelt: Option<String> = text.get(key).and_then(|key| serde_json::from_str(key).ok());
        if spelt.as_deref() == Some(name) {
            found = Some(value);
        }
    }
    found
}

/// Walks over valid JSON.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Goes past the next such byte.
    fn skip_to(&mut self, byte: u8) {
        while self.peek().is_some_and(|next| next != byte) {
            self.at += 1;
        }
        self.at += 1;
    }

    /// The next string before the object ends, quotes included.
    fn string(&mut self) -> Option<Range<usize>> {
        loop {
            match self.peek()? {
                b'"' => break,
                b'}' => return None,
                _ => self.at += 1,
            }
        }
        let start = self.at;
        self.pass_string();
        Some(start..self.at)
    }

    fn pass_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                return;
            }
        }
    }

    /// The next value, without the space around it.
    fn value(&mut self) -> Range<usize> {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.pass_string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b',' | b'}' | b']' if depth == 0 => break,
                b'}' | b']' => depth -= 1,
                byte if byte.is_ascii_whitespace() && depth == 0 => break,
                _ => {}
            }
            self.at += 1;
        }
        start..self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Metadata {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn one_member_is_set_and_the_rest_keeps_every_byte() {
        for (before, after) in [
            ("{}", r#"{"priority":"HIGH"}"#),
            ("{ \n }", "{ \n \"priority\":\"HIGH\"}"),
            (r#"{"a":1.00}"#, r#"{"a":1.00,"priority":"HIGH"}"#),
            (
                r#"{ "a" : {"priority":"x"} }"#,
                r#"{ "a" : {"priority":"x"} ,"priority":"HIGH"}"#,
            ),
            (
                r#"{"priority":"LOW","z":[1, 2]}"#,
                r#"{"priority":"HIGH","z":[1, 2]}"#,
            ),
            (
                r#"{"z":"}{","priority" : {"a":["]"]} , "y":2}"#,
                r#"{"z":"}{","priority" : "HIGH" , "y":2}"#,
            ),
            (r#"{"\u0070riority":7}"#, r#"{"\u0070riority":"HIGH"}"#),
            (
                r#"{"a":"priority"}"#,
                r#"{"a":"priority","priority":"HIGH"}"#,
            ),
            (
                r#"{"a\"":"\\","priority":null}"#,
                r#"{"a\"":"\\","priority":"HIGH"}"#,
            ),
            (
                r#"{"priority":1,"priority":2}"#,
                r#"{"priority":1,"priority":"HIGH"}"#,
            ),
            (r#"{"a":{}}"#, r#"{"a":{},"priority":"HIGH"}"#),
            (r#"{"a":"{"}"#, r#"{"a":"{","priority":"HIGH"}"#),
        ] {
            let set = set(Some(&object(before)), "priority", "HIGH").unwrap();
            assert_eq!(set.as_str(), after);
        }
        assert_eq!(set(None, "p", "q\"").unwrap().as_str(), r#"{"p":"q\""}"#);
    }

    #[test]
    fn a_member_is_added_only_where_there_is_none() {
        let theirs = object(r#"{"events":1}"#);
        assert_eq!(add(Some(&theirs), "events", "x").unwrap(), theirs);
        let added = add(Some(&theirs), "websocket", "wss://h").unwrap();
        assert_eq!(added.as_str(), r#"{"events":1,"websocket":"wss://h"}"#);
    }
}
