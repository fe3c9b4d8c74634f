//! The sections of an Execution Zone's configuration, agents and OAuth2 aside.

use super::error::ConfigError;
use super::section::{Found, Section};
use interzone_edge::Secret;
use interzone_hub::Retention;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

type Result<T> = std::result::Result<T, ConfigError>;

/// What is said of a key that the defaults have; it can only be missing if they lose it.
pub(super) const HAS_A_DEFAULT: &str = "write it as config.default.toml does";

/// Certificates.
#[derive(Debug)]
pub(crate) struct TlsConfig {
    /// Our own. Only a zone that nobody reaches but by its platform has none.
    pub(crate) server: Option<ServerConfig>,
    pub(crate) trust: Vec<PathBuf>,
    pub(crate) reload: Duration,
}

/// Our own certificate, and whose callers must show.
#[derive(Debug)]
pub(crate) struct ServerConfig {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_ca: Option<PathBuf>,
}

impl TlsConfig {
    pub(super) fn read(mut section: Section<'_>, folder: &Path, needed: bool) -> Result<Self> {
        const NEEDED: &str = "name a file in PEM, as every connection is encrypted; for trying \
                              things out, `interzone up` makes its own";
        let cert = section.path("cert")?;
        let key = section.path("key")?;
        let client_ca = section.path("client_ca")?;
        let trust = section.texts("trust")?;
        let server = match (cert, key) {
            (None, None) if !needed => None,
            (cert, key) => Some(ServerConfig {
                cert: cert.ok_or_else(|| section.missing("cert", NEEDED))?,
                key: key.ok_or_else(|| section.missing("key", NEEDED))?,
                client_ca,
            }),
        };
        let config = Self {
            server,
            trust: trust.iter().map(|path| folder.join(&path.value)).collect(),
            reload: time(&mut section, "reload")?,
        };
        section.end()?;
        Ok(config)
    }
}

/// The zone itself.
#[derive(Debug)]
pub(crate) struct ExecutionConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) public_url: Url,
    pub(crate) always_200: bool,
    /// How long running requests and runs may take to end.
    pub(crate) grace: Duration,
    /// The node's name among those that share a store.
    pub(crate) node: Option<String>,
    /// Threads that serve; none means as many as there are processors.
    pub(crate) threads: Option<usize>,
    /// How long `execute_task` waits before it says that it is accepted.
    pub(crate) sync_budget: Duration,
    /// Channels with an agent of their own.
    pub(crate) channels: Vec<(String, String)>,
}

impl ExecutionConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let listen = section.parsed("listen", "an address and a port, as in \"127.0.0.1:8443\"")?;
        let Some(Found { value: listen, .. }) = listen else {
            return Err(section.missing("listen", HAS_A_DEFAULT));
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
            grace: time(&mut section, "grace")?,
            node: section.text("node")?.map(|found| found.value),
            threads: usize::try_from(threads).ok().filter(|threads| *threads > 0),
            sync_budget: time(&mut section, "sync_budget")?,
            channels: section.named_texts("channels")?,
        };
        section.end()?;
        Ok(config)
    }
}

/// A URL under which clients reach the zone.
pub(super) fn public_url(found: &Found<String>) -> Result<Url> {
    let wanted = "write the URL that clients use, as in \"https://agents.example.com\"";
    let url = Url::parse(&found.value).map_err(|_| found.refuse(wanted))?;
    if url.scheme() != "https" {
        return Err(found.refuse("it must begin with https://, as every connection is encrypted"));
    }
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err(found.refuse("leave out user, query and fragment"));
    }
    Ok(url)
}

/// What the agent card says of whoever runs the zone.
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
            name: between(&mut section, "name", 100)?,
            description: between(&mut section, "description", 500)?,
            organization: between(&mut section, "organization", 100)?,
            contact: section.text("contact")?.map(|found| found.value),
            website: section.text("website")?.map(|found| found.value),
        };
        section.end()?;
        Ok(config)
    }
}

/// The built-in issuer.
#[derive(Debug)]
pub(crate) struct IssuerConfig {
    pub(crate) token_lifetime: Duration,
    pub(crate) key_rotation: Duration,
}

impl IssuerConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let config = Self {
            token_lifetime: time(&mut section, "token_lifetime")?,
            key_rotation: time(&mut section, "key_rotation")?,
        };
        // A key must outlive its tokens, and a token that was taken back must end some day.
        let (minute, day) = (Duration::from_secs(60), Duration::from_secs(86_400));
        if !(minute..=day).contains(&config.token_lifetime) {
            return Err(section.refuse("`token_lifetime` must be between \"1m\" and \"1d\""));
        }
        if config.key_rotation < day {
            return Err(section.refuse("`key_rotation` must be at least \"1d\""));
        }
        section.end()?;
        Ok(config)
    }
}

/// Webhooks.
#[derive(Debug)]
pub(crate) struct WebhookConfig {
    pub(crate) secret: Option<Secret>,
    pub(crate) attempts: u32,
    /// Whether only the params are sent, without the envelope.
    pub(crate) bare: bool,
}

impl WebhookConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let config = Self {
            secret: section.secret("secret", "secret_file")?,
            attempts: number(&mut section, "attempts", 1)?,
            bare: section.flag("bare")?.unwrap_or(false),
        };
        section.end()?;
        Ok(config)
    }
}

/// How much of everything there may be.
#[derive(Debug)]
pub(crate) struct LimitsConfig {
    pub(crate) body: usize,
    pub(crate) batch: usize,
    /// For each client; 0 is no limit.
    pub(crate) requests_per_minute: u32,
    pub(crate) burst: u32,
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    pub(crate) arriving: usize,
    /// Memory for what has arrived and belongs to no request yet.
    pub(crate) heads: usize,
    /// The part of the above, and of the memory for bodies, that one address may have: 16 is a sixteenth.
    pub(crate) address_share: usize,
    /// The part of the memory for bodies and for answers that one principal may have.
    pub(crate) principal_share: usize,
    pub(crate) headers: usize,
    pub(crate) handshake_time: Duration,
    pub(crate) header_time: Duration,
    pub(crate) body_time: Duration,
    /// In a second.
    pub(crate) body_rate: usize,
    pub(crate) request_time: Duration,
    pub(crate) idle_time: Duration,
    pub(crate) stall_time: Duration,
    pub(crate) watches: usize,
    pub(crate) stream_idle: Duration,
}

impl LimitsConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let config = Self {
            body: size(&mut section, "body")?,
            batch: count(&mut section, "batch", 1)?,
            requests_per_minute: number(&mut section, "requests_per_minute", 0)?,
            burst: number(&mut section, "burst", 1)?,
            connections: count(&mut section, "connections", 1)?,
            requests: count(&mut section, "requests", 1)?,
            arriving: count(&mut section, "arriving", 1)?,
            heads: size(&mut section, "heads")?,
            address_share: count(&mut section, "address_share", 1)?,
            principal_share: count(&mut section, "principal_share", 1)?,
            headers: size(&mut section, "headers")?,
            handshake_time: time(&mut section, "handshake_time")?,
            header_time: time(&mut section, "header_time")?,
            body_time: time(&mut section, "body_time")?,
            body_rate: size(&mut section, "body_rate")?,
            request_time: time(&mut section, "request_time")?,
            idle_time: time(&mut section, "idle_time")?,
            stall_time: time(&mut section, "stall_time")?,
            watches: count(&mut section, "watches", 1)?,
            stream_idle: time(&mut section, "stream_idle")?,
        };
        section.end()?;
        Ok(config)
    }
}

/// How agents are given work.
#[derive(Debug)]
pub(crate) struct WorkConfig {
    pub(crate) lease: Duration,
    pub(crate) turn: Duration,
    pub(crate) attempts: u32,
}

impl WorkConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let config = Self {
            lease: time(&mut section, "lease")?,
            turn: time(&mut section, "turn")?,
            attempts: number(&mut section, "attempts", 1)?,
        };
        section.end()?;
        Ok(config)
    }
}

/// What the node tells of itself.
#[derive(Debug)]
pub(crate) struct LogConfig {
    pub(crate) format: LogFormat,
    pub(crate) filter: String,
    pub(crate) otlp: Option<String>,
    pub(crate) otlp_headers: Vec<(String, String)>,
    pub(crate) service_name: String,
}

/// The form of the log.
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
            None => return Err(section.missing("format", HAS_A_DEFAULT)),
        };
        let config = Self {
            format,
            filter: text(&mut section, "filter")?,
            otlp: section.text("otlp")?.map(|found| found.value),
            otlp_headers: section.named_texts("otlp_headers")?,
            service_name: text(&mut section, "service_name")?,
        };
        section.end()?;
        Ok(config)
    }
}

/// The audit log.
#[derive(Debug)]
pub(crate) struct AuditConfig {
    pub(crate) file: Option<PathBuf>,
}

impl AuditConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let file = section.path("file")?;
        section.end()?;
        Ok(Self { file })
    }
}

/// `[retention]`.
pub(super) fn retention(mut section: Section<'_>) -> Result<Retention> {
    let retention = Retention {
        finished: time(&mut section, "finished")?,
        events: time(&mut section, "events")?,
        delivered: time(&mut section, "delivered")?,
        dead: time(&mut section, "dead")?,
        ended_subscriptions: time(&mut section, "ended_subscriptions")?,
        unfetched: time(&mut section, "unfetched")?,
        ..Retention::default()
    };
    section.end()?;
    Ok(retention)
}

/// `[egress] allow`: each a host and a port.
pub(super) fn allowed(section: &mut Section<'_>) -> Result<Vec<String>> {
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

pub(super) fn text(section: &mut Section<'_>, key: &'static str) -> Result<String> {
    match section.text(key)? {
        Some(found) => Ok(found.value),
        None => Err(section.missing(key, HAS_A_DEFAULT)),
    }
}

fn between(section: &mut Section<'_>, key: &'static str, most: usize) -> Result<String> {
    match section.text(key)? {
        Some(found) if (1..=most).contains(&found.value.chars().count()) => Ok(found.value),
        Some(found) => Err(found.refuse(format!("write 1 to {most} characters"))),
        None => Err(section.missing(key, HAS_A_DEFAULT)),
    }
}

pub(super) fn time(section: &mut Section<'_>, key: &'static str) -> Result<Duration> {
    let time = section.time(key)?;
    time.ok_or_else(|| section.missing(key, HAS_A_DEFAULT))
}

pub(super) fn size(section: &mut Section<'_>, key: &'static str) -> Result<usize> {
    let size = section.size(key)?;
    size.ok_or_else(|| section.missing(key, HAS_A_DEFAULT))
}

pub(super) fn number(section: &mut Section<'_>, key: &'static str, least: u32) -> Result<u32> {
    let number = section.number(key, least)?;
    number.ok_or_else(|| section.missing(key, HAS_A_DEFAULT))
}

pub(super) fn count(section: &mut Section<'_>, key: &'static str, least: u32) -> Result<usize> {
    let number = number(section, key, least)?;
    Ok(usize::try_from(number).unwrap_or(usize::MAX))
}
