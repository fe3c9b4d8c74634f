//! Raw TCP and TLS connections: handshakes, and requests that an HTTP library would not send.

use super::check_result::{CheckFailure, CheckOutcome};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ProtocolVersion};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Url;

/// Number of bytes read from the start of a response.
const MAX_HEAD_BYTES: usize = 4096;

/// ClientHello of TLS 1.1 at most, with cipher suites that a current server may still offer for TLS 1.2.
const OLD_HELLO: &[u8] = &[
    0x16, 0x03, 0x01, 0x00, 0x31, // a handshake record of 49 bytes
    0x01, 0x00, 0x00, 0x2d, // a ClientHello of 45 bytes
    0x03, 0x02, // TLS 1.1
    0x69, 0x6e, 0x74, 0x65, 0x72, 0x7a, 0x6f, 0x6e, 0x65, 0x20, 0x63, 0x68, 0x65, 0x63, 0x6b, 0x20,
    0x69, 0x6e, 0x74, 0x65, 0x72, 0x7a, 0x6f, 0x6e, 0x65, 0x20, 0x63, 0x68, 0x65, 0x63, 0x6b, 0x20,
    0x00, // no session
    0x00, 0x06, 0xc0, 0x13, 0xc0, 0x14, 0x00, 0x2f, // three suites
    0x01, 0x00, // no compression
];

/// Opens raw connections to the server.
pub(super) struct RawSocket {
    host: String,
    port: u16,
    /// None for plain HTTP.
    tls: Option<Arc<ClientConfig>>,
    timeout: Duration,
}

impl RawSocket {
    pub(super) fn new(url: &Url, tls: Option<ClientConfig>, timeout: Duration) -> Option<Self> {
        Some(Self {
            host: url.host_str()?.trim_matches(['[', ']']).to_owned(),
            port: url.port_or_known_default()?,
            tls: tls.map(Arc::new),
            timeout,
        })
    }

    /// Returns true if the server accepts connections.
    pub(super) async fn is_reachable(&self) -> bool {
        match &self.tls {
            Some(_) => self.handshake().await.is_ok(),
            None => self.connect().await.is_ok(),
        }
    }

    /// Checks the certificate and returns the negotiated TLS version.
    pub(super) async fn tls_version(&self) -> CheckOutcome {
        if self.tls.is_none() {
            return Err(CheckFailure::violation(
                "plain HTTP: tokens are not encrypted; use HTTPS",
            ));
        }
        let stream = self.handshake().await?;
        match stream.get_ref().1.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => Ok("TLS 1.3, certificate valid".to_owned()),
            Some(ProtocolVersion::TLSv1_2) => Ok("TLS 1.2, certificate valid".to_owned()),
            _ => Err(CheckFailure::violation(
                "an unknown TLS version was negotiated",
            )),
        }
    }

    /// Checks that a TLS 1.1 client is refused by an alert or by closing the connection, not answered by a ServerHello.
    pub(super) async fn refuses_old_tls(&self) -> CheckOutcome {
        if self.tls.is_none() {
            return Err(CheckFailure::skipped("the server uses plain HTTP"));
        }
        let mut stream = self.connect().await?;
        let mut first = [0];
        let reply = async {
            stream.write_all(OLD_HELLO).await?;
            stream.read(&mut first).await
        };
        match timeout(self.timeout, reply).await {
            // A handshake record: the server accepts.
            Ok(Ok(1)) if first == [0x16] => {
                Err(CheckFailure::violation("a TLS 1.1 handshake is accepted"))
            }
            Ok(_) => Ok(String::new()),
            Err(_) => Err(CheckFailure::warning(
                "the server neither refuses nor closes the connection",
            )),
        }
    }

    /// Checks that a body is refused because of its Content-Length, before it is sent.
    pub(super) async fn refuses_oversize_body(&self, url: &Url) -> CheckOutcome {
        let head = self.head(url, "Content-Length: 1099511627776\r\n");
        match self.exchange(&head, false).await? {
            Some(answer) => match status(&answer) {
                Some(413) => Ok("HTTP 413 for a terabyte".to_owned()),
                Some(status @ 400..=499) => Err(CheckFailure::warning(format!(
                    "HTTP {status} for a terabyte; should be 413"
                ))),
                _ => Err(CheckFailure::violation("a terabyte is not refused")),
            },
            None => Err(CheckFailure::warning(
                "the server closes the connection; should respond with HTTP 413",
            )),
        }
    }

    /// Checks that an incomplete request does not get a result.
    pub(super) async fn refuses_incomplete_body(&self, url: &Url) -> CheckOutcome {
        let mut request = self.head(url, "Content-Length: 100\r\n");
        request.push_str("{\"jsonrpc\":\"2.0\",");
        match self.exchange(&request, true).await? {
            Some(answer) => match status(&answer) {
                Some(400..=499) => Ok(String::new()),
                Some(status) => Err(CheckFailure::violation(format!(
                    "HTTP {status} for half a body"
                ))),
                None => Err(CheckFailure::violation("the response is not HTTP")),
            },
            None => Ok(String::new()),
        }
    }

    fn head(&self, url: &Url, more: &str) -> String {
        format!(
            "POST {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\n{more}\r\n",
            url.path(),
            self.host,
            self.port
        )
    }

    /// Sends a request and reads the start of the response; `None` if the server closes the connection.
    async fn exchange(&self, request: &str, end: bool) -> Result<Option<Vec<u8>>, CheckFailure> {
        let reply = async {
            if self.tls.is_some() {
                let stream = self.handshake().await?;
                Ok(send(stream, request, end).await)
            } else {
                let stream = self.connect().await?;
                Ok(send(stream, request, end).await)
            }
        };
        match timeout(self.timeout, reply).await {
            Ok(answer) => answer,
            Err(_) => Err(CheckFailure::violation("timed out")),
        }
    }

    async fn connect(&self) -> Result<TcpStream, CheckFailure> {
        let connect = TcpStream::connect((self.host.as_str(), self.port));
        match timeout(self.timeout, connect).await {
            Ok(Ok(stream)) => Ok(stream),
            _ => Err(CheckFailure::violation("no connection")),
        }
    }

    async fn handshake(&self) -> Result<TlsStream<TcpStream>, CheckFailure> {
        let stream = self.connect().await?;
        let name = ServerName::try_from(self.host.clone())
            .map_err(|_| CheckFailure::skipped("the host name is not valid in a certificate"))?;
        let Some(config) = self.tls.clone() else {
            return Err(CheckFailure::skipped("the server uses plain HTTP"));
        };
        let handshake = TlsConnector::from(config).connect(name, stream);
        match timeout(self.timeout, handshake).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(CheckFailure::violation(format!(
                "the handshake failed: {error}"
            ))),
            Err(_) => Err(CheckFailure::violation("the handshake timed out")),
        }
    }
}

async fn send(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
    end: bool,
) -> Option<Vec<u8>> {
    stream.write_all(request.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    if end {
        stream.shutdown().await.ok()?;
    }
    let mut head = vec![0; MAX_HEAD_BYTES];
    match stream.read(&mut head).await {
        Ok(0) | Err(_) => None,
        Ok(read) => {
            head.truncate(read);
            Some(head)
        }
    }
}

/// Parses the status code of a status line.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut fields = line.strip_prefix("HTTP/1.1 ")?.split(' ');
    fields.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{OLD_HELLO, status};

    #[test]
    fn old_hello_lengths_are_consistent() {
        assert_eq!(usize::from(OLD_HELLO[4]), OLD_HELLO.len() - 5);
        assert_eq!(usize::from(OLD_HELLO[8]), OLD_HELLO.len() - 9);
    }

    #[test]
    fn status_line_is_parsed() {
        assert_eq!(status(b"HTTP/1.1 413 Payload Too Large\r\na: b"), Some(413));
        assert_eq!(status(b"\x15\x03\x03"), None);
    }
}
