//! What a request carries to be found again: its correlation id, and its place in a trace.
//!
//! Both come from outside and go into logs and on to other servers, so only what is harmless there
//! is taken over; anything else is replaced, never repaired. Nothing about who asks may enter.

#[cfg(test)]
mod tests;

use http::{HeaderMap, HeaderName, HeaderValue};
use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The header that carries a [`Correlation`], in requests and in answers.
pub const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");
/// The header that carries a [`TraceParent`].
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header with what vendors add to a [`TraceParent`].
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// How long a UUID is as text.
const MADE: usize = uuid::fmt::Hyphenated::LENGTH;
/// The longest correlation id that is taken over.
const CORRELATION_LONGEST: usize = 128;
/// W3C asks for at least this much of `tracestate` to be passed on; no more is.
const STATE_LONGEST: usize = 512;
/// W3C's limit for the members of `tracestate`.
const STATE_MEMBERS: usize = 32;

/// The name by which one request is found in everybody's logs.
#[derive(Clone, Debug)]
pub struct Correlation(Name);

#[derive(Clone, Debug)]
enum Name {
    /// As the caller sent it.
    Sent(Arc<str>),
    /// Ours. Nearly every request has one, so it takes no memory of its own.
    Made([u8; MADE]),
}

impl Correlation {
    /// The one that the caller sent, if it is 1 to 128 letters, digits or `-_.:`; else a new one.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        Self::from_header(headers.get(CORRELATION))
    }

    /// The same by the first header of that name, for those who have looked for it.
    pub fn from_header(sent: Option<&HeaderValue>) -> Self {
        sent.and_then(|value| Self::parse(value.as_bytes()))
            .unwrap_or_else(Self::fresh)
    }

    /// The one that the caller gave elsewhere than in the headers, if it is well-formed.
    pub fn given(text: &str) -> Option<Self> {
        Self::parse(text.as_bytes())
    }

    /// A new one, a UUID that begins with the time, so that an index of them grows at its end. It is not
    /// a secret: whoever sees some of them may guess others.
    pub fn fresh() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(0);
        let id = uuid::Builder::from_unix_timestamp_millis(millis, &some_bytes()).into_uuid();
        let mut text = [0; MADE];
        id.hyphenated().encode_lower(&mut text);
        Self(Name::Made(text))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
        let good = (1..=CORRELATION_LONGEST).contains(&bytes.len()) && bytes.iter().all(safe);
        let text = std::str::from_utf8(bytes).ok()?;
        good.then(|| Self(Name::Sent(text.into())))
    }

    fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Name::Sent(text) => text.as_bytes(),
            Name::Made(text) => text,
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Name::Sent(text) => text,
            // It is all digits and signs, so this never falls back.
            Name::Made(text) => std::str::from_utf8(text).unwrap_or_default(),
        }
    }

    /// The id as the value of a header.
    pub fn header(&self) -> HeaderValue {
        // Its characters are all allowed in a header, so this never falls back.
        HeaderValue::from_bytes(self.as_bytes()).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

impl fmt::Display for Correlation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for Correlation {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Correlation {}

impl Hash for Correlation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

/// A place in a distributed trace, as W3C Trace Context writes it. `Display` gives the value of the
/// header `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace: [u8; 16],
    span: [u8; 8],
    sampled: bool,
    state: Option<Arc<str>>,
}

impl TraceParent {
    /// The caller's place, if it sent a valid one.
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut sent = headers.get_all(TRACEPARENT).iter();
        let parent = Self::parse(sent.next()?.to_str().ok()?)?;
        // Two parents are none: nobody can say which one counts.
        if sent.next().is_some() {
            return None;
        }
        let state = state(headers);
        Some(Self { state, ..parent })
    }

    /// Reads the value of a `traceparent` header, of version 00 or, as far as it is like it, a later
    /// one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('-');
        let mut field = |length: usize| fields.next().filter(|field| field.len() == length);
        let [version] = hex(field(2)?)?;
        let trace: [u8; 16] = hex(field(32)?)?;
        let span: [u8; 8] = hex(field(16)?)?;
        let [flags] = hex(field(2)?)?;
        let more = fields.next().is_some();
        let valid =
            version != 0xff && !(version == 0 && more) && trace != [0; 16] && span != [0; 8];
        valid.then_some(Self {
            trace,
            span,
            sampled: flags & 1 == 1,
            state: None,
        })
    }

    /// The beginning of a new trace.
    pub fn fresh(sampled: bool) -> Self {
        Self {
            trace: some_bytes(),
            span: eight_bytes(),
            sampled,
            state: None,
        }
    }

    /// A place by its parts; `None` if one of them is all zeros, which means "no place".
    pub fn from_parts(trace: [u8; 16], span: [u8; 8], sampled: bool) -> Option<Self> {
        (trace != [0; 16] && span != [0; 8]).then_some(Self {
            trace,
            span,
            sampled,
            state: None,
        })
    }

    /// A new place below this one, in the same trace.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            span: eight_bytes(),
            ..self.clone()
        }
    }

    /// The trace.
    pub fn trace(&self) -> [u8; 16] {
        self.trace
    }

    /// The span in the trace.
    pub fn span(&self) -> [u8; 8] {
        self.span
    }

    /// Whether the caller records this trace.
    pub fn sampled(&self) -> bool {
        self.sampled
    }

    /// What vendors added, to be passed on as it is.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Puts the place into the headers of an outgoing request.
    pub fn put(&self, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::try_from(self.to_string()) {
            headers.insert(TRACEPARENT, value);
        }
        match self.state.as_deref().map(HeaderValue::from_str) {
            Some(Ok(value)) => headers.insert(TRACESTATE, value),
            _ => headers.remove(TRACESTATE),
        };
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-")?;
        self.span
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{:02x}", u8::from(self.sampled))
    }
}

/// The members of all `tracestate` headers, as many as fit from the front; none if one is not valid,
/// for then none can be trusted.
fn state(headers: &HeaderMap) -> Option<Arc<str>> {
    let mut kept = String::new();
    let mut count = 0;
    for header in headers.get_all(TRACESTATE) {
        for member in header.to_str().ok()?.split(',') {
            let member = member.trim_matches([' ', '\t']);
            if member.is_empty() {
                continue;
            }
            if !is_member(member) {
                return None;
            }
            count += 1;
            let comma = usize::from(!kept.is_empty());
            if count > STATE_MEMBERS || kept.len() + comma + member.len() > STATE_LONGEST {
                return (!kept.is_empty()).then(|| kept.into());
            }
            if comma == 1 {
                kept.push(',');
            }
            kept.push_str(member);
        }
    }
    (!kept.is_empty()).then(|| kept.into())
}

fn is_member(member: &str) -> bool {
    let key_char = |c: char| {
        c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '*' | '/' | '@')
    };
    member.split_once('=').is_some_and(|(key, value)| {
        let key_good = (1..=256).contains(&key.len())
            && key.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && key.chars().all(key_char);
        let value_good = (1..=256).contains(&value.len())
            && value.chars().all(|c| matches!(c, ' '..='~') && c != '=');
        key_good && value_good
    })
}

/// Lower-case hexadecimal digits, exactly as many as `N` bytes take.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let mut digits = text.bytes().map(|digit| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    });
    for byte in &mut bytes {
        *byte = (digits.next()?? << 4) | digits.next()??;
    }
    digits.next().is_none().then_some(bytes)
}

thread_local! {
    /// Ids need to differ, not to be secret, so the system is asked for random bytes once a thread.
    static STATE: Cell<u64> = Cell::new(uuid::Uuid::new_v4().as_u64_pair().0 ^ uuid::Uuid::new_v4().as_u64_pair().1.rotate_left(32));
}

/// Eight bytes that are not all zero (the generator is splitmix64).
fn eight_bytes() -> [u8; 8] {
    let mut z = STATE.with(|state| {
        let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(next);
        next
    });
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    z.max(1).to_be_bytes()
}

/// At most sixteen bytes, of which the first eight are not all zero.
fn some_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let halves = eight_bytes().into_iter().chain(eight_bytes());
    bytes
        .iter_mut()
        .zip(halves)
        .for_each(|(place, byte)| *place = byte);
    bytes
}
