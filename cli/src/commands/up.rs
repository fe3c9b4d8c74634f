//! `interzone up`: both zones and a Slack workspace of your own, without any configuration.
//!
//! All that they need is made in one folder: a CA and a certificate, the database, a client and a
//! person for the built-in issuer. Nothing is left out for being local: HTTPS and tokens as anywhere.

mod chat;

use super::accounts::all_of_acp;
use crate::config::{Config, FOLDER, ModelAround, Profile};
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::printable;
use crate::private;
use crate::runtime;
use crate::wiring::{Running, Signals, StartError, start_log};
use chat::{Chat, Place};
use clap::{Args, ValueEnum};
use interzone_edge::clock::Clock;
use interzone_edge::issuer::{AccountError, Client, Clients, Grant, Keep, NewClient, People};
use interzone_edge::tls::DevCa;
use interzone_protocol::acp::Scope;
use serde_json::json;
use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The person who may agree on the page of the built-in issuer.
const PERSON: &str = "you";
/// Where `interzone token --login` is sent back to; its port may be any.
const CALLBACK: &str = "http://127.0.0.1/callback";

/// Run everything on this machine, without configuration
///
/// An Execution Zone with the demo agent, a Verification Zone, and a Slack workspace on this machine with a
/// page to chat on; HTTPS between them, with a certificate and tokens of their own.
/// What it makes stays in one folder, where the other commands find it from here and below.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  interzone up
  interzone up --listen 127.0.0.1:9443
  OPENAI_API_KEY=… interzone up --agent llm --model gpt-4.1-mini
  interzone ask \"file csv a,b\"      (in another terminal)"
)]
pub(crate) struct Up {
    /// The folder to keep everything in
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    folder: PathBuf,

    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8443")]
    listen: SocketAddr,

    /// Who answers: the built-in one, or a language model whose key is in OPENAI_API_KEY or
    /// ANTHROPIC_API_KEY
    #[arg(long, value_enum, value_name = "AGENT", default_value_t)]
    agent: Answering,

    /// With --agent llm: the model's name
    #[arg(long, value_name = "NAME", required_if_eq("agent", "llm"))]
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
        let config = self.prepare()?;
        let log = start_log(&config.tls, &config.log)?;
        let served =
            runtime::serve(config.execution.threads, self.serve(config, format));
        drop(log);
        served
    }

    /// Makes the folder, the certificate and a configuration.
    fn prepare(&self) -> Result<Config, Failure> {
        let folder = &self.folder;
        let failed = |error| Failure::Save(folder.clone(), error);
        private::make_folder(folder).map_err(failed)?;
        // A project that is kept in git must not take our secrets along.
        ignore(folder).map_err(failed)?;
        let files = DevCa::open_or_make(folder, &[]).map_err(StartError::Tls)?;
        let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
        let mut text = small_toml(&[
            ("tls", "cert", &name(&files.cert).to_string_lossy()),
            ("tls", "key", &name(&files.key).to_string_lossy()),
            ("execution", "listen", &self.listen.to_string()),
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
        if let (Answering::Llm, Some(model)) = (self.agent, &self.model) {
            let Some(around) = ModelAround::look() else {
                return Err(Failure::Misuse(
                    "no model is known; put its key into OPENAI_API_KEY or ANTHROPIC_API_KEY, or the \
                     address of a server that needs none into OPENAI_BASE_URL"
                        .to_owned(),
                ));
            };
            text.push_str(&around.to_toml(model));
        }
        Ok(Config::made_up(&text, folder)?)
    }

    async fn serve(&self, config: Config, format: Format) -> Result<Exit, Failure> {
        let mut signals = Signals::listen().map_err(StartError::Signals)?;
        let agent = config.default_agent.clone();
        let zone = Running::start(config, "`--listen`, such as --listen 127.0.0.1:9443").await?;
        let url = zone.public_url().to_owned();
        let profile = self.introduce(zone.keep(), &url).await?;
        let client = &profile.client_id;
        let place = Place {
            folder: &self.folder,
            url: &url,
            any_port: self.listen.port() == 0,
        };
        let chat = match Chat::start(&place, zone.keep()).await {
            Ok(chat) => chat,
            Err(failure) => {
                zone.wind_up().await;
                return Err(failure);
            }
        };
        let console = zone.console_link();
        let (page, verification) = (chat.page(), chat.zone_url());
        output::write(|out| match format {
            Format::Json => output::write_json(
                out,
                &json!({
                    "url": url, "agent": agent, "folder": self.folder, "client_id": client,
                    "chat": page, "verification": verification, "console": console,
                }),
            ),
            Format::Text => self.welcome(out, &url, &page, &agent, console.as_deref()),
        })?;
        let wind_up = async {
            chat.wind_up().await;
            zone.wind_up().await;
        };
        signals.then(wind_up).await?;
        if format == Format::Text {
            let _ = writeln!(
                io::stderr(),
                "stopped; everything is kept in {}",
                self.shown()
            );
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

    fn welcome(
        &self,
        out: &mut dyn Write,
        url: &str,
        page: &str,
        agent: &str,
        console: Option<&str>,
    ) -> io::Result<()> {
        let folder = self.shown();
        writeln!(out, "Interzone is up at {url}")?;
        writeln!(out)?;
        let what = match (self.agent, &self.model) {
            (Answering::Llm, Some(model)) => printable::text(model),
            _ => "built in, for trying things out".to_owned(),
        };
        writeln!(out, "  chat    {page} (a Slack workspace of your own)")?;
        writeln!(out, "  agent   {agent} ({what})")?;
        writeln!(
            out,
            "  folder  {folder} (certificate, databases, credentials)"
        )?;
        if let Some(console) = console {
            writeln!(out, "  console {console} (good once, for ten minutes)")?;
        }
        writeln!(out)?;
        writeln!(out, "In another terminal, in this folder:")?;
        writeln!(out)?;
        let check = format!("interzone check {url}");
        for (command, what) in [
            (
                "interzone ask \"file csv a,b\"",
                "ask the agent and get a file",
            ),
            ("interzone task list", "see your tasks"),
            ("interzone pairs", "see what became of requests"),
            (check.as_str(), "see that all is as it should be"),
        ] {
            writeln!(out, "  {command:<width$}  {what}", width = check.len())?;
        }
        writeln!(out)?;
        writeln!(out, "Ctrl-C stops it.")
    }

    fn shown(&self) -> String {
        printable::text(&self.folder.to_string_lossy())
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

fn ignore(folder: &Path) -> io::Result<()> {
    let path = folder.join(".gitignore");
    if path.exists() {
        return Ok(());
    }
    fs::write(path, "*\n")
}
