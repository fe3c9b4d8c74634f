//! Somebody else's agent as one of ours.

use super::secret;
use crate::config::{AgentConfig, ProofConfig, RemoteConfig};
use crate::wiring::StartError;
use interzone_client::{Client, ClientCredentials, Credentials, Secret};
use interzone_execution::agents::{RemoteAgent, RemoteOptions};
use interzone_hub::Agent;
use std::sync::Arc;

pub(super) fn make(
    config: &AgentConfig,
    peer: &RemoteConfig,
) -> Result<Arc<dyn Agent>, StartError> {
    let mut builder = Client::builder(peer.url.as_str())
        // The configuration lets http through for this machine alone.
        .allow_http(peer.url.scheme() == "http")
        .user_agent(concat!("interzone/", env!("CARGO_PKG_VERSION")));
    if let Some(ca) = &peer.ca {
        builder = builder.ca_file(ca);
    }
    builder = match &peer.proof {
        ProofConfig::None => builder,
        ProofConfig::Token(kept) => {
            let token = Secret::new(secret(config, kept)?.expose());
            builder.credentials(Credentials::Bearer(token))
        }
        ProofConfig::Client {
            id,
            secret: kept,
            token_url,
        } => {
            let kept = Secret::new(secret(config, kept)?.expose());
            let client = ClientCredentials::new(id, kept);
            builder.credentials(match token_url {
                Some(url) => client.token_url(url.as_str()),
                None => client,
            })
        }
    };
    let client = builder.build().map_err(|error| StartError::Agent {
        id: config.id.to_string(),
        source: Box::new(error),
    })?;
    let usual = RemoteOptions::new(config.id.clone(), client);
    let options = RemoteOptions {
        name: config.name.clone().unwrap_or(usual.name),
        description: config.description.clone().unwrap_or(usual.description),
        skills: config.skills.clone(),
        dialect: peer.dialect,
        assign_to: peer.assign_to.clone(),
        poll: peer.poll.unwrap_or(usual.poll),
        concurrency: config.concurrency.unwrap_or(usual.concurrency),
        ..usual
    };
    Ok(Arc::new(RemoteAgent::new(options)))
}
