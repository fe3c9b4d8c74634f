//! Listener with a test certificate, and clients that trust it.

use axum::Router;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{DevCa, DevCaFiles, ServerTls, TlsFiles, TrustRoots};
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

/// Timeout of any single wait; reached only by failing tests.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Awaits `future`; fails after a timeout.
pub(crate) async fn within_timeout<T>(event: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(WAIT_TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("{event} did not happen"),
    }
}

pub(crate) struct ListenerFixture {
    pub(crate) address: SocketAddr,
    pub(crate) files: DevCaFiles,
    pub(crate) tls: ServerTls,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) struct ListenerSetup {
    pub(crate) app: Router,
    pub(crate) limits: HttpLimits,
    pub(crate) grace: Duration,
    pub(crate) requires_client_cert: bool,
}

impl ListenerSetup {
    pub(crate) fn new(app: Router) -> Self {
        Self {
            app,
            limits: HttpLimits::default(),
            grace: WAIT_TIMEOUT,
            requires_client_cert: false,
        }
    }

    pub(crate) fn with_limits(mut self, change: impl FnOnce(&mut HttpLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) async fn start(self) -> ListenerFixture {
        self.start_with(|listener| listener).await
    }

    pub(crate) async fn start_with(
        self,
        finish: impl FnOnce(Listener) -> Listener,
    ) -> ListenerFixture {
        interzone_edge::tls::install_provider();
        let folder = tempfile::tempdir().unwrap();
        let files = DevCa::open_or_create(&folder.path().join("tls"), &[]).unwrap();
        let client_ca = self
            .requires_client_cert
            .then(|| ClientCa::write_ca_file(folder.path()));
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
        ListenerFixture {
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

impl ListenerFixture {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// Client as the product builds it.
    pub(crate) fn client(&self) -> reqwest::ClientBuilder {
        TrustRoots::system_and_files(std::slice::from_ref(&self.files.ca))
            .unwrap()
            .client()
            .resolve("localhost", self.address)
    }

    /// Opens a TLS connection for raw bytes.
    pub(crate) async fn connect(&self) -> TlsStream<TcpStream> {
        self.connect_as(&TlsClientOptions::default()).await.unwrap()
    }

    pub(crate) async fn connect_as(
        &self,
        caller: &TlsClientOptions,
    ) -> io::Result<TlsStream<TcpStream>> {
        self.connect_with(self.client_config(caller)).await
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
        TlsConnector::from(self.client_config(&TlsClientOptions::default()))
            .connect(ServerName::try_from("localhost").unwrap(), tcp)
            .await
            .unwrap()
    }

    /// As [`connect`](Self::connect), with a small receive buffer.
    pub(crate) async fn connect_with_small_buffer(&self) -> TlsStream<TcpStream> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let tcp = socket.connect(self.address).await.unwrap();
        TlsConnector::from(self.client_config(&TlsClientOptions::default()))
            .connect(ServerName::try_from("localhost").unwrap(), tcp)
            .await
            .unwrap()
    }

    /// TLS configuration of a client, with its session cache.
    pub(crate) fn client_config(&self, caller: &TlsClientOptions) -> Arc<ClientConfig> {
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

    /// Returns true if the metrics contain this line.
    pub(crate) fn has_metric(&self, line: &str) -> bool {
        self.metrics.encode().lines().any(|found| found == line)
    }

    /// Waits until the metrics contain this line.
    pub(crate) async fn wait_for_metric(&self, line: &str) {
        within_timeout(line, async {
            while !self.has_metric(line) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    pub(crate) async fn shut_down(self) {
        self.stop.cancel();
        within_timeout("shutdown", self.serving).await.unwrap();
    }
}

/// Options of a raw TLS connection.
pub(crate) struct TlsClientOptions {
    pub(crate) version: &'static SupportedProtocolVersion,
    pub(crate) alpn: &'static [u8],
    pub(crate) identity: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
}

impl Default for TlsClientOptions {
    fn default() -> Self {
        Self {
            version: &rustls::version::TLS13,
            alpn: b"http/1.1",
            identity: None,
        }
    }
}

/// CA for client certificates.
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

    fn write_ca_file(folder: &Path) -> PathBuf {
        let path = folder.join("clients.pem");
        std::fs::write(&path, Self::issuer(folder).pem()).unwrap();
        path
    }

    /// Issues a certificate of this CA, with its key.
    pub(crate) fn identity(folder: &Path) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["caller.test".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &Self::issuer(folder)).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        (cert.der().clone(), key)
    }
}

/// Reads everything until the server closes, cleanly or not.
pub(crate) async fn read_to_close(stream: &mut TlsStream<TcpStream>) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = within_timeout("a close", stream.read(&mut piece)).await {
        bytes.extend_from_slice(&piece[..read]);
    }
    String::from_utf8(bytes).unwrap()
}

/// Sends one request on a raw connection and reads its response once.
pub(crate) async fn send_get(stream: &mut TlsStream<TcpStream>, path: &str) -> io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = vec![0; 8192];
    let read = within_timeout("an answer", stream.read(&mut answer)).await?;
    answer.truncate(read);
    Ok(String::from_utf8(answer).unwrap())
}
