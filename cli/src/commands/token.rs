//! `interzone token`: prints an access token for use with other clients.

use crate::connect::{ConnectOptions, Connection, ServerCredentials};
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::printable;
use crate::scopes::{is_invalid_scope, widest_token};
use clap::Args;
use interzone_client::{Login, Secret};
use interzone_protocol::Scope;
use serde_json::json;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use url::Url;

/// Print an access token
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interzone token
  interzone token --scope acp:agent:identify --scope acp:tasks:read
  interzone token --login
  curl --cacert .interzone/ca.pem -H \"Authorization: Bearer $(interzone token)\" …")]
pub(crate) struct Token {
    /// Scope to request (repeatable) [default: all ACP scopes that the client may have]
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// Sign in through a browser, and act on behalf of that user
    #[arg(long)]
    login: bool,

    /// With --login: print the URL instead of opening a browser
    #[arg(long, requires = "login")]
    no_browser: bool,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Token {
    pub(crate) async fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let connection = self.connect.resolve()?;
        let scopes: Vec<&str> = self.scope.iter().map(String::as_str).collect();
        let token = if self.login {
            self.log_in(&connection, scopes).await?
        } else if scopes.is_empty() {
            let (token, lacking) = widest_token(&connection.client()?).await?;
            if let Some(lacking) = lacking.filter(|lacking| !lacking.is_empty()) {
                print_note(&format!(
                    "the token does not cover all of ACP: the client may not have {}",
                    lacking.join(" and ")
                ));
            }
            Some(token)
        } else {
            Some(connection.client()?.token(&scopes).await?)
        };
        let Some(token) = token else {
            return Err(interzone_client::Error::from(
                interzone_client::TokenError::InvalidResponse,
            )
            .into());
        };
        print_token(&token, format)?;
        Ok(Exit::Done)
    }

    async fn log_in(
        &self,
        connection: &Connection,
        scopes: Vec<&str>,
    ) -> Result<Option<Secret>, Failure> {
        let login = match &connection.credentials {
            ServerCredentials::Client { id, secret } => Login::new(id).secret(secret.clone()),
            ServerCredentials::Public { id } => Login::new(id),
            ServerCredentials::Token(_) | ServerCredentials::None => {
                return Err(Failure::Misuse(
                    "--login needs a client; set --client-id, and --client-secret-file if it \
                     has a secret"
                        .to_owned(),
                ));
            }
        };
        let client = connection.client_for_login()?;
        let start_login = async |scopes: Vec<&str>| {
            let login = login.clone().scopes(scopes);
            client
                .login(&login, |page| self.show_login_page(page, connection))
                .await
        };
        let session = match scopes.is_empty() {
            false => start_login(scopes).await,
            true => match start_login(Scope::ALL.map(Scope::name).to_vec()).await {
                Err(error) if is_invalid_scope(&error) => {
                    print_note(
                        "the client may not have all ACP scopes; retrying with those it may have",
                    );
                    start_login(Vec::new()).await
                }
                session => session,
            },
        };
        Ok(session?.access_token())
    }

    fn show_login_page(&self, page: &Url, connection: &Connection) {
        let _ = writeln!(
            io::stderr(),
            "open this page and approve the request:\n  {}",
            printable::text(page.as_str())
        );
        if let Some((name, file)) = &connection.login_user {
            let (name, file) = (printable::text(name), file.to_string_lossy());
            let file = printable::text(&file);
            let _ = writeln!(
                io::stderr(),
                "sign in as {name}, with the passphrase in {file}"
            );
        }
        if !self.no_browser {
            open_browser(page);
        }
    }
}

/// Prints a message to standard error; standard output holds only the token.
fn print_note(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}

fn print_token(token: &Secret, format: OutputFormat) -> Result<(), Failure> {
    output::write(|out| match format {
        OutputFormat::Json => {
            let answer = json!({"access_token": token.expose(), "token_type": "Bearer"});
            output::write_json(out, &answer)
        }
        OutputFormat::Text => writeln!(out, "{}", printable::text(token.expose())),
    })
}

/// Opens the page in the desktop's browser. If there is none, the URL has been printed already.
fn open_browser(page: &Url) {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    let _ = Command::new(opener)
        .arg(page.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
}
