//! How a client is set up: the builder and the limits it takes. It checks what it is given and
//! connects to nobody.

use crate::auth::Credentials;
use crate::breaker::BreakerPolicy;
use crate::client::Client;
use crate::error::{ConfigError, Error};
use crate::peer::Peers;
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

/// How long each call may take, all its tries and waits together.
///
/// ```
/// use interzone_client::Timeouts;
/// use std::time::Duration;
///
/// let timeouts = Timeouts::default().set("tasks.get", Duration::from_secs(2));
/// assert_eq!(timeouts.of("tasks.get"), Duration::from_secs(2));
/// assert_eq!(timeouts.of("tasks.create"), Duration::from_secs(30));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    own: HashMap<String, Duration>,
    other: Duration,
    batch: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            own: HashMap::new(),
            other: Duration::from_secs(30),
            batch: Duration::from_secs(60),
        }
    }
}

impl Timeouts {
    /// Changes the limit of one method.
    #[must_use]
    pub fn set(mut self, method: impl Into<String>, limit: Duration) -> Self {
        self.own.insert(method.into(), limit);
        self
    }

    /// Changes the limit of methods that nothing is known of.
    #[must_use]
    pub fn set_other(mut self, limit: Duration) -> Self {
        self.other = limit;
        self
    }

    /// Changes the limit of a whole batch.
    #[must_use]
    pub fn set_batch(mut self, limit: Duration) -> Self {
        self.batch = limit;
        self
    }

    /// The limit of a method.
    pub fn of(&self, method: &str) -> Duration {
        let own = self.own.get(method).copied();
        let usual = || {
            let acp = Method::from_name(method).map(usual);
            acp.or_else(|| zone::Method::from_name(method).map(usual_of_zone))
        };
        own.or_else(usual).unwrap_or(self.other)
    }

    /// The limit of a whole batch.
    pub fn of_batch(&self) -> Duration {
        self.batch
    }
}

/// ACP's own advice where it gives some; else what a method does tells how long it may take.
fn usual(method: Method) -> Duration {
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
        | Method::PairsFind => 10,
    })
}

/// A bit more than a zone takes for an answer before it says that it will take longer.
fn usual_of_zone(method: zone::Method) -> Duration {
    Duration::from_secs(match method {
        zone::Method::ExecuteTask => 30,
        zone::Method::GetTaskResult
        | zone::Method::CancelTask
        | zone::Method::GetAgentCard
        | zone::Method::Feedback => 10,
    })
}

/// Sets a [`Client`] up.
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
    settings: Settings,
    breaker: BreakerPolicy,
}

/// What a client keeps of its options.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) timeouts: Timeouts,
    pub(crate) retry: RetryPolicy,
    pub(crate) max_response: usize,
    pub(crate) max_event: usize,
    pub(crate) idle: Duration,
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
            settings: Settings {
                timeouts: Timeouts::default(),
                retry: RetryPolicy::default(),
                // What the contract lets a body be, and room for the envelope.
                max_response: 40 * 1024 * 1024,
                max_event: 40 * 1024 * 1024,
                idle: Duration::from_secs(45),
                allow_http: false,
            },
            breaker: BreakerPolicy::default(),
        }
    }

    /// Allows plain `http://`, for development: everybody on the way reads the token.
    pub fn allow_http(mut self, allow: bool) -> Self {
        self.allow_http = allow;
        self
    }

    /// Says who calls.
    pub fn credentials(mut self, credentials: impl Into<Credentials>) -> Self {
        self.credentials = Some(credentials.into());
        self
    }

    /// Trusts the CAs in a PEM file beside the system's.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.https = self.https.ca_file(path);
        self
    }

    /// Trusts the CAs in PEM text beside the system's.
    pub fn ca_pem(mut self, pem: impl Into<String>) -> Self {
        self.https = self.https.ca_pem(pem);
        self
    }

    /// Shows a certificate to the peer: the chain and the key, both in PEM.
    pub fn client_certificate(mut self, certificate: &str, key: &crate::Secret) -> Self {
        self.https = self.https.identity(certificate, key);
        self
    }

    /// Goes through a proxy.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.https = self.https.proxy(url);
        self
    }

    /// Changes what the client calls itself.
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.https = self.https.user_agent(name);
        self
    }

    /// Changes how long a connection may take to be made.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.https = self.https.connect_timeout(limit);
        self
    }

    /// Changes how long each call may take.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.settings.timeouts = timeouts;
        self
    }

    /// Changes how large an answer, or one event of a watch, may be.
    pub fn max_response(mut self, bytes: usize) -> Self {
        self.settings.max_response = bytes;
        self.settings.max_event = bytes;
        self
    }

    /// Changes how long a watch stays with a connection on which nothing comes.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.settings.idle = limit;
        self
    }

    /// Changes how calls are retried.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.settings.retry = policy;
        self
    }

    /// Changes when a failing peer is left alone.
    pub fn breaker(mut self, policy: BreakerPolicy) -> Self {
        self.breaker = policy;
        self
    }

    /// Uses another transport than HTTPS, for tokens too unless another is given for them.
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transport = Some(transport);
        self
    }

    /// Uses another transport to get tokens.
    pub fn token_transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.token_transport = Some(transport);
        self
    }

    /// Builds the client. It connects to nobody yet.
    ///
    /// # Errors
    /// The address is not https, or a certificate, key, file or proxy cannot be used.
    pub fn build(self) -> Result<Client, Error> {
        let mut settings = self.settings;
        settings.allow_http = self.allow_http;
        let base = base_url(&self.url, self.allow_http)?;
        let transport = match self.transport {
            Some(transport) => transport,
            None => Arc::new(Https::new(&self.https)?),
        };
        let tokens = self.token_transport.unwrap_or_else(|| transport.clone());
        let peers = Peers::new(transport, self.breaker);
        let token_peers = Peers::new(tokens, self.breaker);
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

/// The address without anything behind its path. A trailing `/jsonrpc` is what others call the
/// address, so it is taken for the same.
fn base_url(text: &str, allow_http: bool) -> Result<Url, ConfigError> {
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
