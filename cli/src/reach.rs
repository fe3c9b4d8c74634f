//! Why there is no connection: told apart by what lies below the error, for each has another way out.
//! Nothing is asked of the network here.

use rustls::CertificateError;
use std::error::Error;
use std::io;

/// Why somebody could not be spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Away {
    /// Somebody answers, with a certificate of a CA that is not known here.
    Untrusted,
    /// Somebody answers, with a certificate for another name.
    OtherName,
    /// Somebody answers, with a certificate whose time is over or has not come.
    OutOfDate,
    /// Somebody answers, and TLS does not come about.
    NoTls,
    /// The name has no address.
    NoName,
    /// The machine is there, and nobody listens.
    Refused,
    /// Nothing came back in time.
    Slow,
    /// Something else, which only its own words tell.
    Else,
}

impl Away {
    /// Why, by whatever an error was caused by.
    pub(crate) fn by(error: &(dyn Error + 'static)) -> Self {
        causes(error).find_map(one).unwrap_or(Self::Else)
    }

    /// Whether somebody answered at all.
    pub(crate) fn answered(self) -> bool {
        matches!(
            self,
            Self::Untrusted | Self::OtherName | Self::OutOfDate | Self::NoTls
        )
    }

    /// What is wrong. Without words of ours, whatever lies at the bottom of it says so.
    pub(crate) fn said(self) -> Option<&'static str> {
        Some(match self {
            Self::Untrusted => "its certificate is of a CA that is not known here",
            Self::OtherName => "its certificate is for another name",
            Self::OutOfDate => "its certificate is out of date, or not valid yet",
            Self::NoTls => "TLS with it does not come about",
            Self::NoName => "its name has no address",
            Self::Refused => "nobody listens there",
            Self::Slow => "no answer in time",
            Self::Else => return None,
        })
    }

    /// What to do: where a CA is named, and where the address.
    pub(crate) fn next(self, ca: &str, address: &str) -> String {
        match self {
            Self::Untrusted => format!("name the CA that signed its certificate with {ca}"),
            Self::OtherName => format!("name it in {address} as its certificate does"),
            Self::OutOfDate => {
                "renew its certificate, or set this machine's clock if that is wrong".to_owned()
            }
            Self::NoTls => format!("is HTTPS spoken there? if not, correct {address}"),
            Self::NoName => format!("correct the name in {address}, or let DNS know it"),
            Self::Refused => format!("start it, or correct {address}"),
            Self::Slow => {
                format!("look for a firewall on the way and into its log, or correct {address}")
            }
            Self::Else => format!("is it running, and is {address} right?"),
        }
    }
}

/// What lies at the bottom of an error, in its own words.
pub(crate) fn root(error: &(dyn Error + 'static)) -> String {
    let bottom = causes(error).last();
    bottom.map_or_else(String::new, ToString::to_string)
}

/// An error and whatever caused it. What is wrapped as one of I/O is looked into: it hides its own cause.
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

fn one(error: &(dyn Error + 'static)) -> Option<Away> {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(match error {
            rustls::Error::InvalidCertificate(error) => certificate(error),
            _ => Away::NoTls,
        });
    }
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return error.is_timeout().then_some(Away::Slow);
    }
    let error = error.downcast_ref::<io::Error>()?;
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some(Away::Refused),
        io::ErrorKind::TimedOut => Some(Away::Slow),
        // The library has no kind for it, only words.
        _ if error.to_string().starts_with("failed to lookup address") => Some(Away::NoName),
        _ => None,
    }
}

fn certificate(error: &CertificateError) -> Away {
    match error {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Away::OtherName
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => Away::OutOfDate,
        // Whatever else is said of a certificate, such as that it signed itself, is no reason to believe it.
        _ => Away::Untrusted,
    }
}

#[cfg(test)]
mod tests {
    use super::{Away, root};
    use interzone_edge::tls::{DevCa, Trust, install_provider};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{CertificateError, Error, ServerConfig};
    use std::io;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    async fn asked(url: &str, patience: Duration) -> (Away, String) {
        install_provider();
        let http = Trust::system().client().timeout(patience).build().unwrap();
        let error = http.get(url).send().await.unwrap_err();
        (Away::by(&error), root(&error))
    }

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn whoever_is_not_there_is_told_from_whoever_is_not_believed() {
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = nobody.local_addr().unwrap();
        // It is connected to by the system, and then nothing is ever said.
        let slow = asked(&format!("https://{address}/"), Duration::from_millis(100)).await;
        assert_eq!(slow.0, Away::Slow);
        let plain = async {
            let (mut stream, _) = nobody.accept().await.unwrap();
            // The first is the one that waited before.
            drop(stream);
            (stream, _) = nobody.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 No\r\n\r\n").await.unwrap();
            stream
        };
        let url = format!("https://{address}/");
        let (_stream, answer) = tokio::join!(plain, asked(&url, LONG));
        assert_eq!(answer.0, Away::NoTls, "{}", answer.1);
        drop(nobody);
        let refused = asked(&url, LONG).await;
        assert_eq!(refused.0, Away::Refused, "{}", refused.1);
        let unknown = asked("https://nobody.invalid/", LONG).await;
        assert_eq!(unknown.0, Away::NoName, "{}", unknown.1);
    }

    #[tokio::test]
    async fn a_stranger_is_no_nobody() {
        install_provider();
        let folder = tempfile::tempdir().unwrap();
        let files = DevCa::open_or_make(folder.path(), &[]).unwrap();
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
        let ((), answer) = tokio::join!(serve, asked(&url, LONG));
        assert_eq!(answer.0, Away::Untrusted, "{}", answer.1);
        assert!(answer.0.answered());
    }

    #[test]
    fn what_is_wrong_with_a_certificate_has_a_way_out_of_its_own() {
        for (error, away, way) in [
            (CertificateError::UnknownIssuer, Away::Untrusted, "--ca"),
            (CertificateError::NotValidForName, Away::OtherName, "--url"),
            (CertificateError::Expired, Away::OutOfDate, "clock"),
        ] {
            let error = io::Error::other(Error::InvalidCertificate(error));
            // As clients wrap it.
            let error = io::Error::other(error);
            assert_eq!(Away::by(&error), away);
            assert!(away.next("--ca", "--url").contains(way));
        }
        assert_eq!(Away::by(&io::Error::other("else")), Away::Else);
    }
}
