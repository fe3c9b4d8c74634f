//! Startup errors, as shown to the operator.

use interzone_edge::auth::AuthConfigError;
use interzone_edge::egress::EgressSetupError;
use interzone_edge::telemetry::TelemetryError;
use interzone_edge::tls::TlsError;
use interzone_edge::vault::VaultError;
use interzone_hub::HubError;
use interzone_hub::ports::StoreError;
use interzone_issuer::{AccountError, IssuerError};
use interzone_store::BackupError;
use interzone_verification::slack::api::{SlackError, SlackSetupError};
use interzone_verification::slack::install::InstallSetupError;
use interzone_verification::slack::tokens::{InvalidBotToken, SlackTokenError};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Error of starting a zone. Each message is one line that names the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{}", with_cause(.0))]
    Issuer(#[from] IssuerError),
    #[error(transparent)]
    Auth(#[from] AuthConfigError),
    #[error("{}", with_cause(.0))]
    Account(#[source] AccountError),
    #[error(transparent)]
    Egress(#[from] EgressSetupError),
    #[error(
        "cannot create the client for the Execution Zone: {0}; correct [verification] and [tls] trust"
    )]
    ZoneClient(#[source] interzone_client::Error),
    #[error("{}", with_cause(.0))]
    Playground(#[from] interzone_playground::PlaygroundError),
    #[error("`slack.api_url` cannot be used: {0}")]
    Slack(#[from] SlackSetupError),
    #[error("`slack.bot_token_file`: {0}")]
    BotToken(#[source] InvalidBotToken),
    #[error("`slack.app_token_file`: {0}")]
    AppToken(#[source] InvalidBotToken),
    #[error("`slack.token_key_file`: {0}")]
    TokenKey(#[source] VaultError),
    #[error("`slack.client_id`: {0}")]
    Install(#[source] InstallSetupError),
    #[error("{}", with_cause(.0))]
    Tokens(#[from] SlackTokenError),
    #[error("SLACK_BOT_TOKEN: {0}")]
    SlackEnvToken(#[source] InvalidBotToken),
    #[error("{0}; correct SLACK_BOT_TOKEN, or unset it to use the playground")]
    SlackEnvAuth(#[source] SlackError),
    #[error("`interzone up` is already running in {folder}{}; use that, or choose another folder (--folder)", url_suffix(.url.as_deref()))]
    AlreadyUp {
        folder: String,
        /// Its URL, if known.
        url: Option<String>,
    },
    #[error(
        "{folder} contains a {name} that was not created by `interzone up`; choose another folder (--folder)"
    )]
    ForeignFolder { folder: String, name: &'static str },
    #[error("cannot set up outgoing connections: {0}")]
    Http(#[source] reqwest::Error),
    #[error("agent {id:?} cannot be started: {source}")]
    Agent {
        id: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("agent {id:?} needs a secret, and {location} contains none; set it")]
    MissingSecret {
        id: String,
        /// Location of the secret.
        location: String,
    },
    #[error(
        "agent {id:?} needs AWS support, which this binary was built without; install a released package or image, or \
         build it with `--features aws`"
    )]
    NoAws { id: String },
    #[error("the agents cannot be registered: {0}")]
    Hub(#[source] HubError),
    #[error(
        "{address} is in use; stop the program that uses it, or choose another address ({setting})"
    )]
    AddressInUse {
        address: SocketAddr,
        /// Setting of the address.
        setting: &'static str,
    },
    #[error("cannot listen on {address}: {source}")]
    Address {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("cannot start the audit thread: {0}")]
    Thread(#[source] io::Error),
    #[error("cannot open the audit log {}: {source}", path.display())]
    Audit {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot determine the path of this program: {0}")]
    FileReader(#[source] io::Error),
    #[error(transparent)]
    Backup(BackupError),
    #[error("cannot listen for signals: {0}")]
    Signals(#[source] io::Error),
    #[error(
        "the store failed, so this process ends: {0}; check the disk, then restart: all acknowledged data is stored"
    )]
    StoreFailed(String),
    #[error("stopped immediately, with unfinished work; it is resumed at the next start")]
    Interrupted,
}

fn url_suffix(url: Option<&str>) -> String {
    url.map(|url| format!(", at {url}")).unwrap_or_default()
}

/// Returns an error with its causes, which name the file or the server.
fn with_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

/// Returns the error for an address that cannot be bound. `setting` names the setting of the address.
pub(super) fn listen_error(
    address: SocketAddr,
    setting: &'static str,
    source: io::Error,
) -> StartError {
    match source.kind() {
        io::ErrorKind::AddrInUse => StartError::AddressInUse { address, setting },
        _ => StartError::Address { address, source },
    }
}
