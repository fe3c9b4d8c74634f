//! Sections of the Execution Zone's configuration, except agents and OAuth2; some are shared by both zones.

use super::error::ConfigError;
use super::section::{ConfigValue, Section};
use interzone_edge::Secret;
use interzone_hub::Retention;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

type Result<T> = std::result::Result<T, ConfigError>;

/// Hint for a missing key that has a default; it can only be missing if the defaults lose it.
pub(super) const DEFAULT_MISSING: &str = "set it as in config.default.toml";

/// `[tls]`: certificates.
#[derive(Debug)]
pub(crate) struct TlsConfig {
    /// The server certificate. Only zones behind AgentCore, which terminates TLS, have none.
    pub(crate) server: Option<ServerTlsConfig>,
    pub(crate) trust: Vec<PathBuf>,
    pub(crate) reload_interval: Duration,
}

/// The server certificate, and the CA of client certificates.
#[derive(Debug)]
pub(crate) struct ServerTlsConfig {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_ca: Option<PathBuf>,
}

impl TlsConfig {
    pub(super) fn read(mut section: Section<'_>, folder: &Path, needed: bool) -> Result<Self> {
        const CERTIFICATE_HINT: &str = "name a PEM file, as all connections use TLS; to try it out, \
                               `interzone up` creates its own certificate";
        let cert = section.path("cert")?;
        let key = section.path("key")?;
        let client_ca = section.path("client_ca")?;
        let trust = section.texts("trust")?;
        let server = match (cert, key) {
            (None, None) if !needed => None,
            (cert, key) => Some(ServerTlsConfig {
                cert: cert.ok_or_else(|| section.missing("cert", CERTIFICATE_HINT))?,
                key: key.ok_or_else(|| section.missing("key", CERTIFICATE_HINT))?,
                client_ca,
            }),
        };
        let config = Self {
            server,
            trust: trust.iter().map(|path| folder.join(&path.value)).collect(),
            reload_interval: required_duration(&mut section, "reload_interval")?,
        };
        section.finish()?;
        Ok(config)
    }
}

/// `[execution]`.
#[derive(Debug)]
pub(crate) struct ExecutionConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) public_url: Url,
    pub(crate) always_200: bool,
    /// Time that running requests and agent runs have to finish on shutdown.
    pub(crate) shutdown_grace: Duration,
    /// Name of the node among those that share a store.
    pub(crate) node: Option<String>,
    /// Server threads; None means one per processor.
    pub(crate) threads: Option<usize>,
    /// Time that `execute_task` waits before it returns "accepted".
    pub(crate) sync_budget: Duration,
    /// Agents by channel.
    pub(crate) channels: Vec<(String, String)>,
}

impl ExecutionConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let listen = section.parsed("listen", "an address and a port, as in \"127.0.0.1:8443\"")?;
        let Some(ConfigValue { value: listen, .. }) = listen else {
            return Err(section.missing("listen", DEFAULT_MISSING));
        };
        let listen: SocketAddr = listen;
        let public_url = match section.text("public_url")? {
            Some(found) => public_url(&found)?,
            None => Url::parse(&format!("https://localhost:{}", listen.port()))
                .map_err(|_| section.missing("public_url", "write the URL that clients use"))?,
        };
        let threads = section.number("threads", 0)?.unwrap_or(0);
        let config = Self {
            listen,
            public_url,
            always_200: section.flag("always_200")?.unwrap_or(false),
            shutdown_grace: required_duration(&mut section, "shutdown_grace")?,
            node: section.text("node")?.map(|found| found.value),
            threads: usize::try_from(threads).ok().filter(|threads| *threads > 0),
            sync_budget: required_duration(&mut section, "sync_budget")?,
            channels: section.string_map("channels")?,
        };
        section.finish()?;
        Ok(config)
    }
}

/// Parses the public URL of a zone.
pub(super) fn public_url(found: &ConfigValue<String>) -> Result<Url> {
    let hint = "write the URL that clients use, as in \"https://agents.example.com\"";
    let url = Url::parse(&found.value).map_err(|_| found.refuse(hint))?;
    if url.scheme() != "https" {
        return Err(found.refuse("it must begin with https://, as all connections use TLS"));
    }
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err(found.refuse("leave out user, query and fragment"));
    }
    Ok(url)
}

/// `[card]`: description of the zone in the agent card.
#[derive(Debug)]
pub(crate) struct CardConfig {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) organization: String,
    pub(crate) contact: Option<String>,
    pub(crate) website: Option<String>,
}

impl CardConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let config = Self {
            name: bounded_text(&mut section, "name", 100)?,
            description: bounded_text(&mut section, "description", 500)?,
            organization: bounded_text(&mut section, "organization", 100)?,
            contact: section.text("contact")?.map(|found| found.value),
            website: section.text("website")?.map(|found| found.value),
        };
        section.finish()?;
        Ok(config)
    }
}

/// `[issuer]`: the built-in issuer.
#[derive(Debug)]
pub(crate) struct IssuerConfig {
    pub(crate) token_lifetime: Duration,
    pub(crate) key_rotation: Duration,
}

impl IssuerConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let config = Self {
            token_lifetime: required_duration(&mut section, "token_lifetime")?,
            key_rotation: required_duration(&mut section, "key_rotation")?,
        };
        // A key must outlive its tokens, and a revoked token must expire at some point.
        let (minute, day) = (Duration::from_secs(60), Duration::from_secs(86_400));
        if !(minute..=day).contains(&config.token_lifetime) {
            return Err(section.refuse("`token_lifetime` must be between \"1m\" and \"1d\""));
        }
        if config.key_rotation < day {
            return Err(section.refuse("`key_rotation` must be at least \"1d\""));
        }
        section.finish()?;
        Ok(config)
    }
}

/// `[webhooks]`.
#[derive(Debug)]
pub(crate) struct WebhookConfig {
    pub(crate) secret: Option<Secret>,
    pub(crate) attempts: u32,
    /// Send only the params, without the JSON-RPC envelope.
    pub(crate) params_only: bool,
}

impl WebhookConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let config = Self {
            secret: section.secret("secret", "secret_file")?,
            attempts: required_number(&mut section, "attempts", 1)?,
            params_only: section.flag("params_only")?.unwrap_or(false),
        };
        section.finish()?;
        Ok(config)
    }
}

/// `[limits]`.
#[derive(Debug)]
pub(crate) struct LimitsConfig {
    pub(crate) body: usize,
    pub(crate) batch: usize,
    /// Per client; 0 means no limit.
    pub(crate) requests_per_minute: u32,
    pub(crate) burst: u32,
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    pub(crate) pending_bodies: usize,
    /// Memory for received bytes of unfinished handshakes and request heads.
    pub(crate) head_memory: usize,
    /// Divisor: one address may use 1/n of the above and of the memory for bodies.
    pub(crate) address_share: usize,
    /// Divisor: one principal may use 1/n of the memory for bodies and responses.
    pub(crate) principal_share: usize,
    pub(crate) headers: usize,
    pub(crate) handshake_timeout: Duration,
    pub(crate) header_timeout: Duration,
    pub(crate) body_timeout: Duration,
    /// Bytes per second.
    pub(crate) min_body_rate: usize,
    pub(crate) request_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) stall_timeout: Duration,
    pub(crate) watches: usize,
    pub(crate) stream_idle_timeout: Duration,
    pub(crate) message_parts: usize,
    pub(crate) task_messages: usize,
    pub(crate) task_artifacts: usize,
    pub(crate) idempotency_keys: Duration,
}

impl LimitsConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let config = Self {
            body: required_size(&mut section, "body")?,
            batch: required_count(&mut section, "batch", 1)?,
            requests_per_minute: required_number(&mut section, "requests_per_minute", 0)?,
            burst: required_number(&mut section, "burst", 1)?,
            connections: required_count(&mut section, "connections", 1)?,
            requests: required_count(&mut section, "requests", 1)?,
            pending_bodies: required_count(&mut section, "pending_bodies", 1)?,
            head_memory: required_size(&mut section, "head_memory")?,
            address_share: required_count(&mut section, "address_share", 1)?,
            principal_share: required_count(&mut section, "principal_share", 1)?,
            headers: required_size(&mut section, "headers")?,
            handshake_timeout: required_duration(&mut section, "handshake_timeout")?,
            header_timeout: required_duration(&mut section, "header_timeout")?,
            body_timeout: required_duration(&mut section, "body_timeout")?,
            min_body_rate: required_size(&mut section, "min_body_rate")?,
            request_timeout: required_duration(&mut section, "request_timeout")?,
            idle_timeout: required_duration(&mut section, "idle_timeout")?,
            stall_timeout: required_duration(&mut section, "stall_timeout")?,
            watches: required_count(&mut section, "watches", 1)?,
            stream_idle_timeout: required_duration(&mut section, "stream_idle_timeout")?,
            message_parts: required_count(&mut section, "message_parts", 1)?,
            task_messages: required_count(&mut section, "task_messages", 1)?,
            task_artifacts: required_count(&mut section, "task_artifacts", 1)?,
            idempotency_keys: required_duration(&mut section, "idempotency_keys")?,
        };
        section.finish()?;
        Ok(config)
    }
}

/// `[work]`: agent runs.
#[derive(Debug)]
pub(crate) struct WorkConfig {
    pub(crate) lease: Duration,
    pub(crate) turn_timeout: Duration,
    pub(crate) attempts: u32,
}

impl WorkConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let config = Self {
            lease: required_duration(&mut section, "lease")?,
            turn_timeout: required_duration(&mut section, "turn_timeout")?,
            attempts: required_number(&mut section, "attempts", 1)?,
        };
        section.finish()?;
        Ok(config)
    }
}

/// `[log]`: log and traces.
#[derive(Debug)]
pub(crate) struct LogConfig {
    pub(crate) format: LogFormat,
    pub(crate) filter: String,
    pub(crate) otlp_url: Option<String>,
    pub(crate) otlp_headers: Vec<(String, String)>,
    pub(crate) service_name: String,
}

/// Log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl LogConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let format = match section.text("format")? {
            Some(found) => match found.value.as_str() {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                _ => return Err(found.refuse("write \"text\" or \"json\"")),
            },
            None => return Err(section.missing("format", DEFAULT_MISSING)),
        };
        let config = Self {
            format,
            filter: required_text(&mut section, "filter")?,
            otlp_url: section.text("otlp")?.map(|found| found.value),
            otlp_headers: section.string_map("otlp_headers")?,
            service_name: required_text(&mut section, "service_name")?,
        };
        section.finish()?;
        Ok(config)
    }
}

/// `[audit]`: the audit log.
#[derive(Debug)]
pub(crate) struct AuditConfig {
    pub(crate) file: Option<PathBuf>,
}

impl AuditConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let file = section.path("file")?;
        section.finish()?;
        Ok(Self { file })
    }
}

/// `[retention]`.
pub(super) fn retention(mut section: Section<'_>) -> Result<Retention> {
    let retention = Retention {
        finished: required_duration(&mut section, "finished")?,
        events: required_duration(&mut section, "events")?,
        delivered: required_duration(&mut section, "delivered")?,
        dead: required_duration(&mut section, "dead_letters")?,
        ended_subscriptions: required_duration(&mut section, "ended_subscriptions")?,
        unfetched: required_duration(&mut section, "unread_signals")?,
        ..Retention::default()
    };
    section.finish()?;
    Ok(retention)
}

/// `[egress] allow`: entries of host and port.
pub(super) fn egress_allow(section: &mut Section<'_>) -> Result<Vec<String>> {
    let entries = section.texts("allow")?;
    entries
        .into_iter()
        .map(|entry| match entry.value.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(entry.value)
            }
            _ => Err(entry.refuse("write a host and a port, as in \"127.0.0.1:9955\"")),
        })
        .collect()
}

pub(super) fn required_text(section: &mut Section<'_>, key: &'static str) -> Result<String> {
    match section.text(key)? {
        Some(found) => Ok(found.value),
        None => Err(section.missing(key, DEFAULT_MISSING)),
    }
}

fn bounded_text(section: &mut Section<'_>, key: &'static str, max: usize) -> Result<String> {
    match section.text(key)? {
        Some(found) if (1..=max).contains(&found.value.chars().count()) => Ok(found.value),
        Some(found) => Err(found.refuse(format!("write 1 to {max} characters"))),
        None => Err(section.missing(key, DEFAULT_MISSING)),
    }
}

pub(super) fn required_duration(section: &mut Section<'_>, key: &'static str) -> Result<Duration> {
    let time = section.duration(key)?;
    time.ok_or_else(|| section.missing(key, DEFAULT_MISSING))
}

pub(super) fn required_size(section: &mut Section<'_>, key: &'static str) -> Result<usize> {
    let size = section.size(key)?;
    size.ok_or_else(|| section.missing(key, DEFAULT_MISSING))
}

pub(super) fn required_number(
    section: &mut Section<'_>,
    key: &'static str,
    min: u32,
) -> Result<u32> {
    let number = section.number(key, min)?;
    number.ok_or_else(|| section.missing(key, DEFAULT_MISSING))
}

pub(super) fn required_count(
    section: &mut Section<'_>,
    key: &'static str,
    min: u32,
) -> Result<usize> {
    let number = required_number(section, key, min)?;
    Ok(usize::try_from(number).unwrap_or(usize::MAX))
}
