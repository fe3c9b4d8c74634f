//! AWS support: request signing (SigV4) and Bedrock AgentCore as a transport. Credentials and signatures come from
//! AWS's own crates.

mod agentcore;
mod credentials;
mod signer;

pub use agentcore::{AgentCore, AgentCoreAuth, AgentCoreOptions};
pub use aws_credential_types::Credentials as AwsCredentials;
pub use aws_credential_types::provider::ProvideCredentials;
pub use signer::{AwsSigner, RequestSigner, SignError};
