//! `kind = "remote"`: where somebody else's agent is, and how we prove who we are there.

use super::Result;
use crate::config::section::{Elsewhere, Section};
use crate::config::url::secure_url;
use interzone_execution::agents::RemoteDialect;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// Somebody else's agent.
#[derive(Debug)]
pub(crate) struct RemoteConfig {
    pub(crate) place: PeerPlace,
    pub(crate) dialect: RemoteDialect,
    pub(crate) proof: ProofConfig,
    /// The peer's agent that is wanted.
    pub(crate) assign_to: Option<String>,
    /// The CA that proves the peer.
    pub(crate) ca: Option<PathBuf>,
    pub(crate) poll: Option<Duration>,
}

/// Where it is.
#[derive(Debug)]
pub(crate) enum PeerPlace {
    /// At this address.
    Url(Url),
    /// In a runtime of AgentCore.
    Runtime {
        arn: String,
        qualifier: Option<String>,
        endpoint: Option<Url>,
    },
}

/// How we prove who we are.
#[derive(Debug)]
pub(crate) enum ProofConfig {
    /// By a token that somebody gave us.
    Token(Elsewhere),
    /// By tokens that we fetch.
    Client {
        id: String,
        secret: Elsewhere,
        token_url: Option<Url>,
    },
    /// Not at all.
    None,
}

impl RemoteConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Result<Self> {
        let place = PeerPlace::read(section)?;
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
            return Err(found.refuse("only `dialect = \"acp\"` has a word for it; remove it"));
        }
        Ok(Self {
            place,
            dialect,
            proof: ProofConfig::read(section)?,
            assign_to: assign_to.map(|found| found.value),
            ca: section.path("ca")?,
            poll: section.time("poll")?,
        })
    }
}

impl PeerPlace {
    fn read(section: &mut Section<'_>) -> Result<Self> {
        match (section.text("url")?, section.text("runtime")?) {
            (Some(url), None) => Ok(Self::Url(secure_url(&url, "an agent")?)),
            (None, Some(runtime)) => {
                if !runtime.value.starts_with("arn:") {
                    return Err(runtime.refuse("write the ARN of a runtime of AgentCore"));
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
            (None, None) => Err(section.missing("url", "say where the agent is")),
        }
    }
}

impl ProofConfig {
    fn read(section: &mut Section<'_>) -> Result<Self> {
        let token = section.secret_elsewhere("token", "token_file", "token_env")?;
        let secret =
            section.secret_elsewhere("client_secret", "client_secret_file", "client_secret_env")?;
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
            (Some(id), None, None) => Err(id.refuse(
                "it needs `client_secret_file`, or `client_secret_env` with the name of a variable",
            )),
            (None, Some(_), _) => {
                Err(section.missing("client_id", "the secret is worth nothing without it"))
            }
            (None, None, Some(token)) => Ok(Self::Token(token)),
            (None, None, None) => Ok(Self::None),
        }
    }
}
