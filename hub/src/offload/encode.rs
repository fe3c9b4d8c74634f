//! Hand-written JSON encoder for offloaded messages: serde emits a message in many small pieces, and every task has at
//! least one. All other stored values use serde.

use super::Offloaded;
use interzone_protocol::vocab::Message;
use serde::ser::Error as _;
use std::borrow::Cow;
use std::sync::Arc;

impl Offloaded<Message> {
    /// Returns true if both share the same message, not only an equal one.
    fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.value, &other.value) && self.blobs == other.blobs
    }

    /// Like [`Offloaded::to_json`], but reuses `other`'s JSON if it is the same message.
    ///
    /// # Errors
    /// Like [`Offloaded::to_json`].
    pub(crate) fn to_json_reusing<'a>(
        &self,
        other: Option<(&Self, &'a str)>,
    ) -> Result<Cow<'a, str>, serde_json::Error> {
        match other {
            Some((other, text)) if self.is_shared_with(other) => Ok(Cow::Borrowed(text)),
            _ => self.to_json().map(Cow::Owned),
        }
    }

    /// Encodes as JSON, identical to serde's output.
    ///
    /// # Errors
    /// None in practice: every message has a JSON form.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
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
    fn hand_written_json_equals_serde_output() {
        let all_fields = r#"{"role":"agent","parts":[{"type":"TextPart","content":"a \" \u001e \u00e4"},
            {"type":"FilePart","content":{"x":[1,null]},"mimeType":"a/b","filename":"f","size":7,"encoding":"base64",
             "more":{"y":"\u2028"}}],"timestamp":"2026-01-02T03:04:05.678Z","agentId":"a","messageId":"m",
            "contextId":"c","taskId":"t","metadata":{"k":"v"},"other":[1.50]}"#;
        let large = "large ".repeat(INLINE_LIMIT);
        let blobs = Offloaded::offload(message(&[&"else ".repeat(INLINE_LIMIT)]))
            .0
            .blobs;
        for message in [
            message(&["a"]),
            serde_json::from_str(all_fields).unwrap(),
            message(&["small", &large, &large]),
        ] {
            let (offloaded, _) = Offloaded::offload(message);
            let by_serde = serde_json::to_string(&offloaded).unwrap();
            assert_eq!(offloaded.to_json().unwrap(), by_serde);
            // The JSON of an equal but distinct message is not reused.
            let other = Offloaded {
                value: Arc::new((*offloaded.value).clone()),
                ..offloaded.clone()
            };
            let encode_reusing = |other: &Offloaded<Message>| {
                offloaded.to_json_reusing(Some((other, "reused"))).unwrap()
            };
            assert_eq!(encode_reusing(&other), by_serde);
            assert_eq!(encode_reusing(&offloaded.clone()), "reused");
            // Nor is that of a message with other blobs.
            let other_blobs = Offloaded {
                value: Arc::clone(&offloaded.value),
                blobs: blobs.clone(),
            };
            assert_eq!(encode_reusing(&other_blobs), by_serde);
        }
    }
}
