//! Opens connections: TLS, and the session settings of every connection.

use super::error;
use super::options::{ConnectTarget, PostgresOptions};
use deadpool_postgres::{
    Connect, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts,
};
use interzone_hub::ports::StoreError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Usual locations of the system's trusted CA certificates.
const SYSTEM_CA_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Planner settings. PostgreSQL has no hints in statements, and keeps the plan that it made when the tables
/// were nearly empty, where sequential scans and hash joins are cheapest, until the next ANALYZE; a store can
/// grow a lot until then. Every statement has an index that serves it, and every join looks up a few rows by
/// key; tests check that these plans are used. JIT compilation takes longer than running any of the statements.
pub const PLANNER_SETTINGS: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; \
    SET enable_mergejoin = off; SET enable_material = off; SET jit = off";

/// Oldest supported major version of the server.
const MIN_SERVER_VERSION: i32 = 15;

/// Opens connections with the same configuration.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) config: Config,
    tls: Option<MakeRustlsConnect>,
    /// Statements run first on every connection.
    settings: Arc<str>,
}

impl Connector {
    pub(super) fn new(
        target: &ConnectTarget,
        options: &PostgresOptions,
    ) -> Result<Self, StoreError> {
        let tls = if target.is_plaintext {
            None
        } else {
            Some(tls_connector(target.ca_file.as_deref())?)
        };
        // The server ends the transaction of a node that hangs, which frees its locks.
        let idle_timeout = options.statement_timeout.saturating_mul(2);
        let settings = format!(
            "SET search_path = \"{}\"; SET statement_timeout = {}; SET lock_timeout = {}; \
             SET idle_in_transaction_session_timeout = {}; SET client_min_messages = warning; \
             SET timezone = 'UTC'; {PLANNER_SETTINGS}; SET default_transaction_isolation = 'read committed'; \
             SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') = 'off'",
            options.schema,
            options.statement_timeout.as_millis().max(1),
            options.lock_timeout.as_millis().max(1),
            idle_timeout.as_millis().max(1),
        );
        Ok(Self {
            config: target.config.clone(),
            tls,
            settings: settings.into(),
        })
    }

    /// Opens a connection; `NOTIFY` payloads go to `notifications`.
    pub(super) async fn open(
        &self,
        notifications: Option<mpsc::UnboundedSender<String>>,
    ) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        let (client, driver) = match &self.tls {
            None => connect_and_spawn(&self.config, NoTls, notifications).await?,
            Some(tls) => connect_and_spawn(&self.config, tls.clone(), notifications).await?,
        };
        let driver = AbortOnDrop(Some(driver));
        client.batch_execute(&self.settings).await?;
        Ok((client, driver.disarm()))
    }

    /// Creates the connection pool.
    pub(super) fn pool(&self, options: &PostgresOptions) -> Result<Pool, StoreError> {
        let manager_config = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let wait = Some(options.acquire_timeout);
        Pool::builder(Manager::from_connect(
            self.config.clone(),
            self.clone(),
            manager_config,
        ))
        .max_size(options.pool_size.max(1))
        .runtime(Runtime::Tokio1)
        .timeouts(Timeouts {
            wait,
            create: wait,
            recycle: wait,
        })
        .build()
        .map_err(|error| StoreError::Unusable(error.to_string()))
    }

    /// Checks that the server is supported: version, encoding, writable.
    pub(super) async fn check_server(&self, client: &Client) -> Result<(), StoreError> {
        let row = client
            .query_one(
                "SELECT current_setting('server_version_num')::int / 10000,
                        current_setting('server_encoding'),
                        pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,
                        current_setting('fsync')::bool AND current_setting('full_page_writes')::bool",
                &[],
            )
            .await
            .map_err(|error| error::to_store_error(&error))?;
        let (version, encoding): (i32, &str) = (row.get(0), row.get(1));
        if version < MIN_SERVER_VERSION {
            return Err(StoreError::Unusable(format!(
                "PostgreSQL {version} is too old: version {MIN_SERVER_VERSION} or newer is required"
            )));
        }
        if encoding != "UTF8" {
            return Err(StoreError::Unusable(format!(
                "the database encoding is {encoding}: it must be UTF8"
            )));
        }
        if row.get::<_, bool>(2) {
            return Err(StoreError::Unusable(
                "the server is read-only: connect to the primary".to_owned(),
            ));
        }
        if !row.get::<_, bool>(3) {
            tracing::warn!("PostgreSQL fsync or full_page_writes is off");
        }
        Ok(())
    }
}

impl Connect for Connector {
    fn connect(
        &self,
        _: &Config,
    ) -> Pin<
        Box<
            dyn Future<Output = Result<(Client, JoinHandle<()>), tokio_postgres::Error>>
                + Send
                + '_,
        >,
    > {
        Box::pin(self.open(None))
    }
}

async fn connect_and_spawn<T>(
    config: &Config,
    tls: T,
    notifications: Option<mpsc::UnboundedSender<String>>,
) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket> + Send,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let (client, connection) = config.connect(tls).await?;
    Ok((
        client,
        tokio::spawn(drive_connection(connection, notifications)),
    ))
}

/// Drives a connection until it ends, and forwards its notifications.
async fn drive_connection<S>(
    mut connection: Connection<Socket, S>,
    notifications: Option<mpsc::UnboundedSender<String>>,
) where
    S: tokio_postgres::tls::TlsStream + Unpin,
{
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if let Some(sender) = &notifications {
                    // The receiver is gone: the connection is about to end as well.
                    let _ = sender.send(notification.payload().to_owned());
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(error = %error::to_store_error(&error), "connection ended");
                return;
            }
            None => return,
        }
    }
}

/// Guard that aborts a connection's driver task when dropped, unless disarmed.
pub(super) struct AbortOnDrop(pub(super) Option<JoinHandle<()>>);

impl AbortOnDrop {
    fn disarm(mut self) -> JoinHandle<()> {
        match self.0.take() {
            Some(driver) => driver,
            None => tokio::spawn(std::future::ready(())),
        }
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(driver) = &self.0 {
            driver.abort();
        }
    }
}

fn tls_connector(ca_file: Option<&Path>) -> Result<MakeRustlsConnect, StoreError> {
    let unusable = |reason: String| StoreError::Unusable(reason);
    let file = match ca_file {
        Some(file) => file,
        None => SYSTEM_CA_FILES
            .iter()
            .map(Path::new)
            .find(|file| file.exists())
            .ok_or_else(|| {
                unusable("no CA certificates found to verify the server: set a CA file".into())
            })?,
    };
    let mut roots = rustls::RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file)
        .map_err(|_| unusable(format!("cannot read {}", file.display())))?;
    roots.add_parsable_certificates(certificates.filter_map(Result::ok));
    if roots.is_empty() {
        return Err(unusable(format!(
            "{} contains no certificate",
            file.display()
        )));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
