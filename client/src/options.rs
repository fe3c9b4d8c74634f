//! Client builder and its options. Validates the options; does not connect.

use crate::auth::Credentials;
use crate::breaker::BreakerPolicy;
use crate::client::Client;
use crate::error::{ConfigError, Error};
use crate::http_exchange::PeerPool;
use crate::retry::RetryPolicy;
use crate::transport::Transport;
use crate::transport::https::{Https, HttpsOptions};
use interzone_protocol::acp::Method;
use interzone_protocol::zone;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Timeouts per method, including retries and waits.
///
/// ```
/// use interzone_client::Timeouts;
/// use std::time::Duration;
///
/// let timeouts = Timeouts::default().set("tasks.get", Duration::from_secs(2));
/// assert_eq!(timeouts.for_method("tasks.get"), Duration::from_secs(2));
/// assert_eq!(timeouts.for_method("tasks.create"), Duration::from_secs(30));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    by_method: HashMap<String, Duration>,
    default: Duration,
    batch: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            by_method: HashMap::new(),
            default: Duration::from_secs(30),
            batch: Duration::from_secs(60),
        }
    }
}

impl Timeouts {
    /// Sets the timeout of one method.
    #[must_use]
    pub fn set(mut self, method: impl Into<String>, limit: Duration) -> Self {
        self.by_method.insert(method.into(), limit);
        self
    }

    /// Sets the timeout of unknown methods.
    #[must_use]
    pub fn set_default(mut self, limit: Duration) -> Self {
        self.default = limit;
        self
    }

    /// Sets the timeout of a batch.
    #[must_use]
    pub fn set_batch(mut self, limit: Duration) -> Self {
        self.batch = limit;
        self
    }

    /// Returns the timeout of a method.
    pub fn for_method(&self, method: &str) -> Duration {
        let custom = self.by_method.get(method).copied();
        let standard = || {
            let acp = Method::from_name(method).map(default_acp_timeout);
            acp.or_else(|| zone::Method::from_name(method).map(default_zone_timeout))
        };
        custom.or_else(standard).unwrap_or(self.default)
    }

    /// Returns the timeout of a batch.
    pub fn for_batch(&self) -> Duration {
        self.batch
    }
}

/// Default timeout of an ACP method: ACP's recommendation where there is one.
fn default_acp_timeout(method: Method) -> Duration {
    Duration::from_secs(match method {
        Method::TasksGet => 5,
        Method::TasksCreate => 30,
        Method::StreamStart | Method::TasksSend | Method::TasksSubscribe => 15,
        Method::StreamMessage => 15,
        Method::TasksCancel
        | Method::StreamEnd
        | Method::TaskNotification
        | Method::StreamChunk
        | Method::TasksList
        | Method::TasksUnsubscribe
        | Method::RequestsFind => 10,
    })
}

/// Default timeout of a zone method: a bit longer than a zone takes to answer `accepted`.
fn default_zone_timeout(method: zone::Method) -> Duration {
    Duration::from_secs(match method {
        zone::Method::ExecuteTask => 30,
        zone::Method::GetTaskResult
        | zone::Method::CancelTask
        | zone::Method::GetAgentCard
        | zone::Method::Feedback => 10,
    })
}

/// Builder of a [`Client`].
///
/// ```no_run
/// use interzone_client::{Client, ClientCredentials};
///
/// let client = Client::builder("https://agent.example")
///     .credentials(ClientCredentials::new("reports", "s3cret"))
///     .ca_file("company-ca.pem")
///     .user_agent("reports/1.0")
///     .build()?;
/// # Ok::<(), interzone_client::Error>(())
/// ```
#[must_use]
pub struct ClientBuilder {
    url: String,
    allow_http: bool,
    https: HttpsOptions,
    transport: Option<Arc<dyn Transport>>,
    token_transport: Option<Arc<dyn Transport>>,
    credentials: Option<Credentials>,
    settings: ClientSettings,
    breaker: BreakerPolicy,
}

/// Validated options of a client.
#[derive(Clone, Debug)]
pub(crate) struct ClientSettings {
    pub(crate) timeouts: Timeouts,
    pub(crate) retry: RetryPolicy,
    pub(crate) max_response: usize,
    pub(crate) max_event: usize,
    pub(crate) idle_timeout: Duration,
    pub(crate) allow_http: bool,
}

impl ClientBuilder {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            allow_http: false,
            https: HttpsOptions::default(),
            transport: None,
            token_transport: None,
            credentials: None,
            settings: ClientSettings {
                timeouts: Timeouts::default(),
                retry: RetryPolicy::default(),
                // The contract's maximum body size, plus space for the envelope.
                max_response: 40 * 1024 * 1024,
                max_event: 40 * 1024 * 1024,
                idle_timeout: Duration::from_secs(45),
                allow_http: false,
            },
            breaker: BreakerPolicy::default(),
        }
    }

    /// Allows plain `http://`, for development: the token is sent unencrypted.
    pub fn allow_http(mut self, allow: bool) -> Self {
        self.allow_http = allow;
        self
    }

    /// Sets the credentials.
    pub fn credentials(mut self, credentials: impl Into<Credentials>) -> Self {
        self.credentials = Some(credentials.into());
        self
    }

    /// Trusts the CAs in a PEM file in addition to the system's.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.https = self.https.ca_file(path);
        self
    }

    /// Trusts the CAs in PEM text in addition to the system's.
    pub fn ca_pem(mut self, pem: impl Into<String>) -> Self {
        self.https = self.https.ca_pem(pem);
        self
    }

    /// Sets the TLS client certificate: chain and key, both in PEM.
    pub fn client_certificate(mut self, certificate: &str, key: &crate::Secret) -> Self {
        self.https = self.https.identity(certificate, key);
        self
    }

    /// Sets a proxy.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.https = self.https.proxy(url);
        self
    }

    /// Sets the user agent.
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.https = self.https.user_agent(name);
        self
    }

    /// Sets the connect timeout.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.https = self.https.connect_timeout(limit);
        self
    }

    /// Sets the timeouts of calls.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.settings.timeouts = timeouts;
        self
    }

    /// Sets the maximum size of a response, and of one event of a watch.
    pub fn max_response(mut self, bytes: usize) -> Self {
        self.settings.max_response = bytes;
        self.settings.max_event = bytes;
        self
    }

    /// Sets how long a watch waits for data before it reconnects.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.settings.idle_timeout = limit;
        self
    }

    /// Sets the retry policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.settings.retry = policy;
        self
    }

    /// Sets the circuit breaker policy.
    pub fn breaker(mut self, policy: BreakerPolicy) -> Self {
        self.breaker = policy;
        self
    }

    /// Sets a transport other than HTTPS, also for tokens unless [`Self::token_transport`] is used.
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transport = Some(transport);
        self
    }

    /// Sets a separate transport for token requests.
    pub fn token_transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.token_transport = Some(transport);
        self
    }

    /// Builds the client without connecting.
    ///
    /// # Errors
    /// If the URL is not https, or a certificate, key, file or proxy is invalid.
    pub fn build(self) -> Result<Client, Error> {
        let mut settings = self.settings;
        settings.allow_http = self.allow_http;
        let base = parse_base_url(&self.url, self.allow_http)?;
        let transport = match self.transport {
            Some(transport) => transport,
            None => Arc::new(Https::new(&self.https)?),
        };
        let token_transport = self.token_transport.unwrap_or_else(|| transport.clone());
        let peers = PeerPool::new(transport, self.breaker);
        let token_peers = PeerPool::new(token_transport, self.breaker);
        Ok(Client::assemble(
            base,
            settings,
            peers,
            token_peers,
            self.credentials,
        ))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").finish_non_exhaustive()
    }
}

/// Parses the base URL and drops query and fragment. A trailing `/jsonrpc` is removed, because some callers
/// include it.
fn parse_base_url(text: &str, allow_http: bool) -> Result<Url, ConfigError> {
    let mut url = Url::parse(text).map_err(|_| ConfigError::Address)?;
    let Some(host) = url.host_str() else {
        return Err(ConfigError::Address);
    };
    match url.scheme() {
        "https" => {}
        "http" if allow_http => {}
        "http" => {
            return Err(ConfigError::PlainHttp {
                host: host.to_owned(),
            });
        }
        _ => return Err(ConfigError::Address),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ConfigError::UserInfo);
    }
    url.set_query(None);
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/jsonrpc").unwrap_or(path).to_owned();
    url.set_path(&path);
    Ok(url)
}
