//! What of a message is left to say when the beginning of it was heard while it grew.

use interzone_protocol::vocab::{Json, Message, Part, PartKind};

/// The message without the words that were heard, or nothing if it does not go on from them. Spaces
/// where parts meet do not count: whoever streams words need not stream them part by part.
pub(super) fn after(message: &Message, heard: &str) -> Option<Message> {
    let mut left = heard.trim_start();
    let mut parts = Vec::new();
    for part in message.parts() {
        let words = part.as_text().filter(|_| part.kind() == PartKind::Text);
        let Some(words) = words.filter(|_| !left.is_empty()) else {
            parts.push(part.clone());
            continue;
        };
        let words = words.trim_start();
        if let Some(more) = left.strip_prefix(words.trim_end()) {
            left = more.trim_start();
            continue;
        }
        let rest = [left, left.trim_end()]
            .iter()
            .find_map(|heard| words.strip_prefix(heard))?;
        parts.push(part.clone().with_content(Json::of(rest).ok()?));
        left = "";
    }
    if !left.is_empty() {
        return None;
    }
    if parts.is_empty() {
        parts.push(Part::text(""));
    }
    Some(message.clone().replace_parts(parts))
}

#[cfg(test)]
mod tests {
    use super::after;
    use interzone_protocol::vocab::{Message, Part, Role};

    fn left(parts: &[&str], heard: &str) -> Option<Vec<String>> {
        let parts = parts.iter().map(Part::text).collect();
        let message = Message::new(Role::Agent, parts).unwrap();
        let words = |part: &Part| part.as_text().unwrap().into_owned();
        after(&message, heard).map(|message| message.parts().iter().map(words).collect())
    }

    #[test]
    fn only_what_was_not_heard_is_left() {
        let some = |texts: &[&str]| Some(texts.iter().map(|&text| text.to_owned()).collect());
        for (parts, heard, expected) in [
            (&["hello world"][..], "", some(&["hello world"])),
            (&["hello world"], "hello", some(&[" world"])),
            (&["hello world"], "hello ", some(&["world"])),
            (&["hello world"], "hello \n", some(&[" world"])),
            (&["hello world"], "hello world", some(&[""])),
            (&["hello world"], "hello world\n", some(&[""])),
            (&["hello world\n"], "hello world", some(&[""])),
            (&["one", "two"], "one", some(&["two"])),
            (&["one", "two"], "one\ntwo", some(&[""])),
            (&["one", "two"], "one\nt", some(&["wo"])),
            (&["one \"two\""], "one \"", some(&["two\""])),
            (&["grüße"], "gr", some(&["üße"])),
            (&["done"], "thinking", None),
            (&["done"], "done, and more", None),
        ] {
            assert_eq!(left(parts, heard), expected, "{parts:?} {heard:?}");
        }
    }

    #[test]
    fn what_is_no_text_stays() {
        let file = Part::file("aGk=").with_filename("hi.txt");
        let parts = vec![Part::text("here"), file.clone()];
        let message = Message::new(Role::Agent, parts).unwrap();
        assert_eq!(after(&message, "here").unwrap().parts(), [file]);
    }
}
