//! `interzone client` and `interzone user`: manage who may obtain tokens from the built-in issuer.
//!
//! Both commands work directly on the store, even while a server is running on it.

use crate::config::{CliEnvironment, Config, DATA_DIR, StoreConfig};
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::printable;
use crate::private_file;
use crate::wiring::{self, StartError};
use clap::{Args, Subcommand};
use interzone_edge::clock::Clock;
use interzone_hub::ports::RecordStore;
use interzone_issuer::{
    GrantType, NewOAuthClient, OAuthClient as Account, OAuthClients, OAuthUsers,
};
use interzone_protocol::Scope;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// Manage OAuth2 clients (built-in issuer)
///
/// Works directly on the store of a configuration or of `interzone up`, even while the server
/// is running.
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
    /// Add a client and show its secret, once
    Add {
        /// Display name (same as --name)
        #[arg(
            value_name = "NAME",
            required_unless_present = "name",
            conflicts_with = "name"
        )]
        name_argument: Option<String>,
        /// Display name
        #[arg(long)]
        name: Option<String>,
        /// Client id [default: generated]
        #[arg(long)]
        id: Option<String>,
        /// Scope that the client may request (repeatable) [default: all ACP scopes]
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<String>,
        /// Redirect URI for sign-in (repeatable); lets the client act on behalf of users
        #[arg(long, value_name = "URL")]
        redirect_uri: Vec<String>,
        /// Public client: has no secret, and acts only on behalf of users
        #[arg(long, requires = "redirect_uri")]
        public: bool,
        /// Write the secret to this file, readable only by you, instead of showing it
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
    },
    /// List clients
    List,
    /// Remove a client and revoke its tokens
    Remove {
        /// Client id
        id: String,
    },
}

/// Manage users who can sign in (built-in issuer)
#[derive(Debug, Args)]
pub(crate) struct User {
    #[command(subcommand)]
    action: UserAction,

    #[command(flatten)]
    store: StoreOptions,
}

#[derive(Debug, Subcommand)]
enum UserAction {
    /// Add a user and show the passphrase, once
    Add {
        /// User name
        name: String,
    },
    /// List users
    List,
    /// Remove a user and revoke the tokens issued on their behalf
    Remove {
        /// User name
        name: String,
    },
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Store")]
struct StoreOptions {
    /// Configuration file that names the store
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "folder")]
    config: Option<PathBuf>,

    /// Data folder of `interzone up` [default: the nearest one]
    #[arg(long, global = true, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl StoreOptions {
    async fn open(&self) -> Result<Arc<dyn RecordStore>, Failure> {
        let store = match &self.config {
            Some(file) => Config::load(file)?.store,
            None => {
                let folder = self
                    .folder
                    .clone()
                    .or_else(|| CliEnvironment::load().folder);
                let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
                    return Err(Failure::Misuse(format!(
                        "no store found; pass a configuration with --config, or the folder of \
                         `interzone up` ({DATA_DIR}) with --folder"
                    )));
                };
                StoreConfig::in_data_dir(&folder, "interzone.db")
            }
        };
        Ok(wiring::record_store(&store)
            .await
            .map_err(StartError::Store)?)
    }
}

impl Client {
    pub(crate) async fn run(self, format: OutputFormat) -> Result<Exit, Failure> {
        if let ClientAction::Add { scope, .. } = &self.action {
            check_scopes(scope)?;
        }
        let clients = OAuthClients::new(self.store.open().await?, Clock::system());
        match self.action {
            ClientAction::Add {
                name_argument: called,
                name,
                id,
                scope,
                redirect_uri,
                public,
                secret_file,
            } => {
                let mut grants = Vec::new();
                if !public {
                    grants.push(GrantType::ClientCredentials);
                }
                if !redirect_uri.is_empty() {
                    grants.push(GrantType::AuthorizationCode);
                }
                let new = NewOAuthClient {
                    id,
                    // clap requires one of the two.
                    name: called.or(name).unwrap_or_default(),
                    scopes: if scope.is_empty() {
                        all_acp_scopes()
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
                    private_file::write_new(file, &format!("{}\n", secret.expose()))
                        .map_err(|error| Failure::Save(file.clone(), error))?;
                }
                let secret = secret.filter(|_| secret_file.is_none());
                let secret = secret.as_ref().map(|secret| secret.expose());
                output::write(|out| match format {
                    OutputFormat::Json => {
                        let id = &added.client_id;
                        output::write_json(out, &json!({"client_id": id, "client_secret": secret}))
                    }
                    OutputFormat::Text => {
                        writeln!(out, "client id      {}", printable::text(&added.client_id))?;
                        match secret {
                            Some(secret) => writeln!(
                                out,
                                "client secret  {}\nSave it now; it won't be shown again.",
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
                    OutputFormat::Json => {
                        let list: Vec<_> = list.iter().map(client_to_json).collect();
                        output::write_json(out, &json!({"clients": list}))
                    }
                    OutputFormat::Text => list.iter().try_for_each(|client| {
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
                print_removed(removed, "client", &id, format)
            }
        }
    }
}

impl User {
    pub(crate) async fn run(self, format: OutputFormat) -> Result<Exit, Failure> {
        let users = OAuthUsers::new(self.store.open().await?, Clock::system());
        match self.action {
            UserAction::Add { name } => {
                let passphrase = users.add(&name).await.map_err(StartError::Account)?;
                let passphrase = passphrase.expose();
                output::write(|out| match format {
                    OutputFormat::Json => {
                        output::write_json(out, &json!({"name": name, "passphrase": passphrase}))
                    }
                    OutputFormat::Text => writeln!(
                        out,
                        "name        {}\npassphrase  {}\nSave it now; it won't be shown again.",
                        printable::text(&name),
                        printable::text(passphrase)
                    ),
                })?;
                Ok(Exit::Done)
            }
            UserAction::List => {
                let list = users.list().await.map_err(StartError::Account)?;
                output::write(|out| match format {
                    OutputFormat::Json => {
                        let names: Vec<&str> = list.iter().map(|user| user.name.as_str()).collect();
                        output::write_json(out, &json!({"users": names}))
                    }
                    OutputFormat::Text => list
                        .iter()
                        .try_for_each(|user| writeln!(out, "{}", printable::text(&user.name))),
                })?;
                Ok(Exit::Done)
            }
            UserAction::Remove { name } => {
                let removed = users.remove(&name).await.map_err(StartError::Account)?;
                print_removed(removed, "user", &name, format)
            }
        }
    }
}

/// Returns the names of all ACP scopes.
pub(super) fn all_acp_scopes() -> Vec<String> {
    Scope::ALL.map(|scope| scope.name().to_owned()).to_vec()
}

/// Rejects scopes that the issuer can never grant.
fn check_scopes(scopes: &[String]) -> Result<(), Failure> {
    let available: Vec<String> = wiring::grantable_scopes()
        .into_iter()
        .map(|scope| scope.name)
        .collect();
    match scopes.iter().find(|scope| !available.contains(scope)) {
        None => Ok(()),
        Some(unknown) => Err(Failure::Misuse(format!(
            "unknown scope {}; available scopes: {}",
            printable::quoted(unknown),
            available.join(", ")
        ))),
    }
}

fn client_to_json(client: &Account) -> serde_json::Value {
    json!({
        "client_id": client.id,
        "name": client.name,
        "scopes": client.scopes,
        "redirect_uris": client.redirect_uris,
        "public": client.public,
        "created_at": client.created_at,
    })
}

fn print_removed(
    removed: bool,
    what: &str,
    id: &str,
    format: OutputFormat,
) -> Result<Exit, Failure> {
    output::write(|out| match format {
        OutputFormat::Json => output::write_json(out, &json!({"removed": removed})),
        OutputFormat::Text if removed => writeln!(out, "removed {}", printable::text(id)),
        OutputFormat::Text => writeln!(out, "no such {what}: {}", printable::quoted(id)),
    })?;
    Ok(if removed { Exit::Done } else { Exit::Failed })
}
