//! TLS, both ways: the certificate that a zone shows, the ones that it trusts, and a CA of its own
//! for development. What is spoken inside TLS is not known here.

mod dev;
mod files;
mod server;
mod trust;

pub use dev::{DevCa, DevFiles};
pub use server::{ServerTls, TlsFiles};
pub use trust::Trust;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Makes aws-lc the one provider of cryptography in this process. Call it first thing; a second call
/// does nothing.
pub fn install_provider() {
    // It fails only if there is one already, and there is only one in this build.
    let _ = aws_lc_rs::default_provider().install_default();
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Why TLS cannot be set up. Every case names the file to look at.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no such file.
    #[error("{} is not there: put the file in its place, or correct the path", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// There is no certificate in the file.
    #[error(
        "{} holds no certificate: it must be PEM, with a block that begins -----BEGIN CERTIFICATE-----",
        path.display()
    )]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// There is no private key in the file.
    #[error(
        "{} holds no private key: it must be PEM, not encrypted, with a block that begins -----BEGIN PRIVATE KEY-----",
        path.display()
    )]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The certificate is damaged, or of a kind that cannot be used.
    #[error("the certificate in {} cannot be used: {source}", path.display())]
    BadCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The key is damaged, or of a kind that cannot be used.
    #[error(
        "the private key in {} cannot be used: it must be EC (P-256, P-384), Ed25519 or RSA",
        path.display()
    )]
    BadKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
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
        "the development CA in {} cannot be used: remove the folder, and a new one is made",
        folder.display()
    )]
    DevCa {
        /// Where it is.
        folder: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A certificate cannot be made for this name.
    #[error("`{name}` is neither a host name nor an IP address")]
    Name {
        /// The name.
        name: String,
    },
    /// The cryptography failed us.
    #[error("TLS cannot be set up: {0}")]
    Provider(#[source] rustls::Error),
}
