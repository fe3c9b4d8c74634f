//! Opening connections: encryption, and the settings that every connection has.

use super::fault;
use super::options::{PostgresOptions, Target};
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

/// Where systems keep the certificates that they trust.
const SYSTEM_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How statements are planned. PostgreSQL takes no hint in a statement, and keeps the plan that it made for one when the
/// tables held next to nothing, where reading and joining whole tables is cheapest, until it next gathers statistics; a
/// store can grow a lot until then. Every statement has an index that serves it, and every join looks up a few rows by their
/// keys; tests see that it is done so. Compiling plans takes longer than running any of these.
pub const PLANNER: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; \
    SET enable_mergejoin = off; SET enable_material = off; SET jit = off";

/// A server older than this lacks what we use.
const OLDEST: i32 = 15;

/// Opens connections that are all alike.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) config: Config,
    tls: Option<MakeRustlsConnect>,
    /// Run first on every connection.
    settings: Arc<str>,
}

impl Connector {
    pub(super) fn new(target: &Target, options: &PostgresOptions) -> Result<Self, StoreError> {
        let tls = if target.plain {
            None
        } else {
            Some(encryption(target.ca_file.as_deref())?)
        };
        // A transaction whose node hangs gives its locks back.
        let abandoned = options.statement_timeout.saturating_mul(2);
        let settings = format!(
            "SET search_path = \"{}\"; SET statement_timeout = {}; SET lock_timeout = {}; \
             SET idle_in_transaction_session_timeout = {}; SET client_min_messages = warning; \
             SET timezone = 'UTC'; {PLANNER}; SET default_transaction_isolation = 'read committed'; \
             SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') = 'off'",
            options.schema,
            options.statement_timeout.as_millis().max(1),
            options.lock_timeout.as_millis().max(1),
            abandoned.as_millis().max(1),
        );
        Ok(Self {
            config: target.config.clone(),
            tls,
            settings: settings.into(),
        })
    }

    /// Opens a connection; what the server says unasked goes to `heard`.
    pub(super) async fn open(
        &self,
        heard: Option<mpsc::UnboundedSender<String>>,
    ) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        let (client, driver) = match &self.tls {
            None => start(&self.config, NoTls, heard).await?,
            Some(tls) => start(&self.config, tls.clone(), heard).await?,
        };
        let driver = AbortUnlessKept(Some(driver));
        client.batch_execute(&self.settings).await?;
        Ok((client, driver.keep()))
    }

    /// The pool of connections that calls use.
    pub(super) fn pool(&self, options: &PostgresOptions) -> Result<Pool, StoreError> {
        let how = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let wait = Some(options.acquire_timeout);
        Pool::builder(Manager::from_connect(
            self.config.clone(),
            self.clone(),
            how,
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

    /// Looks at the server before anything is built on it.
    pub(super) async fn inspect(&self, client: &Client) -> Result<(), StoreError> {
        let row = client
            .query_one(
                "SELECT current_setting('server_version_num')::int / 10000,
                        current_setting('server_encoding'),
                        pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,
                        current_setting('fsync')::bool AND current_setting('full_page_writes')::bool",
                &[],
            )
            .await
            .map_err(|error| fault::answer(&error))?;
        let (version, encoding): (i32, &str) = (row.get(0), row.get(1));
        if version < OLDEST {
            return Err(StoreError::Unusable(format!(
                "PostgreSQL {version} is too old: {OLDEST} or newer is needed"
            )));
        }
        if encoding != "UTF8" {
            return Err(StoreError::Unusable(format!(
                "the database is encoded in {encoding}: it must be UTF8"
            )));
        }
        if row.get::<_, bool>(2) {
            return Err(StoreError::Unusable(
                "the server can only be read: name the primary".to_owned(),
            ));
        }
        if !row.get::<_, bool>(3) {
            tracing::warn!("this PostgreSQL server does not survive a crash: fsync is off");
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

async fn start<T>(
    config: &Config,
    tls: T,
    heard: Option<mpsc::UnboundedSender<String>>,
) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket> + Send,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let (client, connection) = config.connect(tls).await?;
    Ok((client, tokio::spawn(drive(connection, heard))))
}

/// Moves bytes until the connection ends.
async fn drive<S>(
    mut connection: Connection<Socket, S>,
    heard: Option<mpsc::UnboundedSender<String>>,
) where
    S: tokio_postgres::tls::TlsStream + Unpin,
{
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if let Some(heard) = &heard {
                    // Nobody listens any more: the connection is about to end as well.
                    let _ = heard.send(notification.payload().to_owned());
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(error = %fault::answer(&error), "a connection ended");
                return;
            }
            None => return,
        }
    }
}

/// Stops a connection's driver, unless somebody takes it over.
pub(super) struct AbortUnlessKept(pub(super) Option<JoinHandle<()>>);

impl AbortUnlessKept {
    fn keep(mut self) -> JoinHandle<()> {
        match self.0.take() {
            Some(driver) => driver,
            None => tokio::spawn(std::future::ready(())),
        }
    }
}

impl Drop for AbortUnlessKept {
    fn drop(&mut self) {
        if let Some(driver) = &self.0 {
            driver.abort();
        }
    }
}

fn encryption(ca_file: Option<&Path>) -> Result<MakeRustlsConnect, StoreError> {
    let unusable = |why: String| StoreError::Unusable(why);
    let file = match ca_file {
        Some(file) => file,
        None => SYSTEM_CERTIFICATES
            .iter()
            .map(Path::new)
            .find(|file| file.exists())
            .ok_or_else(|| {
                unusable("no certificates to prove the server by: name a CA file".into())
            })?,
    };
    let mut roots = rustls::RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file)
        .map_err(|_| unusable(format!("{} cannot be read", file.display())))?;
    roots.add_parsable_certificates(certificates.filter_map(Result::ok));
    if roots.is_empty() {
        return Err(unusable(format!("{} holds no certificate", file.display())));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
