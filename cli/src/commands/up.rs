//! `interzone up`: runs both zones and a local Slack workspace without any configuration.
//!
//! Everything is created in one folder: a CA and a certificate, the databases, and a client and a user of the
//! built-in issuer. HTTPS and tokens are used exactly as in production.

mod banner;
mod chat;
mod data_dir;

use super::oauth_accounts::all_acp_scopes;
use crate::config::{Config, ConnectionProfile, DATA_DIR, DetectedModel, DetectedSlack};
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::private_file;
use crate::runtime;
use crate::wiring::{ExecutionServer, ShutdownSignals, StartError, start_log};
use chat::{Chat, UpPaths};

use banner::UpBanner;
use clap::{Args, ValueEnum};
use data_dir::DataDir;
use interzone_edge::clock::Clock;
use interzone_edge::tls::DevCa;
use interzone_hub::ports::RecordStore;
use interzone_issuer::{
    AccountError, GrantType, NewOAuthClient, OAuthClient, OAuthClients, OAuthUsers,
};
use interzone_protocol::Scope;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// User of the built-in issuer.
const USER_NAME: &str = "you";
/// Redirect URI of `interzone token --login`; the port is ignored.
const LOGIN_REDIRECT_URI: &str = "http://127.0.0.1/callback";
/// Default address of the Execution Zone, if it is free.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8443);

/// Run everything locally, without configuration
///
/// Starts an Execution Zone with the demo agent, a Verification Zone, and a local Slack workspace with a
/// chat page, connected over HTTPS with their own certificate and tokens.
/// All data is stored in one folder, which other commands find in the current or a parent folder.
///
/// With SLACK_BOT_TOKEN and SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (Events API) in the
/// environment, it connects to your Slack workspace instead of the local one.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  interzone up
  interzone up --listen 127.0.0.1:9443
  interzone up --reset
  OPENAI_API_KEY=… interzone up --agent llm
  SLACK_BOT_TOKEN=… SLACK_APP_TOKEN=… interzone up
  interzone ask \"file csv a,b\"      (in another terminal)"
)]
pub(crate) struct Up {
    /// Folder for all data
    #[arg(long, value_name = "FOLDER", default_value = DATA_DIR)]
    folder: PathBuf,

    /// Address to listen on [default: 127.0.0.1:8443, or any free port if that is in use]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Delete the data in the folder and start over
    #[arg(long)]
    reset: bool,

    /// Agent that answers; llm needs OPENAI_API_KEY or ANTHROPIC_API_KEY
    #[arg(long, value_enum, value_name = "AGENT", default_value_t)]
    agent: UpAgent,

    /// Model name, with --agent llm [default: a small model of the key's provider]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
}

/// Agent that answers.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum UpAgent {
    /// Built-in demo agent
    #[default]
    Demo,
    /// Language model; OPENAI_BASE_URL or ANTHROPIC_BASE_URL overrides the endpoint
    Llm,
}

impl Up {
    pub(crate) fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let data_dir = DataDir::lock(&self.folder, self.reset)?;
        banner::print_unlinked(&data_dir.unlinked);
        let config = self.config(self.listen.unwrap_or(DEFAULT_LISTEN))?;
        let log = start_log(&config.tls, &config.log)?;
        let served = runtime::serve(config.execution.threads, self.serve(config, format));
        drop(log);
        drop(data_dir);
        served
    }

    /// Creates the certificate and the configuration.
    fn config(&self, listen: SocketAddr) -> Result<Config, Failure> {
        let folder = &self.folder;
        let files = DevCa::open_or_create(folder, &[]).map_err(StartError::Tls)?;
        let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
        let mut text = format_toml(&[
            ("tls", "cert", &name(&files.cert).to_string_lossy()),
            ("tls", "key", &name(&files.key).to_string_lossy()),
            ("execution", "listen", &listen.to_string()),
            // Ctrl-C should stop quickly; an interrupted run is resumed at the next start.
            ("execution", "shutdown_grace", "2s"),
            ("log", "filter", "warn"),
            ("audit", "file", "audit.log"),
            // The console shows all requests of a task.
            ("request_log", "record", "all"),
        ]);
        // The user of this folder is the operator of this zone.
        text.push_str(&format!(
            "console.operators = [\"{}\"]\n",
            OAuthUsers::subject(USER_NAME)
        ));
        if let Some((detected, model)) = self.model()? {
            text.push_str(&detected.to_toml(&model));
        }
        Ok(Config::read_with_env(&text, folder)?)
    }

    /// Returns the language model to use, if one was chosen.
    fn model(&self) -> Result<Option<(DetectedModel, String)>, Failure> {
        if matches!(self.agent, UpAgent::Demo) {
            return Ok(None);
        }
        let Some(detected) = DetectedModel::detect() else {
            return Err(Failure::Misuse(
                "no model is configured; set OPENAI_API_KEY or ANTHROPIC_API_KEY, or put the \
                 URL of a server that needs no key into OPENAI_BASE_URL"
                    .to_owned(),
            ));
        };
        let default_model = detected.default_model().map(str::to_owned);
        match self.model.clone().or(default_model) {
            Some(model) => Ok(Some((detected, model))),
            None => Err(Failure::Misuse(
                "that server has no default model; choose one with --model".to_owned(),
            )),
        }
    }

    /// Starts the Execution Zone; on any free port if the default one is in use and none was requested.
    async fn start_execution_zone(&self, config: Config) -> Result<ExecutionServer, Failure> {
        const LISTEN_HINT: &str = "`--listen`, such as --listen 127.0.0.1:9443";
        match ExecutionServer::start(config, LISTEN_HINT).await {
            Err(StartError::AddressInUse { .. }) if self.listen.is_none() => {
                let config = self.config(SocketAddr::new(DEFAULT_LISTEN.ip(), 0))?;
                Ok(ExecutionServer::start(config, LISTEN_HINT).await?)
            }
            started => Ok(started?),
        }
    }

    /// Starts the chat: a real Slack workspace if the environment has its credentials, else a local one.
    async fn start_chat(&self, zone: &ExecutionServer) -> Result<Chat, Failure> {
        let paths = UpPaths {
            folder: &self.folder,
            url: zone.public_url(),
            any_port: self.listen.is_some_and(|listen| listen.port() == 0),
        };
        match DetectedSlack::detect() {
            Ok(Some(detected)) => Chat::start_for_slack(detected, &paths, zone.records()).await,
            Ok(None) => Chat::start_local(&paths, zone.records()).await,
            Err(incomplete) => {
                banner::print_slack_not_used(incomplete);
                Chat::start_local(&paths, zone.records()).await
            }
        }
    }

    async fn serve(&self, config: Config, format: OutputFormat) -> Result<Exit, Failure> {
        let mut signals = ShutdownSignals::listen().map_err(StartError::Signals)?;
        let agent = config.default_agent.clone();
        let zone = self.start_execution_zone(config).await?;
        let profile = self
            .ensure_profile(zone.records(), zone.public_url())
            .await?;
        let chat = match self.start_chat(&zone).await {
            Ok(chat) => chat,
            Err(failure) => {
                zone.shut_down().await;
                return Err(failure);
            }
        };
        let banner = UpBanner {
            url: zone.public_url(),
            agent: &agent,
            model: self.model()?.map(|(_, model)| model),
            folder: &self.folder,
            client_id: &profile.client_id,
            chat: chat.page(),
            slack: chat.workspace(),
            verification: chat.zone_url(),
            console: zone.console_link(),
        };
        output::write(|out| match format {
            OutputFormat::Json => output::write_json(out, &banner),
            OutputFormat::Text => banner.write(out),
        })?;
        let (execution, verification) = (zone.store_failed(), chat.store_failed());
        let store_failed = async {
            tokio::select! {
                reason = execution => reason,
                reason = verification => reason,
            }
        };
        let shutdown = async {
            chat.shutdown().await;
            zone.shut_down().await;
        };
        signals.shut_down_on_signal(store_failed, shutdown).await?;
        if format == OutputFormat::Text {
            banner::print_stopped(&self.folder);
        }
        Ok(Exit::Done)
    }

    /// Ensures that a client and a user exist and that the folder's profile has their credentials.
    async fn ensure_profile(
        &self,
        store: Arc<dyn RecordStore>,
        url: &str,
    ) -> Result<ConnectionProfile, Failure> {
        let clients = OAuthClients::new(store.clone(), Clock::system());
        let users = OAuthUsers::new(store, Clock::system());
        // An unreadable profile is recreated.
        let old = ConnectionProfile::read(&self.folder).ok().flatten();
        let mut id = None;
        if let Some(old) = old {
            let client = clients
                .get(&old.client_id)
                .await
                .map_err(StartError::Account)?;
            let has_scopes = |client: &OAuthClient| {
                up_scopes()
                    .iter()
                    .all(|scope| client.scopes.contains(scope))
            };
            match client {
                Some(client) if has_scopes(&client) && old.url == url => return Ok(old),
                Some(client) if has_scopes(&client) => {
                    return self.save_profile(ConnectionProfile {
                        url: url.to_owned(),
                        ..old
                    });
                }
                // An older client with fewer scopes is recreated with the same id, which owns its tasks.
                Some(client) => {
                    let removed = clients.remove(&client.id).await;
                    removed.map_err(StartError::Account)?;
                    id = Some(client.id);
                }
                None => {}
            }
        }
        let new = NewOAuthClient {
            id,
            name: "interzone up".to_owned(),
            scopes: up_scopes(),
            redirect_uris: vec![LOGIN_REDIRECT_URI.to_owned()],
            grants: vec![GrantType::ClientCredentials, GrantType::AuthorizationCode],
            ..NewOAuthClient::default()
        };
        let added = clients.add(new).await.map_err(StartError::Account)?;
        let Some(client_secret) = added.secret else {
            return Err(StartError::Account(AccountError::Grants).into());
        };
        users.remove(USER_NAME).await.map_err(StartError::Account)?;
        let passphrase = users.add(USER_NAME).await.map_err(StartError::Account)?;
        self.save_profile(ConnectionProfile {
            url: url.to_owned(),
            ca: self.folder.join("ca.pem"),
            client_id: added.client_id,
            client_secret,
            user: USER_NAME.to_owned(),
            passphrase,
        })
    }

    fn save_profile(&self, profile: ConnectionProfile) -> Result<ConnectionProfile, Failure> {
        let path = ConnectionProfile::path(&self.folder);
        match private_file::replace(&path, &profile.to_toml()) {
            Ok(()) => Ok(profile),
            Err(error) => Err(Failure::Save(path, error)),
        }
    }
}

/// All ACP scopes and the operator scope: the user of `interzone up` is also its operator.
fn up_scopes() -> Vec<String> {
    let mut scopes = all_acp_scopes();
    scopes.push(Scope::Operate.name().to_owned());
    scopes
}

/// Formats `(table, key, string)` triples as TOML.
fn format_toml(values: &[(&str, &str, &str)]) -> String {
    let line = |(table, key, value): &(&str, &str, &str)| {
        format!("{table}.{key} = {}\n", toml::Value::from(*value))
    };
    values.iter().map(line).collect()
}
