//! AWS support: request signing (SigV4) and Bedrock AgentCore as a transport.

mod agentcore;
mod chain;
mod credential_http;
mod credentials;
mod environment;
mod metadata;
mod profiles;
mod signer;
mod sigv4;
mod sts;

pub use agentcore::{AgentCore, AgentCoreAuth, AgentCoreOptions};
pub use signer::{AwsKeys, AwsSigner, RequestSigner, SignError};
