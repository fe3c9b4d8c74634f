//! What an operator decides: where the server is, and how long to wait for it.
//!
//! The URL may hold a password, so nothing here prints it, not even when it is wrong.

use super::moments::PostgresClock;
use interzone_hub::ports::StoreError;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Config, config::TargetSessionAttrs};

/// How the store uses its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// The schema that holds the tables; it is made if it is not there. Lower-case letters, digits
    /// and underscores, at most 48.
    pub schema: String,
    /// How many connections there are at most, the one that listens aside.
    pub pool_size: usize,
    /// How long to wait for a free or a new connection.
    pub acquire_timeout: Duration,
    /// How long one statement may take.
    pub statement_timeout: Duration,
    /// How long to wait for somebody else's lock.
    pub lock_timeout: Duration,
    /// How long to find out, after a connection was lost in the middle of a commit, whether it
    /// happened. Longer than a server takes to restart.
    pub outcome_timeout: Duration,
    /// The name under which the server lists our connections.
    pub application_name: String,
    /// The certificates that the server's is proved by; none means those of the system.
    pub ca_file: Option<PathBuf>,
    /// Whether `sslmode=disable` is accepted for a server on another machine. Only where the network
    /// itself is encrypted.
    pub allow_plain_network: bool,
    /// Which clock decides about leases and what is due.
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

/// A checked URL: where to connect, and whether in the open.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) config: Config,
    /// The certificates to prove the server by.
    pub(super) ca_file: Option<PathBuf>,
    /// Whether the connection is not encrypted.
    pub(super) plain: bool,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("hosts", &self.config.get_hosts())
            .field("database", &self.config.get_dbname())
            .field("plain", &self.plain)
            .finish_non_exhaustive()
    }
}

impl Target {
    /// Reads a URL.
    pub(super) fn new(url: &str, options: &PostgresOptions) -> Result<Self, StoreError> {
        check_schema(&options.schema)?;
        let (url, said) = without_our_parameters(url);
        let mut config: Config = url.parse().map_err(|_| {
            unusable(
                "the URL is not one of PostgreSQL: postgres://user:password@host:5432/database",
            )
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(unusable("the URL names no host"));
        }
        config.application_name(&options.application_name);
        config.connect_timeout(options.acquire_timeout);
        config.tcp_user_timeout(options.statement_timeout.saturating_mul(2));
        config.keepalives_idle(Duration::from_secs(30));
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let local = is_local(&config);
        let asked = if said.verify {
            SslMode::Require
        } else {
            config.get_ssl_mode()
        };
        let plain = match asked {
            SslMode::Disable if local || options.allow_plain_network => true,
            SslMode::Disable => {
                return Err(unusable(
                    "sslmode=disable would send everything in the open to another machine: use \
                     sslmode=require",
                ));
            }
            SslMode::Prefer => local,
            _ => false,
        };
        config.ssl_mode(if plain {
            SslMode::Disable
        } else {
            SslMode::Require
        });
        Ok(Self {
            config,
            ca_file: options.ca_file.clone().or(said.ca_file),
            plain,
        })
    }
}

/// What the URL says that the driver does not know.
#[derive(Default)]
struct Said {
    verify: bool,
    ca_file: Option<PathBuf>,
}

/// Takes `sslmode=verify-…` and `sslrootcert=…` out: every encrypted connection is verified here,
/// name included, so they only add a file.
fn without_our_parameters(url: &str) -> (String, Said) {
    let mut said = Said::default();
    let Some((head, query)) = url.split_once('?') else {
        return (url.to_owned(), said);
    };
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| match pair.split_once('=') {
            Some(("sslmode", "verify-ca" | "verify-full")) => {
                said.verify = true;
                false
            }
            Some(("sslrootcert", path)) => {
                said.ca_file = Some(Path::new(path).to_owned());
                false
            }
            _ => true,
        })
        .collect();
    if kept.is_empty() {
        return (head.to_owned(), said);
    }
    (format!("{head}?{}", kept.join("&")), said)
}

/// Whether nobody but this machine is between us and the server.
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
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if begins_well && name.len() <= 48 && name.chars().all(plain) && !name.starts_with("pg_") {
        Ok(())
    } else {
        Err(unusable(
            "a schema is named by lower-case letters, digits and underscores, at most 48",
        ))
    }
}

fn unusable(why: &str) -> StoreError {
    StoreError::Unusable(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, StoreError> {
        Target::new(url, &PostgresOptions::default())
    }

    #[test]
    fn nothing_prints_the_password() {
        let target = target("postgres://me:hush%21@localhost/db").unwrap();
        let shown = format!("{target:?} {:?}", target.config);
        assert!(!shown.contains("hush"), "{shown}");
        for bad in [
            "postgres://me:hush@:::/db",
            "me:hush",
            "host=h password=hush x=y",
        ] {
            let error = Target::new(bad, &PostgresOptions::default()).unwrap_err();
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }

    #[test]
    fn only_this_machine_is_reached_in_the_open() {
        for (url, plain) in [
            ("postgres://u@localhost/db", true),
            ("postgres://u@127.0.0.1/db?sslmode=disable", true),
            ("postgres:///db?host=/run/postgresql", true),
            ("postgres://u@localhost/db?sslmode=require", false),
            ("postgres://u@localhost/db?sslmode=verify-full", false),
            ("postgres://u@db.example.org/db", false),
            ("postgres://u@db.example.org/db?sslmode=prefer", false),
            ("postgres://u@localhost,db.example.org/db", false),
        ] {
            assert_eq!(target(url).unwrap().plain, plain, "{url}");
        }
        let open = "postgres://u@db.example.org/db?sslmode=disable";
        assert!(matches!(target(open), Err(StoreError::Unusable(_))));
        let allowed = PostgresOptions {
            allow_plain_network: true,
            ..PostgresOptions::default()
        };
        assert!(Target::new(open, &allowed).unwrap().plain);
    }

    #[test]
    fn parameters_of_our_own_are_taken_out() {
        let url = "postgres://u@h/db?sslmode=verify-full&sslrootcert=/ca.pem&connect_timeout=3";
        let target = target(url).unwrap();
        assert_eq!(target.ca_file.as_deref(), Some(Path::new("/ca.pem")));
        assert_eq!(target.config.get_ssl_mode(), SslMode::Require);
    }

    #[test]
    fn schemas_are_plain_words() {
        for bad in ["", "A", "1a", "a-b", "a\"b", "pg_x", &"a".repeat(49)] {
            assert!(check_schema(bad).is_err(), "{bad}");
        }
        assert!(check_schema("interzone_2").is_ok());
    }
}
