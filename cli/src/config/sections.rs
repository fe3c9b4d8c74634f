//! Sections of the Execution Zone's configuration, except agents; some are shared by both zones. A
//! component declares its own options; this file has only those that several components share or that no other crate
//! uses.

use super::check::Checker;
use super::deserializer::read_section;
use super::error::ConfigError;
use super::{MergedConfig, open, secrets, values, variables};
use interzone_edge::Secret;
use interzone_edge::limits::HttpLimits;
use interzone_edge::rate_limiter::RateLimits;
use interzone_edge::telemetry::LogFormat;
use interzone_edge::tls::TlsFiles;
use interzone_execution::request_log::RequestLogScope;
use interzone_execution::workers::WorkerOptions;
use interzone_hub::{Limits, Retention};
use interzone_options::positive;
use interzone_protocol::Scope;
use interzone_protocol::vocab::PrincipalId;
use interzone_store::postgres::PostgresOptions;
use interzone_store::sqlite::SqliteOptions;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

type Result<T> = std::result::Result<T, ConfigError>;

/// `[store]`: the database.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreConfig {
    /// Database URL: `url`, or in the file `url_file` if it has a password.
    #[serde(rename = "..url", deserialize_with = "store_url")]
    pub(crate) url: StoreUrl,
    #[serde(rename = "..sqlite")]
    pub(crate) sqlite: SqliteOptions,
    #[serde(rename = "..postgres")]
    pub(crate) postgres: PostgresOptions,
    /// PostgreSQL: CA that the server certificate is verified with.
    #[serde(deserialize_with = "values::path")]
    ca: Option<PathBuf>,
}

/// Database URL.
#[derive(Debug)]
pub(crate) enum StoreUrl {
    /// Path of the SQLite file.
    Sqlite(PathBuf),
    /// PostgreSQL URL, which may contain a password.
    Postgres(Secret),
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self::in_data_dir(Path::new(""), "interzone.db")
    }
}

impl StoreConfig {
    /// Returns the store named `name` in a data folder of `interzone up`.
    pub(crate) fn in_data_dir(folder: &Path, name: &str) -> Self {
        Self {
            url: StoreUrl::Sqlite(folder.join(name)),
            sqlite: SqliteOptions::default(),
            postgres: PostgresOptions::default(),
            ca: None,
        }
    }

    /// Reads `[store]` of a zone of either kind, and nothing else: a backup needs no access to the other
    /// secrets.
    ///
    /// # Errors
    /// The file cannot be read, or that section contains an invalid setting.
    pub(crate) fn load(file: &Path) -> Result<Self> {
        let (text, folder) = open(file)?;
        MergedConfig::read(&text, variables())
            .and_then(|merged| Self::from_merged(&merged, folder))
            .map_err(|error| error.in_file(file.to_owned()))
    }

    pub(super) fn from_merged(merged: &MergedConfig, folder: &Path) -> Result<Self> {
        let mut store: Self = read_section(&merged.table, folder, "store")?;
        store.resolve(folder);
        Ok(store)
    }

    /// Makes the paths absolute and passes them on.
    pub(super) fn resolve(&mut self, folder: &Path) {
        if let StoreUrl::Sqlite(path) = &mut self.url {
            *path = folder.join(&*path);
        }
        self.postgres.ca_file = self.ca.take();
    }
}

fn store_url<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<StoreUrl, D::Error> {
    let Some(url) = secrets::inline(deserializer)? else {
        return Ok(StoreConfig::default().url);
    };
    match url.expose().split_once(':') {
        Some(("sqlite", path)) => match path.strip_prefix("//").unwrap_or(path) {
            "" => Err(D::Error::custom(
                "name a file, as in \"sqlite:interzone.db\"",
            )),
            path => Ok(StoreUrl::Sqlite(PathBuf::from(path))),
        },
        Some(("postgres" | "postgresql", _)) => Ok(StoreUrl::Postgres(url)),
        // The value is not included in the message: it may contain a password.
        _ => Err(D::Error::custom(
            "write \"sqlite:FILE\" or \"postgres://user@host/database\"",
        )),
    }
}

/// `[tls]`: certificates.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TlsConfig {
    #[serde(deserialize_with = "values::path")]
    cert: Option<PathBuf>,
    #[serde(deserialize_with = "values::path")]
    key: Option<PathBuf>,
    #[serde(deserialize_with = "values::path")]
    client_ca: Option<PathBuf>,
    #[serde(deserialize_with = "values::paths")]
    pub(crate) trust: Vec<PathBuf>,
    pub(crate) reload_interval: Duration,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            cert: None,
            key: None,
            client_ca: None,
            trust: Vec::new(),
            reload_interval: Duration::from_secs(30),
        }
    }
}

impl TlsConfig {
    /// Returns the files of the server certificate. Only zones behind AgentCore, which terminates TLS, have none.
    pub(crate) fn server(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            cert: self.cert.clone()?,
            key: self.key.clone()?,
            client_ca: self.client_ca.clone(),
        })
    }

    /// Checks that there is a certificate if it is `needed`.
    pub(super) fn check(&self, needed: bool, checker: &Checker<'_>) -> Result<()> {
        const HINT: &str = "name a PEM file, as all connections use TLS; to try it out, `interzone up` creates \
                            its own certificate";
        match (&self.cert, &self.key) {
            (Some(_), Some(_)) => Ok(()),
            (None, None) if !needed => Ok(()),
            (None, _) => Err(checker.missing("tls.cert", HINT)),
            (_, None) => Err(checker.missing("tls.key", HINT)),
        }
    }
}

/// `[execution]`.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExecutionConfig {
    #[serde(deserialize_with = "values::address")]
    pub(crate) listen: SocketAddr,
    /// Port 0 is replaced by the port that is listened on.
    #[serde(deserialize_with = "values::public_url")]
    pub(crate) public_url: Url,
    pub(crate) always_200: bool,
    /// Time that running requests and agent runs have to finish on shutdown.
    pub(crate) shutdown_grace: Duration,
    /// Name of the node among those that share a store.
    pub(crate) node: Option<String>,
    /// Server threads; None means one per processor.
    #[serde(deserialize_with = "values::threads")]
    pub(crate) threads: Option<usize>,
    /// Time that `execute_task` waits before it returns "accepted".
    pub(crate) sync_budget: Duration,
    /// Agents by channel.
    pub(crate) channels: BTreeMap<String, String>,
}

impl Default for ExecutionConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8443).into(),
            public_url: values::constant_url("https://localhost:0"),
            always_200: false,
            shutdown_grace: Duration::from_secs(30),
            node: None,
            threads: None,
            sync_budget: Duration::from_secs(20),
            channels: BTreeMap::new(),
        }
    }
}

/// `[card]`: description of the zone in the agent card.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CardConfig {
    #[serde(deserialize_with = "values::bounded_text::<100, _>")]
    pub(crate) name: String,
    #[serde(deserialize_with = "values::bounded_text::<500, _>")]
    pub(crate) description: String,
    #[serde(deserialize_with = "values::bounded_text::<100, _>")]
    pub(crate) organization: String,
    pub(crate) contact: Option<String>,
    pub(crate) website: Option<String>,
}

impl Default for CardConfig {
    fn default() -> Self {
        Self {
            name: "Interzone".to_owned(),
            description: "Agents that answer by JSON-RPC 2.0.".to_owned(),
            organization: "Interzone".to_owned(),
            contact: None,
            website: None,
        }
    }
}

/// `[oauth]`: accepted tokens.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OAuthConfig {
    /// Issuer (`iss`) of the tokens; None means the built-in issuer.
    #[serde(deserialize_with = "values::secure_url_text")]
    pub(crate) issuer: Option<String>,
    /// URL of the issuer's keys; default: from its metadata.
    #[serde(deserialize_with = "values::secure_url_text")]
    pub(crate) jwks_url: Option<String>,
    /// Accepted audiences. Never empty once checked.
    pub(crate) audience: Vec<String>,
    pub(crate) leeway: Duration,
    pub(crate) introspection: Option<IntrospectionConfig>,
}

/// Token introspection for opaque tokens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IntrospectionConfig {
    #[serde(deserialize_with = "values::secure_url_text")]
    pub(crate) url: String,
    pub(crate) client_id: String,
    #[serde(rename = "..secret", deserialize_with = "secrets::inline_required")]
    pub(crate) secret: Secret,
}

impl Default for OAuthConfig {
    fn default() -> Self {
        Self {
            issuer: None,
            jwks_url: None,
            audience: Vec::new(),
            leeway: Duration::from_secs(30),
            introspection: None,
        }
    }
}

impl OAuthConfig {
    pub(super) fn check(&mut self, public_url: &Url, checker: &Checker<'_>) -> Result<()> {
        if self.issuer.is_some() {
            // Otherwise a token issued for any other service would be accepted here.
            return match self.audience.is_empty() {
                true => {
                    Err(checker
                        .missing("oauth.audience", "set the audience of the issuer's tokens"))
                }
                false => Ok(()),
            };
        }
        if public_url.path() != "/" {
            return Err(checker.missing(
                "oauth.issuer",
                "the built-in issuer needs an `execution.public_url` without a path",
            ));
        }
        if self.jwks_url.is_some() {
            return Err(checker.refuse(
                "oauth.jwks_url",
                "requires `oauth.issuer`; the built-in issuer uses its own keys",
            ));
        }
        if self.introspection.is_some() {
            return Err(checker.refuse("oauth.introspection", "requires `oauth.issuer`"));
        }
        if self.audience.is_empty() {
            self.audience = vec![public_url.as_str().trim_end_matches('/').to_owned()];
        }
        Ok(())
    }
}

/// `[egress]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EgressConfig {
    /// Exceptions from the egress filter for outgoing connections: `host:port`.
    #[serde(deserialize_with = "values::hosts")]
    pub(crate) allow: Vec<String>,
}

/// `[webhooks]`.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebhookConfig {
    #[serde(rename = "..secret", deserialize_with = "secrets::inline")]
    pub(crate) secret: Option<Secret>,
    #[serde(deserialize_with = "positive")]
    pub(crate) attempts: u32,
    /// Send only the params, without the JSON-RPC envelope.
    pub(crate) params_only: bool,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        Self {
            secret: None,
            attempts: WorkerOptions::default().webhooks.retry.max_attempts,
            params_only: false,
        }
    }
}

/// `[limits]`: each configuration key is a limit. The component that enforces it declares it.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitsConfig {
    #[serde(rename = "..http")]
    pub(crate) http: HttpLimits,
    #[serde(rename = "..rate")]
    pub(crate) rate: RateLimits,
    #[serde(rename = "..hub")]
    pub(crate) hub: Limits,
    /// Messages per batch.
    #[serde(deserialize_with = "positive")]
    pub(crate) batch: usize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            http: HttpLimits::default(),
            rate: RateLimits::default(),
            hub: Limits::default(),
            batch: 1000,
        }
    }
}

/// `[work]`: agent runs.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WorkConfig {
    #[serde(rename = "..workers")]
    pub(crate) workers: WorkerOptions,
    /// Attempts to run a task if nodes fail, including the first.
    #[serde(deserialize_with = "positive")]
    pub(crate) attempts: u32,
}

impl Default for WorkConfig {
    fn default() -> Self {
        Self {
            workers: WorkerOptions::default(),
            attempts: Limits::default().attempts,
        }
    }
}

/// `[request_log]`: which answered requests are recorded, and for how long.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RequestLogConfig {
    #[serde(deserialize_with = "recorded_requests")]
    pub(crate) record: Option<RequestLogScope>,
    pub(crate) retention: Duration,
    #[serde(deserialize_with = "positive")]
    pub(crate) max_entries: u64,
}

impl Default for RequestLogConfig {
    fn default() -> Self {
        let retention = Retention::default();
        Self {
            record: Some(RequestLogScope::Zone),
            retention: retention.requests,
            max_entries: retention.max_requests,
        }
    }
}

fn recorded_requests<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<RequestLogScope>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "zone" => Ok(Some(RequestLogScope::Zone)),
        "all" => Ok(Some(RequestLogScope::All)),
        "none" => Ok(None),
        _ => Err(D::Error::custom("write \"zone\", \"all\" or \"none\"")),
    }
}

/// `[agentcore]`: a zone inside Amazon Bedrock AgentCore.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AgentCoreConfig {
    pub(crate) enabled: bool,
    #[serde(deserialize_with = "values::address")]
    pub(crate) listen: SocketAddr,
    #[serde(deserialize_with = "values::address")]
    pub(crate) agents_listen: SocketAddr,
    #[serde(deserialize_with = "principal")]
    pub(crate) principal: String,
    #[serde(deserialize_with = "scopes")]
    pub(crate) scopes: Vec<String>,
    pub(crate) per_user: bool,
    pub(crate) require_token: bool,
}

impl Default for AgentCoreConfig {
    fn default() -> Self {
        let scopes = [
            Scope::AgentIdentify,
            Scope::TasksRead,
            Scope::TasksWrite,
            Scope::TasksCancel,
        ];
        Self {
            enabled: false,
            listen: (Ipv4Addr::UNSPECIFIED, 8080).into(),
            agents_listen: (Ipv4Addr::UNSPECIFIED, 9000).into(),
            principal: "agentcore".to_owned(),
            scopes: scopes.map(|scope| scope.name().to_owned()).to_vec(),
            per_user: false,
            require_token: false,
        }
    }
}

fn principal<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<String, D::Error> {
    let principal = String::deserialize(deserializer)?;
    match PrincipalId::new(&principal) {
        Ok(_) => Ok(principal),
        Err(_) => Err(D::Error::custom("write a valid principal id")),
    }
}

fn scopes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Vec<String>, D::Error> {
    let scopes = Vec::<String>::deserialize(deserializer)?;
    let is_scope = |name: &String| Scope::ALL.iter().any(|scope| scope.name() == name);
    match scopes.iter().all(is_scope) {
        true => Ok(scopes),
        false => Err(D::Error::custom(
            "write ACP scopes, as in \"acp:tasks:read\"",
        )),
    }
}

/// `[console]`: enables the console and lists the operators who may sign in.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ConsoleConfig {
    pub(crate) enabled: bool,
    /// Principals that may sign in. With an external issuer, an empty list admits every token with the scope.
    pub(crate) operators: Vec<String>,
    /// OAuth2 client for signing in at an external issuer.
    pub(crate) client_id: Option<String>,
    #[serde(rename = "..client_secret", deserialize_with = "secrets::inline")]
    pub(crate) client_secret: Option<Secret>,
    pub(crate) scope: Option<String>,
    /// `resource` parameter of the authorization request, if the issuer needs one.
    pub(crate) resource: Option<String>,
    /// Authorization and token endpoint; by default from the issuer's metadata.
    #[serde(deserialize_with = "values::secure_url")]
    pub(crate) authorize_url: Option<Url>,
    #[serde(deserialize_with = "values::secure_url")]
    pub(crate) token_url: Option<Url>,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            operators: Vec::new(),
            client_id: None,
            client_secret: None,
            scope: None,
            resource: None,
            authorize_url: None,
            token_url: None,
        }
    }
}

impl ConsoleConfig {
    pub(super) fn check(&self, checker: &Checker<'_>) -> Result<()> {
        const BOTH_URLS: &str = "set both `authorize_url` and `token_url`, or neither";
        match (&self.authorize_url, &self.token_url) {
            (Some(_), None) => Err(checker.missing("console.token_url", BOTH_URLS)),
            (None, Some(_)) => Err(checker.missing("console.authorize_url", BOTH_URLS)),
            (Some(_), Some(_)) if self.client_id.is_none() => Err(checker.missing(
                "console.client_id",
                "the issuer identifies the console by it",
            )),
            _ => Ok(()),
        }
    }
}

/// `[log]`: log and traces.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogConfig {
    pub(crate) format: LogFormat,
    pub(crate) filter: String,
    pub(crate) service_name: String,
    #[serde(rename = "otlp")]
    pub(crate) otlp_url: Option<String>,
    pub(crate) otlp_headers: BTreeMap<String, String>,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            filter: "info".to_owned(),
            service_name: "interzone".to_owned(),
            otlp_url: None,
            otlp_headers: BTreeMap::new(),
        }
    }
}

/// `[metrics]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MetricsConfig {
    /// `/metrics` needs no token.
    pub(crate) public: bool,
}

/// `[audit]`: the audit log.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuditConfig {
    #[serde(deserialize_with = "values::path")]
    pub(crate) file: Option<PathBuf>,
}
