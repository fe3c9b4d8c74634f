//! Classifies connection errors by their underlying cause and gives a remedy for each.

use rustls::CertificateError;
use std::error::Error;
use std::io;

/// Cause of a connection failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectFailure {
    /// The server's certificate was issued by an unknown CA.
    Untrusted,
    /// The server's certificate is for a different host name.
    WrongHostName,
    /// The server's certificate is expired or not yet valid.
    CertificateExpired,
    /// The TLS handshake failed.
    TlsFailed,
    /// The host name cannot be resolved.
    HostNotFound,
    /// The connection was refused.
    ConnectionRefused,
    /// No response in time.
    TimedOut,
    /// Any other error, described by its own message.
    Other,
}

impl ConnectFailure {
    /// Classifies an error by its causes.
    pub(crate) fn from_error(error: &(dyn Error + 'static)) -> Self {
        causes(error).find_map(classify).unwrap_or(Self::Other)
    }

    /// Returns true if a server responded at all.
    pub(crate) fn has_response(self) -> bool {
        matches!(
            self,
            Self::Untrusted | Self::WrongHostName | Self::CertificateExpired | Self::TlsFailed
        )
    }

    /// Returns the description; None for `Other`, which is described by its root cause.
    pub(crate) fn message(self) -> Option<&'static str> {
        Some(match self {
            Self::Untrusted => "its certificate was issued by an unknown CA",
            Self::WrongHostName => "its certificate is for a different host name",
            Self::CertificateExpired => "its certificate is expired or not yet valid",
            Self::TlsFailed => "TLS handshake failed",
            Self::HostNotFound => "cannot resolve host",
            Self::ConnectionRefused => "connection refused",
            Self::TimedOut => "no response in time",
            Self::Other => return None,
        })
    }

    /// Returns the remedy. `ca` and `address` are the settings that contain the CA and the URL.
    pub(crate) fn hint(self, ca: &str, address: &str) -> String {
        match self {
            Self::Untrusted => format!("add the CA of its certificate with {ca}"),
            Self::WrongHostName => format!("use the host name of its certificate in {address}"),
            Self::CertificateExpired => {
                "renew its certificate, or correct this machine's clock".to_owned()
            }
            Self::TlsFailed => format!("check that the server uses HTTPS, or correct {address}"),
            Self::HostNotFound => format!("correct the host name in {address}, or add it to DNS"),
            Self::ConnectionRefused => format!("start the server, or correct {address}"),
            Self::TimedOut => {
                format!("check for a firewall and look at the server's log, or correct {address}")
            }
            Self::Other => format!("check that the server is running and {address} is correct"),
        }
    }
}

/// Returns the message of the root cause.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let bottom = causes(error).last();
    bottom.map_or_else(String::new, ToString::to_string)
}

/// Iterates over an error and its causes, including those wrapped in an `io::Error`, which hides them from
/// `source`.
pub(crate) fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(|io| io.get_ref());
        match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

fn classify(error: &(dyn Error + 'static)) -> Option<ConnectFailure> {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(match error {
            rustls::Error::InvalidCertificate(error) => classify_certificate(error),
            _ => ConnectFailure::TlsFailed,
        });
    }
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return error.is_timeout().then_some(ConnectFailure::TimedOut);
    }
    let error = error.downcast_ref::<io::Error>()?;
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some(ConnectFailure::ConnectionRefused),
        io::ErrorKind::TimedOut => Some(ConnectFailure::TimedOut),
        // The library has no error kind for this, only the text.
        _ if error.to_string().starts_with("failed to lookup address") => {
            Some(ConnectFailure::HostNotFound)
        }
        _ => None,
    }
}

fn classify_certificate(error: &CertificateError) -> ConnectFailure {
    match error {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            ConnectFailure::WrongHostName
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => ConnectFailure::CertificateExpired,
        // All other certificate errors, such as a self-signed certificate, mean that it is not trusted.
        _ => ConnectFailure::Untrusted,
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectFailure, root_cause};
    use interzone_edge::tls::{DevCa, TrustRoots, install_provider};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{CertificateError, Error, ServerConfig};
    use std::io;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    async fn request_failure(url: &str, timeout: Duration) -> (ConnectFailure, String) {
        install_provider();
        let http = TrustRoots::system()
            .client()
            .timeout(timeout)
            .build()
            .unwrap();
        let error = http.get(url).send().await.unwrap_err();
        (ConnectFailure::from_error(&error), root_cause(&error))
    }

    const LONG_TIMEOUT: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn timeout_tls_refused_and_dns_errors_are_distinguished() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // The system accepts the connection, and the server never responds.
        let slow =
            request_failure(&format!("https://{address}/"), Duration::from_millis(100)).await;
        assert_eq!(slow.0, ConnectFailure::TimedOut);
        let plain = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            // The first connection is the one that timed out.
            drop(stream);
            (stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 No\r\n\r\n").await.unwrap();
            stream
        };
        let url = format!("https://{address}/");
        let (_stream, answer) = tokio::join!(plain, request_failure(&url, LONG_TIMEOUT));
        assert_eq!(answer.0, ConnectFailure::TlsFailed, "{}", answer.1);
        drop(listener);
        let refused = request_failure(&url, LONG_TIMEOUT).await;
        assert_eq!(
            refused.0,
            ConnectFailure::ConnectionRefused,
            "{}",
            refused.1
        );
        let unknown = request_failure("https://host.invalid/", LONG_TIMEOUT).await;
        assert_eq!(unknown.0, ConnectFailure::HostNotFound, "{}", unknown.1);
    }

    #[tokio::test]
    async fn unknown_ca_is_reported_as_untrusted() {
        install_provider();
        let folder = tempfile::tempdir().unwrap();
        let files = DevCa::open_or_create(folder.path(), &[]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let chain = CertificateDer::pem_file_iter(&files.cert).unwrap();
        let chain = chain.map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(chain, key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let serve = async {
            let (stream, _) = listener.accept().await.unwrap();
            let _ = acceptor.accept(stream).await;
        };
        let ((), answer) = tokio::join!(serve, request_failure(&url, LONG_TIMEOUT));
        assert_eq!(answer.0, ConnectFailure::Untrusted, "{}", answer.1);
        assert!(answer.0.has_response());
    }

    #[test]
    fn certificate_errors_have_specific_hints() {
        for (error, failure, hint) in [
            (
                CertificateError::UnknownIssuer,
                ConnectFailure::Untrusted,
                "--ca",
            ),
            (
                CertificateError::NotValidForName,
                ConnectFailure::WrongHostName,
                "--url",
            ),
            (
                CertificateError::Expired,
                ConnectFailure::CertificateExpired,
                "clock",
            ),
        ] {
            let error = io::Error::other(Error::InvalidCertificate(error));
            // As clients wrap it.
            let error = io::Error::other(error);
            assert_eq!(ConnectFailure::from_error(&error), failure);
            assert!(failure.hint("--ca", "--url").contains(hint));
        }
        assert_eq!(
            ConnectFailure::from_error(&io::Error::other("else")),
            ConnectFailure::Other
        );
    }
}
