//! Calls as a caller makes them: JSON-RPC over HTTPS, and bytes over TLS for what no client would send.

use super::certificates::{Authority, Pair};
use super::zone::{Zone, said};
use super::{PATIENCE, soon};
use http::HeaderMap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A client that trusts this authority and nobody else, and may show a certificate.
pub(crate) fn client(authority: &Authority, certificate: Option<&Pair>) -> reqwest::Client {
    let ca = reqwest::Certificate::from_pem(authority.pem.as_bytes()).unwrap();
    let mut builder = reqwest::Client::builder()
        .tls_certs_only([ca])
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PATIENCE);
    if let Some(pair) = certificate {
        let pem = format!("{}{}", pair.cert, pair.key);
        builder = builder.identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap());
    }
    builder.build().unwrap()
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
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

    /// The code of a well-formed JSON-RPC error, which has no member too many.
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

impl Zone {
    /// A POST of these bytes to the one endpoint.
    pub(crate) async fn post(&self, token: &str, body: impl Into<reqwest::Body>) -> Reply {
        self.try_post(token, body).await.unwrap()
    }

    pub(crate) async fn try_post(
        &self,
        token: &str,
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Result<Reply> {
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
        Ok(Reply {
            status,
            headers,
            text,
        })
    }

    /// A call, whatever comes of it.
    pub(crate) async fn ask(&self, token: &str, method: &str, params: Value) -> Reply {
        let body = json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params});
        self.post(token, body.to_string()).await
    }

    /// A call that succeeds, and its result.
    pub(crate) async fn call(&self, token: &str, method: &str, params: Value) -> Value {
        let reply = self.ask(token, method, params).await;
        let mut body = reply.json();
        assert_eq!(body["id"], "1", "{method}: {reply:?}");
        assert!(body.get("error").is_none(), "{method}: {reply:?}");
        body["result"].take()
    }

    /// A call that is refused: the code, and what it says beside.
    pub(crate) async fn refused(&self, token: &str, method: &str, params: Value) -> (i64, Value) {
        let reply = self.ask(token, method, params).await;
        (reply.code(), reply.json()["error"]["data"].take())
    }

    /// Makes a task for an agent, and gives its id.
    pub(crate) async fn create(&self, token: &str, agent: &str, text: &str) -> String {
        let params = json!({"initialMessage": said(text), "assignTo": agent});
        let result = self.call(token, "tasks.create", params).await;
        result["task"]["taskId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn task(&self, token: &str, id: &str) -> Value {
        let mut result = self.call(token, "tasks.get", json!({"taskId": id})).await;
        result["task"].take()
    }

    /// Whether it still does what it is for.
    pub(crate) async fn serves(&self) {
        let token = self.token("passer-by");
        let id = self.create(&token, "demo", "echo still here").await;
        let task = self.finished(&token, &id).await;
        assert_eq!(task["status"], "COMPLETED", "{task}");
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        let response = self.http.get(format!("{}{path}", self.url)).send().await;
        Reply::read(response.unwrap()).await
    }

    /// What it counts, as an operator reads it.
    pub(crate) async fn metrics(&self) -> String {
        let token = self.world.issuer.scoped("operator", "interzone:operate");
        let request = self.http.get(format!("{}/metrics", self.url));
        let reply = Reply::read(request.bearer_auth(token).send().await.unwrap()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.text
    }

    /// A TLS connection to write any bytes on.
    pub(crate) async fn raw(&self) -> Raw {
        let tcp = TcpStream::connect(self.address).await.unwrap();
        let connector = TlsConnector::from(tls(&self.world.authority, None));
        let name = ServerName::try_from("localhost").unwrap();
        Raw(connector.connect(name, tcp).await.unwrap())
    }

    /// One POST of these bytes by hand, with headers of one's own.
    pub(crate) async fn raw_post(&self, headers: &str, body: &[u8]) -> Reply {
        let mut raw = self.raw().await;
        let head = format!("POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        raw.send(head.as_bytes()).await;
        raw.send(body).await;
        raw.reply().await.expect("an answer")
    }
}

/// TLS that trusts this authority and speaks HTTP/1.1 only.
pub(crate) fn tls(authority: &Authority, certificate: Option<&Pair>) -> Arc<rustls::ClientConfig> {
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

pub(crate) struct Raw(pub(crate) TlsStream<TcpStream>);

impl Raw {
    /// Sends what it can: the zone may have hung up, which is then what the test sees next.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).await;
        let _ = self.0.flush().await;
    }

    /// The next answer, or nothing if the zone hangs up without one.
    pub(crate) async fn reply(&mut self) -> Option<Reply> {
        soon("an answer or an end", self.read_reply()).await
    }

    /// Waits for the zone to hang up.
    pub(crate) async fn ends(&mut self) {
        let mut rest = Vec::new();
        let _ = soon("the zone to hang up", self.0.read_to_end(&mut rest)).await;
    }

    async fn read_reply(&mut self) -> Option<Reply> {
        let mut bytes = Vec::new();
        loop {
            if let Some(reply) = whole(&bytes) {
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

/// An HTTP/1.1 answer with a length, once all of it is there.
fn whole(bytes: &[u8]) -> Option<Reply> {
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
    Some(Reply {
        status,
        headers,
        text: String::from_utf8(body.to_vec()).unwrap(),
    })
}
