//! `interzone up`: both zones and a Slack workspace of your own, without any configuration.
//!
//! All that they need is made in one folder: a CA and a certificate, the database, a client and a
//! person for the built-in issuer. Nothing is left out for being local: HTTPS and tokens as anywhere.

mod chat;
mod folder;
mod screen;

use super::accounts::all_of_acp;
use crate::config::{Config, FOLDER, ModelAround, Profile, SlackAround};
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::private;
use crate::runtime;
use crate::wiring::{Running, Signals, StartError, start_log};
use chat::{Chat, Place};

use clap::{Args, ValueEnum};
use folder::Held;
use interzone_edge::clock::Clock;
use interzone_edge::issuer::{AccountError, Client, Clients, Grant, Keep, NewClient, People};
use interzone_edge::tls::DevCa;
use interzone_protocol::acp::Scope;
use screen::Screen;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The person who may agree on the page of the built-in issuer.
const PERSON: &str = "you";
/// Where `interzone token --login` is sent back to; its port may be any.
const CALLBACK: &str = "http://127.0.0.1/callback";
/// Where the Execution Zone is, if nobody else is there.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8443);

/// Run everything on this machine, without configuration
///
/// An Execution Zone with the demo agent, a Verification Zone, and a Slack workspace on this machine with a
/// page to chat on; HTTPS between them, with a certificate and tokens of their own.
/// What it makes stays in one folder, where the other commands find it from here and below.
///
/// With SLACK_BOT_TOKEN and SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (Events API) in the
/// environment, people of that real workspace ask in place of the one on this machine.
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
    /// The folder to keep everything in
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    folder: PathBuf,

    /// Where to listen [default: 127.0.0.1:8443, or any free port if that is taken]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Forget everything that is in the folder, and begin anew
    #[arg(long)]
    reset: bool,

    /// Who answers: the built-in one, or a language model whose key is in OPENAI_API_KEY or
    /// ANTHROPIC_API_KEY
    #[arg(long, value_enum, value_name = "AGENT", default_value_t)]
    agent: Answering,

    /// With --agent llm: the model's name; else a small one of whoever's key it is
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
}

/// Who answers.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Answering {
    /// Built in, for trying things out
    #[default]
    Demo,
    /// A language model; OPENAI_BASE_URL or ANTHROPIC_BASE_URL says where, if not at the usual place
    Llm,
}

impl Up {
    pub(crate) fn run(&self, format: Format) -> Result<Exit, Failure> {
        let held = Held::take(&self.folder, self.reset)?;
        screen::unlinked(&held.unlinked);
        let config = self.config(self.listen.unwrap_or(USUAL))?;
        let log = start_log(&config.tls, &config.log)?;
        let served = runtime::serve(config.execution.threads, self.serve(config, format));
        drop(log);
        drop(held);
        served
    }

    /// Makes the certificate and a configuration.
    fn config(&self, listen: SocketAddr) -> Result<Config, Failure> {
        let folder = &self.folder;
        let files = DevCa::open_or_make(folder, &[]).map_err(StartError::Tls)?;
        let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
        let mut text = small_toml(&[
            ("tls", "cert", &name(&files.cert).to_string_lossy()),
            ("tls", "key", &name(&files.key).to_string_lossy()),
            ("execution", "listen", &listen.to_string()),
            // Whoever presses Ctrl-C does not want to wait; a run that is cut off is taken up again.
            ("execution", "grace", "2s"),
            ("log", "filter", "warn"),
            ("audit", "file", "audit.log"),
            // Whoever looks at a task in the console sees all that was asked about it.
            ("pairs", "record", "all"),
        ]);
        // The person of this folder looks after this zone.
        text.push_str(&format!(
            "console.operators = [\"{}\"]\n",
            People::subject(PERSON)
        ));
        if let Some((around, model)) = self.model()? {
            text.push_str(&around.to_toml(&model));
        }
        Ok(Config::made_up(&text, folder)?)
    }

    /// The model that is to answer, if one is.
    fn model(&self) -> Result<Option<(ModelAround, String)>, Failure> {
        if matches!(self.agent, Answering::Demo) {
            return Ok(None);
        }
        let Some(around) = ModelAround::look() else {
            return Err(Failure::Misuse(
                "no model is known; put its key into OPENAI_API_KEY or ANTHROPIC_API_KEY, or the \
                 address of a server that needs none into OPENAI_BASE_URL"
                    .to_owned(),
            ));
        };
        let usual = around.usual_model().map(str::to_owned);
        match self.model.clone().or(usual) {
            Some(model) => Ok(Some((around, model))),
            None => Err(Failure::Misuse(
                "that server does not say which model is meant; name one with --model".to_owned(),
            )),
        }
    }

    /// Starts the Execution Zone; at any free port, if the usual one is taken and nobody asked for it.
    async fn zone(&self, config: Config) -> Result<Running, Failure> {
        const WAY: &str = "`--listen`, such as --listen 127.0.0.1:9443";
        match Running::start(config, WAY).await {
            Err(StartError::AddressInUse { .. }) if self.listen.is_none() => {
                let config = self.config(SocketAddr::new(USUAL.ip(), 0))?;
                Ok(Running::start(config, WAY).await?)
            }
            started => Ok(started?),
        }
    }

    /// Starts the part that people ask in: a real Slack, if the environment has what opens it.
    async fn chat(&self, zone: &Running) -> Result<Chat, Failure> {
        let place = Place {
            folder: &self.folder,
            url: zone.public_url(),
            any_port: self.listen.is_some_and(|listen| listen.port() == 0),
        };
        match SlackAround::look() {
            Ok(Some(around)) => Chat::of_slack(around, &place, zone.keep()).await,
            Ok(None) => Chat::of_our_own(&place, zone.keep()).await,
            Err(alone) => {
                screen::slack_is_left_alone(alone);
                Chat::of_our_own(&place, zone.keep()).await
            }
        }
    }

    async fn serve(&self, config: Config, format: Format) -> Result<Exit, Failure> {
        let mut signals = Signals::listen().map_err(StartError::Signals)?;
        let agent = config.default_agent.clone();
        let zone = self.zone(config).await?;
        let profile = self.introduce(zone.keep(), zone.public_url()).await?;
        let chat = match self.chat(&zone).await {
            Ok(chat) => chat,
            Err(failure) => {
                zone.wind_up().await;
                return Err(failure);
            }
        };
        let screen = Screen {
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
            Format::Json => output::write_json(out, &screen),
            Format::Text => screen.write(out),
        })?;
        let (execution, verification) = (zone.store_failed(), chat.store_failed());
        let store_failed = async {
            tokio::select! {
                reason = execution => reason,
                reason = verification => reason,
            }
        };
        let wind_up = async {
            chat.wind_up().await;
            zone.wind_up().await;
        };
        signals.then(store_failed, wind_up).await?;
        if format == Format::Text {
            screen::stopped(&self.folder);
        }
        Ok(Exit::Done)
    }

    /// Makes sure that there is a client and a person, and that the folder says how to speak as them.
    async fn introduce(&self, keep: Arc<dyn Keep>, url: &str) -> Result<Profile, Failure> {
        let clients = Clients::new(keep.clone(), Clock::machine());
        let people = People::new(keep, Clock::machine());
        // A profile that cannot be read any more is made anew.
        let old = Profile::read(&self.folder).ok().flatten();
        let mut id = None;
        if let Some(old) = old {
            let known = clients
                .get(&old.client_id)
                .await
                .map_err(StartError::Account)?;
            let may = |known: &Client| scopes().iter().all(|scope| known.scopes.contains(scope));
            match known {
                Some(known) if may(&known) && old.url == url => return Ok(old),
                Some(known) if may(&known) => {
                    return self.keep(Profile {
                        url: url.to_owned(),
                        ..old
                    });
                }
                // An older one that may less is made anew under its name, by which its tasks go.
                Some(known) => {
                    let removed = clients.remove(&known.id).await;
                    removed.map_err(StartError::Account)?;
                    id = Some(known.id);
                }
                None => {}
            }
        }
        let new = NewClient {
            id,
            name: "interzone up".to_owned(),
            scopes: scopes(),
            redirect_uris: vec![CALLBACK.to_owned()],
            grants: vec![Grant::ClientCredentials, Grant::AuthorizationCode],
            ..NewClient::default()
        };
        let added = clients.add(new).await.map_err(StartError::Account)?;
        let Some(client_secret) = added.secret else {
            return Err(StartError::Account(AccountError::Grants).into());
        };
        people.remove(PERSON).await.map_err(StartError::Account)?;
        let passphrase = people.add(PERSON).await.map_err(StartError::Account)?;
        self.keep(Profile {
            url: url.to_owned(),
            ca: self.folder.join("ca.pem"),
            client_id: added.client_id,
            client_secret,
            person: PERSON.to_owned(),
            passphrase,
        })
    }

    fn keep(&self, profile: Profile) -> Result<Profile, Failure> {
        let path = Profile::path(&self.folder);
        match private::replace(&path, &profile.to_toml()) {
            Ok(()) => Ok(profile),
            Err(error) => Err(Failure::Save(path, error)),
        }
    }
}

/// Everything: whoever has a zone of their own also looks after it.
fn scopes() -> Vec<String> {
    let mut scopes = all_of_acp();
    scopes.push(Scope::Operate.name().to_owned());
    scopes
}

/// A small configuration as TOML: tables, keys and strings.
fn small_toml(values: &[(&str, &str, &str)]) -> String {
    let line = |(table, key, value): &(&str, &str, &str)| {
        format!("{table}.{key} = {}\n", toml::Value::from(*value))
    };
    values.iter().map(line).collect()
}
