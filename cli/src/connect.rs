//! Selects the server and the credentials of a client command.
//!
//! Options take precedence over the environment, and that over the data folder of `interzone up` in this
//! directory or above. The credentials of that folder are only sent to its own server.

use crate::config::{CliEnvironment, ConnectionProfile};
use crate::exit::Failure;
use crate::scopes::{is_invalid_scope, missing_scopes};
use clap::Args;
use interzone_client::{Client, ClientCredentials, Credentials, Secret};
use interzone_protocol::acp::Method;
use std::fs;
use std::path::{Path, PathBuf};
use url::Url;

/// Size limit of a secret file. A secret is one line; a larger file was named by mistake.
const MAX_SECRET_FILE_SIZE: u64 = 64 * 1024;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectOptions {
    /// Server URL, such as https://localhost:8443 [env: INTERZONE_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// CA certificate (PEM) to trust in addition to the system's [env: INTERZONE_CA]
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// OAuth2 client id [env: INTERZONE_CLIENT_ID]
    #[arg(long, global = true, value_name = "ID")]
    client_id: Option<String>,

    /// File with the client secret [env: INTERZONE_CLIENT_SECRET_FILE, INTERZONE_CLIENT_SECRET]
    #[arg(long, global = true, value_name = "FILE")]
    client_secret_file: Option<PathBuf>,

    /// File with an access token, used instead of a client [env: INTERZONE_TOKEN_FILE, INTERZONE_TOKEN]
    #[arg(long, global = true, value_name = "FILE", conflicts_with_all = ["client_id", "client_secret_file"])]
    token_file: Option<PathBuf>,

    /// Allow http://, for development only: traffic is not encrypted
    #[arg(long, global = true)]
    pub(crate) insecure_http: bool,
}

/// A server, and the credentials for it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) url: String,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) insecure_http: bool,
    pub(crate) credentials: ServerCredentials,
    /// User who can sign in on the server's page, and the file with their passphrase.
    pub(crate) login_user: Option<(String, PathBuf)>,
}

/// Credentials for a server.
#[derive(Clone, Debug)]
pub(crate) enum ServerCredentials {
    Client {
        id: String,
        secret: Secret,
    },
    /// A public client (without a secret), which can only get tokens when a user signs in.
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
    /// No server is configured, or a named file cannot be read.
    pub(crate) fn resolve(&self) -> Result<Connection, Failure> {
        self.resolve_for(None)
    }

    /// Finds the settings for this server.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub(crate) fn resolve_for(&self, url: Option<&str>) -> Result<Connection, Failure> {
        self.resolve_in(url, CliEnvironment::load())
    }

    fn resolve_in(
        &self,
        url: Option<&str>,
        environment: CliEnvironment,
    ) -> Result<Connection, Failure> {
        let profile = match &environment.folder {
            Some(folder) => ConnectionProfile::read(folder)?,
            None => None,
        };
        let requested = url
            .map(str::to_owned)
            .or_else(|| self.url.clone())
            .or(environment.url);
        let profile = profile.filter(|profile| {
            requested
                .as_ref()
                .is_none_or(|requested| same_server(requested, &profile.url))
        });
        let Some(url) = requested.or_else(|| profile.as_ref().map(|profile| profile.url.clone()))
        else {
            return Err(Failure::Misuse(
                "no server is configured; set one with --url or INTERZONE_URL, or start a local one with \
                 `interzone up`"
                    .to_owned(),
            ));
        };
        let secret = |file: &Option<PathBuf>, value: Option<Secret>, other: &Option<PathBuf>| match (
            file, value, other,
        ) {
            (Some(file), _, _) => read_secret_file(file).map(Some),
            (None, Some(secret), _) => Ok(Some(secret)),
            (None, None, Some(file)) => read_secret_file(file).map(Some),
            (None, None, None) => Ok(None),
        };
        let client_secret = secret(
            &self.client_secret_file,
            environment.client_secret,
            &environment.client_secret_file,
        )?;
        let credentials = if let Some(file) = &self.token_file {
            ServerCredentials::Token(read_secret_file(file)?)
        } else if let Some(id) = self.client_id.clone().or(environment.client_id) {
            match client_secret {
                Some(secret) => ServerCredentials::Client { id, secret },
                None => ServerCredentials::Public { id },
            }
        } else if let Some(token) = secret(&None, environment.token, &environment.token_file)? {
            ServerCredentials::Token(token)
        } else if let Some(profile) = &profile {
            ServerCredentials::Client {
                id: profile.client_id.clone(),
                secret: profile.client_secret.clone(),
            }
        } else {
            ServerCredentials::None
        };
        let login_user = profile
            .as_ref()
            .zip(environment.folder.as_deref())
            .map(|(profile, folder)| (profile.user.clone(), ConnectionProfile::path(folder)));
        Ok(Connection {
            login_user,
            url,
            ca: self
                .ca
                .clone()
                .or(environment.ca)
                .or(profile.map(|profile| profile.ca)),
            insecure_http: self.insecure_http,
            credentials,
        })
    }
}

impl Connection {
    /// Creates a client for the server.
    ///
    /// # Errors
    /// The URL or the CA is invalid, or the client's secret is missing.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        if let ServerCredentials::Public { id } = &self.credentials {
            return Err(Failure::Misuse(format!(
                "client {} needs its secret; pass its file with --client-secret-file, or, if it has \
                 none, get a token with `interzone token --login`",
                crate::printable::quoted(id)
            )));
        }
        self.client_for_login()
    }

    /// Creates a client for the server that may have no credentials yet.
    ///
    /// # Errors
    /// The URL or the CA is invalid.
    pub(crate) fn client_for_login(&self) -> Result<Client, Failure> {
        let mut builder = Client::builder(&self.url)
            .allow_http(self.insecure_http)
            .user_agent(concat!("interzone/", env!("CARGO_PKG_VERSION")));
        if let Some(ca) = &self.ca {
            builder = builder.ca_file(ca);
        }
        builder = match &self.credentials {
            ServerCredentials::Client { id, secret } => {
                builder.credentials(ClientCredentials::new(id, secret.clone()))
            }
            ServerCredentials::Token(token) => {
                builder.credentials(Credentials::Bearer(token.clone()))
            }
            ServerCredentials::Public { .. } | ServerCredentials::None => builder,
        };
        Ok(builder.build()?)
    }
}

impl Connection {
    /// Replaces an `invalid_scope` error by one that lists the scopes that the client lacks for these methods.
    pub(crate) async fn explain_scope_error<T>(
        &self,
        result: Result<T, Failure>,
        methods: &[Method],
    ) -> Result<T, Failure> {
        match (&result, &self.credentials) {
            (Err(Failure::Call(error)), ServerCredentials::Client { id, .. })
                if is_invalid_scope(error) =>
            {
                let Ok(client) = self.client() else {
                    return result;
                };
                let scopes = methods.iter().flat_map(|method| method.scopes()).copied();
                let lacking = missing_scopes(&client, scopes).await;
                if lacking.is_empty() {
                    return result;
                }
                Err(Failure::MissingScopes {
                    client: crate::printable::quoted(id),
                    lacking,
                })
            }
            _ => result,
        }
    }
}

/// Returns true if both URLs have the same origin.
fn same_server(a: &str, b: &str) -> bool {
    match (Url::parse(a), Url::parse(b)) {
        (Ok(a), Ok(b)) => a.origin() == b.origin(),
        _ => false,
    }
}

fn read_secret_file(path: &Path) -> Result<Secret, Failure> {
    let shown = || crate::printable::text(&path.to_string_lossy());
    let read = fs::metadata(path).and_then(|meta| {
        if meta.len() > MAX_SECRET_FILE_SIZE {
            return Err(std::io::Error::other("the file is too large for a secret"));
        }
        fs::read_to_string(path)
    });
    match read {
        Ok(text) if text.trim().is_empty() => Err(Failure::Misuse(format!(
            "{} is empty; write the secret into it",
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
    use super::{ConnectOptions, ServerCredentials};
    use crate::config::{CliEnvironment, ConnectionProfile};
    use interzone_edge::Secret;
    use std::fs;
    use std::path::Path;

    fn environment_with_profile(root: &Path) -> CliEnvironment {
        let profile = ConnectionProfile {
            url: "https://localhost:8443".to_owned(),
            ca: "ca.pem".into(),
            client_id: "up".to_owned(),
            client_secret: Secret::new("s"),
            user: "you".to_owned(),
            passphrase: Secret::new("p"),
        };
        fs::write(ConnectionProfile::path(root), profile.to_toml()).unwrap();
        CliEnvironment {
            folder: Some(root.to_owned()),
            ..CliEnvironment::default()
        }
    }

    #[test]
    fn profile_is_used_for_its_own_server_only() {
        let root = tempfile::tempdir().unwrap();
        let options = ConnectOptions::default();
        let found = options
            .resolve_in(None, environment_with_profile(root.path()))
            .unwrap();
        assert_eq!(found.url, "https://localhost:8443");
        assert!(matches!(
            found.credentials,
            ServerCredentials::Client { .. }
        ));
        let same = Some("https://localhost:8443/jsonrpc");
        let found = options
            .resolve_in(same, environment_with_profile(root.path()))
            .unwrap();
        assert!(
            matches!(found.credentials, ServerCredentials::Client { .. }) && found.ca.is_some()
        );
        let other = Some("https://localhost:9443");
        let found = options
            .resolve_in(other, environment_with_profile(root.path()))
            .unwrap();
        assert!(matches!(found.credentials, ServerCredentials::None) && found.ca.is_none());
    }

    #[test]
    fn options_override_environment_and_profile() {
        let root = tempfile::tempdir().unwrap();
        let environment = || CliEnvironment {
            url: Some("https://a".to_owned()),
            token: Some(Secret::new("t")),
            ..environment_with_profile(root.path())
        };
        let found = ConnectOptions::default()
            .resolve_in(None, environment())
            .unwrap();
        assert_eq!(found.url, "https://a");
        assert!(matches!(found.credentials, ServerCredentials::Token(_)));
        let options = ConnectOptions {
            url: Some("https://b".to_owned()),
            ..ConnectOptions::default()
        };
        assert_eq!(
            options.resolve_in(None, environment()).unwrap().url,
            "https://b"
        );
    }

    #[test]
    fn missing_server_error_names_interzone_up() {
        let found = ConnectOptions::default().resolve_in(None, CliEnvironment::default());
        assert!(found.unwrap_err().to_string().contains("interzone up"));
    }
}
