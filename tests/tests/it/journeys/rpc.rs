//! Client side of the tests: JSON-RPC over HTTPS, and raw bytes over TLS for requests that no client library sends.

use super::certificates::{Authority, CertAndKey};
use super::zone_process::{ZoneProcess, user_message};
use super::{WAIT_TIMEOUT, within_timeout};
use http::HeaderMap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// HTTP client that trusts only this authority and may present a client certificate.
pub(crate) fn client(authority: &Authority, certificate: Option<&CertAndKey>) -> reqwest::Client {
    let ca = reqwest::Certificate::from_pem(authority.pem.as_bytes()).unwrap();
    let mut builder = reqwest::Client::builder()
        .tls_certs_only([ca])
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(WAIT_TIMEOUT);
    if let Some(pair) = certificate {
        let pem = format!("{}{}", pair.cert, pair.key);
        builder = builder.identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap());
    }
    builder.build().unwrap()
}

/// A complete HTTP response.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl HttpReply {
    pub(crate) async fn read(response: reqwest::Response) -> Self {
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await.unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .unwrap_or_else(|| panic!("no {name} in {self:?}"))
            .to_str()
            .unwrap()
    }

    /// Returns the code of a JSON-RPC error and checks that it has no unspecified members.
    pub(crate) fn code(&self) -> i64 {
        let body = self.json();
        error_code(&body)
    }
}

pub(crate) fn error_code(body: &Value) -> i64 {
    let members = body.as_object().unwrap_or_else(|| panic!("{body}"));
    let mut names: Vec<&str> = members.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["error", "id", "jsonrpc"], "{body}");
    assert_eq!(body["jsonrpc"], "2.0");
    let error = &body["error"];
    assert!(!error["message"].as_str().unwrap().is_empty(), "{body}");
    error["code"].as_i64().unwrap()
}

impl ZoneProcess {
    /// Posts these bytes to `/jsonrpc`.
    pub(crate) async fn post(&self, token: &str, body: impl Into<reqwest::Body>) -> HttpReply {
        self.try_post(token, body).await.unwrap()
    }

    pub(crate) async fn try_post(
        &self,
        token: &str,
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Result<HttpReply> {
        let response = self
            .http
            .post(format!("{}/jsonrpc", self.url))
            .header("content-type", "application/json")
            .bearer_auth(token)
            .body(body)
            .send()
            .await?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let text = response.text().await?;
        Ok(HttpReply {
            status,
            headers,
            text,
        })
    }

    /// Makes a call and returns the response, success or error.
    pub(crate) async fn send_call(&self, token: &str, method: &str, params: Value) -> HttpReply {
        let body = json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params});
        self.post(token, body.to_string()).await
    }

    /// Makes a call that must succeed and returns its result.
    pub(crate) async fn call(&self, token: &str, method: &str, params: Value) -> Value {
        let reply = self.send_call(token, method, params).await;
        let mut body = reply.json();
        assert_eq!(body["id"], "1", "{method}: {reply:?}");
        assert!(body.get("error").is_none(), "{method}: {reply:?}");
        body["result"].take()
    }

    /// Makes a call that must fail; returns the error's code and data.
    pub(crate) async fn call_error(
        &self,
        token: &str,
        method: &str,
        params: Value,
    ) -> (i64, Value) {
        let reply = self.send_call(token, method, params).await;
        (reply.code(), reply.json()["error"]["data"].take())
    }

    /// Creates a task for an agent and returns its id.
    pub(crate) async fn create_task(&self, token: &str, agent: &str, text: &str) -> String {
        let params = json!({"initialMessage": user_message(text), "assignTo": agent});
        let result = self.call(token, "tasks.create", params).await;
        result["task"]["taskId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn task(&self, token: &str, id: &str) -> Value {
        let mut result = self.call(token, "tasks.get", json!({"taskId": id})).await;
        result["task"].take()
    }

    /// Checks that the zone still completes tasks.
    pub(crate) async fn assert_serving(&self) {
        let token = self.token("passer-by");
        let id = self.create_task(&token, "demo", "echo still here").await;
        let task = self.wait_for_task(&token, &id).await;
        assert_eq!(task["status"], "COMPLETED", "{task}");
    }

    pub(crate) async fn get(&self, path: &str) -> HttpReply {
        let response = self.http.get(format!("{}{path}", self.url)).send().await;
        HttpReply::read(response.unwrap()).await
    }

    /// Returns the metrics, read with an operator's token.
    pub(crate) async fn metrics(&self) -> String {
        let token = self
            .env
            .issuer
            .token_with_scope("operator", "interzone:operate");
        let request = self.http.get(format!("{}/metrics", self.url));
        let reply = HttpReply::read(request.bearer_auth(token).send().await.unwrap()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.text
    }

    /// Opens a TLS connection for raw bytes.
    pub(crate) async fn raw_connection(&self) -> RawConnection {
        let tcp = TcpStream::connect(self.address).await.unwrap();
        let connector = TlsConnector::from(tls_config(&self.env.authority, None));
        let name = ServerName::try_from("localhost").unwrap();
        RawConnection(connector.connect(name, tcp).await.unwrap())
    }

    /// Posts these bytes with these header lines on a raw connection.
    pub(crate) async fn raw_post(&self, headers: &str, body: &[u8]) -> HttpReply {
        let mut raw = self.raw_connection().await;
        let head = format!("POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        raw.send(head.as_bytes()).await;
        raw.send(body).await;
        raw.reply().await.expect("an answer")
    }
}

/// TLS config that trusts this authority and offers HTTP/1.1 only.
pub(crate) fn tls_config(
    authority: &Authority,
    certificate: Option<&CertAndKey>,
) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let cert = CertificateDer::from_pem_slice(pair.cert.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![cert], key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

pub(crate) struct RawConnection(pub(crate) TlsStream<TcpStream>);

impl RawConnection {
    /// Sends the bytes and ignores errors: if the zone closed the connection, the test sees that next.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).await;
        let _ = self.0.flush().await;
    }

    /// Returns the next response, or `None` if the zone closes the connection without one.
    pub(crate) async fn reply(&mut self) -> Option<HttpReply> {
        within_timeout("a response or the end of the connection", self.read_reply()).await
    }

    /// Waits for the zone to close the connection.
    pub(crate) async fn wait_for_close(&mut self) {
        let mut remaining = Vec::new();
        let _ = within_timeout(
            "the zone to close the connection",
            self.0.read_to_end(&mut remaining),
        )
        .await;
    }

    async fn read_reply(&mut self) -> Option<HttpReply> {
        let mut bytes = Vec::new();
        loop {
            if let Some(reply) = parse_response(&bytes) {
                return Some(reply);
            }
            let mut block = [0; 4096];
            match self.0.read(&mut block).await {
                Ok(0) | Err(_) => return None,
                Ok(read) => bytes.extend_from_slice(&block[..read]),
            }
        }
    }
}

/// Parses an HTTP/1.1 response with a content length; `None` until it is complete.
fn parse_response(bytes: &[u8]) -> Option<HttpReply> {
    let end = bytes.windows(4).position(|at| at == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, value.trim().parse().unwrap());
    }
    let length: usize = match headers.get("content-length") {
        Some(length) => length.to_str().unwrap().parse().unwrap(),
        None => 0,
    };
    let body = bytes.get(end + 4..end + 4 + length)?;
    Some(HttpReply {
        status,
        headers,
        text: String::from_utf8(body.to_vec()).unwrap(),
    })
}
