//! The chat of `interzone up`: a local Slack workspace or a real one, and its Verification Zone.
//!
//! The zones use HTTPS and a token between them, and events are signed, as in production. Messages of the local
//! workspace are held in memory only.

use super::format_toml;
use crate::config::{DetectedSlack, VerificationZoneConfig};
use crate::exit::Failure;
use crate::private_file;
use crate::wiring::{StartError, VerificationServer, required_scopes, token_owner};
use interzone_edge::Secret;
use interzone_edge::clock::Clock;
use interzone_edge::tls::TrustRoots;
use interzone_hub::ports::RecordStore;
use interzone_issuer::{AccountError, GrantType, NewOAuthClient, OAuthClients};
use interzone_playground::{Playground, PlaygroundError, PlaygroundOptions, seed};
use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// OAuth2 client id of the Verification Zone.
const CLIENT_ID: &str = "verification";
/// File with that client's secret, in the folder.
const CLIENT_SECRET_FILE: &str = "verification.secret";
/// Secrets shared by the workspace and the zone.
const SIGNING_SECRET_FILE: &str = "slack-signing.secret";
const BOT_TOKEN_FILE: &str = "slack-bot.secret";
/// Store of a zone for a real Slack workspace.
const SLACK_STORE_URL: &str = "sqlite:slack.db";
/// Default ports of the zone and the chat page, if they are free.
const ZONE_PORT: u16 = 8444;
const PAGE_PORT: u16 = 8445;

/// A Slack workspace and its Verification Zone.
pub(super) struct Chat {
    /// The local workspace; `None` for a real one.
    playground: Option<Playground>,
    workspace: Option<SlackWorkspace>,
    zone: VerificationServer,
}

/// A real Slack workspace.
#[derive(Debug, Serialize)]
pub(super) struct SlackWorkspace {
    pub(super) team: String,
    pub(super) name: String,
    /// The bot's user name.
    pub(super) bot: String,
    /// True for Socket Mode.
    pub(super) socket: bool,
}

/// Folder and addresses of `interzone up`.
pub(super) struct UpPaths<'a> {
    pub(super) folder: &'a Path,
    /// URL of the Execution Zone.
    pub(super) url: &'a str,
    /// True if any port may be used instead of the default ones.
    pub(super) any_port: bool,
}

impl Chat {
    /// Starts a local workspace and its zone, and connects them to each other and to the Execution Zone.
    ///
    /// # Errors
    /// A port, file or credential is not available.
    pub(super) async fn start_local(
        paths: &UpPaths<'_>,
        store: Arc<dyn RecordStore>,
    ) -> Result<Self, Failure> {
        ensure_client(paths.folder, store).await?;
        let signing = Uuid::new_v4().simple().to_string();
        let bot = format!("xoxb-playground-{}", Uuid::new_v4().simple());
        write_secret(paths.folder, SIGNING_SECRET_FILE, &signing)?;
        write_secret(paths.folder, BOT_TOKEN_FILE, &bot)?;
        let trust = TrustRoots::system_and_files(&[paths.folder.join("ca.pem")])
            .map_err(StartError::Tls)?;
        let options = PlaygroundOptions {
            signing_secret: Secret::new(signing),
            bot_token: Secret::new(bot),
            trust,
            ..PlaygroundOptions::default()
        };
        let playground = start_playground(options, paths.any_port).await?;
        let zone = start_zone(paths, &local_slack_toml(&playground.api_url())).await?;
        let url = zone.public_url();
        playground
            .send_to(
                &format!("{url}/slack/events"),
                &format!("{url}/slack/interactions"),
            )
            .map_err(StartError::Playground)?;
        Ok(Self {
            playground: Some(playground),
            workspace: None,
            zone,
        })
    }

    /// Starts a zone for the Slack workspace whose tokens are in the environment. Only members of that workspace may
    /// ask.
    ///
    /// # Errors
    /// Slack rejects the tokens, or a port, file or credential is not available.
    pub(super) async fn start_for_slack(
        detected: DetectedSlack,
        paths: &UpPaths<'_>,
        store: Arc<dyn RecordStore>,
    ) -> Result<Self, Failure> {
        ensure_client(paths.folder, store).await?;
        let slack = detected.to_toml();
        let found = token_owner(&zone_config(paths, &slack, 0)?).await?;
        let team = found.team_id.as_str();
        let policy = format_toml(&[
            // A separate store, so that work queued for the local workspace is not picked up.
            ("store", "url", SLACK_STORE_URL),
            ("policy", "teams", team),
            ("policy", "channels", "*"),
            ("policy", "users", "*"),
        ]);
        let zone = start_zone(paths, &(slack + &policy)).await?;
        let workspace = SlackWorkspace {
            team: team.to_owned(),
            name: found.team.unwrap_or_default(),
            bot: found.user.unwrap_or_default(),
            socket: detected == DetectedSlack::Socket,
        };
        Ok(Self {
            playground: None,
            workspace: Some(workspace),
            zone,
        })
    }

    /// Returns the URL of the chat page of a local workspace.
    pub(super) fn page(&self) -> Option<String> {
        self.playground.as_ref().map(Playground::url)
    }

    /// Returns the real Slack workspace, if one is used.
    pub(super) fn workspace(&self) -> Option<&SlackWorkspace> {
        self.workspace.as_ref()
    }

    /// Returns the URL of the Verification Zone.
    pub(super) fn zone_url(&self) -> &str {
        self.zone.public_url()
    }

    /// Waits until the zone's store has failed permanently, and returns the reason.
    pub(super) fn store_failed(&self) -> impl Future<Output = String> + Send + use<> {
        self.zone.store_failed()
    }

    /// Shuts down the zone and the workspace.
    pub(super) async fn shutdown(self) {
        // The zone first: it may still have messages to post to the workspace.
        self.zone.shut_down().await;
        if let Some(playground) = self.playground {
            playground.stop().await;
        }
    }
}

/// Ensures that the zone is a client of the built-in issuer and that the folder has its secret.
async fn ensure_client(folder: &Path, store: Arc<dyn RecordStore>) -> Result<(), Failure> {
    let clients = OAuthClients::new(store, Clock::system());
    let existing = clients.get(CLIENT_ID).await.map_err(StartError::Account)?;
    let scopes: Vec<String> = required_scopes().into_iter().map(str::to_owned).collect();
    if let Some(existing) = existing {
        let is_sufficient = scopes.iter().all(|scope| existing.scopes.contains(scope));
        if is_sufficient && folder.join(CLIENT_SECRET_FILE).is_file() {
            return Ok(());
        }
        clients
            .remove(CLIENT_ID)
            .await
            .map_err(StartError::Account)?;
    }
    let new = NewOAuthClient {
        id: Some(CLIENT_ID.to_owned()),
        name: "Verification Zone".to_owned(),
        scopes,
        grants: vec![GrantType::ClientCredentials],
        ..NewOAuthClient::default()
    };
    let added = clients.add(new).await.map_err(StartError::Account)?;
    let Some(secret) = added.secret else {
        return Err(StartError::Account(AccountError::Grants).into());
    };
    write_secret(folder, CLIENT_SECRET_FILE, secret.expose())
}

fn write_secret(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    private_file::replace(&path, text).map_err(|error| Failure::Save(path, error))
}

async fn start_playground(
    options: PlaygroundOptions,
    any_port: bool,
) -> Result<Playground, StartError> {
    let with_port = |port| PlaygroundOptions {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        ..options.clone()
    };
    let default_port = if any_port { 0 } else { PAGE_PORT };
    match Playground::start(with_port(default_port)).await {
        Err(PlaygroundError::Bind { .. }) if default_port != 0 => {
            Ok(Playground::start(with_port(0)).await?)
        }
        started => Ok(started?),
    }
}

async fn start_zone(paths: &UpPaths<'_>, slack: &str) -> Result<VerificationServer, Failure> {
    let start = async |port: u16| -> Result<VerificationServer, Failure> {
        let config = zone_config(paths, slack, port)?;
        Ok(VerificationServer::start(config, "INTERZONE__VERIFICATION__LISTEN").await?)
    };
    let default_port = if paths.any_port { 0 } else { ZONE_PORT };
    match start(default_port).await {
        Err(Failure::Start(StartError::AddressInUse { .. })) if default_port != 0 => start(0).await,
        started => started,
    }
}

/// Returns the configuration of the zone for the local workspace.
fn local_slack_toml(api_url: &str) -> String {
    let mut text = format_toml(&[
        ("store", "url", "sqlite:verification.db"),
        ("slack", "api_url", api_url),
        ("slack", "signing_secret_file", SIGNING_SECRET_FILE),
        ("slack", "bot_token_file", BOT_TOKEN_FILE),
        ("policy", "teams", seed::TEAM),
        ("policy", "channels", "*"),
    ]);
    // One user is not listed, to demonstrate a denied request.
    let users = toml::Value::from(vec![seed::HANA, seed::ALEX]);
    text.push_str(&format!("policy.users = {users}\n"));
    text
}

fn zone_config(
    paths: &UpPaths<'_>,
    slack: &str,
    port: u16,
) -> Result<VerificationZoneConfig, Failure> {
    let mut text = format_toml(&[
        ("audit", "file", "slack-audit.log"),
        ("tls", "cert", "cert.pem"),
        ("tls", "key", "key.pem"),
        ("tls", "trust", "ca.pem"),
        ("verification", "listen", &format!("127.0.0.1:{port}")),
        ("verification", "execution_url", paths.url),
        ("verification", "shutdown_grace", "2s"),
        ("verification.oauth", "client_id", CLIENT_ID),
        (
            "verification.oauth",
            "client_secret_file",
            CLIENT_SECRET_FILE,
        ),
        (
            "verification.oauth",
            "token_url",
            &format!("{}/oauth2/token", paths.url),
        ),
    ]);
    text.push_str(slack);
    Ok(VerificationZoneConfig::read_with_env(&text, paths.folder)?)
}
