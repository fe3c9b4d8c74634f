//! HTTP without TLS, for platforms that terminate it: the same limits, the same shutdown.

use crate::fixture::within_timeout;
use axum::{Router, routing::get};
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::{Listener, Peer};
use interzone_edge::telemetry::Metrics;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let read = stream.read_to_string(&mut text);
    within_timeout("the end of the connection", read)
        .await
        .unwrap();
    text
}

#[tokio::test]
async fn plain_listener_serves_with_limits_and_stops() {
    let app = Router::new().route(
        "/",
        get(|request: axum::extract::Request| async move {
            let peer = request.extensions().get::<Arc<Peer>>().unwrap();
            assert!(
                peer.platform_identity.is_none(),
                "a listener asserts no platform identity"
            );
            format!("from {}", peer.address.ip())
        }),
    );
    let limits = HttpLimits {
        header_timeout: Duration::from_millis(800),
        header_bytes: 16 * 1024,
        ..HttpLimits::default()
    };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let metrics = Arc::new(Metrics::new());
    let listener = Listener::bind_plain(any, limits, metrics.clone());
    let listener = listener.await.unwrap();
    let address = listener.local_addr();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(listener.serve(app, stop.clone(), Duration::from_secs(5)));

    let mut good = TcpStream::connect(address).await.unwrap();
    let ask = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    good.write_all(ask).await.unwrap();
    let answer = read_to_end(&mut good).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.ends_with("from 127.0.0.1"), "{answer}");

    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
    assert_eq!(read_to_end(&mut slow).await, "");

    let mut large = TcpStream::connect(address).await.unwrap();
    let long = "x".repeat(20 * 1024);
    let request = format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {long}\r\n\r\n");
    large.write_all(request.as_bytes()).await.unwrap();
    let answer = read_to_end(&mut large).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");

    stop.cancel();
    within_timeout("the listener to end", serving)
        .await
        .unwrap();
    assert!(TcpStream::connect(address).await.is_err());
    assert!(metrics.encode().contains("interzone_connections 0\n"));
}
