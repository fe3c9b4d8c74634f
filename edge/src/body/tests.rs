//! Bodies in pieces, too large, too slow, and more than there is memory for.

use super::*;
use axum::body::Body;
use futures_util::{StreamExt, stream};
use http::HeaderValue;
use std::io;

const ANY: ShareKey = ShareKey::Unattributed;

fn limits(body: usize) -> HttpLimits {
    HttpLimits {
        body,
        body_time: Duration::from_secs(5),
        ..HttpLimits::default()
    }
}

fn pieces(pieces: &[&'static str]) -> Body {
    let pieces: Vec<io::Result<Bytes>> = pieces
        .iter()
        .map(|piece| Ok(Bytes::from_static(piece.as_bytes())))
        .collect();
    Body::from_stream(stream::iter(pieces))
}

async fn length(body: Body, limit: usize) -> Result<usize, BodyError> {
    Ok(read(body, &HeaderMap::new(), &limits(limit), ANY)
        .await?
        .len())
}

#[tokio::test]
async fn takes_what_fits_in_any_number_of_pieces() {
    assert_eq!(length(Body::empty(), 0).await.unwrap(), 0);
    assert_eq!(length(Body::from("12345"), 5).await.unwrap(), 5);
    assert_eq!(length(pieces(&["12", "", "345"]), 5).await.unwrap(), 5);
    assert_eq!(length(pieces(&["", ""]), 5).await.unwrap(), 0);
    let (headers, limits) = (HeaderMap::new(), limits(usize::MAX));
    let whole = read(pieces(&["a", "b", "c"]), &headers, &limits, ANY).await;
    assert_eq!(whole.unwrap(), "abc");
}

#[tokio::test]
async fn refuses_what_is_too_large() {
    for body in [
        Body::from("123456"),
        pieces(&["123456"]),
        pieces(&["123", "456"]),
        pieces(&["1", "2", "3", "4", "5", "6"]),
    ] {
        let error = length(body, 5).await.unwrap_err();
        assert!(matches!(error, BodyError::TooLarge { limit: 5 }), "{error}");
    }
}

#[tokio::test]
async fn believes_an_announcement_that_is_too_large() {
    for announced in ["6", "18446744073709551615"] {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static(announced));
        // A body that would never come: the refusal must not wait for it.
        let body = Body::from_stream(stream::pending::<io::Result<Bytes>>());
        let error = read(body, &headers, &limits(5), ANY).await.unwrap_err();
        assert!(matches!(error, BodyError::TooLarge { .. }), "{error}");
    }
}

#[tokio::test]
async fn large_bodies_share_their_room() {
    let limits = HttpLimits {
        bodies: MemoryBudget::new(2 * MemoryBudget::PAGE),
        ..limits(usize::MAX)
    };
    let headers = HeaderMap::new();
    let page = || Bytes::from(vec![b'x'; MemoryBudget::PAGE]);
    let large = || Body::from_stream(stream::iter([io::Result::Ok(page()), Ok(page())]));
    let first = read(large(), &headers, &limits, ANY).await.unwrap();
    assert_eq!(first.len(), 2 * MemoryBudget::PAGE);
    let part = first.slice(..1);
    drop(first);
    let second = read(large(), &headers, &limits, ANY).await.unwrap_err();
    assert!(matches!(second, BodyError::NoRoom), "{second}");
    // A small one always goes through.
    read(Body::from("small"), &headers, &limits, ANY)
        .await
        .unwrap();
    drop(part);
    read(large(), &headers, &limits, ANY).await.unwrap();
    let third = stream::iter([io::Result::Ok(page()), Ok(page()), Ok(page())]);
    let third = read(Body::from_stream(third), &headers, &limits, ANY).await;
    assert!(matches!(third, Err(BodyError::NoRoom)));
    read(large(), &headers, &limits, ANY).await.unwrap();
}

#[tokio::test]
async fn room_stays_taken_without_the_bytes() {
    let limits = HttpLimits {
        bodies: MemoryBudget::new(2 * MemoryBudget::PAGE),
        ..limits(usize::MAX)
    };
    let headers = HeaderMap::new();
    let page = || io::Result::Ok(Bytes::from(vec![b'x'; MemoryBudget::PAGE]));
    let large = || Body::from_stream(stream::iter([page(), page()]));
    let mut reader = BodyReader::new(large(), &headers, &limits, ANY, None);
    reader.read_rest().await.unwrap();
    let (bytes, reservation) = reader.finish();
    assert_eq!(bytes.len(), 2 * MemoryBudget::PAGE);
    drop(bytes);
    let second = read(large(), &headers, &limits, ANY).await;
    assert!(matches!(second, Err(BodyError::NoRoom)));
    drop(reservation);
    read(large(), &headers, &limits, ANY).await.unwrap();
}

#[test]
fn large_answers_share_their_room() {
    let limits = HttpLimits {
        answers: MemoryBudget::new(2 * MemoryBudget::PAGE),
        ..HttpLimits::default()
    };
    let large = || vec![b'x'; 2 * MemoryBudget::PAGE];
    let first = hold(large(), 0, &limits, &ANY).unwrap();
    assert_eq!(first.len(), 2 * MemoryBudget::PAGE);
    let second = hold(large(), 0, &limits, &ANY).unwrap_err();
    assert!(matches!(second, BodyError::NoRoom), "{second}");
    // Small ones go through, and so does what was sent.
    hold(vec![b'x'; MemoryBudget::PAGE], 0, &limits, &ANY).unwrap();
    hold(large(), MemoryBudget::PAGE, &limits, &ANY).unwrap();
    drop(first);
    hold(large(), 0, &limits, &ANY).unwrap();
}

#[tokio::test(start_paused = true)]
async fn does_not_wait_for_ever() {
    let body = Body::from_stream(stream::pending::<io::Result<Bytes>>());
    let error = length(body, 5).await.unwrap_err();
    assert!(matches!(error, BodyError::TooSlow { .. }), "{error}");
}

#[tokio::test]
async fn tells_of_a_broken_body() {
    let broken = stream::iter([Ok(Bytes::from_static(b"1")), Err(io::Error::other("cut"))]);
    let error = length(Body::from_stream(broken), 5).await.unwrap_err();
    assert!(matches!(error, BodyError::Broken(_)), "{error}");
}

/// A body of one piece a second.
fn trickle(bytes: usize) -> Body {
    let clock = tokio::time::interval(Duration::from_secs(1));
    let pieces = stream::unfold(clock, move |mut clock| async move {
        clock.tick().await;
        Some((io::Result::Ok(Bytes::from(vec![b'x'; bytes])), clock))
    });
    Body::from_stream(pieces)
}

#[tokio::test(start_paused = true)]
async fn body_that_trickles_is_ended_long_before_its_time() {
    let limits = HttpLimits {
        body_rate: 1000,
        body_time: Duration::from_secs(600),
        ..limits(1 << 20)
    };
    let began = tokio::time::Instant::now();
    let error = read(trickle(10), &HeaderMap::new(), &limits, ANY).await;
    assert!(matches!(error, Err(BodyError::TooSlow { .. })));
    let took = began.elapsed().as_secs_f32();
    assert!((10.0..11.0).contains(&took), "{took}");

    // Half of the rate earns half of the time again, and again.
    let began = tokio::time::Instant::now();
    let error = read(trickle(500), &HeaderMap::new(), &limits, ANY).await;
    assert!(matches!(error, Err(BodyError::TooSlow { .. })));
    let took = began.elapsed().as_secs_f32();
    assert!((19.0..23.0).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn body_that_keeps_the_rate_is_read() {
    let limits = HttpLimits {
        body_rate: 1000,
        body_time: Duration::from_secs(600),
        ..limits(100_000)
    };
    let error = read(trickle(1000), &HeaderMap::new(), &limits, ANY).await;
    assert!(matches!(error, Err(BodyError::TooLarge { .. })));
}

#[tokio::test(start_paused = true)]
async fn large_body_at_a_good_rate_may_take_longer_than_its_time() {
    const RATE: usize = 500_000;
    let limits = HttpLimits {
        body_time: Duration::from_secs(60),
        ..limits(100 * RATE)
    };
    let began = tokio::time::Instant::now();
    let error = read(trickle(RATE), &HeaderMap::new(), &limits, ANY).await;
    assert!(matches!(error, Err(BodyError::TooLarge { .. })));
    assert_eq!(began.elapsed().as_secs(), 100);
    // Half of the good rate is not enough.
    let began = tokio::time::Instant::now();
    let error = read(trickle(64 * 1024), &HeaderMap::new(), &limits, ANY).await;
    assert!(matches!(error, Err(BodyError::TooSlow { .. })));
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn body_that_stops_after_a_fast_start_gets_one_extension() {
    let limits = HttpLimits {
        body_time: Duration::from_secs(60),
        ..limits(40 << 20)
    };
    let start = io::Result::Ok(Bytes::from(vec![b'x'; 30 << 20]));
    let body = stream::iter([start]).chain(stream::pending());
    let began = tokio::time::Instant::now();
    let error = read(Body::from_stream(body), &HeaderMap::new(), &limits, ANY).await;
    assert!(matches!(error, Err(BodyError::TooSlow { .. })));
    assert_eq!(began.elapsed().as_secs(), 70);
}

#[tokio::test]
async fn large_body_waits_for_its_caller_to_be_authenticated() {
    const PAGE: usize = MemoryBudget::PAGE;
    let limits = HttpLimits {
        bodies: MemoryBudget::new(16 * PAGE),
        ..limits(usize::MAX)
    };
    let page = || io::Result::Ok(Bytes::from(vec![b'x'; PAGE]));
    let large = || Body::from_stream(stream::iter([page(), page(), page()]));
    let address = "10.0.0.1".parse().unwrap();
    let address = ShareKey::Address(crate::budget::AddressPrefix::from_address(address));

    // Announced: nothing of it is read before.
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(3 * PAGE));
    let pending = Body::from_stream(stream::pending::<io::Result<Bytes>>());
    let mut reader = BodyReader::new(pending, &headers, &limits, address.clone(), None);
    assert!(!reader.read_start().await.unwrap());

    // Not announced: its start is, and then its caller pays for it.
    let headers = HeaderMap::new();
    let mut reader = BodyReader::new(large(), &headers, &limits, address.clone(), None);
    let start = reader.read_start().await;
    assert!(
        matches!(start, Err(BodyError::NoRoom)),
        "an address has one page"
    );
    let key = ShareKey::Principal("a".into());
    let mut reader = BodyReader::new(large(), &headers, &limits, key, None);
    assert!(!reader.read_start().await.unwrap());
    reader.authenticated(&"b".into()).unwrap();
    reader.read_rest().await.unwrap();
    let (bytes, reservation) = reader.finish();
    assert_eq!(
        (bytes.len(), reservation.unwrap().bytes()),
        (3 * PAGE, 3 * PAGE)
    );
}
