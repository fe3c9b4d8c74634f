//! Correlation ids and places in a trace, good ones and hostile ones.

use super::{
    CORRELATION, CORRELATION_LONGEST, Correlation, STATE_LONGEST, STATE_MEMBERS, TRACEPARENT,
    TRACESTATE, TraceParent,
};
use http::{HeaderMap, HeaderName, HeaderValue};

const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn headers(sent: &[(HeaderName, &str)]) -> HeaderMap {
    sent.iter()
        .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
        .collect()
}

#[test]
fn a_harmless_correlation_id_is_kept_and_any_other_replaced() {
    let longest = "x".repeat(CORRELATION_LONGEST);
    for good in ["a", "A-b_c.d:9", &longest] {
        let kept = Correlation::from_headers(&headers(&[(CORRELATION, good)]));
        assert_eq!(kept.as_str(), good);
        assert_eq!(kept.header(), good);
    }
    let too_long = "x".repeat(CORRELATION_LONGEST + 1);
    for bad in [
        "", " a", "a b", "a\tb", "<b>", "a\"b", "a;b", "a/b", "{}", &too_long,
    ] {
        let made = Correlation::from_headers(&headers(&[(CORRELATION, bad)]));
        assert_ne!(made.as_str(), bad);
        assert_eq!(made.as_str().len(), 36, "{made}");
    }
    let mut binary = HeaderMap::new();
    binary.insert(CORRELATION, HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    assert_eq!(Correlation::from_headers(&binary).as_str().len(), 36);
}

#[test]
fn fresh_ids_are_uuids_and_differ() {
    let made: std::collections::HashSet<Correlation> =
        (0..1000).map(|_| Correlation::fresh()).collect();
    assert_eq!(made.len(), 1000);
    for id in made {
        let uuid = uuid::Uuid::parse_str(id.as_str()).unwrap();
        assert_eq!(uuid.get_version_num(), 7);
    }
}

#[test]
fn good_parents_are_read_and_written() {
    let parent = TraceParent::parse(GOOD).unwrap();
    assert_eq!(parent.to_string(), GOOD);
    assert!(parent.sampled());
    assert_eq!(
        parent.span(),
        [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]
    );
    let unsampled = format!("{}00", &GOOD[..53]);
    assert!(!TraceParent::parse(&unsampled).unwrap().sampled());
    // Flags that we do not know are not passed on.
    let flags = format!("{}ff", &GOOD[..53]);
    assert_eq!(TraceParent::parse(&flags).unwrap().to_string(), GOOD);
    // A later version may say more after what we know.
    for later in [
        format!("cc{}", &GOOD[2..]),
        format!("cc{}-what", &GOOD[2..]),
    ] {
        assert_eq!(TraceParent::parse(&later).unwrap().to_string(), GOOD);
    }
}

#[test]
fn bad_parents_are_none() {
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    for bad in [
        String::new(),
        "00".to_owned(),
        format!("ff-{trace}-{span}-01"),
        format!("00-{}-{span}-01", "0".repeat(32)),
        format!("00-{trace}-{}-01", "0".repeat(16)),
        format!("00-{}-{span}-01", trace.to_uppercase()),
        format!("00-{}-{span}-01", &trace[1..]),
        format!("00-{trace}-{span}-1"),
        format!("00-{trace}-{span}-0g"),
        format!("00-{trace}-{span}-01-"),
        format!("00-{trace}-{span}-01-what"),
        format!("cc-{trace}-{span}-01.what"),
        format!("0-{trace}-{span}-01"),
        format!(" 00-{trace}-{span}-01"),
        format!("00_{trace}_{span}_01"),
        format!("00-{trace}-{span}"),
    ] {
        assert_eq!(TraceParent::parse(&bad), None, "{bad}");
    }
    let two = headers(&[(TRACEPARENT, GOOD), (TRACEPARENT, GOOD)]);
    assert_eq!(TraceParent::from_headers(&two), None);
}

#[test]
fn a_child_is_in_the_same_trace_with_the_same_state() {
    let sent = headers(&[
        (TRACEPARENT, GOOD),
        (TRACESTATE, "congo=t61rcWkgMzE, ,rojo=1"),
        (TRACESTATE, "tenant@vendor=x y"),
    ]);
    let child = TraceParent::from_headers(&sent).unwrap().child();
    let mut out = headers(&[(TRACESTATE, "old=1")]);
    child.put(&mut out);
    assert_eq!(
        out[TRACESTATE],
        "congo=t61rcWkgMzE,rojo=1,tenant@vendor=x y"
    );
    let again = TraceParent::from_headers(&out).unwrap();
    assert_eq!(again, child);
    assert_eq!(again.trace(), TraceParent::parse(GOOD).unwrap().trace());
    assert_ne!(again.span(), TraceParent::parse(GOOD).unwrap().span());

    let stateless = TraceParent::fresh(true);
    stateless.put(&mut out);
    assert!(!out.contains_key(TRACESTATE));
    assert_eq!(TraceParent::from_headers(&out), Some(stateless));
}

#[test]
fn state_is_bounded_and_believed_whole_or_not_at_all() {
    let state = |text: &str| {
        let sent = headers(&[(TRACEPARENT, GOOD), (TRACESTATE, text)]);
        let parent = TraceParent::from_headers(&sent).unwrap();
        parent.state().map(str::to_owned)
    };
    for bad in ["", ",", "novalue", "a=", "=b", "Upper=1", "a=1,b", "a=1=2"] {
        assert_eq!(state(bad), None, "{bad}");
    }
    let many: Vec<String> = (0..40).map(|n| format!("k{n}=1")).collect();
    let kept = state(&many.join(",")).unwrap();
    assert_eq!(kept.split(',').count(), STATE_MEMBERS);
    let long: Vec<String> = (0..9).map(|n| format!("k{n}={}", "x".repeat(97))).collect();
    let kept = state(&long.join(",")).unwrap();
    assert_eq!(kept, long[..5].join(","));
    assert!(kept.len() <= STATE_LONGEST);
}
