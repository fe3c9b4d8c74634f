//! The certificate that a zone shows, and whom it lets in by theirs. It is read from files and may
//! change while the zone runs.

use super::{TlsError, files, provider};
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

/// The files of a server's TLS, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, then those that lead from it to a CA.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The CAs of clients. If given, a client must show a certificate that one of them signed.
    pub client_ca: Option<PathBuf>,
}

/// A server's TLS. Clones share it, and see a reload at their next connection.
#[derive(Clone)]
pub struct ServerTls {
    inner: Arc<Inner>,
}

struct Inner {
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
    /// The print of what is in use.
    used: Mutex<[u8; 32]>,
    reloads: watch::Sender<u64>,
}

impl ServerTls {
    /// Reads the files and checks that they fit together.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let texts = Texts::read(files)?;
        Ok(Self {
            inner: Arc::new(Inner {
                config: ArcSwap::from_pointee(texts.config(files)?),
                used: Mutex::new(texts.print()),
                reloads: watch::Sender::new(0),
                files: files.clone(),
            }),
        })
    }

    /// What the next connection is to use.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.inner.config.load_full()
    }

    /// Counts the reloads, for whoever wants to wait for one.
    pub fn reloads(&self) -> watch::Receiver<u64> {
        self.inner.reloads.subscribe()
    }

    /// Reads the files again and, if they have changed, uses them from the next connection on. If they
    /// are not good, what was loaded before stays in use. Gives whether there was a change.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let texts = Texts::read(&self.inner.files)?;
        let mut used = self
            .inner
            .used
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *used == texts.print() {
            return Ok(false);
        }
        self.inner
            .config
            .store(Arc::new(texts.config(&self.inner.files)?));
        *used = texts.print();
        self.inner.reloads.send_modify(|count| *count += 1);
        Ok(true)
    }

    /// Looks at the files `every` so often, until `stop`. It compares what is in them, so a file that
    /// was touched or replaced by its like is no change. A failure is told once, not at every look.
    pub async fn reload_when_changed(self, every: Duration, stop: CancellationToken) {
        let mut told = String::new();
        let mut clock = tokio::time::interval(every.max(Duration::from_millis(10)));
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = clock.tick() => {}
            }
            let this = self.clone();
            let outcome = match tokio::task::spawn_blocking(move || this.reload()).await {
                Ok(outcome) => outcome,
                // The runtime is going away, and so are we.
                Err(_) => return,
            };
            match outcome {
                Ok(true) => {
                    told.clear();
                    tracing::info!(cert = %self.inner.files.cert.display(), "new certificate in use");
                }
                Ok(false) => told.clear(),
                Err(error) => {
                    let text = error.to_string();
                    if told != text {
                        tracing::warn!("the old certificate stays in use: {text}");
                        told = text;
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

/// What the files hold.
struct Texts {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Texts {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self {
            cert: files::read(&files.cert)?,
            key: files::read(&files.key)?,
            client_ca: files.client_ca.as_deref().map(files::read).transpose()?,
        })
    }

    fn print(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for text in [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()] {
            let text = text.map(Vec::as_slice).unwrap_or_default();
            hash.update(Sha256::digest(text));
        }
        hash.finalize().into()
    }

    fn config(&self, files: &TlsFiles) -> Result<ServerConfig, TlsError> {
        let provider = provider();
        let bad_certificate = |path: &PathBuf, source: rustls::Error| TlsError::BadCertificate {
            path: path.clone(),
            source: source.into(),
        };
        let chain = files::certificates(&files.cert, &self.cert)?;
        let key = provider
            .key_provider
            .load_private_key(files::key(&files.key, &self.key)?)
            .map_err(|source| TlsError::BadKey {
                path: files.key.clone(),
                source,
            })?;
        let pair = CertifiedKey::new(chain, key);
        match pair.keys_match() {
            // A key that cannot tell its public half is believed, as rustls does.
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
                for ca in files::certificates(path, pem)? {
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
        // Tickets let a client come back without a whole handshake and cost the server no memory.
        // Each load has keys of its own, so that a CA that was withdrawn is withdrawn for all.
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
    fn every_mistake_names_its_file_and_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let good = DevCa::open_or_make(&path("a"), &[]).unwrap();
        let other = DevCa::open_or_make(&path("b"), &[]).unwrap();
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
        let refused = |cert: &PathBuf, key: &PathBuf, client_ca: Option<PathBuf>| {
            let files = TlsFiles {
                cert: cert.clone(),
                key: key.clone(),
                client_ca,
            };
            ServerTls::load(&files).unwrap_err().to_string()
        };
        let cases = [
            (
                refused(&path("none.pem"), &good.key, None),
                "none.pem",
                "is not there",
            ),
            (
                refused(&good.cert, &path("none.pem"), None),
                "none.pem",
                "is not there",
            ),
            (refused(&path("a"), &good.key, None), "/a", "cannot be read"),
            (
                refused(&path("empty.pem"), &good.key, None),
                "empty.pem",
                "BEGIN CERTIFICATE",
            ),
            (
                refused(&path("rubbish.pem"), &good.key, None),
                "rubbish.pem",
                "BEGIN CERTIFICATE",
            ),
            (
                refused(&good.key, &good.key, None),
                "key.pem",
                "holds no certificate",
            ),
            (
                refused(&path("damaged.pem"), &good.key, None),
                "damaged.pem",
                "cannot be used",
            ),
            (
                refused(&good.cert, &good.cert, None),
                "cert.pem",
                "holds no private key",
            ),
            (
                refused(&good.cert, &path("damaged-key.pem"), None),
                "damaged-key.pem",
                "must be EC",
            ),
            (refused(&good.cert, &other.key, None), "key.pem", "one pair"),
            (
                refused(&good.cert, &good.key, Some(path("damaged.pem"))),
                "damaged.pem",
                "cannot be used",
            ),
        ];
        for (text, file, way_out) in cases {
            assert!(text.contains(file) && text.contains(way_out), "{text}");
        }
    }

    #[test]
    fn a_reload_tells_whether_something_changed() {
        let folder = tempfile::tempdir().unwrap();
        let made = DevCa::open_or_make(folder.path(), &[]).unwrap();
        let tls = ServerTls::load(&TlsFiles {
            cert: made.cert.clone(),
            key: made.key,
            client_ca: None,
        })
        .unwrap();
        let before = tls.config();
        assert!(!tls.reload().unwrap());
        // The same again, in a new file, is no change.
        fs::write(&made.cert, fs::read(&made.cert).unwrap()).unwrap();
        assert!(!tls.reload().unwrap());
        let good = fs::read(&made.cert).unwrap();
        fs::write(&made.cert, "").unwrap();
        tls.reload().unwrap_err();
        assert!(Arc::ptr_eq(&tls.config(), &before));
        tls.reload().unwrap_err();
        fs::write(&made.cert, good).unwrap();
        assert!(!tls.reload().unwrap());
        DevCa::open_or_make(folder.path(), &["zone.test".to_owned()]).unwrap();
        assert!(tls.reload().unwrap());
        assert!(!Arc::ptr_eq(&tls.config(), &before));
        assert_eq!(*tls.reloads().borrow(), 1);
    }
}
