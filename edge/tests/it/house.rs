//! A listener with a certificate of its own, and clients that trust it.

use axum::Router;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{DevCa, DevFiles, ServerTls, TlsFiles, Trust};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes; only a broken test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// What comes of `future`, in good time.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen"),
    }
}

pub(crate) struct House {
    pub(crate) address: SocketAddr,
    pub(crate) files: DevFiles,
    pub(crate) tls: ServerTls,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) struct Plan {
    pub(crate) app: Router,
    pub(crate) limits: HttpLimits,
    pub(crate) grace: Duration,
    pub(crate) mutual: bool,
}

impl Plan {
    pub(crate) fn new(app: Router) -> Self {
        Self {
            app,
            limits: HttpLimits::default(),
            grace: PATIENCE,
            mutual: false,
        }
    }

    pub(crate) fn limits(mut self, change: impl FnOnce(&mut HttpLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) async fn build(self) -> House {
        self.build_with(|listener| listener).await
    }

    pub(crate) async fn build_with(self, finish: impl FnOnce(Listener) -> Listener) -> House {
        interzone_edge::tls::install_provider();
        let folder = tempfile::tempdir().unwrap();
        let files = DevCa::open_or_make(&folder.path().join("tls"), &[]).unwrap();
        let client_ca = self.mutual.then(|| ClientCa::make(folder.path()));
        let tls = ServerTls::load(&TlsFiles {
            cert: files.cert.clone(),
            key: files.key.clone(),
            client_ca,
        })
        .unwrap();
        let metrics = Arc::new(Metrics::new());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(any, tls.clone(), self.limits, Arc::clone(&metrics))
            .await
            .unwrap();
        let listener = finish(listener);
        let address = listener.local_addr();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(listener.serve(self.app, stop.clone(), self.grace));
        House {
            address,
            files,
            tls,
            metrics,
            stop,
            serving,
            folder,
        }
    }
}

impl House {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// A client as our own code has it.
    pub(crate) fn client(&self) -> reqwest::ClientBuilder {
        Trust::system_and(std::slice::from_ref(&self.files.ca))
            .unwrap()
            .client()
            .resolve("localhost", self.address)
    }

    /// A TLS connection on which a test says what it likes.
    pub(crate) async fn connect(&self) -> TlsStream<TcpStream> {
        self.connect_by(&Caller::default()).await.unwrap()
    }

    pub(crate) async fn connect_by(&self, caller: &Caller) -> io::Result<TlsStream<TcpStream>> {
        self.connect_with(self.config(caller)).await
    }

    pub(crate) async fn connect_with(
        &self,
        config: Arc<ClientConfig>,
    ) -> io::Result<TlsStream<TcpStream>> {
        let tcp = TcpStream::connect(self.address).await?;
        TlsConnector::from(config)
            .connect(ServerName::try_from("localhost").unwrap(), tcp)
            .await
    }

    /// As [`connect`](Self::connect), from one of the addresses of this machine.
    pub(crate) async fn connect_from(&self, address: IpAddr) -> TlsStream<TcpStream> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(address, 0)).unwrap();
        let tcp = socket.connect(self.address).await.unwrap();
        TlsConnector::from(self.config(&Caller::default()))
            .connect(ServerName::try_from("localhost").unwrap(), tcp)
            .await
            .unwrap()
    }

    /// As [`connect`](Self::connect), with a small buffer for what arrives.
    pub(crate) async fn connect_with_small_buffer(&self) -> TlsStream<TcpStream> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let tcp = socket.connect(self.address).await.unwrap();
        TlsConnector::from(self.config(&Caller::default()))
            .connect(ServerName::try_from("localhost").unwrap(), tcp)
            .await
            .unwrap()
    }

    /// What a caller remembers from one connection to the next.
    pub(crate) fn config(&self, caller: &Caller) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        for ca in CertificateDer::pem_file_iter(&self.files.ca).unwrap() {
            roots.add(ca.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[caller.version])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &caller.identity {
            None => config.with_no_client_auth(),
            Some((cert, key)) => config
                .with_client_auth_cert(vec![cert.clone()], key.clone_key())
                .unwrap(),
        };
        config.alpn_protocols = vec![caller.alpn.to_vec()];
        Arc::new(config)
    }

    /// Whether this is one of the lines of the metrics.
    pub(crate) fn counts(&self, line: &str) -> bool {
        self.metrics.encode().lines().any(|found| found == line)
    }

    /// Waits until it is.
    pub(crate) async fn until(&self, line: &str) {
        soon(line, async {
            while !self.counts(line) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        soon("the end", self.serving).await.unwrap();
    }
}

/// How a raw connection is made.
pub(crate) struct Caller {
    pub(crate) version: &'static SupportedProtocolVersion,
    pub(crate) alpn: &'static [u8],
    pub(crate) identity: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
}

impl Default for Caller {
    fn default() -> Self {
        Self {
            version: &rustls::version::TLS13,
            alpn: b"http/1.1",
            identity: None,
        }
    }
}

/// A CA for clients.
pub(crate) struct ClientCa;

impl ClientCa {
    fn issuer(folder: &Path) -> CertifiedIssuer<'static, KeyPair> {
        let path = folder.join("clients-key.pem");
        if !path.exists() {
            let key = KeyPair::generate().unwrap();
            std::fs::write(&path, key.serialize_pem()).unwrap();
        }
        let key = KeyPair::from_pem(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, key).unwrap()
    }

    fn make(folder: &Path) -> PathBuf {
        let path = folder.join("clients.pem");
        std::fs::write(&path, Self::issuer(folder).pem()).unwrap();
        path
    }

    /// A certificate of this CA, and its key.
    pub(crate) fn identity(folder: &Path) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["caller.test".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &Self::issuer(folder)).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        (cert.der().clone(), key)
    }
}

/// Everything that the server says until it closes. How it closes makes no difference.
pub(crate) async fn read_to_close(stream: &mut TlsStream<TcpStream>) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = soon("a close", stream.read(&mut piece)).await {
        bytes.extend_from_slice(&piece[..read]);
    }
    String::from_utf8(bytes).unwrap()
}

/// One request on a raw connection, and as much of its answer as one read gives.
pub(crate) async fn ask(stream: &mut TlsStream<TcpStream>, path: &str) -> io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = vec![0; 8192];
    let read = soon("an answer", stream.read(&mut answer)).await?;
    answer.truncate(read);
    Ok(String::from_utf8(answer).unwrap())
}
