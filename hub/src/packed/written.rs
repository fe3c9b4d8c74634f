//! A packed message as JSON text, written by hand: serde takes a message in many small pieces, and each task has one. What
//! else is stored goes through serde.

use super::Packed;
use interzone_protocol::vocab::Message;
use serde::ser::Error as _;
use std::borrow::Cow;
use std::sync::Arc;

impl Packed<Message> {
    /// Whether both are one and the same message, not only equal.
    fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.value, &other.value) && self.blobs == other.blobs
    }

    /// As [`Packed::to_text`], where the text of a message is there already that may be this one.
    ///
    /// # Errors
    /// As [`Packed::to_text`].
    pub(crate) fn to_text_beside<'a>(
        &self,
        other: Option<(&Self, &'a str)>,
    ) -> Result<Cow<'a, str>, serde_json::Error> {
        match other {
            Some((other, text)) if self.is_shared_with(other) => Ok(Cow::Borrowed(text)),
            _ => self.to_text().map(Cow::Owned),
        }
    }

    /// As JSON text, as serde writes it, for whom a message is many small pieces.
    ///
    /// # Errors
    /// None that is known: every message has a JSON form.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(b"{\"v\":");
        self.value.write_to(&mut out)?;
        if !self.blobs.is_empty() {
            out.extend_from_slice(b",\"b\":");
            serde_json::to_writer(&mut out, &self.blobs)?;
        }
        out.push(b'}');
        String::from_utf8(out).map_err(serde_json::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::super::INLINE_LIMIT;
    use super::super::tests::message;
    use super::*;

    #[test]
    fn a_message_is_written_by_hand_as_serde_writes_it() {
        let whole = r#"{"role":"agent","parts":[{"type":"TextPart","content":"a \" \u001e \u00e4"},
            {"type":"FilePart","content":{"x":[1,null]},"mimeType":"a/b","filename":"f","size":7,"encoding":"base64",
             "more":{"y":"\u2028"}}],"timestamp":"2026-01-02T03:04:05.678Z","agentId":"a","messageId":"m",
            "contextId":"c","taskId":"t","metadata":{"k":"v"},"other":[1.50]}"#;
        let large = "large ".repeat(INLINE_LIMIT);
        let blobs = Packed::pack(message(&[&"else ".repeat(INLINE_LIMIT)]))
            .0
            .blobs;
        for message in [
            message(&["a"]),
            serde_json::from_str(whole).unwrap(),
            message(&["small", &large, &large]),
        ] {
            let (packed, _) = Packed::pack(message);
            let by_serde = serde_json::to_string(&packed).unwrap();
            assert_eq!(packed.to_text().unwrap(), by_serde);
            // What another one says is not taken for it, however alike they are.
            let other = Packed {
                value: Arc::new((*packed.value).clone()),
                ..packed.clone()
            };
            let beside = |other: &Packed<Message>| {
                packed
                    .to_text_beside(Some((other, "what there is")))
                    .unwrap()
            };
            assert_eq!(beside(&other), by_serde);
            assert_eq!(beside(&packed.clone()), "what there is");
            // Nor is one whose contents are elsewhere.
            let elsewhere = Packed {
                value: Arc::clone(&packed.value),
                blobs: blobs.clone(),
            };
            assert_eq!(beside(&elsewhere), by_serde);
        }
    }
}
