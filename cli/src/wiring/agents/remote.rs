//! Creates agents of kind `remote`.

use super::require_secret;
use crate::config::{AgentConfig, PeerAddress, PeerCredentials, RemoteConfig};
use crate::wiring::StartError;
use interzone_client::{Client, ClientCredentials, Credentials};
use interzone_execution::agents::{RemoteAgent, RemoteOptions};
use interzone_hub::Agent;
use std::sync::Arc;

pub(super) async fn create_agent(
    config: &AgentConfig,
    peer: &RemoteConfig,
) -> Result<Arc<dyn Agent>, StartError> {
    let invalid = |error| StartError::Agent {
        id: config.id.to_string(),
        source: Box::new(error),
    };
    let credentials = peer.credentials().map_err(invalid)?;
    let mut builder = match peer.address().map_err(invalid)? {
        // The configuration allows http for loopback only.
        PeerAddress::Url(url) => Client::builder(url.as_str()).allow_http(url.scheme() == "http"),
        #[cfg(feature = "aws")]
        PeerAddress::Runtime {
            arn,
            qualifier,
            endpoint,
        } => runtime::builder(config, &credentials, (arn, qualifier, endpoint)).await?,
        // The fields are named because the compiler would report them as unused.
        #[cfg(not(feature = "aws"))]
        PeerAddress::Runtime {
            arn: _arn,
            qualifier: _qualifier,
            endpoint: _endpoint,
        } => {
            return Err(StartError::NoAws {
                id: config.id.to_string(),
            });
        }
    };
    builder = builder.user_agent(concat!("interzone/", env!("CARGO_PKG_VERSION")));
    if let Some(ca) = &peer.ca {
        builder = builder.ca_file(ca);
    }
    builder = match credentials {
        PeerCredentials::None => builder,
        PeerCredentials::Token(reference) => {
            let token = require_secret(config, reference)?.clone();
            builder.credentials(Credentials::Bearer(token))
        }
        PeerCredentials::Client {
            id,
            secret: reference,
            token_url,
        } => {
            let client_secret = require_secret(config, reference)?.clone();
            let client = ClientCredentials::new(id, client_secret);
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
    let defaults = RemoteOptions::new(config.id.clone(), client);
    let options = RemoteOptions {
        name: config.name.clone().unwrap_or(defaults.name),
        description: config.description.clone().unwrap_or(defaults.description),
        skills: config.skills.clone(),
        profile: config.profile.clone(),
        dialect: peer.dialect,
        assign_to: peer.assign_to.clone(),
        poll_interval: peer.poll_interval.unwrap_or(defaults.poll_interval),
        concurrency: config.concurrency.unwrap_or(defaults.concurrency),
        ..defaults
    };
    Ok(Arc::new(RemoteAgent::new(options)))
}

#[cfg(feature = "aws")]
mod runtime {
    //! Client of a zone in AgentCore: requests are signed, or sent with the configured token.

    use crate::config::{AgentConfig, PeerCredentials};
    use crate::wiring::StartError;
    use interzone_client::aws::{AgentCore, AgentCoreAuth, AgentCoreOptions, AwsSigner};
    use interzone_client::{Client, ClientBuilder, Https, HttpsOptions};
    use std::sync::Arc;
    use url::Url;

    pub(super) async fn builder(
        config: &AgentConfig,
        credentials: &PeerCredentials<'_>,
        (arn, qualifier, endpoint): (&str, Option<&str>, Option<&Url>),
    ) -> Result<ClientBuilder, StartError> {
        let failed = |error: interzone_client::Error| StartError::Agent {
            id: config.id.to_string(),
            source: Box::new(error),
        };
        let auth = match credentials {
            PeerCredentials::None => {
                let region = AgentCoreOptions::region(arn).unwrap_or_default();
                let signer = AwsSigner::from_default_chain("bedrock-agentcore", region).await;
                AgentCoreAuth::Signed(Arc::new(signer))
            }
            PeerCredentials::Token(_) | PeerCredentials::Client { .. } => AgentCoreAuth::Bearer,
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
