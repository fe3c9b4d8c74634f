//! Why a zone does not start, in the words that an operator is told.

use interzone_edge::auth::AuthError;
use interzone_edge::egress::EgressSetupError;
use interzone_edge::issuer::{AccountError, IssuerError, KeepError};
use interzone_edge::telemetry::TelemetryError;
use interzone_edge::tls::TlsError;
use interzone_hub::HubError;
use interzone_hub::ports::StoreError;
use interzone_store::BackupError;
use interzone_verification::slack::api::{SlackError, SlackSetupError};
use interzone_verification::slack::install::InstallSetupError;
use interzone_verification::slack::tokens::{InvalidToken, TokensError};
use interzone_verification::slack::vault::VaultError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a zone did not start. Each is one line that names the way out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{}", with_cause(.0))]
    Kept(#[source] KeepError),
    #[error("{}", with_cause(.0))]
    Issuer(#[from] IssuerError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error("{}", with_cause(.0))]
    Account(#[source] AccountError),
    #[error(transparent)]
    Egress(#[from] EgressSetupError),
    #[error("the Execution Zone cannot be called: {0}; correct [verification] and [tls] trust")]
    ZoneClient(#[source] interzone_client::Error),
    #[error("{}", with_cause(.0))]
    Playground(#[from] interzone_playground::PlaygroundError),
    #[error("`slack.api_url` cannot be used: {0}")]
    Slack(#[from] SlackSetupError),
    #[error("`slack.bot_token_file`: {0}")]
    BotToken(#[source] InvalidToken),
    #[error("`slack.app_token_file`: {0}")]
    AppToken(#[source] InvalidToken),
    #[error("`slack.token_key_file`: {0}")]
    TokenKey(#[source] VaultError),
    #[error("`slack.client_id`: {0}")]
    Install(#[source] InstallSetupError),
    #[error("{}", with_cause(.0))]
    Tokens(#[from] TokensError),
    #[error("SLACK_BOT_TOKEN: {0}")]
    SlackVariable(#[source] InvalidToken),
    #[error("{0}; correct SLACK_BOT_TOKEN, or unset it for a workspace of your own")]
    SlackAround(#[source] SlackError),
    #[error("`interzone up` runs already in {folder}{}; use that, or choose another place (--folder)", at(.url.as_deref()))]
    AlreadyUp {
        folder: String,
        /// Where it is, if that is known.
        url: Option<String>,
    },
    #[error(
        "{folder} has a {name} that `interzone up` did not make; choose another place (--folder)"
    )]
    ForeignFolder { folder: String, name: &'static str },
    #[error("outgoing connections cannot be set up: {0}")]
    Http(#[source] reqwest::Error),
    #[error("agent {id:?} cannot be started: {source}")]
    Agent {
        id: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("agent {id:?} needs a secret, and {place} has none; put it there")]
    NoSecret {
        id: String,
        /// Where it should be.
        place: String,
    },
    #[cfg(not(feature = "aws"))]
    #[error("agent {id:?} is on Bedrock, which this build knows nothing of; build it with `aws`")]
    NoAws { id: String },
    #[error("the agents cannot be registered: {0}")]
    Hub(#[source] HubError),
    #[error("{address} is in use; stop whoever uses it, or choose another address ({way})")]
    AddressInUse {
        address: SocketAddr,
        /// Where the address is chosen.
        way: &'static str,
    },
    #[error("{address} cannot be listened on: {source}")]
    Address {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("the system gives no thread for the audit: {0}")]
    Thread(#[source] io::Error),
    #[error("the audit log {} cannot be opened: {source}", path.display())]
    Audit {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the path of this program, which reads files, is not known: {0}")]
    FileReader(#[source] io::Error),
    #[error(transparent)]
    Backup(BackupError),
    #[error("signals cannot be listened for: {0}")]
    Signals(#[source] io::Error),
    #[error(
        "the store failed, so this process ends: {0}; look at the disk, then start it again: all that was acknowledged is there"
    )]
    StoreFailed(String),
    #[error("stopped at once, with work unfinished; it is taken up again at the next start")]
    Cut,
}

fn at(url: Option<&str>) -> String {
    url.map(|url| format!(", at {url}")).unwrap_or_default()
}

/// An error with what lies under it, which names the file or the server.
fn with_cause(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        told = format!("{told}: {next}");
        cause = next.source();
    }
    told
}

/// What is wrong with an address that cannot be had. `way` says where it is chosen.
pub(super) fn cannot_listen(
    address: SocketAddr,
    way: &'static str,
    source: io::Error,
) -> StartError {
    match source.kind() {
        io::ErrorKind::AddrInUse => StartError::AddressInUse { address, way },
        _ => StartError::Address { address, source },
    }
}
