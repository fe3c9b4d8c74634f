//! How strict the shared endpoint is. What a dialect asks for beyond that is its own.

use interzone_jsonrpc::{Batches, Policy, Rulebook};
use interzone_protocol::JsonRpcDoor;

/// The rules of the shared endpoint, with as long batches as are configured.
pub(super) struct Door {
    pub(super) batch: usize,
}

impl Rulebook for Door {
    fn door(&self) -> Policy {
        Policy {
            batches: Batches::UpTo(self.batch),
            ..JsonRpcDoor.door()
        }
    }

    fn for_method(&self, method: &str) -> Policy {
        JsonRpcDoor.for_method(method)
    }
}
