//! Somebody else's agent as one of ours.

use super::secret;
use crate::config::{AgentConfig, PeerPlace, ProofConfig, RemoteConfig};
use crate::wiring::StartError;
use interzone_client::{Client, ClientCredentials, Credentials, Secret};
use interzone_execution::agents::{RemoteAgent, RemoteOptions};
use interzone_hub::Agent;
use std::sync::Arc;

pub(super) async fn make(
    config: &AgentConfig,
    peer: &RemoteConfig,
) -> Result<Arc<dyn Agent>, StartError> {
    let mut builder = match &peer.place {
        // The configuration lets http through for this machine alone.
        PeerPlace::Url(url) => Client::builder(url.as_str()).allow_http(url.scheme() == "http"),
        #[cfg(feature = "aws")]
        PeerPlace::Runtime {
            arn,
            qualifier,
            endpoint,
        } => {
            let place = (arn.as_str(), qualifier.as_deref(), endpoint.as_ref());
            runtime::builder(config, &peer.proof, place).await?
        }
        #[cfg(not(feature = "aws"))]
        PeerPlace::Runtime { .. } => {
            return Err(StartError::NoAws {
                id: config.id.to_string(),
            });
        }
    };
    builder = builder.user_agent(concat!("interzone/", env!("CARGO_PKG_VERSION")));
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

#[cfg(feature = "aws")]
mod runtime {
    //! A zone that AgentCore runs: calls are signed, or carry the token that was configured.

    use crate::config::{AgentConfig, ProofConfig};
    use crate::wiring::StartError;
    use interzone_client::aws::{AgentCore, AgentCoreAuth, AgentCoreOptions, AwsSigner};
    use interzone_client::{Client, ClientBuilder, Https, HttpsOptions};
    use std::sync::Arc;
    use url::Url;

    pub(super) async fn builder(
        config: &AgentConfig,
        proof: &ProofConfig,
        (arn, qualifier, endpoint): (&str, Option<&str>, Option<&Url>),
    ) -> Result<ClientBuilder, StartError> {
        let failed = |error: interzone_client::Error| StartError::Agent {
            id: config.id.to_string(),
            source: Box::new(error),
        };
        let auth = match proof {
            ProofConfig::None => {
                let region = AgentCoreOptions::region(arn).unwrap_or_default();
                let signer = AwsSigner::from_default_chain("bedrock-agentcore", region).await;
                AgentCoreAuth::Signed(Arc::new(signer))
            }
            ProofConfig::Token(_) | ProofConfig::Client { .. } => AgentCoreAuth::Bearer,
        };
        let mut options = AgentCoreOptions::new(arn, auth);
        options.qualifier = qualifier.map(str::to_owned);
        options.endpoint = endpoint.map(|url| url.as_str().to_owned());
        let https = Https::new(&HttpsOptions::default()).map_err(failed)?;
        let runtime = AgentCore::new(options, Arc::new(https)).map_err(failed)?;
        let plain = endpoint.is_some_and(|url| url.scheme() == "http");
        let builder = Client::builder(runtime.url()).allow_http(plain);
        Ok(builder.transport(Arc::new(runtime)))
    }
}
