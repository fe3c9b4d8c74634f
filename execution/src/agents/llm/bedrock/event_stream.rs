//! AWS event-stream messages: total length, header length, a checksum of both, the headers, the payload, and a
//! checksum of everything. The tests compare this decoder with AWS's own crate.

use bytes::Bytes;

/// Length of the prelude: two lengths and their checksum.
pub(super) const PRELUDE_LEN: usize = 12;
/// Length of the final checksum.
const CHECKSUM_LEN: usize = 4;

/// A complete message.
#[derive(Debug)]
pub(super) struct EventStreamMessage {
    /// Text headers; headers of other types are not used.
    headers: Vec<(String, String)>,
    payload: Bytes,
}

impl EventStreamMessage {
    /// Decodes a frame of the length that its prelude states. Returns `None` if anything in it is invalid.
    pub(super) fn decode(frame: &Bytes) -> Option<Self> {
        let (prelude, after_prelude) = frame.split_first_chunk::<PRELUDE_LEN>()?;
        let (covered, sum) = frame.split_last_chunk::<CHECKSUM_LEN>()?;
        if frame_length(prelude)? != frame.len()
            || crc32fast::hash(covered) != u32::from_be_bytes(*sum)
        {
            return None;
        }
        let (_, size) = parse_lengths(prelude)?;
        let (body, _) = after_prelude.split_last_chunk::<CHECKSUM_LEN>()?;
        let (headers, payload) = body.split_at_checked(size)?;
        Some(Self {
            headers: parse_text_headers(headers)?,
            payload: frame.slice_ref(payload),
        })
    }

    /// Returns a text header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(key, _)| key == name)?;
        Some(&header.1)
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }
}

/// Returns the length of a frame from its prelude, or `None` if the prelude is damaged.
pub(super) fn frame_length(prelude: &[u8; PRELUDE_LEN]) -> Option<usize> {
    let (covered, sum) = prelude.split_last_chunk::<4>()?;
    if crc32fast::hash(covered) != u32::from_be_bytes(*sum) {
        return None;
    }
    let (total, headers) = parse_lengths(prelude)?;
    let least = headers.checked_add(PRELUDE_LEN + CHECKSUM_LEN)?;
    (total >= least).then_some(total)
}

fn parse_lengths(prelude: &[u8; PRELUDE_LEN]) -> Option<(usize, usize)> {
    let (total, after_total) = prelude.split_first_chunk::<4>()?;
    let (headers, _) = after_total.split_first_chunk::<4>()?;
    let number = |bytes: &[u8; 4]| usize::try_from(u32::from_be_bytes(*bytes)).ok();
    Some((number(total)?, number(headers)?))
}

/// Parses the headers and returns those that are text.
fn parse_text_headers(mut remaining: &[u8]) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    while let Some((size, behind)) = remaining.split_first() {
        let (name, behind) = behind.split_at_checked(usize::from(*size))?;
        let name = std::str::from_utf8(name).ok()?;
        let (kind, behind) = behind.split_first()?;
        let (size, behind) = match kind {
            0 | 1 => (0, behind),
            2 => (1, behind),
            3 => (2, behind),
            4 => (4, behind),
            5 | 8 => (8, behind),
            6 | 7 => {
                let (size, behind) = behind.split_first_chunk::<2>()?;
                (usize::from(u16::from_be_bytes(*size)), behind)
            }
            9 => (16, behind),
            _ => return None,
        };
        let (value, behind) = behind.split_at_checked(size)?;
        if *kind == 7 {
            let value = std::str::from_utf8(value).ok()?;
            found.push((name.to_owned(), value.to_owned()));
        }
        remaining = behind;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_smithy_eventstream::frame::{DecodedFrame, MessageFrameDecoder, write_message_to};
    use aws_smithy_types::DateTime;
    use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Theirs};
    use proptest::prelude::*;

    fn encode(message: &Theirs) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_message_to(message, &mut bytes).unwrap();
        bytes
    }

    fn any_header_value() -> impl Strategy<Value = HeaderValue> {
        prop_oneof![
            any::<bool>().prop_map(HeaderValue::Bool),
            any::<i8>().prop_map(HeaderValue::Byte),
            any::<i16>().prop_map(HeaderValue::Int16),
            any::<i32>().prop_map(HeaderValue::Int32),
            any::<i64>().prop_map(HeaderValue::Int64),
            any::<u128>().prop_map(HeaderValue::Uuid),
            (0..4_000_000_000_i64).prop_map(|at| HeaderValue::Timestamp(DateTime::from_secs(at))),
            prop::collection::vec(any::<u8>(), 0..20)
                .prop_map(|bytes| HeaderValue::ByteArray(bytes.into())),
            ".{0,20}".prop_map(|text| HeaderValue::String(text.into())),
        ]
    }

    fn any_message() -> impl Strategy<Value = Theirs> {
        let headers = prop::collection::vec((":?[a-z-]{1,10}", any_header_value()), 0..6);
        (headers, prop::collection::vec(any::<u8>(), 0..60)).prop_map(|(headers, payload)| {
            let headers = headers.into_iter();
            headers.fold(Theirs::new(payload), |message, (name, value)| {
                message.add_header(Header::new(name, value))
            })
        })
    }

    /// Text headers and the payload.
    type DecodedParts = (Vec<(String, String)>, Vec<u8>);

    /// Decodes a frame with AWS's crate, limited to what this decoder returns.
    fn decode_with_aws(bytes: &[u8]) -> Option<DecodedParts> {
        let frame = Bytes::copy_from_slice(bytes);
        let Ok(DecodedFrame::Complete(message)) = MessageFrameDecoder::new().decode_frame(frame)
        else {
            return None;
        };
        let headers = message.headers().iter().filter_map(|header| {
            let value = header.value().as_string().ok()?;
            Some((header.name().as_str().to_owned(), value.as_str().to_owned()))
        });
        Some((headers.collect(), message.payload().to_vec()))
    }

    fn decode(bytes: &[u8]) -> Option<DecodedParts> {
        let message = EventStreamMessage::decode(&Bytes::copy_from_slice(bytes))?;
        Some((message.headers, message.payload.to_vec()))
    }

    proptest! {
        #[test]
        fn decoder_agrees_with_aws(message in any_message()) {
            let bytes = encode(&message);
            let read = decode(&bytes);
            prop_assert!(read.is_some());
            prop_assert_eq!(read, decode_with_aws(&bytes));
            let prelude = bytes.first_chunk::<PRELUDE_LEN>().unwrap();
            prop_assert_eq!(frame_length(prelude), Some(bytes.len()));
        }

        #[test]
        fn single_bit_error_is_detected(message in any_message(), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
            let mut bytes = encode(&message);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(decode(&bytes), None);
        }

        #[test]
        fn truncated_frame_is_rejected(message in any_message(), at in any::<prop::sample::Index>()) {
            let bytes = encode(&message);
            prop_assert_eq!(decode(&bytes[..at.index(bytes.len())]), None);
        }

        /// Arbitrary headers with valid checksums.
        #[test]
        fn malformed_headers_are_handled_as_aws_does(
            headers in prop::collection::vec(0..12_u8, 0..40), size in 0..50_u32,
        ) {
            let mut bytes = Vec::new();
            let length = u32::try_from(headers.len()).unwrap() + 16;
            bytes.extend(length.to_be_bytes());
            bytes.extend(size.to_be_bytes());
            bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
            bytes.extend(&headers);
            bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
            prop_assert_eq!(decode(&bytes), decode_with_aws(&bytes));
        }
    }
}
