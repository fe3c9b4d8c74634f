//! Which server a command speaks to, and what proves who speaks.
//!
//! Options come first, then the environment, then the folder of `interzone up` here or above. What
//! that folder holds opens only its own server: it is never sent to another address.

use crate::config::{Profile, Surroundings};
use crate::exit::Failure;
use crate::scopes::{is_scope, lacking};
use clap::Args;
use interzone_client::{Client, ClientCredentials, Credentials, Secret};
use interzone_protocol::acp::Method;
use std::fs;
use std::path::{Path, PathBuf};
use url::Url;

/// A file with a secret is a line; anything larger was named by mistake.
const MOST_SECRET: u64 = 64 * 1024;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectOptions {
    /// The server, such as https://localhost:8443 [env: INTERZONE_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// A CA to trust beside the system's, in PEM [env: INTERZONE_CA]
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// The OAuth2 client to speak as [env: INTERZONE_CLIENT_ID]
    #[arg(long, global = true, value_name = "ID")]
    client_id: Option<String>,

    /// The file that holds its secret [env: INTERZONE_CLIENT_SECRET_FILE, INTERZONE_CLIENT_SECRET]
    #[arg(long, global = true, value_name = "FILE")]
    client_secret_file: Option<PathBuf>,

    /// A file that holds an access token, in place of a client [env: INTERZONE_TOKEN_FILE, INTERZONE_TOKEN]
    #[arg(long, global = true, value_name = "FILE", conflicts_with_all = ["client_id", "client_secret_file"])]
    token_file: Option<PathBuf>,

    /// Allow http://, for development: everybody on the way can read along
    #[arg(long, global = true)]
    pub(crate) insecure_http: bool,
}

/// A server, and what proves who speaks.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) url: String,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) insecure_http: bool,
    pub(crate) proof: Proof,
    /// Who may agree on the server's page, and where their passphrase is.
    pub(crate) person: Option<(String, PathBuf)>,
}

/// What proves who speaks.
#[derive(Clone, Debug)]
pub(crate) enum Proof {
    Client {
        id: String,
        secret: Secret,
    },
    /// A client that has no secret: it can only have a person agree.
    Public {
        id: String,
    },
    Token(Secret),
    None,
}

impl ConnectOptions {
    /// Finds the server.
    ///
    /// # Errors
    /// There is none, or a file that was named cannot be read.
    pub(crate) fn find(&self) -> Result<Connection, Failure> {
        self.find_at(None)
    }

    /// Finds what belongs to this server.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub(crate) fn find_at(&self, url: Option<&str>) -> Result<Connection, Failure> {
        self.find_in(url, Surroundings::look())
    }

    fn find_in(&self, url: Option<&str>, around: Surroundings) -> Result<Connection, Failure> {
        let profile = match &around.folder {
            Some(folder) => Profile::read(folder)?,
            None => None,
        };
        let said = url
            .map(str::to_owned)
            .or_else(|| self.url.clone())
            .or(around.url);
        let profile = profile.filter(|profile| {
            said.as_ref()
                .is_none_or(|said| same_server(said, &profile.url))
        });
        let Some(url) = said.or_else(|| profile.as_ref().map(|profile| profile.url.clone())) else {
            return Err(Failure::Misuse(
                "no server is known; name one with --url or INTERZONE_URL, or start one here with \
                 `interzone up`"
                    .to_owned(),
            ));
        };
        let secret =
            |file: &Option<PathBuf>, around: Option<Secret>, other: &Option<PathBuf>| match (
                file, around, other,
            ) {
                (Some(file), _, _) => read_secret(file).map(Some),
                (None, Some(secret), _) => Ok(Some(secret)),
                (None, None, Some(file)) => read_secret(file).map(Some),
                (None, None, None) => Ok(None),
            };
        let plain = |secret: Option<interzone_edge::Secret>| {
            secret.map(|secret| Secret::new(secret.expose()))
        };
        let client_secret = secret(
            &self.client_secret_file,
            plain(around.client_secret),
            &around.client_secret_file,
        )?;
        let proof = if let Some(file) = &self.token_file {
            Proof::Token(read_secret(file)?)
        } else if let Some(id) = self.client_id.clone().or(around.client_id) {
            match client_secret {
                Some(secret) => Proof::Client { id, secret },
                None => Proof::Public { id },
            }
        } else if let Some(token) = secret(&None, plain(around.token), &around.token_file)? {
            Proof::Token(token)
        } else if let Some(profile) = &profile {
            Proof::Client {
                id: profile.client_id.clone(),
                secret: Secret::new(profile.client_secret.expose()),
            }
        } else {
            Proof::None
        };
        let person = profile
            .as_ref()
            .zip(around.folder.as_deref())
            .map(|(profile, folder)| (profile.person.clone(), Profile::path(folder)));
        Ok(Connection {
            person,
            url,
            ca: self
                .ca
                .clone()
                .or(around.ca)
                .or(profile.map(|profile| profile.ca)),
            insecure_http: self.insecure_http,
            proof,
        })
    }
}

impl Connection {
    /// A client of the server.
    ///
    /// # Errors
    /// The address or the CA cannot be used, or there is no secret to prove the client with.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        if let Proof::Public { id } = &self.proof {
            return Err(Failure::Misuse(format!(
                "client {} needs its secret; name the file that holds it with \
                 --client-secret-file, or, if it has none, get a token with `interzone token \
                 --login`",
                crate::printable::quoted(id)
            )));
        }
        self.client_for_login()
    }

    /// A client of the server that may have nothing to prove itself with yet.
    ///
    /// # Errors
    /// The address or the CA cannot be used.
    pub(crate) fn client_for_login(&self) -> Result<Client, Failure> {
        let mut builder = Client::builder(&self.url)
            .allow_http(self.insecure_http)
            .user_agent(concat!("interzone/", env!("CARGO_PKG_VERSION")));
        if let Some(ca) = &self.ca {
            builder = builder.ca_file(ca);
        }
        builder = match &self.proof {
            Proof::Client { id, secret } => {
                builder.credentials(ClientCredentials::new(id, secret.clone()))
            }
            Proof::Token(token) => builder.credentials(Credentials::Bearer(token.clone())),
            Proof::Public { .. } | Proof::None => builder,
        };
        Ok(builder.build()?)
    }
}

impl Connection {
    /// Says which scopes a client lacks, where its issuer refused it a token for these methods.
    pub(crate) async fn explain<T>(
        &self,
        done: Result<T, Failure>,
        methods: &[Method],
    ) -> Result<T, Failure> {
        match (&done, &self.proof) {
            (Err(Failure::Call(error)), Proof::Client { id, .. }) if is_scope(error) => {
                let Ok(client) = self.client() else {
                    return done;
                };
                let scopes = methods.iter().flat_map(|method| method.scopes());
                let lacking = lacking(&client, scopes).await;
                if lacking.is_empty() {
                    return done;
                }
                Err(Failure::Lacks {
                    client: crate::printable::quoted(id),
                    lacking,
                })
            }
            _ => done,
        }
    }
}

/// Whether both addresses are of one server.
fn same_server(a: &str, b: &str) -> bool {
    match (Url::parse(a), Url::parse(b)) {
        (Ok(a), Ok(b)) => a.origin() == b.origin(),
        _ => false,
    }
}

fn read_secret(path: &Path) -> Result<Secret, Failure> {
    let shown = || crate::printable::text(&path.to_string_lossy());
    let read = fs::metadata(path).and_then(|meta| {
        if meta.len() > MOST_SECRET {
            return Err(std::io::Error::other("it is too large to be a secret"));
        }
        fs::read_to_string(path)
    });
    match read {
        Ok(text) if text.trim().is_empty() => Err(Failure::Misuse(format!(
            "{} is empty; put the secret into it",
            shown()
        ))),
        Ok(text) => Ok(Secret::new(text.trim())),
        Err(error) => Err(Failure::Misuse(format!(
            "{} cannot be read: {error}",
            shown()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectOptions, Proof};
    use crate::config::{Profile, Surroundings};
    use interzone_edge::Secret;
    use std::fs;
    use std::path::Path;

    fn folder(root: &Path) -> Surroundings {
        let profile = Profile {
            url: "https://localhost:8443".to_owned(),
            ca: "ca.pem".into(),
            client_id: "up".to_owned(),
            client_secret: Secret::new("s"),
            person: "you".to_owned(),
            passphrase: Secret::new("p"),
        };
        fs::write(Profile::path(root), profile.to_toml()).unwrap();
        Surroundings {
            folder: Some(root.to_owned()),
            ..Surroundings::default()
        }
    }

    #[test]
    fn a_folder_opens_its_own_server_and_no_other() {
        let root = tempfile::tempdir().unwrap();
        let options = ConnectOptions::default();
        let found = options.find_in(None, folder(root.path())).unwrap();
        assert_eq!(found.url, "https://localhost:8443");
        assert!(matches!(found.proof, Proof::Client { .. }));
        let same = Some("https://localhost:8443/jsonrpc");
        let found = options.find_in(same, folder(root.path())).unwrap();
        assert!(matches!(found.proof, Proof::Client { .. }) && found.ca.is_some());
        let other = Some("https://localhost:9443");
        let found = options.find_in(other, folder(root.path())).unwrap();
        assert!(matches!(found.proof, Proof::None) && found.ca.is_none());
    }

    #[test]
    fn options_come_before_the_environment_and_that_before_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let around = || Surroundings {
            url: Some("https://a".to_owned()),
            token: Some(Secret::new("t")),
            ..folder(root.path())
        };
        let found = ConnectOptions::default().find_in(None, around()).unwrap();
        assert_eq!(found.url, "https://a");
        assert!(matches!(found.proof, Proof::Token(_)));
        let options = ConnectOptions {
            url: Some("https://b".to_owned()),
            ..ConnectOptions::default()
        };
        assert_eq!(options.find_in(None, around()).unwrap().url, "https://b");
    }

    #[test]
    fn nothing_known_says_what_to_do() {
        let found = ConnectOptions::default().find_in(None, Surroundings::default());
        assert!(found.unwrap_err().to_string().contains("interzone up"));
    }
}
