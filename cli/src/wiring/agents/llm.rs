//! Creates agents of kind `llm`.

use super::{AgentDeps, require_secret};
use crate::config::{AgentConfig, LlmConfig, ProviderConfig};
use crate::wiring::StartError;
#[cfg(feature = "aws")]
use interzone_client::aws::AwsSigner;
#[cfg(feature = "aws")]
use interzone_edge::Secret;
#[cfg(feature = "aws")]
use interzone_execution::agents::BedrockCredentials;
use interzone_execution::agents::{LlmAgent, LlmOptions, LlmProvider};
use interzone_hub::Agent;
use std::sync::Arc;

pub(super) async fn create_agent(
    config: &AgentConfig,
    model: &LlmConfig,
    deps: &AgentDeps<'_>,
) -> Result<Arc<dyn Agent>, StartError> {
    let provider = provider(config, model).await?;
    let reader = deps.reader.clone();
    let defaults = LlmOptions::new(config.id.clone(), provider, &model.model, reader);
    let options = LlmOptions {
        name: config.name.clone().unwrap_or(defaults.name),
        description: config.description.clone().unwrap_or(defaults.description),
        skills: config.skills.clone(),
        profile: config.profile.clone(),
        system: model.system.clone(),
        max_tokens: model.max_tokens.unwrap_or(defaults.max_tokens),
        temperature: model.temperature,
        connect_timeout: model.connect_timeout.unwrap_or(defaults.connect_timeout),
        first_token_timeout: model
            .first_token_timeout
            .unwrap_or(defaults.first_token_timeout),
        idle_timeout: model.idle_timeout.unwrap_or(defaults.idle_timeout),
        timeout: model.timeout.unwrap_or(defaults.timeout),
        retries: model.retries.unwrap_or(defaults.retries),
        concurrency: config.concurrency.unwrap_or(defaults.concurrency),
        files: deps.files.clone(),
        input: deps.input_rules.clone(),
        trust: deps.trust.clone(),
        ..defaults
    };
    let agent = LlmAgent::new(options).map_err(|error| StartError::Agent {
        id: config.id.to_string(),
        source: Box::new(error),
    })?;
    Ok(Arc::new(agent))
}

async fn provider(config: &AgentConfig, model: &LlmConfig) -> Result<LlmProvider, StartError> {
    let key = match &model.key {
        Some(reference) => Some(require_secret(config, reference)?.clone()),
        None => None,
    };
    match &model.provider {
        ProviderConfig::OpenAi {
            base_url,
            native_files,
            images,
        } => Ok(LlmProvider::OpenAi {
            base_url: base_url.clone(),
            key,
            native_files: *native_files,
            images: *images,
        }),
        ProviderConfig::Anthropic { base_url } => Ok(LlmProvider::Anthropic {
            base_url: base_url.clone(),
            key,
        }),
        #[cfg(feature = "aws")]
        ProviderConfig::Bedrock { region, endpoint } => Ok(LlmProvider::Bedrock {
            region: region.clone(),
            endpoint: endpoint.clone(),
            credentials: credentials(key, region).await,
        }),
        // The fields are named because the compiler would report them as unused.
        #[cfg(not(feature = "aws"))]
        ProviderConfig::Bedrock {
            region: _region,
            endpoint: _endpoint,
        } => Err(StartError::NoAws {
            id: config.id.to_string(),
        }),
    }
}

/// Returns the Bedrock API key, or credentials from the AWS default chain.
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
