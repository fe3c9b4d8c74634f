//! HTTPS by reqwest: HTTP/1.1 and HTTP/2, TLS 1.2 at least, no redirects, no proxy that was not
//! asked for.

use super::{ByteStream, Transport, TransportError};
use crate::Secret;
use crate::error::ConfigError;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How to connect.
///
/// ```
/// use interzone_client::{Https, HttpsOptions};
///
/// let https = Https::new(&HttpsOptions::default().user_agent("reports/1.0"))?;
/// # Ok::<(), interzone_client::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpsOptions {
    /// Files with CAs to trust beside the system's.
    pub ca_files: Vec<PathBuf>,
    /// PEM text with CAs to trust beside the system's.
    pub ca_pem: Vec<String>,
    /// The certificate and key to show to the peer, both in PEM.
    pub identity: Option<Secret>,
    /// The proxy to go through.
    pub proxy: Option<String>,
    /// What the client calls itself.
    pub user_agent: String,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
}

impl Default for HttpsOptions {
    fn default() -> Self {
        Self {
            ca_files: Vec::new(),
            ca_pem: Vec::new(),
            identity: None,
            proxy: None,
            user_agent: concat!("interzone-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

impl HttpsOptions {
    /// Trusts the CAs in a PEM file too.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_files.push(path.into());
        self
    }

    /// Trusts the CAs in PEM text too.
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<String>) -> Self {
        self.ca_pem.push(pem.into());
        self
    }

    /// Shows a certificate to the peer: the chain and the key, both in PEM.
    #[must_use]
    pub fn identity(mut self, certificate: &str, key: &Secret) -> Self {
        let both = format!("{certificate}\n{}", key.expose());
        self.identity = Some(Secret::new(both));
        self
    }

    /// Goes through a proxy.
    #[must_use]
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// Changes what the client calls itself.
    #[must_use]
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// Changes how long a connection may take to be made.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }
}

/// The transport for the network.
///
/// ```no_run
/// use bytes::Bytes;
/// use interzone_client::{Https, HttpsOptions, Transport};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let https = Https::new(&HttpsOptions::default())?;
/// let request = http::Request::get("https://agent.example/health").body(Bytes::new())?;
/// assert!(https.send(request).await?.status().is_success());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Https(reqwest::Client);

/// A connection that nobody uses is closed after so long, before most peers would.
const IDLE: Duration = Duration::from_secs(30);

impl Https {
    /// Sets the transport up. It reads the CA files, and connects to nobody.
    ///
    /// # Errors
    /// A certificate, key, file or address in the options cannot be used.
    pub fn new(options: &HttpsOptions) -> Result<Self, crate::Error> {
        let agent = http::HeaderValue::from_str(&options.user_agent);
        let agent = agent.map_err(|_| ConfigError::Header {
            what: "the user agent",
        })?;
        let mut builder = reqwest::Client::builder()
            .user_agent(agent)
            .redirect(reqwest::redirect::Policy::none())
            // The client retries by its own rules; a second set would retry writes.
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .tls_version_min(reqwest::tls::Version::TLS_1_2)
            .connect_timeout(options.connect_timeout)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true);
        let roots = roots(options)?;
        if !roots.is_empty() {
            builder = builder.tls_certs_merge(roots);
        }
        if let Some(identity) = &options.identity {
            let identity = reqwest::Identity::from_pem(identity.expose().as_bytes());
            builder = builder.identity(identity.map_err(|source| ConfigError::Pem {
                what: "the client certificate or its key",
                source: Arc::new(source),
            })?);
        }
        if let Some(proxy) = &options.proxy {
            let proxy = reqwest::Proxy::all(proxy.as_str()).map_err(|_| ConfigError::Proxy)?;
            builder = builder.proxy(proxy);
        }
        let client = builder.build();
        Ok(Self(
            client.map_err(|source| ConfigError::Tls(Arc::new(source)))?,
        ))
    }
}

fn roots(options: &HttpsOptions) -> Result<Vec<reqwest::Certificate>, ConfigError> {
    let bundle = |pem: &[u8]| {
        reqwest::Certificate::from_pem_bundle(pem).map_err(|source| ConfigError::Pem {
            what: "a CA certificate",
            source: Arc::new(source),
        })
    };
    let mut roots = Vec::new();
    for path in &options.ca_files {
        let pem = std::fs::read(path).map_err(|source| ConfigError::File {
            path: path.display().to_string(),
            source: Arc::new(source),
        })?;
        roots.extend(bundle(&pem)?);
    }
    for pem in &options.ca_pem {
        roots.extend(bundle(pem.as_bytes())?);
    }
    Ok(roots)
}

#[async_trait::async_trait]
impl Transport for Https {
    async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<ByteStream>, TransportError> {
        let request = reqwest::Request::try_from(request.map(reqwest::Body::from));
        // A request that cannot be sent was not sent.
        let request =
            request.map_err(|error| TransportError::not_connected(error.without_url()))?;
        let response = self.0.execute(request).await.map_err(|error| {
            // The address may hold a task's id, which is not for logs.
            let error = error.without_url();
            if error.is_connect() {
                TransportError::not_connected(error)
            } else {
                TransportError::broken(error)
            }
        })?;
        let mut answer = http::Response::builder().status(response.status());
        if let Some(headers) = answer.headers_mut() {
            headers.clone_from(response.headers());
        }
        let body = response.bytes_stream();
        let body = body.map_err(|error| error.without_url().into()).boxed();
        answer.body(body).map_err(TransportError::broken)
    }
}
