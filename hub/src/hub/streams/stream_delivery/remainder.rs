//! Remainder of a message whose prefix was already streamed.

use interzone_protocol::vocab::{Message, Part, PartKind, VerbatimJson};

/// Returns the message without the streamed prefix, or `None` if it does not start with it. White space where parts
/// meet is ignored: agents need not stream text part by part.
pub(super) fn strip_streamed_prefix(message: &Message, streamed: &str) -> Option<Message> {
    let mut unmatched = streamed.trim_start();
    let mut parts = Vec::new();
    for part in message.parts() {
        let text = part.as_text().filter(|_| part.kind() == PartKind::Text);
        let Some(text) = text.filter(|_| !unmatched.is_empty()) else {
            parts.push(part.clone());
            continue;
        };
        let text = text.trim_start();
        if let Some(remainder) = unmatched.strip_prefix(text.trim_end()) {
            unmatched = remainder.trim_start();
            continue;
        }
        let remainder = [unmatched, unmatched.trim_end()]
            .iter()
            .find_map(|prefix| text.strip_prefix(prefix))?;
        parts.push(
            part.clone()
                .with_content(VerbatimJson::from_value(remainder).ok()?),
        );
        unmatched = "";
    }
    if !unmatched.is_empty() {
        return None;
    }
    if parts.is_empty() {
        parts.push(Part::text(""));
    }
    Some(message.clone().replace_parts(parts))
}

#[cfg(test)]
mod tests {
    use super::strip_streamed_prefix;
    use interzone_protocol::vocab::{Message, Part, Role};

    fn remaining_texts(parts: &[&str], streamed: &str) -> Option<Vec<String>> {
        let parts = parts.iter().map(Part::text).collect();
        let message = Message::new(Role::Agent, parts).unwrap();
        let text = |part: &Part| part.as_text().unwrap().into_owned();
        strip_streamed_prefix(&message, streamed)
            .map(|message| message.parts().iter().map(text).collect())
    }

    #[test]
    fn streamed_prefix_is_stripped() {
        let some = |texts: &[&str]| Some(texts.iter().map(|&text| text.to_owned()).collect());
        for (parts, streamed, expected) in [
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
            assert_eq!(
                remaining_texts(parts, streamed),
                expected,
                "{parts:?} {:?}",
                streamed
            );
        }
    }

    #[test]
    fn non_text_parts_are_kept() {
        let file = Part::file("aGk=").with_filename("hi.txt");
        let parts = vec![Part::text("here"), file.clone()];
        let message = Message::new(Role::Agent, parts).unwrap();
        assert_eq!(
            strip_streamed_prefix(&message, "here").unwrap().parts(),
            [file]
        );
    }
}
