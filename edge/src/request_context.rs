//! Request context: correlation id and W3C trace context.
//!
//! Both come from outside and go into logs and to other servers, so only harmless values are accepted; others are
//! replaced, never repaired.

#[cfg(test)]
mod tests;

use http::{HeaderMap, HeaderName, HeaderValue};
use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Header of a [`CorrelationId`], in requests and responses.
pub const CORRELATION_HEADER: HeaderName = HeaderName::from_static("x-correlation-id");
/// Header of a [`TraceParent`].
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Header with vendor additions to a [`TraceParent`].
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Length of a UUID as text.
const UUID_LEN: usize = uuid::fmt::Hyphenated::LENGTH;
/// Maximum length of an accepted correlation id.
const MAX_CORRELATION_LEN: usize = 128;
/// Maximum length of `tracestate`; W3C asks for at least this much to be passed on.
const MAX_TRACESTATE_LEN: usize = 512;
/// W3C's limit for the members of `tracestate`.
const MAX_TRACESTATE_MEMBERS: usize = 32;

/// Correlation id of a request, used in the logs of all servers involved.
#[derive(Clone, Debug)]
pub struct CorrelationId(CorrelationRepr);

#[derive(Clone, Debug)]
enum CorrelationRepr {
    /// As the caller sent it.
    Received(Arc<str>),
    /// Generated here. Nearly every request has one, so it needs no allocation.
    Generated([u8; UUID_LEN]),
}

impl CorrelationId {
    /// Returns the id that the caller sent, if it is 1 to 128 letters, digits or `-_.:`; else a new one.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        Self::from_header(headers.get(CORRELATION_HEADER))
    }

    /// Like [`from_headers`](Self::from_headers), with the header already looked up.
    pub fn from_header(value: Option<&HeaderValue>) -> Self {
        value
            .and_then(|value| Self::from_bytes(value.as_bytes()))
            .unwrap_or_else(Self::generate)
    }

    /// Parses an id that the caller sent elsewhere than in the headers; `None` if it is malformed.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::from_bytes(text.as_bytes())
    }

    /// Generates an id: a UUIDv7, which begins with the time, so that an index of them grows at its end. It is not a
    /// secret: other ids may be guessed from some of them.
    pub fn generate() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(0);
        let id = uuid::Builder::from_unix_timestamp_millis(millis, &random_bytes()).into_uuid();
        let mut text = [0; UUID_LEN];
        id.hyphenated().encode_lower(&mut text);
        Self(CorrelationRepr::Generated(text))
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
        let is_valid = (1..=MAX_CORRELATION_LEN).contains(&bytes.len()) && bytes.iter().all(safe);
        let text = std::str::from_utf8(bytes).ok()?;
        is_valid.then(|| Self(CorrelationRepr::Received(text.into())))
    }

    fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            CorrelationRepr::Received(text) => text.as_bytes(),
            CorrelationRepr::Generated(text) => text,
        }
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            CorrelationRepr::Received(text) => text,
            // It is ASCII, so this never falls back.
            CorrelationRepr::Generated(text) => std::str::from_utf8(text).unwrap_or_default(),
        }
    }

    /// Returns the id as a header value.
    pub fn to_header(&self) -> HeaderValue {
        // All its characters are allowed in a header, so this never falls back.
        HeaderValue::from_bytes(self.as_bytes()).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for CorrelationId {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for CorrelationId {}

impl Hash for CorrelationId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

/// W3C trace context: a span in a distributed trace. `Display` gives the value of the `traceparent` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    is_sampled: bool,
    tracestate: Option<Arc<str>>,
}

impl TraceParent {
    /// Returns the caller's trace context, if it sent a valid one.
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let parent = Self::parse(values.next()?.to_str().ok()?)?;
        // Two parents are invalid: it is undefined which one counts.
        if values.next().is_some() {
            return None;
        }
        let state = parse_tracestate(headers);
        Some(Self {
            tracestate: state,
            ..parent
        })
    }

    /// Parses a `traceparent` header of version 00 or, as far as it is compatible, a later one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('-');
        let mut field = |length: usize| fields.next().filter(|field| field.len() == length);
        let [version] = parse_hex(field(2)?)?;
        let trace: [u8; 16] = parse_hex(field(32)?)?;
        let span: [u8; 8] = parse_hex(field(16)?)?;
        let [flags] = parse_hex(field(2)?)?;
        let has_more = fields.next().is_some();
        let is_valid =
            version != 0xff && !(version == 0 && has_more) && trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self {
            trace_id: trace,
            span_id: span,
            is_sampled: flags & 1 == 1,
            tracestate: None,
        })
    }

    /// Starts a new trace.
    pub fn new_root(sampled: bool) -> Self {
        Self {
            trace_id: random_bytes(),
            span_id: random_u64_bytes(),
            is_sampled: sampled,
            tracestate: None,
        }
    }

    /// Creates a context from its parts; `None` if one of them is all zeros, which is invalid.
    pub fn from_parts(trace: [u8; 16], span: [u8; 8], sampled: bool) -> Option<Self> {
        (trace != [0; 16] && span != [0; 8]).then_some(Self {
            trace_id: trace,
            span_id: span,
            is_sampled: sampled,
            tracestate: None,
        })
    }

    /// Returns a new child span in the same trace.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            span_id: random_u64_bytes(),
            ..self.clone()
        }
    }

    /// Returns the trace id.
    pub fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// Returns the span id.
    pub fn span_id(&self) -> [u8; 8] {
        self.span_id
    }

    /// Returns true if the caller records this trace.
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Returns the vendor additions, to be passed on unchanged.
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// Writes the context to the headers of an outgoing request.
    pub fn inject(&self, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::try_from(self.to_string()) {
            headers.insert(TRACEPARENT, value);
        }
        match self.tracestate.as_deref().map(HeaderValue::from_str) {
            Some(Ok(value)) => headers.insert(TRACESTATE, value),
            _ => headers.remove(TRACESTATE),
        };
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace_id
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-")?;
        self.span_id
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{:02x}", u8::from(self.is_sampled))
    }
}

/// Returns the members of all `tracestate` headers, as many as fit from the front; `None` if one is invalid, because
/// then none can be trusted.
fn parse_tracestate(headers: &HeaderMap) -> Option<Arc<str>> {
    let mut members = String::new();
    let mut count = 0;
    for header in headers.get_all(TRACESTATE) {
        for member in header.to_str().ok()?.split(',') {
            let member = member.trim_matches([' ', '\t']);
            if member.is_empty() {
                continue;
            }
            if !is_tracestate_member(member) {
                return None;
            }
            count += 1;
            let comma = usize::from(!members.is_empty());
            if count > MAX_TRACESTATE_MEMBERS
                || members.len() + comma + member.len() > MAX_TRACESTATE_LEN
            {
                return (!members.is_empty()).then(|| members.into());
            }
            if comma == 1 {
                members.push(',');
            }
            members.push_str(member);
        }
    }
    (!members.is_empty()).then(|| members.into())
}

fn is_tracestate_member(member: &str) -> bool {
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

/// Parses lower-case hexadecimal digits, exactly as many as `N` bytes take.
fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
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
    /// State of the generator. Ids need to differ, not to be secret, so the system is asked for random bytes once per
    /// thread.
    static RNG_STATE: Cell<u64> = Cell::new(uuid::Uuid::new_v4().as_u64_pair().0 ^ uuid::Uuid::new_v4().as_u64_pair().1.rotate_left(32));
}

/// Returns eight random bytes that are not all zero (splitmix64).
fn random_u64_bytes() -> [u8; 8] {
    let mut z = RNG_STATE.with(|state| {
        let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(next);
        next
    });
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    z.max(1).to_be_bytes()
}

/// Returns at most sixteen random bytes, of which the first eight are not all zero.
fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let halves = random_u64_bytes().into_iter().chain(random_u64_bytes());
    bytes
        .iter_mut()
        .zip(halves)
        .for_each(|(slot, byte)| *slot = byte);
    bytes
}
