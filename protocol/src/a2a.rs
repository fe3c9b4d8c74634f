//! A2A wire types of 1.0 and 0.3: methods, versions, params, objects, results, errors, agent cards and REST
//! routes.
//!
//! Each object has one model, shaped as in 1.0, and is read and written in three formats: 1.0, 0.3 over
//! JSON-RPC, and 0.3 over REST. Input is accepted as leniently as ProtoJSON prescribes; what is refused is
//! refused with the path of the field. Metadata and data are kept verbatim.

mod base64;
mod card;
pub mod codes;
mod error;
mod field;
mod invalid_field;
mod message;
mod metadata;
mod method;
mod params;
mod part;
mod push;
mod results;
mod route;
mod task;
mod version;
mod wire;

pub use self::base64::Base64Text;
pub use card::{
    A2aAgentCard, AgentCapabilities, AgentCardSignature, AgentExtension, AgentInterface,
    AgentProvider, AgentSkill, ApiKeyScheme, CanonicalForm, CardShape, HttpAuthScheme,
    MutualTlsScheme, OAuthFlow, OAuthFlows, OAuthScheme, OpenIdConnectScheme, ProtectedHeader,
    SecurityRequirement, SecurityScheme, signing_input,
};
pub use error::{A2aError, A2aErrorKind};
pub use field::Field;
pub use invalid_field::{Expectation, InvalidField};
pub use message::{A2aMessage, A2aRole};
pub use metadata::edit_metadata;
pub use method::{A2aMethod, WireFormat};
pub use params::{
    CancelTaskRequest, CreatePushConfigRequest, GetExtendedAgentCardRequest, GetTaskRequest,
    ListPushConfigsRequest, ListTasksRequest, PushConfigRequest, SendMessageConfiguration,
    SendMessageRequest, SubscribeToTaskRequest,
};
pub use part::{A2aPart, PartContent};
pub use push::{AuthenticationInfo, SecretText, TaskPushNotificationConfig};
pub use results::{
    DeletePushConfigResponse, ListPushConfigsResponse, ListTasksResponse, SendMessageResponse,
};
pub use route::{RequestMembers, RestRoute, RouteError, json_rpc_tenant};
pub use task::{
    A2aArtifact, A2aTask, A2aTaskState, A2aTaskStatus, StreamResponse, TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
};
pub use version::{A2aVersion, RequestedVersion, UnsupportedVersion, VersionPolicy};
pub use wire::{Codec, Encoded, WireObject};

#[cfg(test)]
mod tests;
