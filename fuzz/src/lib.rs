//! Invariants of the parser for any input. A fuzz target passes bytes; a violated invariant panics.

mod batch;
mod document;
mod oracle;
#[cfg(test)]
mod seeds;

pub use batch::check_batch;
pub use document::check_document;

use interzone_jsonrpc::{Batches, ExtraMembers, MissingId, Policy, ReservedNames};

/// The strictest policy.
const STRICT: Policy = Policy {
    missing_id: MissingId::Refuse,
    extra_members: ExtraMembers::Refuse,
    batches: Batches::UpTo(3),
    max_depth: 5,
    ..Policy::SERVER
};

/// Policy of deserialization: one message, and no reserved method name.
const SERDE_POLICY: Policy = Policy {
    batches: Batches::Refuse,
    reserved_names: ReservedNames::Unknown,
    ..Policy::STANDARD
};

const POLICIES: [Policy; 5] = [
    Policy::STANDARD,
    Policy::SERVER,
    Policy::CLIENT,
    STRICT,
    SERDE_POLICY,
];
