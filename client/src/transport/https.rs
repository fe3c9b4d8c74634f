//! HTTPS transport on reqwest: HTTP/1.1 and HTTP/2, TLS 1.2 or later, no redirects, no implicit proxy.

use super::{ByteStream, Transport, TransportError};
use crate::Secret;
use crate::error::ConfigError;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of the HTTPS transport.
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
    /// CA files to trust in addition to the system's.
    pub ca_files: Vec<PathBuf>,
    /// PEM texts with CAs to trust in addition to the system's.
    pub ca_pem: Vec<String>,
    /// TLS client certificate and key, both in PEM.
    pub identity: Option<Secret>,
    /// Proxy URL.
    pub proxy: Option<String>,
    /// User agent.
    pub user_agent: String,
    /// Connect timeout.
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
    /// Adds a PEM file with trusted CAs.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_files.push(path.into());
        self
    }

    /// Adds a PEM text with trusted CAs.
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<String>) -> Self {
        self.ca_pem.push(pem.into());
        self
    }

    /// Sets the TLS client certificate: chain and key, both in PEM.
    #[must_use]
    pub fn identity(mut self, certificate: &str, key: &Secret) -> Self {
        let pem = format!("{certificate}\n{}", key.expose());
        self.identity = Some(Secret::new(pem));
        self
    }

    /// Sets a proxy.
    #[must_use]
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// Sets the user agent.
    #[must_use]
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// Sets the connect timeout.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }
}

/// HTTPS transport.
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

/// Idle timeout of pooled connections, shorter than that of most servers.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

impl Https {
    /// Creates the transport. Reads the CA files; does not connect.
    ///
    /// # Errors
    /// If a certificate, key, file or URL in the options is invalid.
    pub fn new(options: &HttpsOptions) -> Result<Self, crate::Error> {
        let agent = http::HeaderValue::from_str(&options.user_agent);
        let agent = agent.map_err(|_| ConfigError::Header {
            what: "the user agent",
        })?;
        let mut builder = reqwest::Client::builder()
            .user_agent(agent)
            .redirect(reqwest::redirect::Policy::none())
            // The client has its own retry policy; reqwest's could retry writes.
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .tls_version_min(reqwest::tls::Version::TLS_1_2)
            .connect_timeout(options.connect_timeout)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .tcp_nodelay(true);
        let roots = load_roots(options)?;
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

fn load_roots(options: &HttpsOptions) -> Result<Vec<reqwest::Certificate>, ConfigError> {
    let parse_bundle = |pem: &[u8]| {
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
        roots.extend(parse_bundle(&pem)?);
    }
    for pem in &options.ca_pem {
        roots.extend(parse_bundle(pem.as_bytes())?);
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
        // An invalid request was not sent.
        let request =
            request.map_err(|error| TransportError::not_connected(error.without_url()))?;
        let response = self.0.execute(request).await.map_err(|error| {
            // The URL may contain a task id, which must not be logged.
            let error = error.without_url();
            if error.is_connect() {
                TransportError::not_connected(error)
            } else {
                TransportError::broken(error)
            }
        })?;
        let mut converted = http::Response::builder().status(response.status());
        if let Some(headers) = converted.headers_mut() {
            headers.clone_from(response.headers());
        }
        let body = response.bytes_stream();
        let body = body.map_err(|error| error.without_url().into()).boxed();
        converted.body(body).map_err(TransportError::broken)
    }
}
