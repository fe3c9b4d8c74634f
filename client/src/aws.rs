//! One cloud's way in: requests signed as AWS wants them, and its AgentCore as a transport. Nothing
//! outside this module may know that such a cloud exists, but by the names of its errors.

mod agentcore;
mod chain;
mod credentials;
mod metadata;
mod network;
mod place;
mod profiles;
mod signer;
mod sts;
mod v4;

pub use agentcore::{AgentCore, AgentCoreAuth, AgentCoreOptions};
pub use signer::{AwsKeys, AwsSigner, SignError, Signer};
