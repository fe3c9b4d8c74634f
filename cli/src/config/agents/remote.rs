//! `kind = "remote"`: address of and credentials for an agent on another server.

use super::Result;
use crate::config::section::{SecretRef, Section};
use crate::config::url::secure_url;
use interzone_execution::agents::RemoteDialect;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// An agent on another server.
#[derive(Debug)]
pub(crate) struct RemoteConfig {
    pub(crate) address: PeerAddress,
    pub(crate) dialect: RemoteDialect,
    pub(crate) credentials: PeerCredentials,
    /// Id of the agent on the peer.
    pub(crate) assign_to: Option<String>,
    /// CA that the peer's certificate is verified with.
    pub(crate) ca: Option<PathBuf>,
    pub(crate) poll_interval: Option<Duration>,
}

/// Address of a remote agent.
#[derive(Debug)]
pub(crate) enum PeerAddress {
    /// HTTPS URL.
    Url(Url),
    /// AgentCore runtime.
    Runtime {
        arn: String,
        qualifier: Option<String>,
        endpoint: Option<Url>,
    },
}

/// Credentials for a remote agent.
#[derive(Debug)]
pub(crate) enum PeerCredentials {
    /// A fixed bearer token.
    Token(SecretRef),
    /// OAuth2 client credentials.
    Client {
        id: String,
        secret: SecretRef,
        token_url: Option<Url>,
    },
    /// No credentials.
    None,
}

impl RemoteConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Result<Self> {
        let place = PeerAddress::read(section)?;
        let dialect = match section.text("dialect")? {
            None => RemoteDialect::default(),
            Some(found) => match found.value.as_str() {
                "acp" => RemoteDialect::Acp,
                "zone" => RemoteDialect::Zone,
                _ => return Err(found.refuse("write \"acp\" or \"zone\"")),
            },
        };
        let assign_to = section.text("assign_to")?;
        if let (Some(found), RemoteDialect::Zone) = (&assign_to, dialect) {
            return Err(found.refuse("only supported with `dialect = \"acp\"`; remove it"));
        }
        Ok(Self {
            address: place,
            dialect,
            credentials: PeerCredentials::read(section)?,
            assign_to: assign_to.map(|found| found.value),
            ca: section.path("ca")?,
            poll_interval: section.duration("poll_interval")?,
        })
    }
}

impl PeerAddress {
    fn read(section: &mut Section<'_>) -> Result<Self> {
        match (section.text("url")?, section.text("runtime")?) {
            (Some(url), None) => Ok(Self::Url(secure_url(&url, "an agent")?)),
            (None, Some(runtime)) => {
                if !runtime.value.starts_with("arn:") {
                    return Err(runtime.refuse("write the ARN of an AgentCore runtime"));
                }
                let endpoint = match section.text("endpoint")? {
                    Some(found) => Some(secure_url(&found, "a platform")?),
                    None => None,
                };
                let qualifier = section.text("qualifier")?;
                Ok(Self::Runtime {
                    arn: runtime.value,
                    qualifier: qualifier.map(|found| found.value),
                    endpoint,
                })
            }
            (Some(url), Some(_)) => Err(url.refuse("`runtime` is set too; keep one of the two")),
            (None, None) => Err(section.missing("url", "set the agent's URL, or `runtime`")),
        }
    }
}

impl PeerCredentials {
    fn read(section: &mut Section<'_>) -> Result<Self> {
        let token = section.secret_ref("token", "token_file", "token_env")?;
        let secret =
            section.secret_ref("client_secret", "client_secret_file", "client_secret_env")?;
        let token_url = match section.text("token_url")? {
            Some(found) => Some(secure_url(&found, "an issuer")?),
            None => None,
        };
        let id = section.text("client_id")?;
        match (id, secret, token) {
            (Some(id), _, Some(_)) => Err(id.refuse("a token is set too; keep one of the two")),
            (Some(id), Some(secret), None) => Ok(Self::Client {
                id: id.value,
                secret,
                token_url,
            }),
            (Some(id), None, None) => {
                Err(id.refuse("requires `client_secret_file` or `client_secret_env`"))
            }
            (None, Some(_), _) => {
                Err(section.missing("client_id", "the secret cannot be used without it"))
            }
            (None, None, Some(token)) => Ok(Self::Token(token)),
            (None, None, None) => Ok(Self::None),
        }
    }
}
