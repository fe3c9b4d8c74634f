//! PEM files: read with errors that name the file, written atomically.

use super::TlsError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Maximum file size. A certificate chain has some kilobytes, the roots of all browsers 200.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let error = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => TlsError::Missing { path: path.into() },
        _ => TlsError::Unreadable {
            path: path.into(),
            source,
        },
    };
    let size = fs::metadata(path).map_err(error)?.len();
    if size > MAX_FILE_BYTES {
        return Err(error(io::Error::other("too large for a PEM file")));
    }
    fs::read(path).map_err(error)
}

pub(super) fn parse_certificates(
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

pub(super) fn parse_key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| TlsError::NoKey { path: path.into() })
}

/// Permissions of a created file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileMode {
    /// Readable by the owner only.
    OwnerOnly,
    /// Readable by everyone.
    WorldReadable,
}

/// Writes `text` to `path`, replacing an existing file.
pub(super) fn replace(path: &Path, text: &str, mode: FileMode) -> Result<(), TlsError> {
    write_via_draft(path, text, mode, |draft| fs::rename(draft, path))
}

/// Writes `text` to `path` unless the file exists.
pub(super) fn create(path: &Path, text: &str, mode: FileMode) -> Result<(), TlsError> {
    write_via_draft(path, text, mode, |draft| {
        let linked = fs::hard_link(draft, path);
        fs::remove_file(draft)?;
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    })
}

fn write_via_draft(
    path: &Path,
    text: &str,
    mode: FileMode,
    commit: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), TlsError> {
    let draft = path.with_extension(format!("{}.draft", uuid::Uuid::new_v4().simple()));
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            let bits = if mode == FileMode::OwnerOnly {
                0o600
            } else {
                0o644
            };
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, bits);
        }
        let mut file = options.open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        drop(file);
        commit(&draft)
    };
    write().map_err(|source| {
        // Best effort: the draft may not exist.
        let _ = fs::remove_file(&draft);
        TlsError::Unwritable {
            path: path.into(),
            source,
        }
    })
}
