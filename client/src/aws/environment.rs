//! Environment of the credential lookup: variables, files and HTTP. The only module of the SDK that reads
//! environment variables, because the AWS default chain requires it.

use super::credential_http::{CredentialHttp, CredentialResponse};
use super::signer::AwsKeys;
use bytes::Bytes;
use interzone_protocol::vocab::Timestamp;
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum size of a credentials file.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Credentials with their expiry time.
#[derive(Clone, Debug)]
pub(super) struct ExpiringKeys {
    pub(super) keys: AwsKeys,
    pub(super) expires_at: Option<SystemTime>,
}

impl ExpiringKeys {
    pub(super) fn without_expiry(keys: AwsKeys) -> Self {
        Self {
            keys,
            expires_at: None,
        }
    }
}

/// Converts an expiry timestamp.
pub(super) fn to_system_time(end: Timestamp) -> SystemTime {
    let millis = u64::try_from(end.as_millis()).unwrap_or(0);
    UNIX_EPOCH + Duration::from_millis(millis)
}

/// Error of a credentials source. Contains no credentials.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct CredentialsError(String);

impl CredentialsError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

type Vars = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The environment of a credential lookup; replaced in tests.
pub(super) struct CredentialsEnv {
    vars: Vars,
    http: Option<CredentialHttp>,
}

impl CredentialsEnv {
    /// Returns the process environment. Without an HTTP client, variables and files still work.
    #[expect(
        clippy::disallowed_methods,
        reason = "the AWS default chain reads environment variables; other callers pass keys explicitly"
    )]
    pub(super) fn system(http: Option<CredentialHttp>) -> Self {
        Self::new(|name| std::env::var(name).ok(), http)
    }

    pub(super) fn new(
        vars: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        http: Option<CredentialHttp>,
    ) -> Self {
        Self {
            vars: Box::new(vars),
            http,
        }
    }

    /// Returns a variable; an empty one counts as unset.
    pub(super) fn var(&self, name: &str) -> Option<String> {
        (self.vars)(name).filter(|value| !value.trim().is_empty())
    }

    /// Resolves a file path, with `~` for the home directory.
    pub(super) fn resolve_path(&self, path: &str) -> Option<PathBuf> {
        match path.strip_prefix("~/") {
            None => Some(PathBuf::from(path)),
            Some(relative) => {
                let home = self.var("HOME").or_else(|| self.var("USERPROFILE"))?;
                Some(Path::new(&home).join(relative))
            }
        }
    }

    pub(super) async fn read_file(&self, path: PathBuf) -> io::Result<String> {
        let read = move || {
            let mut text = String::new();
            let file = std::fs::File::open(path)?;
            file.take(MAX_FILE_SIZE + 1).read_to_string(&mut text)?;
            if u64::try_from(text.len()).is_ok_and(|size| size > MAX_FILE_SIZE) {
                return Err(io::Error::other(format!(
                    "larger than {MAX_FILE_SIZE} bytes"
                )));
            }
            Ok(text)
        };
        let read = tokio::task::spawn_blocking(read);
        read.await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Reads a token from a file.
    pub(super) async fn read_token(&self, path: &str) -> Result<String, CredentialsError> {
        let content = self
            .read_file(self.resolve_path(path).unwrap_or_else(|| path.into()))
            .await;
        let token = content
            .map_err(|error| CredentialsError::new(format!("{path} cannot be read: {error}")))?;
        match token.trim() {
            "" => Err(CredentialsError::new(format!("{path} is empty"))),
            token => Ok(token.to_owned()),
        }
    }

    pub(super) async fn request(
        &self,
        request: http::Request<Bytes>,
        timeout: Duration,
    ) -> Result<CredentialResponse, CredentialsError> {
        match &self.http {
            Some(http) => http.send(&request, timeout).await,
            None => Err(CredentialsError::new("no HTTP client is available")),
        }
    }
}
