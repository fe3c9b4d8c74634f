//! The network transport on real sockets: trust, certificates, redirects, proxies, limits.

use crate::calls::{create, get};
use crate::script::task_result;
use crate::server::{Authority, Server, body, json};
use interzone_client::{
    AnswerFault, Client, ClientBuilder, ConfigError, Error, RetryPolicy, Secret, TransportError,
    Watched,
};
use std::io::Write as _;
use tokio::net::TcpListener;

/// Answers a call with a task.
fn good(request: &str) -> String {
    let call: serde_json::Value = serde_json::from_str(body(request)).unwrap();
    let answer =
        serde_json::json!({"jsonrpc": "2.0", "id": call["id"], "result": task_result("t-1")});
    json(&answer.to_string())
}

fn plain(server: &Server) -> ClientBuilder {
    let builder = Client::builder(format!("http://{}", server.address));
    builder.allow_http(true).retry(RetryPolicy::never())
}

#[tokio::test]
async fn a_call_over_a_socket() {
    let server = Server::plain(good).await;
    let client = plain(&server).user_agent("test/1").build().unwrap();
    assert_eq!(client.tasks_get(&get("t-1")).await.unwrap().task_id, "t-1");
    let request = server.requests.lock().unwrap()[0].clone();
    assert!(
        request.starts_with("POST /jsonrpc HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(request.contains("\r\nuser-agent: test/1\r\n"), "{request}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Server::plain(good).await;
    let location = format!("http://{}/jsonrpc", other.address);
    let server = Server::plain(move |_| {
        format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
        )
    })
    .await;
    let error = plain(&server)
        .build()
        .unwrap()
        .tasks_get(&get("t-1"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Http { status, .. } if status.as_u16() == 307),
        "{error:?}"
    );
    assert!(
        other.requests.lock().unwrap().is_empty(),
        "the token goes nowhere else"
    );
}

#[tokio::test]
async fn large_answers_are_cut_off() {
    let server = Server::plain(|_| {
        let piece = format!("400\r\n{}\r\n", "x".repeat(1024)).repeat(64);
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{piece}0\r\n\r\n"
        )
    })
    .await;
    let client = plain(&server).max_response(10_000).build().unwrap();
    let error = client.tasks_get(&get("t-1")).await.unwrap_err();
    let large = AnswerFault::TooLarge { limit: 10_000 };
    assert!(
        matches!(&error, Error::Answer(fault) if *fault == large),
        "{error:?}"
    );
}

#[tokio::test]
async fn no_connection_and_a_broken_one_are_told_apart() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let client = Client::builder(format!("http://{address}")).allow_http(true);
    let client = client.retry(RetryPolicy::never()).build().unwrap();
    let error = client.tasks_create(&create()).await.unwrap_err();
    let missing =
        |error: &Error| matches!(error, Error::Transport(TransportError::NotConnected(_)));
    assert!(missing(&error), "{error:?}");
    let server = Server::plain(|_| String::new()).await;
    let error = plain(&server)
        .build()
        .unwrap()
        .tasks_create(&create())
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Transport(TransportError::Broken(_))),
        "{error:?}"
    );
    let server = Server::plain(|_| {
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"
            .to_owned()
    })
    .await;
    let error = plain(&server)
        .build()
        .unwrap()
        .tasks_create(&create())
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
async fn events_over_a_socket() {
    let server = Server::plain(|request| {
        let task = crate::script::task("t-1", "COMPLETED");
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
    let mut watch = plain(&server).build().unwrap().watch_task("t-1", None);
    assert!(matches!(
        watch.next().await,
        Some(Ok(Watched::Other { .. }))
    ));
    assert!(matches!(
        watch.next().await,
        Some(Ok(Watched::Completed(_)))
    ));
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn trust_and_certificates() {
    let authority = Authority::new();
    let server = Server::tls(&authority, good).await;
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
        .tasks_get(&get("t-1"))
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
        .tasks_get(&get("t-1"))
        .await
        .unwrap();
    assert_eq!(server.requests.lock().unwrap().len(), 2);
    // Without the authority, without a certificate, with another's, under another name.
    let stranger = Authority::new();
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
            .tasks_create(&create())
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Transport(_)), "{case}: {error:?}");
    }
    assert_eq!(server.requests.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_proxy_is_used_when_it_is_named() {
    let proxy =
        Server::plain(|_| "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n".to_owned());
    let proxy = proxy.await;
    let client = Client::builder("https://agent.invalid").retry(RetryPolicy::never());
    let client = client
        .proxy(format!("http://{}", proxy.address))
        .build()
        .unwrap();
    client.tasks_get(&get("t-1")).await.unwrap_err();
    let request = proxy.requests.lock().unwrap()[0].clone();
    assert!(
        request.starts_with("CONNECT agent.invalid:443 "),
        "{request}"
    );
}

#[test]
fn what_cannot_be_read_is_named() {
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
