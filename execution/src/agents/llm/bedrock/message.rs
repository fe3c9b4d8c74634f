//! One frame of AWS's event streams: its length, that of its headers, a checksum of both, the headers, the
//! payload, and a checksum of all. AWS's own crate is compared with this in the tests.

use bytes::Bytes;

/// What stands before the headers: two lengths and their checksum.
pub(super) const PRELUDE: usize = 12;
/// The checksum at the end.
const END: usize = 4;

/// A frame that came whole.
#[derive(Debug)]
pub(super) struct Message {
    /// Headers that are text; nothing that we read is anything else.
    headers: Vec<(String, String)>,
    payload: Bytes,
}

impl Message {
    /// Reads a frame as long as it says itself; none if anything of it is not as it should be.
    pub(super) fn read(frame: &Bytes) -> Option<Self> {
        let (prelude, rest) = frame.split_first_chunk::<PRELUDE>()?;
        let (covered, sum) = frame.split_last_chunk::<END>()?;
        if length(prelude)? != frame.len() || crc32fast::hash(covered) != u32::from_be_bytes(*sum) {
            return None;
        }
        let (_, size) = lengths(prelude)?;
        let (body, _) = rest.split_last_chunk::<END>()?;
        let (headers, payload) = body.split_at_checked(size)?;
        Some(Self {
            headers: texts(headers)?,
            payload: frame.slice_ref(payload),
        })
    }

    /// A header that is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(known, _)| known == name)?;
        Some(&header.1)
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }
}

/// How long a frame with this beginning is; none if the beginning is damaged.
pub(super) fn length(prelude: &[u8; PRELUDE]) -> Option<usize> {
    let (covered, sum) = prelude.split_last_chunk::<4>()?;
    if crc32fast::hash(covered) != u32::from_be_bytes(*sum) {
        return None;
    }
    let (whole, headers) = lengths(prelude)?;
    let least = headers.checked_add(PRELUDE + END)?;
    (whole >= least).then_some(whole)
}

fn lengths(prelude: &[u8; PRELUDE]) -> Option<(usize, usize)> {
    let (whole, rest) = prelude.split_first_chunk::<4>()?;
    let (headers, _) = rest.split_first_chunk::<4>()?;
    let number = |bytes: &[u8; 4]| usize::try_from(u32::from_be_bytes(*bytes)).ok();
    Some((number(whole)?, number(headers)?))
}

/// The headers that are text. The others are stepped over.
fn texts(mut rest: &[u8]) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    while let Some((size, behind)) = rest.split_first() {
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
        rest = behind;
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

    fn written(message: &Theirs) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_message_to(message, &mut bytes).unwrap();
        bytes
    }

    fn value() -> impl Strategy<Value = HeaderValue> {
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

    fn message() -> impl Strategy<Value = Theirs> {
        let headers = prop::collection::vec((":?[a-z-]{1,10}", value()), 0..6);
        (headers, prop::collection::vec(any::<u8>(), 0..60)).prop_map(|(headers, payload)| {
            let headers = headers.into_iter();
            headers.fold(Theirs::new(payload), |message, (name, value)| {
                message.add_header(Header::new(name, value))
            })
        })
    }

    /// Headers that are text, and the payload.
    type Read = (Vec<(String, String)>, Vec<u8>);

    /// What AWS's crate reads of a frame, as far as we would.
    fn theirs(bytes: &[u8]) -> Option<Read> {
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

    fn ours(bytes: &[u8]) -> Option<Read> {
        let message = Message::read(&Bytes::copy_from_slice(bytes))?;
        Some((message.headers, message.payload.to_vec()))
    }

    proptest! {
        #[test]
        fn what_aws_writes_is_read_as_aws_reads_it(message in message()) {
            let bytes = written(&message);
            let read = ours(&bytes);
            prop_assert!(read.is_some());
            prop_assert_eq!(read, theirs(&bytes));
            let prelude = bytes.first_chunk::<PRELUDE>().unwrap();
            prop_assert_eq!(length(prelude), Some(bytes.len()));
        }

        #[test]
        fn one_wrong_bit_is_noticed(message in message(), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
            let mut bytes = written(&message);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(ours(&bytes), None);
        }

        #[test]
        fn a_part_of_a_frame_is_none(message in message(), at in any::<prop::sample::Index>()) {
            let bytes = written(&message);
            prop_assert_eq!(ours(&bytes[..at.index(bytes.len())]), None);
        }

        /// With right checksums around whatever else.
        #[test]
        fn hostile_headers_are_judged_as_aws_judges_them(
            headers in prop::collection::vec(0..12_u8, 0..40), size in 0..50_u32,
        ) {
            let mut bytes = Vec::new();
            let whole = u32::try_from(headers.len()).unwrap() + 16;
            bytes.extend(whole.to_be_bytes());
            bytes.extend(size.to_be_bytes());
            bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
            bytes.extend(&headers);
            bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
            prop_assert_eq!(ours(&bytes), theirs(&bytes));
        }
    }
}
