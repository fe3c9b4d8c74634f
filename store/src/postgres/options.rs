//! Connection options: the server's address, timeouts and TLS.
//!
//! The URL may contain a password, so nothing here prints it, not even in errors.

use super::clock::PostgresClock;
use interzone_hub::ports::StoreError;
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Config, config::TargetSessionAttrs};

/// Options of the PostgreSQL store.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct PostgresOptions {
    /// Schema of the tables; created if missing. Lower-case letters, digits
    /// and underscores, at most 48.
    pub schema: String,
    /// Maximum number of connections, not counting the listening one.
    #[serde(
        rename = "connections",
        deserialize_with = "interzone_options::positive"
    )]
    pub pool_size: usize,
    /// Timeout of waiting for a free or a new connection.
    #[serde(skip)]
    pub acquire_timeout: Duration,
    /// Timeout of one statement.
    #[serde(skip)]
    pub statement_timeout: Duration,
    /// Timeout of waiting for a lock.
    #[serde(skip)]
    pub lock_timeout: Duration,
    /// Timeout of resolving an in-doubt transaction after the connection was lost in the middle of a
    /// commit. Must be longer than a server restart takes.
    #[serde(skip)]
    pub outcome_timeout: Duration,
    /// Application name of our connections on the server.
    #[serde(skip)]
    pub application_name: String,
    /// CA certificates that verify the server; none means those of the system.
    #[serde(skip)]
    pub ca_file: Option<PathBuf>,
    /// Accepts `sslmode=disable` for a server on another machine. Only for networks that are
    /// encrypted themselves.
    #[serde(skip)]
    pub allow_plain_network: bool,
    /// Clock that decides about leases and due times.
    #[serde(skip)]
    pub clock: PostgresClock,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: "interzone".to_owned(),
            pool_size: 16,
            acquire_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(5),
            outcome_timeout: Duration::from_secs(60),
            application_name: "interzone".to_owned(),
            ca_file: None,
            allow_plain_network: false,
            clock: PostgresClock::Server,
        }
    }
}

/// A parsed URL with its TLS decision.
#[derive(Clone)]
pub(super) struct ConnectTarget {
    pub(super) config: Config,
    /// CA certificates that verify the server.
    pub(super) ca_file: Option<PathBuf>,
    /// True if the connection is not encrypted.
    pub(super) is_plaintext: bool,
}

impl fmt::Debug for ConnectTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectTarget")
            .field("hosts", &self.config.get_hosts())
            .field("database", &self.config.get_dbname())
            .field("is_plaintext", &self.is_plaintext)
            .finish_non_exhaustive()
    }
}

impl ConnectTarget {
    /// Parses a URL.
    pub(super) fn new(url: &str, options: &PostgresOptions) -> Result<Self, StoreError> {
        check_schema(&options.schema)?;
        let (url, url_params) = split_tls_params(url);
        let mut config: Config = url.parse().map_err(|_| {
            unusable(
                "the URL is not a PostgreSQL URL: use postgres://user:password@host:5432/database",
            )
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(unusable("the URL has no host"));
        }
        config.application_name(&options.application_name);
        config.connect_timeout(options.acquire_timeout);
        config.tcp_user_timeout(options.statement_timeout.saturating_mul(2));
        config.keepalives_idle(Duration::from_secs(30));
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let local = is_local(&config);
        let ssl_mode = if url_params.verify {
            SslMode::Require
        } else {
            config.get_ssl_mode()
        };
        let is_plaintext = match ssl_mode {
            SslMode::Disable if local || options.allow_plain_network => true,
            SslMode::Disable => {
                return Err(unusable(
                    "sslmode=disable would send everything unencrypted to another machine: use \
                     sslmode=require",
                ));
            }
            SslMode::Prefer => local,
            _ => false,
        };
        config.ssl_mode(if is_plaintext {
            SslMode::Disable
        } else {
            SslMode::Require
        });
        Ok(Self {
            config,
            ca_file: options.ca_file.clone().or(url_params.ca_file),
            is_plaintext,
        })
    }
}

/// URL parameters that the driver does not support.
#[derive(Default)]
struct UrlParams {
    verify: bool,
    ca_file: Option<PathBuf>,
}

/// Removes `sslmode=verify-…` and `sslrootcert=…` from the URL: every encrypted connection is verified
/// here, host name included, so they only add a CA file.
fn split_tls_params(url: &str) -> (String, UrlParams) {
    let mut url_params = UrlParams::default();
    let Some((head, query)) = url.split_once('?') else {
        return (url.to_owned(), url_params);
    };
    let remaining: Vec<&str> = query
        .split('&')
        .filter(|pair| match pair.split_once('=') {
            Some(("sslmode", "verify-ca" | "verify-full")) => {
                url_params.verify = true;
                false
            }
            Some(("sslrootcert", path)) => {
                url_params.ca_file = Some(Path::new(path).to_owned());
                false
            }
            _ => true,
        })
        .collect();
    if remaining.is_empty() {
        return (head.to_owned(), url_params);
    }
    (format!("{head}?{}", remaining.join("&")), url_params)
}

/// Returns true if all hosts are this machine.
fn is_local(config: &Config) -> bool {
    let hosts = config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    });
    hosts && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

fn check_schema(name: &str) -> Result<(), StoreError> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let has_valid_start = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if has_valid_start
        && name.len() <= 48
        && name.chars().all(is_allowed)
        && !name.starts_with("pg_")
    {
        Ok(())
    } else {
        Err(unusable(
            "invalid schema name: use lower-case letters, digits and underscores, at most 48",
        ))
    }
}

fn unusable(reason: &str) -> StoreError {
    StoreError::Unusable(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<ConnectTarget, StoreError> {
        ConnectTarget::new(url, &PostgresOptions::default())
    }

    #[test]
    fn password_is_never_printed() {
        let target = target("postgres://me:hush%21@localhost/db").unwrap();
        let debug_output = format!("{target:?} {:?}", target.config);
        assert!(!debug_output.contains("hush"), "{debug_output}");
        for bad in [
            "postgres://me:hush@:::/db",
            "me:hush",
            "host=h password=hush x=y",
        ] {
            let error = ConnectTarget::new(bad, &PostgresOptions::default()).unwrap_err();
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }

    #[test]
    fn plaintext_is_allowed_for_local_servers_only() {
        for (url, is_plaintext) in [
            ("postgres://u@localhost/db", true),
            ("postgres://u@127.0.0.1/db?sslmode=disable", true),
            ("postgres:///db?host=/run/postgresql", true),
            ("postgres://u@localhost/db?sslmode=require", false),
            ("postgres://u@localhost/db?sslmode=verify-full", false),
            ("postgres://u@db.example.org/db", false),
            ("postgres://u@db.example.org/db?sslmode=prefer", false),
            ("postgres://u@localhost,db.example.org/db", false),
        ] {
            assert_eq!(target(url).unwrap().is_plaintext, is_plaintext, "{url}");
        }
        let open = "postgres://u@db.example.org/db?sslmode=disable";
        assert!(matches!(target(open), Err(StoreError::Unusable(_))));
        let allowed = PostgresOptions {
            allow_plain_network: true,
            ..PostgresOptions::default()
        };
        assert!(ConnectTarget::new(open, &allowed).unwrap().is_plaintext);
    }

    #[test]
    fn tls_params_are_removed_from_url() {
        let url = "postgres://u@h/db?sslmode=verify-full&sslrootcert=/ca.pem&connect_timeout=3";
        let target = target(url).unwrap();
        assert_eq!(target.ca_file.as_deref(), Some(Path::new("/ca.pem")));
        assert_eq!(target.config.get_ssl_mode(), SslMode::Require);
    }

    #[test]
    fn invalid_schema_names_are_rejected() {
        for bad in ["", "A", "1a", "a-b", "a\"b", "pg_x", &"a".repeat(49)] {
            assert!(check_schema(bad).is_err(), "{bad}");
        }
        assert!(check_schema("interzone_2").is_ok());
    }
}
