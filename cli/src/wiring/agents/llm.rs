//! A language model as an agent.

use super::{Surroundings, secret};
use crate::config::{AgentConfig, LlmConfig, ProviderConfig};
use crate::wiring::StartError;
#[cfg(feature = "aws")]
use interzone_client::aws::AwsSigner;
#[cfg(feature = "aws")]
use interzone_edge::Secret;
#[cfg(feature = "aws")]
use interzone_execution::agents::BedrockCredentials;
use interzone_execution::agents::{LlmAgent, LlmOptions, Provider};
use interzone_hub::Agent;
use std::sync::Arc;

pub(super) async fn make(
    config: &AgentConfig,
    model: &LlmConfig,
    around: &Surroundings<'_>,
) -> Result<Arc<dyn Agent>, StartError> {
    let provider = provider(config, model).await?;
    let reader = around.reader.clone();
    let usual = LlmOptions::new(config.id.clone(), provider, &model.model, reader);
    let options = LlmOptions {
        name: config.name.clone().unwrap_or(usual.name),
        description: config.description.clone().unwrap_or(usual.description),
        skills: config.skills.clone(),
        system: model.system.clone(),
        max_tokens: model.max_tokens.unwrap_or(usual.max_tokens),
        temperature: model.temperature,
        connect_timeout: model.connect_timeout.unwrap_or(usual.connect_timeout),
        first_token_timeout: model
            .first_token_timeout
            .unwrap_or(usual.first_token_timeout),
        idle_timeout: model.idle_timeout.unwrap_or(usual.idle_timeout),
        timeout: model.timeout.unwrap_or(usual.timeout),
        retries: model.retries.unwrap_or(usual.retries),
        concurrency: config.concurrency.unwrap_or(usual.concurrency),
        files: around.files.clone(),
        input: around.input.clone(),
        trust: around.trust.clone(),
        ..usual
    };
    let agent = LlmAgent::new(options).map_err(|error| StartError::Agent {
        id: config.id.to_string(),
        source: Box::new(error),
    })?;
    Ok(Arc::new(agent))
}

async fn provider(config: &AgentConfig, model: &LlmConfig) -> Result<Provider, StartError> {
    let key = match &model.key {
        Some(kept) => Some(secret(config, kept)?.clone()),
        None => None,
    };
    match &model.provider {
        ProviderConfig::OpenAi {
            base_url,
            native_files,
            images,
        } => Ok(Provider::OpenAi {
            base_url: base_url.clone(),
            key,
            native_files: *native_files,
            images: *images,
        }),
        ProviderConfig::Anthropic { base_url } => Ok(Provider::Anthropic {
            base_url: base_url.clone(),
            key,
        }),
        #[cfg(feature = "aws")]
        ProviderConfig::Bedrock { region, endpoint } => Ok(Provider::Bedrock {
            region: region.clone(),
            endpoint: endpoint.clone(),
            credentials: credentials(key, region).await,
        }),
        #[cfg(not(feature = "aws"))]
        ProviderConfig::Bedrock { .. } => Err(StartError::NoAws {
            id: config.id.to_string(),
        }),
    }
}

/// A key of Bedrock's own, or else whatever credentials AWS's usual places have.
#[cfg(feature = "aws")]
async fn credentials(key: Option<Secret>, region: &str) -> BedrockCredentials {
    match key {
        Some(key) => BedrockCredentials::Bearer(key),
        None => {
            let signer = AwsSigner::from_default_chain("bedrock", region).await;
            BedrockCredentials::Signed(Arc::new(signer))
        }
    }
}
