//! Trusted CAs for outgoing connections: those of the system, and those that the operator configures.

use super::{TlsError, files};
use reqwest::{Certificate, Client, ClientBuilder, blocking, redirect};
use rustls::RootCertStore;
use std::path::PathBuf;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Trusted CAs for outgoing connections.
#[derive(Clone, Debug, Default)]
pub struct TrustRoots {
    extra: Vec<Certificate>,
}

impl TrustRoots {
    /// Returns the CAs of the system alone.
    pub fn system() -> Self {
        Self::default()
    }

    /// Returns the CAs of the system and those in these PEM files.
    pub fn system_and_files(paths: &[PathBuf]) -> Result<Self, TlsError> {
        let mut extra = Vec::new();
        // A client reports a bad CA only when it is built, and not in which file it was.
        let mut trial = RootCertStore::empty();
        for path in paths {
            let bad = |source: Box<dyn std::error::Error + Send + Sync>| TlsError::BadCertificate {
                path: path.clone(),
                source,
            };
            for ca in files::parse_certificates(path, &files::read(path)?)? {
                extra.push(Certificate::from_der(&ca).map_err(|error| bad(error.into()))?);
                trial.add(ca).map_err(|error| bad(error.into()))?;
            }
        }
        Ok(Self { extra })
    }

    /// Returns an HTTP client builder that trusts these CAs. It follows no redirect, uses no proxy, and has a connect
    /// timeout of 10 seconds and a request timeout of 30; the caller may change that.
    ///
    /// Building one reads the system's CAs from disk, so build few and share them.
    pub fn client(&self) -> ClientBuilder {
        Client::builder()
            .tls_backend_rustls()
            .tls_certs_merge(self.extra.iter().cloned())
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .user_agent(concat!("interzone/", env!("CARGO_PKG_VERSION")))
    }

    /// Returns a blocking client with this request timeout.
    pub(crate) fn blocking_client(
        &self,
        timeout: Duration,
    ) -> Result<blocking::Client, Box<dyn std::error::Error + Send + Sync>> {
        let builder = blocking::Client::builder()
            .tls_backend_rustls()
            .tls_certs_merge(self.extra.iter().cloned())
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .timeout(timeout)
            .user_agent(concat!("interzone/", env!("CARGO_PKG_VERSION")));
        // A blocking client has its own runtime, which must not be created within another.
        let thread = std::thread::Builder::new().spawn(move || builder.build())?;
        Ok(thread
            .join()
            .map_err(|_| "creating the HTTP client panicked")??)
    }
}
