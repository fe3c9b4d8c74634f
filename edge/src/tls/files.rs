//! Certificates and keys in files: read with errors that name the file, written whole or not at all.

use super::TlsError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// A chain of certificates is some kilobytes, the roots of all browsers 200; beyond this it is no PEM.
const LARGEST: u64 = 4 * 1024 * 1024;

pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let refuse = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => TlsError::Missing { path: path.into() },
        _ => TlsError::Unreadable {
            path: path.into(),
            source,
        },
    };
    let size = fs::metadata(path).map_err(refuse)?.len();
    if size > LARGEST {
        return Err(refuse(io::Error::other("it is too large to be PEM")));
    }
    fs::read(path).map_err(refuse)
}

pub(super) fn certificates(
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|source| TlsError::BadCertificate {
            path: path.into(),
            source: source.to_string().into(),
        })?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: path.into() });
    }
    Ok(chain)
}

pub(super) fn key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| TlsError::NoKey { path: path.into() })
}

/// Who may read a file that we make.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Eyes {
    /// Its owner.
    Owner,
    /// Anybody.
    All,
}

/// Puts `text` at `path`, in place of what is there.
pub(super) fn replace(path: &Path, text: &str, eyes: Eyes) -> Result<(), TlsError> {
    with_draft(path, text, eyes, |draft| fs::rename(draft, path))
}

/// Puts `text` at `path` unless something is there already.
pub(super) fn create(path: &Path, text: &str, eyes: Eyes) -> Result<(), TlsError> {
    with_draft(path, text, eyes, |draft| {
        let linked = fs::hard_link(draft, path);
        fs::remove_file(draft)?;
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    })
}

fn with_draft(
    path: &Path,
    text: &str,
    eyes: Eyes,
    place: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), TlsError> {
    let draft = path.with_extension(format!("{}.draft", uuid::Uuid::new_v4().simple()));
    let written = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            let mode = if eyes == Eyes::Owner { 0o600 } else { 0o644 };
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        }
        let mut file = options.open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        drop(file);
        place(&draft)
    };
    written().map_err(|source| {
        // What is left of the draft helps nobody, and may never have been.
        let _ = fs::remove_file(&draft);
        TlsError::Unwritable {
            path: path.into(),
            source,
        }
    })
}
