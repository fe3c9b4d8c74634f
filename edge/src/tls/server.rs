//! Server certificate and client CAs, loaded from files and reloaded while the zone runs.

use super::{TlsError, crypto_provider, files};
use arc_swap::ArcSwap;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// PEM files of a server's TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Server certificate, followed by the intermediate certificates.
    pub cert: PathBuf,
    /// Private key.
    pub key: PathBuf,
    /// Client CAs. If given, a client must present a certificate signed by one of them (mTLS).
    pub client_ca: Option<PathBuf>,
}

/// TLS configuration of a server. Clones share it and use a reload from their next connection.
#[derive(Clone)]
pub struct ServerTls {
    inner: Arc<ServerTlsState>,
}

struct ServerTlsState {
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
    /// Fingerprint of the files in use.
    fingerprint: Mutex<[u8; 32]>,
    reloads: watch::Sender<u64>,
}

impl ServerTls {
    /// Loads the files and checks that they fit together.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let pem = PemFiles::read(files)?;
        Ok(Self {
            inner: Arc::new(ServerTlsState {
                config: ArcSwap::from_pointee(pem.config(files)?),
                fingerprint: Mutex::new(pem.fingerprint()),
                reloads: watch::Sender::new(0),
                files: files.clone(),
            }),
        })
    }

    /// Returns the configuration for the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.inner.config.load_full()
    }

    /// Returns a receiver that counts the reloads.
    pub fn reloads(&self) -> watch::Receiver<u64> {
        self.inner.reloads.subscribe()
    }

    /// Reloads the files if they have changed and uses them from the next connection. If they are invalid, the loaded
    /// ones stay in use. Returns true if there was a change.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let pem = PemFiles::read(&self.inner.files)?;
        let mut fingerprint = self
            .inner
            .fingerprint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *fingerprint == pem.fingerprint() {
            return Ok(false);
        }
        self.inner
            .config
            .store(Arc::new(pem.config(&self.inner.files)?));
        *fingerprint = pem.fingerprint();
        self.inner.reloads.send_modify(|count| *count += 1);
        Ok(true)
    }

    /// Checks the files at an interval until `stop`. Compares their content, so a touched or identically replaced file
    /// is no change. An error is logged once, not at every check.
    pub async fn reload_when_changed(self, interval: Duration, stop: CancellationToken) {
        let mut last_error = String::new();
        let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(10)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let this = self.clone();
            let outcome = match tokio::task::spawn_blocking(move || this.reload()).await {
                Ok(outcome) => outcome,
                // The runtime is shutting down.
                Err(_) => return,
            };
            match outcome {
                Ok(true) => {
                    last_error.clear();
                    tracing::info!(cert = %self.inner.files.cert.display(), "certificate reloaded");
                }
                Ok(false) => last_error.clear(),
                Err(error) => {
                    let text = error.to_string();
                    if last_error != text {
                        tracing::warn!(error = %text, "certificate reload failed, keeping the old one");
                        last_error = text;
                    }
                }
            }
        }
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls")
            .field("files", &self.inner.files)
            .finish_non_exhaustive()
    }
}

/// Content of the PEM files.
struct PemFiles {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl PemFiles {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self {
            cert: files::read(&files.cert)?,
            key: files::read(&files.key)?,
            client_ca: files.client_ca.as_deref().map(files::read).transpose()?,
        })
    }

    fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for text in [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()] {
            let text = text.map(Vec::as_slice).unwrap_or_default();
            hash.update(Sha256::digest(text));
        }
        hash.finalize().into()
    }

    fn config(&self, files: &TlsFiles) -> Result<ServerConfig, TlsError> {
        let provider = crypto_provider();
        let bad_certificate = |path: &PathBuf, source: rustls::Error| TlsError::BadCertificate {
            path: path.clone(),
            source: source.into(),
        };
        let chain = files::parse_certificates(&files.cert, &self.cert)?;
        let key = provider
            .key_provider
            .load_private_key(files::parse_key(&files.key, &self.key)?)
            .map_err(|source| TlsError::BadKey {
                path: files.key.clone(),
                source,
            })?;
        let pair = CertifiedKey::new(chain, key);
        match pair.keys_match() {
            // A key that does not reveal its public part is accepted, as rustls does.
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                return Err(TlsError::Mismatch {
                    cert: files.cert.clone(),
                    key: files.key.clone(),
                });
            }
            Err(source) => return Err(bad_certificate(&files.cert, source)),
        }
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Provider)?;
        let builder = match (&files.client_ca, &self.client_ca) {
            (Some(path), Some(pem)) => {
                let mut roots = RootCertStore::empty();
                for ca in files::parse_certificates(path, pem)? {
                    roots
                        .add(ca)
                        .map_err(|source| bad_certificate(path, source))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                    .build()
                    .map_err(|source| TlsError::BadCertificate {
                        path: path.clone(),
                        source: source.into(),
                    })?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Tickets allow session resumption and cost the server no memory. Each load has its own ticket keys, so that a
        // withdrawn client CA is withdrawn for all.
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(TlsError::Provider)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::DevCa;
    use std::fs;

    #[test]
    fn errors_name_the_file_and_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let good = DevCa::open_or_create(&path("a"), &[]).unwrap();
        let other = DevCa::open_or_create(&path("b"), &[]).unwrap();
        fs::write(path("empty.pem"), "").unwrap();
        fs::write(path("rubbish.pem"), [0xff; 64]).unwrap();
        fs::write(
            path("damaged.pem"),
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        )
        .unwrap();
        fs::write(
            path("damaged-key.pem"),
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        )
        .unwrap();
        let load_error = |cert: &PathBuf, key: &PathBuf, client_ca: Option<PathBuf>| {
            let files = TlsFiles {
                cert: cert.clone(),
                key: key.clone(),
                client_ca,
            };
            ServerTls::load(&files).unwrap_err().to_string()
        };
        let cases = [
            (
                load_error(&path("none.pem"), &good.key, None),
                "none.pem",
                "does not exist",
            ),
            (
                load_error(&good.cert, &path("none.pem"), None),
                "none.pem",
                "does not exist",
            ),
            (
                load_error(&path("a"), &good.key, None),
                "/a",
                "cannot be read",
            ),
            (
                load_error(&path("empty.pem"), &good.key, None),
                "empty.pem",
                "BEGIN CERTIFICATE",
            ),
            (
                load_error(&path("rubbish.pem"), &good.key, None),
                "rubbish.pem",
                "BEGIN CERTIFICATE",
            ),
            (
                load_error(&good.key, &good.key, None),
                "key.pem",
                "holds no certificate",
            ),
            (
                load_error(&path("damaged.pem"), &good.key, None),
                "damaged.pem",
                "cannot be used",
            ),
            (
                load_error(&good.cert, &good.cert, None),
                "cert.pem",
                "holds no private key",
            ),
            (
                load_error(&good.cert, &path("damaged-key.pem"), None),
                "damaged-key.pem",
                "must be EC",
            ),
            (
                load_error(&good.cert, &other.key, None),
                "key.pem",
                "one pair",
            ),
            (
                load_error(&good.cert, &good.key, Some(path("damaged.pem"))),
                "damaged.pem",
                "cannot be used",
            ),
        ];
        for (text, file, remedy) in cases {
            assert!(text.contains(file) && text.contains(remedy), "{text}");
        }
    }

    #[test]
    fn reload_reports_whether_the_files_changed() {
        let folder = tempfile::tempdir().unwrap();
        let files = DevCa::open_or_create(folder.path(), &[]).unwrap();
        let tls = ServerTls::load(&TlsFiles {
            cert: files.cert.clone(),
            key: files.key,
            client_ca: None,
        })
        .unwrap();
        let before = tls.config();
        assert!(!tls.reload().unwrap());
        // The same content in a new file is no change.
        fs::write(&files.cert, fs::read(&files.cert).unwrap()).unwrap();
        assert!(!tls.reload().unwrap());
        let good = fs::read(&files.cert).unwrap();
        fs::write(&files.cert, "").unwrap();
        tls.reload().unwrap_err();
        assert!(Arc::ptr_eq(&tls.config(), &before));
        tls.reload().unwrap_err();
        fs::write(&files.cert, good).unwrap();
        assert!(!tls.reload().unwrap());
        DevCa::open_or_create(folder.path(), &["zone.test".to_owned()]).unwrap();
        assert!(tls.reload().unwrap());
        assert!(!Arc::ptr_eq(&tls.config(), &before));
        assert_eq!(*tls.reloads().borrow(), 1);
    }
}
