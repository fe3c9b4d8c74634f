//! Below HTTP: handshakes, and requests that no HTTP library would send.

use super::verdict::{Finding, Flaw};
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

/// As much of an answer's head as is looked at.
const HEAD: usize = 4096;

/// A handshake as a client of 2006 begins it: TLS 1.1 and nothing newer, with suites that a server
/// of today may still have for 1.2.
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

/// A way to the server's socket.
pub(super) struct Wire {
    host: String,
    port: u16,
    /// None where the server is called over plain HTTP.
    tls: Option<Arc<ClientConfig>>,
    patience: Duration,
}

impl Wire {
    pub(super) fn new(url: &Url, tls: Option<ClientConfig>, patience: Duration) -> Option<Self> {
        Some(Self {
            host: url.host_str()?.trim_matches(['[', ']']).to_owned(),
            port: url.port_or_known_default()?,
            tls: tls.map(Arc::new),
            patience,
        })
    }

    /// Whether anybody answers at the address.
    pub(super) async fn is_there(&self) -> bool {
        match &self.tls {
            Some(_) => self.handshake().await.is_ok(),
            None => self.connect().await.is_ok(),
        }
    }

    /// The version that client and server agree on; the certificate has been checked then as well.
    pub(super) async fn version(&self) -> Finding {
        if self.tls.is_none() {
            return Err(Flaw::broken(
                "plain HTTP: everybody on the way reads the tokens; serve HTTPS",
            ));
        }
        let stream = self.handshake().await?;
        match stream.get_ref().1.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => Ok("TLS 1.3, certificate valid".to_owned()),
            Some(ProtocolVersion::TLSv1_2) => Ok("TLS 1.2, certificate valid".to_owned()),
            _ => Err(Flaw::broken("an unknown version was agreed on")),
        }
    }

    /// That an old client is turned away: by an alert or by hanging up, never by a ServerHello.
    pub(super) async fn refuses_old_tls(&self) -> Finding {
        if self.tls.is_none() {
            return Err(Flaw::unseen("the server speaks plain HTTP"));
        }
        let mut stream = self.connect().await?;
        let mut first = [0];
        let answered = async {
            stream.write_all(OLD_HELLO).await?;
            stream.read(&mut first).await
        };
        match timeout(self.patience, answered).await {
            // A handshake record: the server goes along.
            Ok(Ok(1)) if first == [0x16] => {
                Err(Flaw::broken("a handshake with TLS 1.1 is accepted"))
            }
            Ok(_) => Ok(String::new()),
            Err(_) => Err(Flaw::poor("the server neither refuses nor hangs up")),
        }
    }

    /// That a body is refused by the size that its header says, before it is sent.
    pub(super) async fn oversize(&self, url: &Url) -> Finding {
        let head = self.head(url, "Content-Length: 1099511627776\r\n");
        match self.exchange(&head, false).await? {
            Some(answer) => match status(&answer) {
                Some(413) => Ok("HTTP 413 for a terabyte".to_owned()),
                Some(status @ 400..=499) => Err(Flaw::poor(format!(
                    "HTTP {status} for a terabyte; 413 says why"
                ))),
                _ => Err(Flaw::broken("a terabyte is not refused")),
            },
            None => Err(Flaw::poor("the server hangs up; HTTP 413 says why")),
        }
    }

    /// That a client that says half of something and hangs up is not answered with a result.
    pub(super) async fn half_closed(&self, url: &Url) -> Finding {
        let mut request = self.head(url, "Content-Length: 100\r\n");
        request.push_str("{\"jsonrpc\":\"2.0\",");
        match self.exchange(&request, true).await? {
            Some(answer) => match status(&answer) {
                Some(400..=499) => Ok(String::new()),
                Some(status) => Err(Flaw::broken(format!("HTTP {status} for half a body"))),
                None => Err(Flaw::broken("the answer is no HTTP")),
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

    /// Sends bytes and reads the beginning of what comes back; nothing if the server hangs up.
    async fn exchange(&self, request: &str, end: bool) -> Result<Option<Vec<u8>>, Flaw> {
        let answered = async {
            if self.tls.is_some() {
                let stream = self.handshake().await?;
                Ok(say(stream, request, end).await)
            } else {
                let stream = self.connect().await?;
                Ok(say(stream, request, end).await)
            }
        };
        match timeout(self.patience, answered).await {
            Ok(answer) => answer,
            Err(_) => Err(Flaw::broken("no answer in time")),
        }
    }

    async fn connect(&self) -> Result<TcpStream, Flaw> {
        let connect = TcpStream::connect((self.host.as_str(), self.port));
        match timeout(self.patience, connect).await {
            Ok(Ok(stream)) => Ok(stream),
            _ => Err(Flaw::broken("no connection")),
        }
    }

    async fn handshake(&self) -> Result<TlsStream<TcpStream>, Flaw> {
        let stream = self.connect().await?;
        let name = ServerName::try_from(self.host.clone())
            .map_err(|_| Flaw::unseen("the host has no name that a certificate could have"))?;
        let Some(config) = self.tls.clone() else {
            return Err(Flaw::unseen("the server speaks plain HTTP"));
        };
        let shaking = TlsConnector::from(config).connect(name, stream);
        match timeout(self.patience, shaking).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(Flaw::broken(format!("the handshake failed: {error}"))),
            Err(_) => Err(Flaw::broken("the handshake was not finished in time")),
        }
    }
}

async fn say(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
    end: bool,
) -> Option<Vec<u8>> {
    stream.write_all(request.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    if end {
        stream.shutdown().await.ok()?;
    }
    let mut head = vec![0; HEAD];
    match stream.read(&mut head).await {
        Ok(0) | Err(_) => None,
        Ok(read) => {
            head.truncate(read);
            Some(head)
        }
    }
}

/// The status in the first line.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.strip_prefix("HTTP/1.1 ")?.split(' ');
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{OLD_HELLO, status};

    #[test]
    fn the_old_hello_is_as_long_as_it_says() {
        assert_eq!(usize::from(OLD_HELLO[4]), OLD_HELLO.len() - 5);
        assert_eq!(usize::from(OLD_HELLO[8]), OLD_HELLO.len() - 9);
    }

    #[test]
    fn statuses() {
        assert_eq!(status(b"HTTP/1.1 413 Payload Too Large\r\na: b"), Some(413));
        assert_eq!(status(b"\x15\x03\x03"), None);
    }
}
