//! Where AWS's credentials are looked for: variables, files and the network. It is the one place in the
//! SDK that reads the environment, because that is what AWS's usual places are.

use super::network::{Answer, Network};
use super::signer::AwsKeys;
use bytes::Bytes;
use interzone_protocol::vocab::Timestamp;
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Files of credentials have a few KiB.
const MOST: u64 = 1 << 20;

/// Credentials, and until when they are good.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) keys: AwsKeys,
    pub(super) until: Option<SystemTime>,
}

impl Known {
    pub(super) fn always(keys: AwsKeys) -> Self {
        Self { keys, until: None }
    }
}

/// When credentials expire, as they tell it themselves.
pub(super) fn until(end: Timestamp) -> SystemTime {
    let millis = u64::try_from(end.as_millis()).unwrap_or(0);
    UNIX_EPOCH + Duration::from_millis(millis)
}

/// What is wrong with a place that should have had credentials. It holds no credential.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Trouble(String);

impl Trouble {
    pub(super) fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

type Vars = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A machine, or what a test takes for one.
pub(super) struct Place {
    vars: Vars,
    network: Option<Network>,
}

impl Place {
    /// This machine. Without a network there are still the environment and files to look at.
    #[expect(
        clippy::disallowed_methods,
        reason = "AWS's usual places are variables; whoever has keys otherwise gives them"
    )]
    pub(super) fn here(network: Option<Network>) -> Self {
        Self::new(|name| std::env::var(name).ok(), network)
    }

    pub(super) fn new(
        vars: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        network: Option<Network>,
    ) -> Self {
        Self {
            vars: Box::new(vars),
            network,
        }
    }

    /// A variable; an empty one is none.
    pub(super) fn var(&self, name: &str) -> Option<String> {
        (self.vars)(name).filter(|value| !value.trim().is_empty())
    }

    /// A file's path, with `~` for the folder of whoever runs this.
    pub(super) fn path(&self, path: &str) -> Option<PathBuf> {
        match path.strip_prefix("~/") {
            None => Some(PathBuf::from(path)),
            Some(rest) => {
                let home = self.var("HOME").or_else(|| self.var("USERPROFILE"))?;
                Some(Path::new(&home).join(rest))
            }
        }
    }

    pub(super) async fn file(&self, path: PathBuf) -> io::Result<String> {
        let read = move || {
            let mut text = String::new();
            let file = std::fs::File::open(path)?;
            file.take(MOST + 1).read_to_string(&mut text)?;
            if u64::try_from(text.len()).is_ok_and(|size| size > MOST) {
                return Err(io::Error::other(format!("it has more than {MOST} bytes")));
            }
            Ok(text)
        };
        let read = tokio::task::spawn_blocking(read);
        read.await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// A token that a file holds.
    pub(super) async fn token(&self, path: &str) -> Result<String, Trouble> {
        let found = self
            .file(self.path(path).unwrap_or_else(|| path.into()))
            .await;
        let token =
            found.map_err(|error| Trouble::new(format!("{path} cannot be read: {error}")))?;
        match token.trim() {
            "" => Err(Trouble::new(format!("{path} is empty"))),
            token => Ok(token.to_owned()),
        }
    }

    pub(super) async fn ask(
        &self,
        request: http::Request<Bytes>,
        within: Duration,
    ) -> Result<Answer, Trouble> {
        match &self.network {
            Some(network) => network.ask(&request, within).await,
            None => Err(Trouble::new("there is no network to ask by")),
        }
    }
}
