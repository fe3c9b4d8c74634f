//! TLS: the server's certificate, the trusted CAs for outgoing connections, and a development CA.

mod dev;
mod files;
mod server;
mod trust;

pub use dev::{DevCa, DevCaFiles};
pub use server::{ServerTls, TlsFiles};
pub use trust::TrustRoots;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Installs aws-lc as the crypto provider of this process. Call it first; a second call does nothing.
pub fn install_provider() {
    // Fails only if one is installed already, and this build has only one.
    let _ = aws_lc_rs::default_provider().install_default();
}

fn crypto_provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Error setting up TLS. Every variant names the file concerned.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file does not exist.
    #[error("{} does not exist: create the file, or correct the path", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file has no certificate.
    #[error(
        "{} holds no certificate: it must be PEM, with a block that begins -----BEGIN CERTIFICATE-----",
        path.display()
    )]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The file has no private key.
    #[error(
        "{} holds no private key: it must be PEM, not encrypted, with a block that begins -----BEGIN PRIVATE KEY-----",
        path.display()
    )]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The certificate is damaged or unsupported.
    #[error("the certificate in {} cannot be used: {source}", path.display())]
    BadCertificate {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The key is damaged or unsupported.
    #[error(
        "the private key in {} cannot be used: it must be EC (P-256, P-384), Ed25519 or RSA",
        path.display()
    )]
    BadKey {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rustls::Error,
    },
    /// Certificate and key do not belong together.
    #[error(
        "the key in {} is not that of the certificate in {}: give both files of one pair, and the server's own certificate first",
        key.display(),
        cert.display()
    )]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The development CA cannot be used.
    #[error(
        "the development CA in {} cannot be used: remove the folder to create a new one",
        folder.display()
    )]
    DevCa {
        /// Its folder.
        folder: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The name is not valid in a certificate.
    #[error("`{name}` is neither a host name nor an IP address")]
    Name {
        /// The name.
        name: String,
    },
    /// The crypto provider failed.
    #[error("TLS cannot be set up: {0}")]
    Provider(#[source] rustls::Error),
}
