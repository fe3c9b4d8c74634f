//! Minimal HTTP server on a real socket, plain or over TLS: one request per connection.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

type AnswerFn = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Test server; it stops when it is dropped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TestServer {
    /// Answers each request with the function's result, and closes.
    pub(crate) async fn plain(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::start(None, Arc::new(answer)).await
    }

    /// The same over TLS, for clients with a certificate of this CA.
    pub(crate) async fn tls(
        authority: &TestCa,
        answer: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(authority.acceptor()), Arc::new(answer)).await
    }

    async fn start(tls: Option<TlsAcceptor>, answer: AnswerFn) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let recorded = requests.clone();
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (tls, answer, recorded) = (tls.clone(), answer.clone(), recorded.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(socket, answer, recorded).await,
                        Some(tls) => {
                            if let Ok(socket) = tls.accept(socket).await {
                                serve(socket, answer, recorded).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            requests,
            task,
        }
    }
}

async fn serve(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    answer: AnswerFn,
    recorded: Arc<Mutex<Vec<String>>>,
) {
    let mut request = String::new();
    let mut piece = [0_u8; 4096];
    loop {
        let size = socket.read(&mut piece).await.unwrap_or(0);
        request.push_str(&String::from_utf8_lossy(&piece[..size]));
        if size == 0 || is_complete(&request) {
            break;
        }
    }
    if request.is_empty() {
        return;
    }
    recorded.lock().unwrap().push(request.clone());
    let _ = socket.write_all(answer(&request).as_bytes()).await;
    let _ = socket.shutdown().await;
}

fn is_complete(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().unwrap())
    });
    body.len() >= length.unwrap_or(0)
}

/// Body of a request.
pub(crate) fn body(request: &str) -> &str {
    request.split_once("\r\n\r\n").unwrap().1
}

/// JSON response with this body.
pub(crate) fn json_response(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

/// Certificate authority of a test.
pub(crate) struct TestCa {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
    der: CertificateDer<'static>,
}

impl TestCa {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Issues a certificate for a name, with its key, both in PEM.
    pub(crate) fn issue(&self, name: &str) -> (String, String) {
        let (certificate, key) = self.sign(name);
        (certificate.pem(), key.serialize_pem())
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// TLS acceptor for `localhost`, only for clients with a certificate of this CA.
    fn acceptor(&self) -> TlsAcceptor {
        let (certificate, key) = self.sign("localhost");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}
