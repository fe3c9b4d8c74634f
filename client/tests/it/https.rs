//! The network transport on real sockets: trust, certificates, redirects, proxies, limits.

use crate::calls::{create_params, get_params};
use crate::scripted_peer::task_result;
use crate::test_server::{TestCa, TestServer, body, json_response};
use interzone_client::{
    Client, ClientBuilder, ConfigError, Error, InvalidResponse, RetryPolicy, Secret,
    TransportError, WatchEvent,
};
use std::io::Write as _;
use tokio::net::TcpListener;

/// Answers a call with a task.
fn task_response(request: &str) -> String {
    let call: serde_json::Value = serde_json::from_str(body(request)).unwrap();
    let answer =
        serde_json::json!({"jsonrpc": "2.0", "id": call["id"], "result": task_result("t-1")});
    json_response(&answer.to_string())
}

fn plain_client(server: &TestServer) -> ClientBuilder {
    let builder = Client::builder(format!("http://{}", server.address));
    builder.allow_http(true).retry(RetryPolicy::never())
}

#[tokio::test]
async fn call_over_plain_http_succeeds() {
    let server = TestServer::plain(task_response).await;
    let client = plain_client(&server).user_agent("test/1").build().unwrap();
    assert_eq!(
        client.tasks_get(&get_params("t-1")).await.unwrap().task_id,
        "t-1"
    );
    let request = server.requests.lock().unwrap()[0].clone();
    assert!(
        request.starts_with("POST /jsonrpc HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(request.contains("\r\nuser-agent: test/1\r\n"), "{request}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = TestServer::plain(task_response).await;
    let location = format!("http://{}/jsonrpc", other.address);
    let server = TestServer::plain(move |_| {
        format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
        )
    })
    .await;
    let error = plain_client(&server)
        .build()
        .unwrap()
        .tasks_get(&get_params("t-1"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Http { status, .. } if status.as_u16() == 307),
        "{error:?}"
    );
    assert!(
        other.requests.lock().unwrap().is_empty(),
        "the token is sent to no other host"
    );
}

#[tokio::test]
async fn oversized_response_is_rejected() {
    let server = TestServer::plain(|_| {
        let piece = format!("400\r\n{}\r\n", "x".repeat(1024)).repeat(64);
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{piece}0\r\n\r\n"
        )
    })
    .await;
    let client = plain_client(&server).max_response(10_000).build().unwrap();
    let error = client.tasks_get(&get_params("t-1")).await.unwrap_err();
    let large = InvalidResponse::TooLarge { limit: 10_000 };
    assert!(
        matches!(&error, Error::InvalidResponse(fault) if *fault == large),
        "{error:?}"
    );
}

#[tokio::test]
async fn connect_and_broken_connection_errors_are_distinguished() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = Client::builder(format!("http://{address}")).allow_http(true);
    let client = client.retry(RetryPolicy::never()).build().unwrap();
    let error = client.tasks_create(&create_params()).await.unwrap_err();
    let missing =
        |error: &Error| matches!(error, Error::Transport(TransportError::NotConnected(_)));
    assert!(missing(&error), "{error:?}");
    let server = TestServer::plain(|_| String::new()).await;
    let error = plain_client(&server)
        .build()
        .unwrap()
        .tasks_create(&create_params())
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Transport(TransportError::Broken(_))),
        "{error:?}"
    );
    let server = TestServer::plain(|_| {
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"
            .to_owned()
    })
    .await;
    let error = plain_client(&server)
        .build()
        .unwrap()
        .tasks_create(&create_params())
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Transport(TransportError::Broken(_))),
        "{error:?}"
    );
    assert_eq!(
        server.requests.lock().unwrap().len(),
        1,
        "a write is sent once"
    );
}

#[tokio::test]
async fn watch_over_plain_http_resumes() {
    let server = TestServer::plain(|request| {
        let task = crate::scripted_peer::task("t-1", "COMPLETED");
        let params = serde_json::json!({"taskId": "t-1", "event": "COMPLETED",
            "timestamp": "2026-01-02T03:04:05Z", "data": task});
        let data =
            serde_json::json!({"jsonrpc": "2.0", "method": "task.notification", "params": params});
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let resumed = request.contains("last-event-id: 1\r\n");
        let event = if resumed {
            format!("id: 2\ndata: {data}\n\n")
        } else {
            "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x.y\"}\n\n".to_owned()
        };
        format!("{head}{event}")
    })
    .await;
    let mut watch = plain_client(&server)
        .build()
        .unwrap()
        .watch_task("t-1", None);
    assert!(matches!(
        watch.next().await,
        Some(Ok(WatchEvent::Other { .. }))
    ));
    assert!(matches!(
        watch.next().await,
        Some(Ok(WatchEvent::Completed(_)))
    ));
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn ca_and_client_certificates_are_verified() {
    let authority = TestCa::new();
    let server = TestServer::tls(&authority, task_response).await;
    let address = format!("https://localhost:{}", server.address.port());
    let builder = || Client::builder(&address).retry(RetryPolicy::never());
    let (certificate, key) = authority.issue("me");
    let key = Secret::new(key);
    let client = builder()
        .ca_pem(&authority.pem)
        .client_certificate(&certificate, &key);
    client
        .build()
        .unwrap()
        .tasks_get(&get_params("t-1"))
        .await
        .unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(authority.pem.as_bytes()).unwrap();
    let client = builder()
        .ca_file(file.path())
        .client_certificate(&certificate, &key);
    client
        .build()
        .unwrap()
        .tasks_get(&get_params("t-1"))
        .await
        .unwrap();
    assert_eq!(server.requests.lock().unwrap().len(), 2);
    // Without the CA, without a certificate, with another CA's, under another name.
    let stranger = TestCa::new();
    let (other, other_key) = stranger.issue("me");
    let wrong_name = address.replace("localhost", "127.0.0.1");
    let refused = [
        builder().client_certificate(&certificate, &key),
        builder().ca_pem(&authority.pem),
        builder()
            .ca_pem(&authority.pem)
            .client_certificate(&other, &Secret::new(other_key)),
        builder()
            .ca_pem(&stranger.pem)
            .client_certificate(&certificate, &key),
        Client::builder(wrong_name)
            .ca_pem(&authority.pem)
            .client_certificate(&certificate, &key),
    ];
    for (case, client) in refused.into_iter().enumerate() {
        let error = client
            .build()
            .unwrap()
            .tasks_create(&create_params())
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Transport(_)), "{case}: {error:?}");
    }
    assert_eq!(server.requests.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn configured_proxy_is_used() {
    let proxy =
        TestServer::plain(|_| "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n".to_owned());
    let proxy = proxy.await;
    let client = Client::builder("https://agent.invalid").retry(RetryPolicy::never());
    let client = client
        .proxy(format!("http://{}", proxy.address))
        .build()
        .unwrap();
    client.tasks_get(&get_params("t-1")).await.unwrap_err();
    let request = proxy.requests.lock().unwrap()[0].clone();
    assert!(
        request.starts_with("CONNECT agent.invalid:443 "),
        "{request}"
    );
}

#[test]
fn invalid_config_is_reported_by_name() {
    let build = |builder: ClientBuilder| builder.build().map(drop).unwrap_err();
    let base = || Client::builder("https://agent.test");
    let error = build(base().ca_file("/nowhere/ca.pem"));
    assert!(
        matches!(&error, Error::Config(ConfigError::File { path, .. }) if path == "/nowhere/ca.pem")
    );
    let error = build(base().client_certificate("no", &Secret::new("PEM")));
    assert!(
        matches!(error, Error::Config(ConfigError::Pem { .. })),
        "{error:?}"
    );
    let error = build(base().user_agent("a\nb"));
    assert!(
        matches!(error, Error::Config(ConfigError::Header { .. })),
        "{error:?}"
    );
    let error = build(base().proxy("::"));
    assert!(
        matches!(error, Error::Config(ConfigError::Proxy)),
        "{error:?}"
    );
}
