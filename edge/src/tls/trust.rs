//! Whom we believe when we call somebody: the CAs of the system, and those that the operator names.

use super::{TlsError, files};
use reqwest::{Certificate, Client, ClientBuilder, blocking, redirect};
use rustls::RootCertStore;
use std::path::PathBuf;
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(10);
const WHOLE: Duration = Duration::from_secs(30);

/// The CAs for outgoing connections.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    extra: Vec<Certificate>,
}

impl Trust {
    /// The CAs of the system alone.
    pub fn system() -> Self {
        Self::default()
    }

    /// The CAs of the system, and those in these PEM files.
    pub fn system_and(paths: &[PathBuf]) -> Result<Self, TlsError> {
        let mut extra = Vec::new();
        // A client finds a bad CA only when it is built, and cannot say which file it was in.
        let mut trial = RootCertStore::empty();
        for path in paths {
            let bad = |source: Box<dyn std::error::Error + Send + Sync>| TlsError::BadCertificate {
                path: path.clone(),
                source,
            };
            for ca in files::certificates(path, &files::read(path)?)? {
                extra.push(Certificate::from_der(&ca).map_err(|error| bad(error.into()))?);
                trial.add(ca).map_err(|error| bad(error.into()))?;
            }
        }
        Ok(Self { extra })
    }

    /// A client that believes these CAs. It follows no redirect and uses no proxy, and it waits at most
    /// 10 seconds for a connection and 30 for an answer; the caller may change that.
    ///
    /// Building one reads the system's CAs from disk, so build few and share them.
    pub fn client(&self) -> ClientBuilder {
        Client::builder()
            .tls_backend_rustls()
            .tls_certs_merge(self.extra.iter().cloned())
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT)
            .timeout(WHOLE)
            .user_agent(concat!("interzone/", env!("CARGO_PKG_VERSION")))
    }

    /// The same for a thread that waits, and at most this long for an answer.
    pub(crate) fn waiting_client(
        &self,
        patience: Duration,
    ) -> Result<blocking::Client, Box<dyn std::error::Error + Send + Sync>> {
        let builder = blocking::Client::builder()
            .tls_backend_rustls()
            .tls_certs_merge(self.extra.iter().cloned())
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .timeout(patience)
            .user_agent(concat!("interzone/", env!("CARGO_PKG_VERSION")));
        // It has a runtime of its own, which must not be made within another.
        let made = std::thread::Builder::new().spawn(move || builder.build())?;
        Ok(made.join().map_err(|_| "the HTTP client broke")??)
    }
}
