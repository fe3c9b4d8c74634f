//! `interzone token`: an access token, for those who call by other means.

use crate::connect::{ConnectOptions, Connection, Proof};
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::printable;
use crate::scopes::{is_scope, widest_token};
use clap::Args;
use interzone_client::{Login, Secret};
use interzone_protocol::acp::Scope;
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
    /// A scope to ask for; may be given several times; else those of ACP that the client may have
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// Let a person agree in a browser, and act for them
    #[arg(long)]
    login: bool,

    /// With --login: only print the address of the page
    #[arg(long, requires = "login")]
    no_browser: bool,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Token {
    pub(crate) async fn run(&self, format: Format) -> Result<Exit, Failure> {
        let connection = self.connect.find()?;
        let asked: Vec<&str> = self.scope.iter().map(String::as_str).collect();
        let token = if self.login {
            self.log_in(&connection, asked).await?
        } else if asked.is_empty() {
            let (token, lacking) = widest_token(&connection.client()?).await?;
            if let Some(lacking) = lacking.filter(|lacking| !lacking.is_empty()) {
                say(&format!(
                    "it is good for less than all of ACP: the client may not have {}",
                    lacking.join(" and ")
                ));
            }
            Some(token)
        } else {
            Some(connection.client()?.token(&asked).await?)
        };
        let Some(token) = token else {
            return Err(interzone_client::Error::from(interzone_client::TokenError::Answer).into());
        };
        tell(&token, format)?;
        Ok(Exit::Done)
    }

    async fn log_in(
        &self,
        connection: &Connection,
        asked: Vec<&str>,
    ) -> Result<Option<Secret>, Failure> {
        let login = match &connection.proof {
            Proof::Client { id, secret } => Login::new(id).secret(secret.clone()),
            Proof::Public { id } => Login::new(id),
            Proof::Token(_) | Proof::None => {
                return Err(Failure::Misuse(
                    "a login needs a client; give --client-id, and --client-secret-file if it \
                     has a secret"
                        .to_owned(),
                ));
            }
        };
        let client = connection.client_for_login()?;
        let begin = async |scopes: Vec<&str>| {
            let login = login.clone().scopes(scopes);
            client
                .login(&login, |page| self.show(page, connection))
                .await
        };
        let session = match asked.is_empty() {
            false => begin(asked).await,
            true => match begin(Scope::ALL.map(Scope::name).to_vec()).await {
                Err(error) if is_scope(&error) => {
                    say("the client may not have all of ACP, so once more, for what it may have");
                    begin(Vec::new()).await
                }
                session => session,
            },
        };
        Ok(session?.access_token())
    }

    fn show(&self, page: &Url, connection: &Connection) {
        let _ = writeln!(
            io::stderr(),
            "open this page and agree:\n  {}",
            printable::text(page.as_str())
        );
        if let Some((name, file)) = &connection.person {
            let (name, file) = (printable::text(name), file.to_string_lossy());
            let file = printable::text(&file);
            let _ = writeln!(io::stderr(), "as {name}, with the passphrase in {file}");
        }
        if !self.no_browser {
            open(page);
        }
    }
}

/// Tells the person; what programs read stays as it is.
fn say(words: &str) {
    let _ = writeln!(io::stderr(), "{words}");
}

fn tell(token: &Secret, format: Format) -> Result<(), Failure> {
    output::write(|out| match format {
        Format::Json => {
            let answer = json!({"access_token": token.expose(), "token_type": "Bearer"});
            output::write_json(out, &answer)
        }
        Format::Text => writeln!(out, "{}", printable::text(token.expose())),
    })
}

/// Asks the desktop for its browser. Where there is none, the address was printed.
fn open(page: &Url) {
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
