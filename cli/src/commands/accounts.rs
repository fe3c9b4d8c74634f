//! `interzone client` and `interzone person`: who may get tokens from the built-in issuer.
//!
//! They work on the store itself, also while a server runs on it.

use crate::config::{Config, FOLDER, StoreConfig, Surroundings};
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::printable;
use crate::private;
use crate::wiring::{self, StartError};
use clap::{Args, Subcommand};
use interzone_edge::clock::Clock;
use interzone_edge::issuer::{Client as Account, Clients, Grant, Keep, NewClient, People};
use interzone_protocol::acp::Scope;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// Manage the OAuth2 clients of the built-in issuer
///
/// Works on the store of a configuration, or of the folder of `interzone up`, also while the
/// server runs.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Client {
    #[command(subcommand)]
    action: ClientAction,

    #[command(flatten)]
    store: StoreOptions,
}

#[derive(Debug, Subcommand)]
enum ClientAction {
    /// Add a client; its secret is shown this once
    Add {
        /// What people see; in place of --name
        #[arg(
            value_name = "NAME",
            required_unless_present = "name",
            conflicts_with = "name"
        )]
        called: Option<String>,
        /// What people see
        #[arg(long)]
        name: Option<String>,
        /// Its id; else made up
        #[arg(long)]
        id: Option<String>,
        /// A scope that it may have; may be given several times; else all of ACP
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<String>,
        /// Where people may be sent back to after they agreed; lets it act for people
        #[arg(long, value_name = "URL")]
        redirect_uri: Vec<String>,
        /// It cannot keep a secret, and acts for people only
        #[arg(long, requires = "redirect_uri")]
        public: bool,
        /// Write the secret to this file, readable for you alone, and do not show it
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
    },
    /// List the clients
    List,
    /// Remove a client and take back its tokens
    Remove {
        /// Its id
        id: String,
    },
}

/// Manage the people who may agree on the page of the built-in issuer
#[derive(Debug, Args)]
pub(crate) struct Person {
    #[command(subcommand)]
    action: PersonAction,

    #[command(flatten)]
    store: StoreOptions,
}

#[derive(Debug, Subcommand)]
enum PersonAction {
    /// Add somebody; their passphrase is shown this once
    Add {
        /// Their name
        name: String,
    },
    /// List the people
    List,
    /// Remove somebody and take back the tokens on their behalf
    Remove {
        /// Their name
        name: String,
    },
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Store")]
struct StoreOptions {
    /// The configuration whose store is meant
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "folder")]
    config: Option<PathBuf>,

    /// The folder of `interzone up` whose store is meant; else the nearest one
    #[arg(long, global = true, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl StoreOptions {
    async fn open(&self) -> Result<Arc<dyn Keep>, Failure> {
        let store = match &self.config {
            Some(file) => Config::load(file)?.store,
            None => {
                let folder = self.folder.clone().or_else(|| Surroundings::look().folder);
                let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
                    return Err(Failure::Misuse(format!(
                        "no store is known; name a configuration with --config, or the folder of \
                         `interzone up` ({FOLDER}) with --folder"
                    )));
                };
                StoreConfig::of_folder(&folder, "interzone.db")
            }
        };
        Ok(wiring::records(&store).await.map_err(StartError::Store)?)
    }
}

impl Client {
    pub(crate) async fn run(self, format: Format) -> Result<Exit, Failure> {
        if let ClientAction::Add { scope, .. } = &self.action {
            check_scopes(scope)?;
        }
        let clients = Clients::new(self.store.open().await?, Clock::machine());
        match self.action {
            ClientAction::Add {
                called,
                name,
                id,
                scope,
                redirect_uri,
                public,
                secret_file,
            } => {
                let mut grants = Vec::new();
                if !public {
                    grants.push(Grant::ClientCredentials);
                }
                if !redirect_uri.is_empty() {
                    grants.push(Grant::AuthorizationCode);
                }
                let new = NewClient {
                    id,
                    // One of the two is there.
                    name: called.or(name).unwrap_or_default(),
                    scopes: if scope.is_empty() {
                        all_of_acp()
                    } else {
                        scope
                    },
                    redirect_uris: redirect_uri,
                    grants,
                    public,
                };
                let added = clients.add(new).await.map_err(StartError::Account)?;
                let secret = added.secret;
                if let (Some(file), Some(secret)) = (&secret_file, &secret) {
                    private::write_new(file, &format!("{}\n", secret.expose()))
                        .map_err(|error| Failure::Save(file.clone(), error))?;
                }
                let secret = secret.filter(|_| secret_file.is_none());
                let secret = secret.as_ref().map(|secret| secret.expose());
                output::write(|out| match format {
                    Format::Json => {
                        let id = &added.client_id;
                        output::write_json(out, &json!({"client_id": id, "client_secret": secret}))
                    }
                    Format::Text => {
                        writeln!(out, "client id      {}", printable::text(&added.client_id))?;
                        match secret {
                            Some(secret) => writeln!(
                                out,
                                "client secret  {}\nIt is not shown again: keep it now.",
                                printable::text(secret)
                            ),
                            None => Ok(()),
                        }
                    }
                })?;
                Ok(Exit::Done)
            }
            ClientAction::List => {
                let list = clients.list().await.map_err(StartError::Account)?;
                output::write(|out| match format {
                    Format::Json => {
                        let list: Vec<_> = list.iter().map(as_json).collect();
                        output::write_json(out, &json!({"clients": list}))
                    }
                    Format::Text => list.iter().try_for_each(|client| {
                        writeln!(
                            out,
                            "{}  {}  {}",
                            printable::text(&client.id),
                            printable::quoted(&client.name),
                            printable::text(&client.scopes.join(" "))
                        )
                    }),
                })?;
                Ok(Exit::Done)
            }
            ClientAction::Remove { id } => {
                let removed = clients.remove(&id).await.map_err(StartError::Account)?;
                tell_removed(removed, "client", &id, format)
            }
        }
    }
}

impl Person {
    pub(crate) async fn run(self, format: Format) -> Result<Exit, Failure> {
        let people = People::new(self.store.open().await?, Clock::machine());
        match self.action {
            PersonAction::Add { name } => {
                let passphrase = people.add(&name).await.map_err(StartError::Account)?;
                let passphrase = passphrase.expose();
                output::write(|out| match format {
                    Format::Json => {
                        output::write_json(out, &json!({"name": name, "passphrase": passphrase}))
                    }
                    Format::Text => writeln!(
                        out,
                        "name        {}\npassphrase  {}\nIt is not shown again: keep it now.",
                        printable::text(&name),
                        printable::text(passphrase)
                    ),
                })?;
                Ok(Exit::Done)
            }
            PersonAction::List => {
                let list = people.list().await.map_err(StartError::Account)?;
                output::write(|out| match format {
                    Format::Json => {
                        let names: Vec<&str> = list.iter().map(|one| one.name.as_str()).collect();
                        output::write_json(out, &json!({"people": names}))
                    }
                    Format::Text => list
                        .iter()
                        .try_for_each(|one| writeln!(out, "{}", printable::text(&one.name))),
                })?;
                Ok(Exit::Done)
            }
            PersonAction::Remove { name } => {
                let removed = people.remove(&name).await.map_err(StartError::Account)?;
                tell_removed(removed, "person", &name, format)
            }
        }
    }
}

/// Every scope of ACP.
pub(super) fn all_of_acp() -> Vec<String> {
    Scope::ALL.map(|scope| scope.name().to_owned()).to_vec()
}

/// A scope that the issuer does not know could never be granted.
fn check_scopes(scopes: &[String]) -> Result<(), Failure> {
    let known: Vec<String> = wiring::scopes()
        .into_iter()
        .map(|scope| scope.name)
        .collect();
    match scopes.iter().find(|scope| !known.contains(scope)) {
        None => Ok(()),
        Some(unknown) => Err(Failure::Misuse(format!(
            "there is no scope {}; there are {}",
            printable::quoted(unknown),
            known.join(", ")
        ))),
    }
}

fn as_json(client: &Account) -> serde_json::Value {
    json!({
        "client_id": client.id,
        "name": client.name,
        "scopes": client.scopes,
        "redirect_uris": client.redirect_uris,
        "public": client.public,
        "created_at": client.created_at,
    })
}

fn tell_removed(removed: bool, what: &str, id: &str, format: Format) -> Result<Exit, Failure> {
    output::write(|out| match format {
        Format::Json => output::write_json(out, &json!({"removed": removed})),
        Format::Text if removed => writeln!(out, "removed {}", printable::text(id)),
        Format::Text => writeln!(out, "there is no {what} {}", printable::quoted(id)),
    })?;
    Ok(if removed { Exit::Done } else { Exit::No })
}
