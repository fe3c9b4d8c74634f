//! Parse policy of the shared endpoint.

use interzone_jsonrpc::{Batches, Policy, PolicyResolver};
use interzone_protocol::SharedEndpointPolicy;

/// Policy of the shared endpoint with the configured batch limit.
pub(super) struct ConfiguredEndpointPolicy {
    pub(super) batch_limit: usize,
}

impl PolicyResolver for ConfiguredEndpointPolicy {
    fn default_policy(&self) -> Policy {
        Policy {
            batches: Batches::UpTo(self.batch_limit),
            ..SharedEndpointPolicy.default_policy()
        }
    }

    fn for_method(&self, method: &str) -> Policy {
        SharedEndpointPolicy.for_method(method)
    }
}
