//! Bodies in chunks, too large, too slow, and over the memory budget.

use super::*;
use axum::body::Body;
use futures_util::{StreamExt, stream};
use http::HeaderValue;
use std::io;

const ANY: ShareKey = ShareKey::Unattributed;

fn limits(body: usize) -> HttpLimits {
    HttpLimits {
        body_bytes: body,
        body_timeout: Duration::from_secs(5),
        ..HttpLimits::default()
    }
}

fn chunked(pieces: &[&'static str]) -> Body {
    let chunks: Vec<io::Result<Bytes>> = pieces
        .iter()
        .map(|chunk| Ok(Bytes::from_static(chunk.as_bytes())))
        .collect();
    Body::from_stream(stream::iter(chunks))
}

async fn read_length(body: Body, limit: usize) -> Result<usize, BodyError> {
    Ok(read_body(body, &HeaderMap::new(), &limits(limit), ANY)
        .await?
        .len())
}

#[tokio::test]
async fn body_within_limit_is_read_in_any_number_of_chunks() {
    assert_eq!(read_length(Body::empty(), 0).await.unwrap(), 0);
    assert_eq!(read_length(Body::from("12345"), 5).await.unwrap(), 5);
    assert_eq!(
        read_length(chunked(&["12", "", "345"]), 5).await.unwrap(),
        5
    );
    assert_eq!(read_length(chunked(&["", ""]), 5).await.unwrap(), 0);
    let (headers, limits) = (HeaderMap::new(), limits(usize::MAX));
    let body = read_body(chunked(&["a", "b", "c"]), &headers, &limits, ANY).await;
    assert_eq!(body.unwrap(), "abc");
}

#[tokio::test(start_paused = true)]
async fn form_is_limited_in_size_and_time() {
    let timeout = Duration::from_secs(10);
    assert_eq!(
        read_form(chunked(&["a=", "1"]), 3, timeout).await.unwrap(),
        "a=1"
    );
    let error = read_form(chunked(&["a=", "12"]), 3, timeout)
        .await
        .unwrap_err();
    assert!(matches!(error, BodyError::TooLarge { limit: 3 }), "{error}");
    let broken = Body::from_stream(stream::iter([Err::<Bytes, _>(io::Error::other("broken"))]));
    let error = read_form(broken, 3, timeout).await.unwrap_err();
    assert!(matches!(error, BodyError::Incomplete(_)), "{error}");
    let endless = Body::from_stream(stream::pending::<io::Result<Bytes>>());
    let error = read_form(endless, 3, timeout).await.unwrap_err();
    assert!(
        matches!(error, BodyError::TooSlow { after } if after == timeout),
        "{error}"
    );
}

#[tokio::test]
async fn body_over_limit_is_rejected() {
    for body in [
        Body::from("123456"),
        chunked(&["123456"]),
        chunked(&["123", "456"]),
        chunked(&["1", "2", "3", "4", "5", "6"]),
    ] {
        let error = read_length(body, 5).await.unwrap_err();
        assert!(matches!(error, BodyError::TooLarge { limit: 5 }), "{error}");
    }
}

#[tokio::test]
async fn content_length_over_limit_is_rejected_at_once() {
    for announced in ["6", "18446744073709551615"] {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static(announced));
        // A body that never arrives: the rejection must not wait for it.
        let body = Body::from_stream(stream::pending::<io::Result<Bytes>>());
        let error = read_body(body, &headers, &limits(5), ANY)
            .await
            .unwrap_err();
        assert!(matches!(error, BodyError::TooLarge { .. }), "{error}");
    }
}

#[tokio::test]
async fn large_bodies_share_the_memory_budget() {
    let limits = HttpLimits {
        body_memory: MemoryBudget::new(2 * MemoryBudget::PAGE),
        ..limits(usize::MAX)
    };
    let headers = HeaderMap::new();
    let page = || Bytes::from(vec![b'x'; MemoryBudget::PAGE]);
    let large = || Body::from_stream(stream::iter([io::Result::Ok(page()), Ok(page())]));
    let first = read_body(large(), &headers, &limits, ANY).await.unwrap();
    assert_eq!(first.len(), 2 * MemoryBudget::PAGE);
    let part = first.slice(..1);
    drop(first);
    let second = read_body(large(), &headers, &limits, ANY)
        .await
        .unwrap_err();
    assert!(matches!(second, BodyError::MemoryLimit), "{second}");
    // A small one always passes.
    read_body(Body::from("small"), &headers, &limits, ANY)
        .await
        .unwrap();
    drop(part);
    read_body(large(), &headers, &limits, ANY).await.unwrap();
    let third = stream::iter([io::Result::Ok(page()), Ok(page()), Ok(page())]);
    let third = read_body(Body::from_stream(third), &headers, &limits, ANY).await;
    assert!(matches!(third, Err(BodyError::MemoryLimit)));
    read_body(large(), &headers, &limits, ANY).await.unwrap();
}

#[tokio::test]
async fn reservation_outlives_the_bytes() {
    let limits = HttpLimits {
        body_memory: MemoryBudget::new(2 * MemoryBudget::PAGE),
        ..limits(usize::MAX)
    };
    let headers = HeaderMap::new();
    let page = || io::Result::Ok(Bytes::from(vec![b'x'; MemoryBudget::PAGE]));
    let large = || Body::from_stream(stream::iter([page(), page()]));
    let mut reader = BodyReader::new(large(), &headers, &limits, ANY, None);
    reader.read_remaining().await.unwrap();
    let (bytes, reservation) = reader.finish();
    assert_eq!(bytes.len(), 2 * MemoryBudget::PAGE);
    drop(bytes);
    let second = read_body(large(), &headers, &limits, ANY).await;
    assert!(matches!(second, Err(BodyError::MemoryLimit)));
    drop(reservation);
    read_body(large(), &headers, &limits, ANY).await.unwrap();
}

#[test]
fn large_responses_share_the_memory_budget() {
    let limits = HttpLimits {
        response_memory: MemoryBudget::new(2 * MemoryBudget::PAGE),
        ..HttpLimits::default()
    };
    let large = || vec![b'x'; 2 * MemoryBudget::PAGE];
    let first = reserve_response(large(), 0, &limits, &ANY, &mut None).unwrap();
    assert_eq!(first.len(), 2 * MemoryBudget::PAGE);
    let second = reserve_response(large(), 0, &limits, &ANY, &mut None).unwrap_err();
    assert!(matches!(second, BodyError::MemoryLimit), "{second}");
    // Small ones pass, and so does one that is no longer than the request.
    reserve_response(vec![b'x'; MemoryBudget::PAGE], 0, &limits, &ANY, &mut None).unwrap();
    reserve_response(large(), MemoryBudget::PAGE, &limits, &ANY, &mut None).unwrap();
    drop(first);
    reserve_response(large(), 0, &limits, &ANY, &mut None).unwrap();
}

#[tokio::test(start_paused = true)]
async fn pending_body_times_out() {
    let body = Body::from_stream(stream::pending::<io::Result<Bytes>>());
    let error = read_length(body, 5).await.unwrap_err();
    assert!(matches!(error, BodyError::TooSlow { .. }), "{error}");
}

#[tokio::test]
async fn aborted_body_is_reported_as_incomplete() {
    let broken = stream::iter([Ok(Bytes::from_static(b"1")), Err(io::Error::other("cut"))]);
    let error = read_length(Body::from_stream(broken), 5).await.unwrap_err();
    assert!(matches!(error, BodyError::Incomplete(_)), "{error}");
}

/// Returns a body of one chunk a second.
fn trickle(bytes: usize) -> Body {
    let clock = tokio::time::interval(Duration::from_secs(1));
    let chunks = stream::unfold(clock, move |mut clock| async move {
        clock.tick().await;
        Some((io::Result::Ok(Bytes::from(vec![b'x'; bytes])), clock))
    });
    Body::from_stream(chunks)
}

#[tokio::test(start_paused = true)]
async fn trickling_body_is_rejected_before_its_timeout() {
    let limits = HttpLimits {
        min_body_rate: 1000,
        body_timeout: Duration::from_secs(600),
        ..limits(1 << 20)
    };
    let start = tokio::time::Instant::now();
    let error = read_body(trickle(10), &HeaderMap::new(), &limits, ANY).await;
    assert!(matches!(error, Err(BodyError::TooSlow { .. })));
    let took = start.elapsed().as_secs_f32();
    assert!((10.0..11.0).contains(&took), "{took}");

    // Half of the rate earns half of the time again, and again.
    let start = tokio::time::Instant::now();
    let error = read_body(trickle(500), &HeaderMap::new(), &limits, ANY).await;
    assert!(matches!(error, Err(BodyError::TooSlow { .. })));
    let took = start.elapsed().as_secs_f32();
    assert!((19.0..23.0).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn body_at_the_minimum_rate_is_read() {
    let limits = HttpLimits {
        min_body_rate: 1000,
        body_timeout: Duration::from_secs(600),
        ..limits(100_000)
    };
    let error = read_body(trickle(1000), &HeaderMap::new(), &limits, ANY).await;
    assert!(matches!(error, Err(BodyError::TooLarge { .. })));
}

#[tokio::test(start_paused = true)]
async fn large_body_at_a_good_rate_gets_more_time() {
    const RATE: usize = 500_000;
    let limits = HttpLimits {
        body_timeout: Duration::from_secs(60),
        ..limits(100 * RATE)
    };
    let start = tokio::time::Instant::now();
    let error = read_body(trickle(RATE), &HeaderMap::new(), &limits, ANY).await;
    assert!(matches!(error, Err(BodyError::TooLarge { .. })));
    assert_eq!(start.elapsed().as_secs(), 100);
    // Half of the good rate is not enough.
    let start = tokio::time::Instant::now();
    let error = read_body(trickle(64 * 1024), &HeaderMap::new(), &limits, ANY).await;
    assert!(matches!(error, Err(BodyError::TooSlow { .. })));
    assert_eq!(start.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn body_stalled_after_fast_start_gets_one_extension() {
    let limits = HttpLimits {
        body_timeout: Duration::from_secs(60),
        ..limits(40 << 20)
    };
    let start = io::Result::Ok(Bytes::from(vec![b'x'; 30 << 20]));
    let body = stream::iter([start]).chain(stream::pending());
    let start = tokio::time::Instant::now();
    let error = read_body(Body::from_stream(body), &HeaderMap::new(), &limits, ANY).await;
    assert!(matches!(error, Err(BodyError::TooSlow { .. })));
    assert_eq!(start.elapsed().as_secs(), 70);
}

#[tokio::test]
async fn large_body_is_read_after_authentication() {
    const PAGE: usize = MemoryBudget::PAGE;
    let limits = HttpLimits {
        body_memory: MemoryBudget::new(16 * PAGE),
        ..limits(usize::MAX)
    };
    let page = || io::Result::Ok(Bytes::from(vec![b'x'; PAGE]));
    let large = || Body::from_stream(stream::iter([page(), page(), page()]));
    let address = "10.0.0.1".parse().unwrap();
    let address = ShareKey::Address(crate::budget::AddressPrefix::from_address(address));

    // With a content length: nothing is read before.
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(3 * PAGE));
    let pending = Body::from_stream(stream::pending::<io::Result<Bytes>>());
    let mut reader = BodyReader::new(pending, &headers, &limits, address.clone(), None);
    assert!(!reader.read_start().await.unwrap());

    // Without: the first bytes are read, and count against the caller.
    let headers = HeaderMap::new();
    let mut reader = BodyReader::new(large(), &headers, &limits, address.clone(), None);
    let start = reader.read_start().await;
    assert!(
        matches!(start, Err(BodyError::MemoryLimit)),
        "an address has one page"
    );
    let key = ShareKey::Principal("a".into());
    let mut reader = BodyReader::new(large(), &headers, &limits, key, None);
    assert!(!reader.read_start().await.unwrap());
    reader.set_authenticated(&"b".into()).unwrap();
    reader.read_remaining().await.unwrap();
    let (bytes, reservation) = reader.finish();
    assert_eq!(
        (bytes.len(), reservation.unwrap().bytes()),
        (3 * PAGE, 3 * PAGE)
    );
}
